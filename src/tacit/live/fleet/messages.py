"""Messages between a hub and a member, besides frames of sessions.

They are MessagePack with tags. A frame over their connection begins with one byte: CONTROL for these
messages, SESSION for a frame of a session, whose id follows in 32 bytes. MARKED is the same as SESSION, with
the mark of the sender's ledger before the id (`marks`).

A hub of the next version takes members of this one. So a message has only the fields that differ from their
defaults: a new field has a default, which means "exactly as before the field existed", and reaches an older
member only where it is used. The member then refuses that message, by the name of the field.
tests/versions.py has the bytes of released versions.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, final, get_args

import msgspec

from tacit.base.arguments import plain
from tacit.base.errors import InputError
from tacit.core.protocol.canonical import UNREADABLE, decode_for_one, session_id
from tacit.core.protocol.fields import differing, fields_of
from tacit.core.protocol.roster import roster_leaf
from tacit.core.protocol.session import MOST_NUMBER_BYTES, Session
from tacit.core.protocol.signatures import is_signed
from tacit.live.ledger.rollback_guard import TOLD_BYTES, Position
from tacit.live.transport.connection_diagnosis import require_endpoint
from tacit.live.transport.link import own_version

if TYPE_CHECKING:
    from tacit.live.identity.identity import Identity

CONTROL, SESSION, MARKED = b"\0", b"\1", b"\2"
ID_BYTES = 32
FRAME_BYTES = MOST_NUMBER_BYTES + (1 << 20)
"""The longest frame of a member: the longest message of a session, or a keeper's offer with a long roster."""
STRANGER_BYTES = 1 << 15
"""The longest frame of a client without a certificate."""
LIST_BYTES = 1 << 18
"""The longest list of revoked certificates that a hub sends; about 1,000 keys.

Members need it for the hub's own key only. The hub itself refuses revoked members, whatever its length."""
HUB_PATH, ENROL_PATH, AUTHORITY_PATH = "/tacit/1/hub/", "/tacit/1/enroll", "/tacit/1/authority"
AGENT, KEEPER = "agent", "keeper"
STANDS_BY = 421
"""The HTTP status of a host that does not lead."""
_REFERRAL = "this host of the hub stands by, and the leader is at "
_OFFERS = b"tacit session offer 1\0"
Refusal: TypeAlias = Literal[
    "busy", "cap", "clock", "components", "delta", "expired", "hides", "keepers", "ledger", "long", "other",
    "pause", "question", "range", "roster", "rounds", "series", "source", "topology", "unable",
    "version",
]  # fmt: skip
"""Why a member does not take part. They become labels of metrics, so a hub counts others as "other"."""
REFUSALS: frozenset[str] = frozenset(get_args(Refusal))


def refusal_word(said: str) -> Refusal:
    """Return the word that a member gave, or "other" if there is no such word."""
    return cast("Refusal", said) if said in REFUSALS else "other"


class OtherSideNewer(InputError):
    """A message has something that this version does not know."""


class FleetMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="is"):
    """Any of the messages below."""


class Greeting(FleetMessage, frozen=True, tag="hello"):
    """A member's first message: its role, and the mark of its ledger."""

    role: str
    mark: bytes = b""


class LedgerMark(FleetMessage, frozen=True, tag="mark"):
    """The last mark of a member's ledger that the hub has seen.

    The hub says it before anything else. A member whose ledger is older refuses to go on.
    """

    mark: bytes


class SessionOffer(FleetMessage, frozen=True, tag="offer"):
    """A session to take part in, signed by the hub.

    An agent gets the canonical bytes, and its leaf of the roster with the path. So an offer hardly grows with
    the number of agents. A keeper gets the whole roster beside the bytes, and no leaf.
    """

    session: bytes
    signature: bytes
    leaf: bytes = b""
    path: bytes = b""


class OfferReply(FleetMessage, frozen=True, tag="reply"):
    """Whether a member takes part, or one word that says why not.

    The answer never depends on the member's value.
    """

    session: bytes
    joins: bool
    why: str = ""


class ChannelOpen(FleetMessage, frozen=True, tag="open"):
    """The sender can receive frames of this session from now on."""

    session: bytes


class ChannelClosed(FleetMessage, frozen=True, tag="closed"):
    """The sender does not receive frames of this session."""

    session: bytes


class RenewalRequest(FleetMessage, frozen=True, tag="renew"):
    """A member asks for its next certificate."""

    request: bytes


class RenewalAnswer(FleetMessage, frozen=True, tag="renewed"):
    """The next certificate with its authority's, or why there is none."""

    bundle: bytes = b""
    why: str = ""


class RevocationNews(FleetMessage, frozen=True, tag="revoked"):
    """The authority's newest list of revoked certificates, if it is short."""

    revoked: bytes


class EnrolmentRequest(FleetMessage, frozen=True, tag="enrol"):
    """A client without a certificate sends an invitation and requests one."""

    number: str
    secret: bytes
    request: bytes

    def __repr__(self) -> str:
        return f"<EnrolmentRequest with invitation {self.number!r}>"


class EnrolmentAnswer(FleetMessage, frozen=True, tag="enrolled"):
    """The certificate with its authority's, or why there is none."""

    bundle: bytes = b""
    why: str = ""


