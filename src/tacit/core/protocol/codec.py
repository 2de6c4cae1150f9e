"""Frames: strict and bounded, with exactly one encoding per message.

All messages are read and written here. The cheapest checks come first: size, form, version, session, sender,
kind, then the signature. The body is read only if the signature is valid. An accepted message encodes to the
same bytes again, so two frames of one message never differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypeAlias, assert_never, cast

import msgspec
import numpy as np
from msgspec import Meta

from tacit.base.errors import StateError
from tacit.core.mechanism.whole import Whole, WholeArray
from tacit.core.protocol.canonical import UNREADABLE
from tacit.core.protocol.masks import is_usable
from tacit.core.protocol.merkle import HASH_BYTES, longest_path
from tacit.core.protocol.messages import (
    BODIES,
    COORDINATOR,
    DIGEST_BYTES,
    KINDS,
    NOTHING_HEARD,
    VERSION,
    Ask,
    Body,
    Closing,
    Done,
    Feedback,
    Key,
    Kind,
    Masked,
    Message,
    Opening,
    Place,
    Present,
    Receipt,
    Refusal,
    Report,
    Stop,
)
from tacit.core.protocol.notices import Refused
from tacit.core.protocol.session import Session
from tacit.core.protocol.signatures import SIGNATURE_BYTES, is_signed

DOMAIN = b"tacit message v1\0"
"""Prefix of all signed bytes, so that a signature made for something else never fits a message."""
_REPORTS_DOMAIN = b"tacit reports v1\0"
_SHORT, _RECENT = 4096, 2048  # size limit of cached frames in bytes, and number of cached frames
MOST_REMEMBERED = _RECENT // 2
"""Maximum number of frames to open in advance: all of them are still cached when opened again."""

Sign: TypeAlias = Callable[[bytes], bytes]
"""Ed25519 signing with the owner's key: `Identity.sign`."""


class _UnknownKey(Exception):
    """The sender is an agent whose key is not known here."""


