"""The kinds of message, and the reasons to refuse one.

A frame on the wire is a head and a signature of 64 bytes over all of it. The head is the MessagePack
array [version, session id, sender, kind, body]; the body is itself an array, of the fields below in
their order. `codec` reads and writes frames; nothing else does.

Numbers travel as fixed-length two's complement, big-endian, one after the other: `Session.number_bytes`
for each component. Masked numbers have `Session.mask_bytes` each, and count modulo 2^(8·mask_bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Annotated, TypeAlias, final

import msgspec
from msgspec import Meta

from tacit.core.protocol.roster import COORDINATOR

__all__ = [
    "COORDINATOR",
    "DIGEST_BYTES",
    "NOTHING_HEARD",
    "VERSION",
    "Ask",
    "Body",
    "Closing",
    "Done",
    "Feedback",
    "Key",
    "Kind",
    "Masked",
    "Message",
    "Opening",
    "Place",
    "Present",
    "Reason",
    "Receipt",
    "Refusal",
    "Report",
    "Stop",
]

VERSION = 2
DIGEST_BYTES = 32
NOTHING_HEARD = bytes(DIGEST_BYTES)
"""Stands for the feedback before round 0."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Last: TypeAlias = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
Exponent: TypeAlias = Annotated[int, Meta(ge=-2048, le=2048)]
Digest: TypeAlias = Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]


class Kind(IntEnum):
    """The kinds of message, by their number on the wire."""

    PRESENT = 1
    REPORT = 2
    FEEDBACK = 3
    ASK = 4
    DONE = 5
    STOP = 6
    KEY = 7
    MASKED = 8
    CLOSING = 9
    OPENING = 10
    PLACE = 11
    RECEIPT = 12


class Reason(IntEnum):
    """Why a member stops."""

    OPERATOR = 0
    """Its owner stopped it."""
    CAP = 1
    """The next message would exceed the owner's cap; the agent still receives feedback."""
    EXPIRED = 2
    """The session has expired."""
    NONSENSE = 3
    """A sum is impossible with honest agents and keepers: someone lied."""
    KEEPER = 4
    """A keeper has left for good, and nobody can take its place."""


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    pass