AnyMessage: TypeAlias = (
    Greeting
    | LedgerMark
    | SessionOffer
    | OfferReply
    | ChannelOpen
    | ChannelClosed
    | RenewalRequest
    | RenewalAnswer
    | RevocationNews
    | EnrolmentRequest
    | EnrolmentAnswer
)
_KINDS = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyMessage)}
_DECODER: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)


def encode_control(message: AnyMessage) -> bytes:
    """Return a message as a frame, without fields at their default."""
    return CONTROL + msgspec.msgpack.encode({"is": message.__struct_config__.tag, **differing(message)})


def decode_control(frame: bytes, here: Literal["hub", "member"] = "member") -> AnyMessage:
    """Read a frame that begins with CONTROL; anything else is refused.

    Texts in it are short and printable then: they reach logs and terminals. `here` is who reads it, and has
    to be upgraded if the other side is newer.
    """
    try:
        if not frame.startswith(CONTROL):
            raise InputError("this is no message between a hub and a member.")
        message = _DECODER.decode(frame[1:])
    except UNREADABLE:
        _require_known(frame[1:], here)
        raise InputError("a message between hub and member cannot be read.") from None
    said = {name: getattr(message, name) for name in message.__struct_fields__}
    texts = {name: plain(text) for name, text in said.items() if isinstance(text, str)}
    return msgspec.structs.replace(message, **texts) if texts else message


def _require_known(data: bytes, here: str) -> None:
    """Refuse a message of an unknown kind, or with an unknown field."""
    try:
        said = msgspec.msgpack.decode(data, type=dict[str, Any])
    except UNREADABLE:
        return
    tag = said.pop("is", None)
    if not isinstance(tag, str):
        return
    what = f"a message {plain(tag)!r}"
    if (kind := _KINDS.get(tag)) is not None:
        unknown = sorted(said.keys() - {field.encode_name for field in fields_of(kind)})
        if not unknown:
            return
        what = f"{plain(unknown[0])!r} in {what}"
    raise OtherSideNewer(
        f"tacit {own_version()} here does not know {what}: the other side is newer, upgrade this {here}."
    ) from None


def referral(leader: str | None) -> str:
    """Return what a host says that does not lead: where the leader is."""
    return f"{_REFERRAL}{leader}" if leader else "this host of the hub stands by, and no other leads yet."


def referred(error: Exception) -> str | None:
    """Return the leader's address, if a host that stands by has named it."""
    said = str(error).strip()
    if getattr(error, "status", None) != STANDS_BY or not said.startswith(_REFERRAL):
        return None
    try:
        require_endpoint(address := said.removeprefix(_REFERRAL))
    except InputError:
        return None
    return address


def session_frame(session: bytes, frame: bytes) -> bytes:
    """Return a frame of a session in the form that is sent."""
    return SESSION + session + frame


def marked_frame(frame: bytes, mark: bytes) -> bytes:
    """Return a frame of a session with the mark of the sender's ledger."""
    return MARKED + mark + frame[1:]


def unmarked_frame(frame: bytes) -> tuple[Position | None, bytes]:
    """Return the mark of a frame, if it has one, and the frame without it."""
    if not frame.startswith(MARKED):
        return None, frame
    return Position.heard(frame[1 : 1 + TOLD_BYTES]), SESSION + frame[1 + TOLD_BYTES :]


@final
class SignedOffers:
    """The offers of one session to its members: one signature for all."""

    def __init__(self, session: Session, identity: Identity) -> None:
        self.session, self._signature = session, identity.sign(_OFFERS + session.id)

    def to(self, number: int) -> SessionOffer:
        """Return the offer to an agent or a keeper, by its number."""
        session = self.session
        if number >= session.n:
            return self._whole
        leaf, path = roster_leaf(number, session.member(number), session.own(number)), session.path(number)
        return SessionOffer(session.canonical, self._signature, leaf, path)

    @cached_property
    def _whole(self) -> SessionOffer:
        return SessionOffer(self.session.encode(), self._signature)


def read_offer(offer: SessionOffer) -> Session:
    """Return the session of an offer that was accepted before."""
    if offer.leaf:
        return decode_for_one(offer.session, offer.leaf, offer.path)
    return Session.decode(offer.session)


def offered_session(offer: SessionOffer, hub_key: bytes) -> Session:
    """Return the session of an offer, or refuse it.

    The hub must have signed it, and must be its coordinator.
    """
    session = read_offer(offer)
    if session.coordinator != hub_key or not is_signed(hub_key, _OFFERS + session.id, offer.signature):
        raise InputError(f"session {session.name} is not signed by the hub: it is not joined.")
    return session


def unreadable_session(offer: SessionOffer, hub_key: bytes) -> bytes | None:
    """Return the id of an offered session that cannot be read here.

    None if the hub has not signed it.
    """
    canonical = offer.session
    if not offer.leaf:
        try:
            canonical, _ = msgspec.msgpack.decode(canonical, type=tuple[bytes, Any])
        except UNREADABLE:
            return None
    found = session_id(canonical)
    return found if is_signed(hub_key, _OFFERS + found, offer.signature) else None