class _Head(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    version: int
    session: bytes
    sender: Annotated[int, Meta(ge=-1, le=2**31 - 1)]
    kind: int
    body: bytes


_ENCODE = msgspec.msgpack.Encoder().encode
_HEAD = msgspec.msgpack.Decoder(_Head)
_BODY = {kind: msgspec.msgpack.Decoder(body) for kind, body in BODIES.items()}
_FROM_COORDINATOR = {Kind.FEEDBACK, Kind.PLACE, Kind.ASK, Kind.STOP}
_FROM_AGENTS = {Kind.PRESENT, Kind.REPORT, Kind.ASK, Kind.DONE, Kind.STOP}
_FROM_MASKED_AGENTS = _FROM_AGENTS - {Kind.REPORT} | {Kind.KEY, Kind.MASKED}
_FROM_KEPT_COORDINATOR = _FROM_COORDINATOR | {Kind.CLOSING}
_FROM_KEEPERS = {Kind.KEY, Kind.OPENING, Kind.ASK, Kind.STOP}
_FROM_SERIES_AGENTS = _FROM_MASKED_AGENTS - {Kind.PRESENT}


class _Form(NamedTuple):
    """What the frames of a series and of other sessions differ in."""

    width: int  # bytes of one number that is not masked
    limit: Callable[[int], int]  # of such a number, this many bits finer than a state
    from_coordinator: set[Kind]
    from_masked_agents: set[Kind]
    may_be_lost: bool  # a round can end without a single message
    may_be_heard: bool  # a masked message says what its agent has heard
    may_say: Callable[[int, int, tuple[int, ...]], bool]  # whether a sender's report can have these numbers


def _anything(_sender: int, _update: int, _numbers: tuple[int, ...]) -> bool:
    return True


def _chosen_form(session: Session) -> _Form:
    coordinators = _FROM_KEPT_COORDINATOR if session.keepers else _FROM_COORDINATOR
    if session.closes is not None:
        coordinators = coordinators | {Kind.RECEIPT}
    if session.series is None:
        # A larger number of one sender could move the mean as far as it likes.
        limit, two = session.lattice.limit, session.mechanism.law.two_valued
        may_say = (lambda i, u, numbers: session.lattice_agent(i).may_say(u, numbers)) if two else _anything
        wide = session.number_bytes
        said = _FROM_MASKED_AGENTS
        return _Form(wide, lambda finer: limit >> finer, coordinators, said, False, True, may_say)
    # The feedback of a series is a sum, which has the width of the masked numbers that it is made of. It is
    # limited by all its messages and noise together.
    assert session.mask_bytes is not None
    sums = session.sum_limit(0)
    said = _FROM_SERIES_AGENTS
    return _Form(session.mask_bytes, lambda _: sums, coordinators, said, True, False, _anything)


def digest(frame: bytes) -> bytes:
    """Return SHA-256 of the signed bytes, without the signature.

    A signer can make several signatures of the same bytes. These are one message, not a contradiction.
    """
    return hashlib.sha256(frame[:-SIGNATURE_BYTES]).digest()


def combined(digests: Iterable[bytes]) -> bytes:
    """Return one digest for several messages, in this order."""
    return hashlib.sha256(_REPORTS_DOMAIN + b"".join(digests)).digest()


def history(before: bytes, digests: Iterable[bytes]) -> bytes:
    """Return the digest that a peer's report after this mean commits to.

    `before` is the digest to which its report for the round of the mean committed, or would have committed.
    So one signature covers every mean so far, also those after which the peer sent nothing.
    """
    return combined((before, *digests))


def as_array(numbers: Sequence[int] | WholeArray) -> Whole:
    """Return numbers as the lattice takes them: a single one as an int."""
    if len(numbers) == 1:
        return cast(int, numbers[0])
    array = np.empty(len(numbers), dtype=object)
    array[:] = numbers
    return array


def as_numbers(whole: Any) -> tuple[int, ...]:
    """Return whole numbers of any kind as a tuple of Python's."""
    if type(whole) is int:
        return (whole,)
    return (int(whole),) if np.ndim(whole) == 0 else tuple(int(v) for v in whole)


class Codec:
    """Reads and writes the frames of one session.

    Parameters
    ----------
    session : Session
        Gives the possible senders, the number of components, and the size of numbers.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._form = _chosen_form(session)
        self._width = self._form.width
        self._length = self._width * session.components
        self._bitmap = -(-session.n // 8)
        self._hash = hash(session.id)
        self.most_bytes = self._most_bytes()
        """Maximum length of a frame of this session."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Codec):
            return NotImplemented
        return other.session is self.session or other.session.id == self.session.id

    def __hash__(self) -> int:
        return self._hash

    def _most_bytes(self) -> int:
        longest, nothing = 2**31 - 1, bytes(32)
        report = _ENCODE(Report(longest, -2048, b"", nothing))
        feedback = _ENCODE(Feedback(longest, b"", longest, longest, nothing, nothing, nothing))
        place = _ENCODE(Place(longest, longest, nothing, bytes(longest_path(self.session.n))))
        body = max(max(len(report), len(feedback)) + self._length + 3, len(place))
        if self.session.keepers:
            masked = _ENCODE(Masked(longest, -2048, b"", nothing, nothing, nothing))
            closing = _ENCODE(Closing(longest, b"", longest, nothing, nothing, nothing, b""))
            shut = len(closing) + 3 + self._bitmap + self.session.n * DIGEST_BYTES + 5
            body = max(body, len(masked) + 3 + self.session.masked_bytes, shut)
        return len(_ENCODE(_Head(VERSION, bytes(32), longest, 1, b""))) + 3 + body + SIGNATURE_BYTES

    def pack(self, numbers: Whole | Sequence[int]) -> bytes:
        """Write whole numbers, or a plain one, as fixed-length two's complement."""
        if isinstance(numbers, int):
            return numbers.to_bytes(self._width, "big", signed=True)
        return b"".join([v.to_bytes(self._width, "big", signed=True) for v in numbers])

    def unpack(self, data: bytes) -> tuple[int, ...]:
        """Read what `pack` wrote."""
        if len(data) == self._width:
            return (int.from_bytes(data, "big", signed=True),)
        return tuple(
            int.from_bytes(data[k : k + self._width], "big", signed=True)
            for k in range(0, len(data), self._width)
        )

    def bitmap(self, agents: Iterable[int]) -> bytes:
        """Write a set of agents as bits."""
        bits = bytearray(self._bitmap)
        for i in agents:
            bits[i // 8] |= 1 << i % 8
        return bytes(bits)

    def members(self, bitmap: bytes) -> tuple[int, ...]:
        """Read what `bitmap` wrote, in rising order."""
        bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), bitorder="little")
        return tuple(np.flatnonzero(bits).tolist())

    def seal(self, sender: int, body: Body, sign: Sign) -> bytes:
        """Write and sign a message."""
        head = _ENCODE(_Head(VERSION, self.session.id, sender, int(KINDS[type(body)]), _ENCODE(body)))
        return head + sign(DOMAIN + head)

    def open(self, frame: bytes) -> Message | Refused:
        """Check a frame in every way that needs no other frames, and read it.

        The result depends only on the session and the frame, so it is cached. Agents of one process that
        receive the same frame check it once, because the signature costs more than everything else. Frames of
        agents whose key is not known here are not: another agent of this process may know it.
        """
        try:
            return _opened(self, frame) if len(frame) <= _SHORT else self.read(frame)
        except _UnknownKey:
            return Refused(Refusal.UNKNOWN_SENDER)

    def read(self, frame: bytes, *, own: bool = False) -> Message | Refused:
        """As `open`, without the cache. With `own` the signature is not checked."""
        head = self._read_head(frame)
        if isinstance(head, Refusal):
            return Refused(head)
        # The body is decoded after this check: only members can reach that code with bytes of their choice.
        signed, signature = frame[:-SIGNATURE_BYTES], frame[-SIGNATURE_BYTES:]
        if not own and not self.session.knows(head.sender):
            raise _UnknownKey  # a result would be cached
        if not own and not is_signed(self.session.key(head.sender), DOMAIN + signed, signature):
            return Refused(Refusal.BAD_SIGNATURE)
        kind, numbers = Kind(head.kind), tuple[int, ...]()
        try:
            body: Body = _BODY[kind].decode(head.body)
        except UNREADABLE:
            return Refused(Refusal.MALFORMED, head.sender)
        # MessagePack can write one number in several ways. If all were accepted, one message could have
        # several digests, and a sender could show different ones to different members.
        if _ENCODE(body) != head.body or _ENCODE(head) != signed:
            wrong: Refusal | None = Refusal.NOT_CANONICAL
        elif kind not in self._may_say(head.sender):
            wrong = Refusal.WRONG_ROLE
        else:
            wrong = self._wrong(head.sender, body)
        if wrong is None and isinstance(body, Report | Feedback) and not isinstance(body, Masked):
            lattice, numbers = self.session.lattice, self.unpack(body.numbers)
            finer = body.exponent - lattice.state_exponent if isinstance(body, Report) else 0
            bound = self._form.limit(finer)
            if not all(-bound <= v <= bound for v in numbers) or (
                isinstance(body, Report) and not self._form.may_say(head.sender, body.update, numbers)
            ):
                wrong = Refusal.OUT_OF_RANGE
        if wrong is not None:
            return Refused(wrong, head.sender)
        return Message(head.sender, body, numbers, digest(frame), frame)

    def own(self, frame: bytes) -> Message:
        """Read a frame that is in the ledger, or was made here."""
        message = self.read(frame, own=True)
        if not isinstance(message, Message):
            raise StateError("the ledger's records must be of this session, and these are not.")
        return message

    def is_place(self, frame: bytes) -> bool:
        """Whether a frame that is in the ledger is a place."""
        return isinstance(self.own(frame).body, Place)

    def _may_say(self, sender: int) -> set[Kind]:
        if sender == COORDINATOR:
            return self._form.from_coordinator
        if not self.session.keepers:
            return _FROM_AGENTS
        if sender >= self.session.n:
            return _FROM_KEEPERS
        return self._form.from_masked_agents

    def _read_head(self, frame: bytes) -> _Head | Refusal:
        """Read only what is needed to know who must have signed."""
        # 0b1001 starts a MessagePack array of up to 15 fields. The length is checked before parsing.
        if not SIGNATURE_BYTES + 2 <= len(frame) <= self.most_bytes or frame[0] >> 4 != 0b1001:
            return Refusal.TOO_LARGE if len(frame) > self.most_bytes else Refusal.MALFORMED
        if frame[1] != VERSION:  # other versions may have any form after their number
            return Refusal.UNKNOWN_VERSION if frame[1] < 0x80 else Refusal.MALFORMED
        try:
            head = _HEAD.decode(memoryview(frame)[:-SIGNATURE_BYTES])
        except UNREADABLE:
            return Refusal.MALFORMED
        if head.session != self.session.id:
            return Refusal.WRONG_SESSION
        members = self.session.n + len(self.session.keepers)
        if head.sender >= members or (head.sender == COORDINATOR and self.session.coordinator is None):
            return Refusal.UNKNOWN_SENDER
        return head if head.kind in BODIES else Refusal.UNKNOWN_KIND

    def _wrong(self, sender: int, body: Body) -> Refusal | None:
        """Return what is wrong with a body, except its numbers.

        Only the session decides. Whether it fits earlier messages is for the machines to check.
        """
        match body:
            case Key() | Masked() | Closing() | Opening():
                return self._wrong_with_keepers(sender, body)
            case Report():
                return self._wrong_report(sender, body)
            case Feedback():
                wrong = self._wrong_counts(body.round, body.count, body.members, empty=not any(body.numbers))
                return wrong if len(body.numbers) == self._length else Refusal.WRONG_LENGTH
            case Place():
                return self._wrong_place(body)
            case Receipt():
                return None if body.round < self.session.exchanges else Refusal.WRONG_ROUND
        return self._wrong_round(body)

    def _wrong_counts(self, t: int, count: int, members: int, *, empty: bool) -> Refusal | None:
        if t >= self.session.exchanges:
            return Refusal.WRONG_ROUND
        # A slot of a series that is lost has a sum of 0 of nobody. In round 0 nobody was used before.
        lost = self._form.may_be_lost and count == 0 and empty
        enough = lost or count >= self.session.least_quorum
        first = t > 0 or members == count
        return None if enough and first and count <= members <= self.session.n else Refusal.WRONG_COUNT

    def _wrong_place(self, body: Place) -> Refusal | None:
        if body.round >= self.session.exchanges or body.last > body.round:
            return Refusal.WRONG_ROUND
        # Its exact length depends on the receiver, who checks it.
        if len(body.path) % HASH_BYTES or len(body.path) > longest_path(self.session.n):
            return Refusal.WRONG_LENGTH
        never = body.last < 0
        return Refusal.NOT_CANONICAL if never is not (body.digest == NOTHING_HEARD) else None

    def _wrong_with_keepers(self, sender: int, body: Key | Masked | Closing | Opening) -> Refusal | None:
        match body:
            case Key():
                return None if is_usable(body.public) else Refusal.NOT_CANONICAL
            case Masked():
                return self._wrong_masked(sender, body)
            case Closing() if len(body.salts) != DIGEST_BYTES * body.count:
                return Refusal.WRONG_LENGTH
            case Closing():
                return self._wrong_used(body.round, body.used, body.count)
        return self._wrong_length(body.round, body.numbers)

    def _wrong_round(self, body: Ask | Done | Present | Stop) -> Refusal | None:
        rounds = self.session.rounds
        match body:
            case Ask():
                right = body.round < rounds
            case Done():
                right = body.update == rounds
            case Present() | Stop():
                right = body.update <= rounds
            case _:
                assert_never(body)
        return None if right else Refusal.WRONG_ROUND

    def _wrong_report(self, sender: int, body: Report) -> Refusal | None:
        if body.update >= self.session.rounds:
            return Refusal.WRONG_ROUND
        if len(body.numbers) != self._length:
            return Refusal.WRONG_LENGTH
        # Fixed per sender and update: `read` shifts by it, and a mean needs all messages on known grids.
        right = body.exponent == self.session.exponent(sender, body.update)
        return None if right else Refusal.OFF_LATTICE

    def _wrong_length(self, t: int, masked: bytes) -> Refusal | None:
        if t >= self.session.exchanges:
            return Refusal.WRONG_ROUND
        return None if len(masked) == self.session.masked_bytes else Refusal.WRONG_LENGTH

    def _wrong_masked(self, sender: int, body: Masked) -> Refusal | None:
        if (wrong := self._wrong_length(body.update, body.numbers)) is not None:
            return wrong
        if body.heard != NOTHING_HEARD and not self._form.may_be_heard:
            return Refusal.NOT_CANONICAL
        right = body.exponent == self.session.exponent(sender, body.update)
        return None if right else Refusal.OFF_LATTICE

    def _wrong_used(self, t: int, bitmap: bytes, count: int) -> Refusal | None:
        if t >= self.session.exchanges:
            return Refusal.WRONG_ROUND
        if len(bitmap) != self._bitmap:
            return Refusal.WRONG_LENGTH
        used = int.from_bytes(bitmap, "little")
        # Bits behind the last agent would make a second encoding of the same set.
        if used.bit_length() > self.session.n:
            return Refusal.UNKNOWN_SENDER
        if used.bit_count() != count or count < self.session.least_quorum:
            return Refusal.WRONG_COUNT
        return None

    def lifted(self, message: Message) -> tuple[Whole, int]:
        """Return a report as `Lattice.mean` takes it: numbers and exponent."""
        return as_array(message.numbers), cast(Report, message.body).exponent


# Keyed by session id and frame. The result needs nothing else, so machines can share it. `own` reads are
# never cached: a frame whose signature was not checked must not be found by `open`.
_opened = lru_cache(maxsize=_RECENT)(Codec.read)