@final
class Present(_Body, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The sender is present, and has made this many updates."""

    update: Count


class Report(_Body, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Message u of an agent: x_u, in steps of 2^exponent.

    `heard` commits to everything that updates 0 to u − 1 were made from. With a server it is the digest of
    the feedback of round u − 1, which names the previous one. On a graph it is `codec.history`. So a member
    that sends different messages to different agents is detected.
    """

    update: Count
    exponent: Exponent
    numbers: bytes
    heard: Digest


@final
class Masked(Report, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Message u of an agent with keepers: round(θ/g_u) plus all masks.

    There is one mask for each keeper. `keys` is the digest of the digests of the keys used: the agent's own,
    then each keeper's in order. `salt` is 32 random bytes that enter all its masks, so that even an agent
    that was rolled back never uses one mask twice. In a series `heard` is `NOTHING_HEARD`: a message does not
    depend on earlier feedback there.
    """

    keys: Digest
    salt: Digest


@final
class Feedback(_Body, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The coordinator's y of one round, in state steps, and its basis.

    It is the mean of `count` messages; `members` agents were used so far, in this round or an earlier one.
    `state` is the root over what was last used of each agent: see `places`. `basis` is the digest of the used
    reports' digests, in the order of their senders. With keepers it is the digest of the digests of the
    round's closing, which names the reports, and of every keeper's opening. `before` is the digest of the
    last round's feedback: there is one history.

    In a series `numbers` is the opened sum of the slot, in grid steps and `Session.mask_bytes`. A slot that
    is lost has a sum of 0 and a count of 0.
    """

    round: Count
    numbers: bytes
    count: Count
    members: Count
    state: Digest
    basis: Digest
    before: Digest


@final
class Place(_Body, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the feedback of a round says of one agent: its last used report.

    `last` is the round in which a report of this agent was last used, and `digest` is that of the report; −1
    and `NOTHING_HEARD` if none was. `path` leads from this leaf to the feedback's `state`. So it shows
    whether this key has ever spoken, also from another ledger.
    """

    round: Count
    last: Last
    digest: Digest
    path: bytes


@final
class Receipt(_Body, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The coordinator has recorded the report with this digest.

    An agent that has it may leave. Only sessions that stay open have receipts.
    """

    round: Count
    report: Digest


@final
class Ask(_Body, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A request to send.

    From the coordinator: round `round` is open, send its message. From others: repeat it and later rounds.
    """

    round: Count


@final
class Done(_Body, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The sender has made all updates.

    `heard` is the digest that a report after the last update would commit to.
    """

    update: Count
    heard: Digest


@final
class Stop(_Body, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The coordinator ends the session, or another member stops sending.

    An agent with reason CAP sends no more reports from `update` on, but still receives feedback.
    """

    update: Count
    reason: Reason


@final
class Key(_Body, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An agent's or keeper's ephemeral X25519 public key for this session.

    Only the first one of a member counts.
    """

    public: Digest


@final
class Closing(_Body, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The coordinator asks keepers to open the sum of these agents' messages.

    `used` has a bit for each agent (agent i: bit i % 8 of byte i // 8), and `count` of them are set.
    `reports` is the digest of their reports' digests, in order. `heard` is the digest of the last feedback.
    `keys` is the digest of the digests of those agents' keys, in order. `salts` has the salt of each of the
    messages, 32 bytes each, in order: keepers never see the messages, and need the salts for their masks.
    """

    round: Count
    used: bytes
    count: Count
    reports: Digest
    heard: Digest
    keys: Digest
    salts: bytes


@final
class Opening(_Body, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A keeper's T: the sum of its masks for a closing, plus its noise.

    The masks are those of the agents that the closing names. `closing` is the digest of the closing it
    answers, and `key` that of the keeper's own key.
    """

    round: Count
    numbers: bytes
    closing: Digest
    key: Digest


Body: TypeAlias = (
    Present | Report | Feedback | Ask | Done | Stop | Key | Masked | Closing | Opening | Place | Receipt
)

BODIES: dict[Kind, type[Body]] = {
    Kind.PRESENT: Present,
    Kind.REPORT: Report,
    Kind.FEEDBACK: Feedback,
    Kind.ASK: Ask,
    Kind.DONE: Done,
    Kind.STOP: Stop,
    Kind.KEY: Key,
    Kind.MASKED: Masked,
    Kind.CLOSING: Closing,
    Kind.OPENING: Opening,
    Kind.PLACE: Place,
    Kind.RECEIPT: Receipt,
}
KINDS: dict[type[Body], Kind] = {body: kind for kind, body in BODIES.items()}


@final
@dataclass(frozen=True)
class Message:
    """A message whose signature, form and numbers have been checked.

    Attributes
    ----------
    sender : int
        The agent's or keeper's number, or `COORDINATOR`.
    numbers : tuple of int
        The numbers of a report or feedback; empty otherwise, and where they are masked.
    digest : bytes
        SHA-256 of the signed bytes. Messages with the same digest are the same message.
    frame : bytes
        The bytes as received, to be stored and forwarded.
    """

    sender: int
    body: Body
    numbers: tuple[int, ...]
    digest: bytes
    frame: bytes


class Refusal(Enum):
    """Every reason to refuse a frame, which is counted and changes nothing."""

    TOO_LARGE = "the frame is longer than any of this session can be"
    MALFORMED = "the bytes are not a frame"
    UNKNOWN_VERSION = "another version of the protocol"
    WRONG_SESSION = "signed for another session"
    UNKNOWN_SENDER = "the sender is not on the roster"
    UNKNOWN_KIND = "there is no such kind of message"
    BAD_SIGNATURE = "the signature is not the sender's"
    NOT_CANONICAL = "the same could be written in another way"
    WRONG_LENGTH = "too many or too few numbers or agents"
    OFF_LATTICE = "the exponent is not the one this message must have"
    OUT_OF_RANGE = "a number is beyond the session's reach"
    WRONG_COUNT = "the agents named are not as many as it says, or below the quorum"
    WRONG_ROLE = "the sender is not one who may say this"
    WRONG_ROUND = "the session has no such round"
    NOT_FOR_ME = "not for this role, or not from a neighbour"
    LATE = "for a round that is over"
    AHEAD = "for a round that cannot have begun, by what is known here"
    REPLAY = "heard before"
    EQUIVOCATION = "contradicts what the same sender signed before"
    WRONG_PLACE = "its path does not lead to the state that the feedback has for this agent"
    OTHER_HISTORY = "continues a history that is not the one known here"
    OTHER_KEY = "made with another ephemeral key than the first one that is known here"
    TOO_OFTEN = "asked too often; asked again later it is answered"
    SECOND_DRAW = "a second draw for one update, or one that was not wanted"
    OUT_OF_PLACE = "means nothing in this phase"
