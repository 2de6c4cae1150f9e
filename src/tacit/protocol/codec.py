"""Frames: the only way in and out. Strict, bounded, one encoding for one message.

A frame is refused by the cheapest reason first: size, form, version, session, sender, kind, then the
signature, and only what is signed is read further. What is accepted encodes to the very same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, TypeAlias, assert_never, cast

import msgspec
import numpy as np
from msgspec import Meta

from tacit.mechanism.whole import Whole
from tacit.protocol.effects import Refused
from tacit.protocol.masks import is_usable
from tacit.protocol.messages import (
    BODIES,
    COORDINATOR,
    KINDS,
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
    Present,
    Refusal,
    Report,
    Stop,
)
from tacit.protocol.session import Session
from tacit.protocol.signatures import SIGNATURE_BYTES, is_signed

DOMAIN = b"tacit message v1\0"
"""Signed before every head, so that no signature made for something else fits a message."""
_REPORTS_DOMAIN = b"tacit reports v1\0"
_SHORT, _RECENT = 4096, 2048  # frames of at most so many bytes are remembered, and so many of them
MOST_REMEMBERED = _RECENT // 2
"""So many frames can be opened beforehand, and are still remembered when they are opened again."""

Sign: TypeAlias = Callable[[bytes], bytes]
"""Ed25519 signing with the owner's key: `Identity.sign`."""


class _Head(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    version: int
    session: bytes
    sender: Annotated[int, Meta(ge=-1, le=2**31 - 1)]
    kind: int
    body: bytes


_ENCODE = msgspec.msgpack.Encoder().encode
_HEAD = msgspec.msgpack.Decoder(_Head)
_BODY = {kind: msgspec.msgpack.Decoder(body) for kind, body in BODIES.items()}
_UNREADABLE = msgspec.DecodeError, UnicodeDecodeError, RecursionError
_FROM_COORDINATOR = {Kind.FEEDBACK, Kind.ASK, Kind.STOP}
_FROM_AGENTS = {Kind.PRESENT, Kind.REPORT, Kind.ASK, Kind.DONE, Kind.STOP}
_FROM_MASKED_AGENTS = _FROM_AGENTS - {Kind.REPORT} | {Kind.KEY, Kind.MASKED}
_FROM_KEPT_COORDINATOR = _FROM_COORDINATOR | {Kind.CLOSING}
_FROM_KEEPERS = {Kind.KEY, Kind.OPENING, Kind.ASK, Kind.STOP}


def digest(frame: bytes) -> bytes:
    """Return SHA-256 of all that is signed. Not of the signature: one signer can make several."""
    return hashlib.sha256(frame[:-SIGNATURE_BYTES]).digest()


def combined(digests: Iterable[bytes]) -> bytes:
    """Return one digest for several messages, in this order."""
    return hashlib.sha256(_REPORTS_DOMAIN + b"".join(digests)).digest()


def history(before: bytes, digests: Iterable[bytes]) -> bytes:
    """Return what a peer's next report commits to, after a mean of messages with these digests.

    `before` is what its report for the round of the mean committed to, or would have: so one signature
    stands for every mean so far, also for those after which the peer said nothing.
    """
    return combined((before, *digests))


def as_array(numbers: Sequence[int]) -> Whole:
    """Return numbers as the lattice computes with them: a plain one alone, for speed."""
    if len(numbers) == 1:
        return numbers[0]
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
        Says who may speak, how many numbers there are, and how large they can be.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._width = session.number_bytes
        self._length = session.number_bytes * session.components
        self._bitmap = -(-session.n // 8)
        self._hash = hash(session.id)
        self.most_bytes = self._most_bytes()
        """No frame of this session is longer."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Codec):
            return NotImplemented
        return other.session is self.session or other.session.id == self.session.id

    def __hash__(self) -> int:
        return self._hash

    def _most_bytes(self) -> int:
        longest, nothing = 2**31 - 1, bytes(32)
        report = _ENCODE(Report(longest, -2048, b"", nothing))
        feedback = _ENCODE(Feedback(longest, b"", b"", longest, nothing, nothing))
        body = max(len(report), len(feedback) + self._bitmap + 3) + self._length + 3
        if self.session.keepers:
            masked = _ENCODE(Masked(longest, -2048, b"", nothing, nothing))
            closing = _ENCODE(Closing(longest, b"", longest, nothing, nothing, nothing))
            body = max(body, len(masked) + 3 + self.session.masked_bytes, len(closing) + 3 + self._bitmap)
        return len(_ENCODE(_Head(VERSION, bytes(32), longest, 1, b""))) + 3 + body + SIGNATURE_BYTES

    def pack(self, numbers: Sequence[int]) -> bytes:
        """Write whole numbers as fixed-length two's complement."""
        if len(numbers) == 1:
            return numbers[0].to_bytes(self._width, "big", signed=True)
        return b"".join(v.to_bytes(self._width, "big", signed=True) for v in numbers)

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
        head = self._head(sender, body)
        return head + sign(DOMAIN + head)

    def _head(self, sender: int, body: Body) -> bytes:
        kind = KINDS[type(body)]
        return _ENCODE(_Head(VERSION, self.session.id, sender, int(kind), _ENCODE(body)))

    def open(self, frame: bytes) -> Message | Refused:
        """Check a frame in every way that needs no memory of others, and read it.

        What comes of it follows from the session and the frame alone. So agents of one process that hear the
        same frame check it once: the signature costs more than all the rest.
        """
        return _opened(self, frame) if len(frame) <= _SHORT else self.read(frame)

    def read(self, frame: bytes, *, own: bool = False) -> Message | Refused:
        """As `open`, each time anew. One's `own` signature is not checked."""
        head = self._read_head(frame, own=own)
        if isinstance(head, Refusal):
            return Refused(head)
        body = self._read_body(head, frame)
        if isinstance(body, Refusal):
            return Refused(body, head.sender)
        plain = isinstance(body, Report | Feedback) and not isinstance(body, Masked)
        numbers = self.unpack(body.numbers) if plain else ()  # type: ignore[union-attr]
        return Message(head.sender, body, numbers, digest(frame), frame)

    def _read_body(self, head: _Head, frame: bytes) -> Body | Refusal:
        """Read what the sender has signed."""
        kind = Kind(head.kind)
        try:
            body: Body = _BODY[kind].decode(head.body)
        except _UNREADABLE:
            return Refusal.MALFORMED
        if self._head(head.sender, body) != frame[:-SIGNATURE_BYTES]:
            return Refusal.NOT_CANONICAL
        if kind not in self._may_say(head.sender):
            return Refusal.WRONG_ROLE
        return self._wrong(head.sender, body) or body

    def _may_say(self, sender: int) -> set[Kind]:
        if not self.session.keepers:
            return _FROM_COORDINATOR if sender == COORDINATOR else _FROM_AGENTS
        if sender == COORDINATOR:
            return _FROM_KEPT_COORDINATOR
        return _FROM_MASKED_AGENTS if sender < self.session.n else _FROM_KEEPERS

    def _read_head(self, frame: bytes, *, own: bool) -> _Head | Refusal:
        """Read as little as is needed to check who signed."""
        if len(frame) > self.most_bytes:
            return Refusal.TOO_LARGE
        if len(frame) < SIGNATURE_BYTES + 2 or frame[0] >> 4 != 0b1001:
            return Refusal.MALFORMED
        if frame[1] != VERSION:  # other versions may have any form after their number
            return Refusal.UNKNOWN_VERSION if frame[1] < 0x80 else Refusal.MALFORMED
        try:
            head = _HEAD.decode(memoryview(frame)[:-SIGNATURE_BYTES])
        except _UNREADABLE:
            return Refusal.MALFORMED
        return self._stranger(head, frame, own=own) or head

    def _stranger(self, head: _Head, frame: bytes, *, own: bool) -> Refusal | None:
        """Return why this is not from a member of this session."""
        if head.session != self.session.id:
            return Refusal.WRONG_SESSION
        members = self.session.n + len(self.session.keepers)
        if head.sender >= members or (head.sender == COORDINATOR and self.session.coordinator is None):
            return Refusal.UNKNOWN_SENDER
        if head.kind not in BODIES:
            return Refusal.UNKNOWN_KIND
        return None if own or self._signed(head.sender, frame) else Refusal.BAD_SIGNATURE

    def _signed(self, sender: int, frame: bytes) -> bool:
        signed, signature = frame[:-SIGNATURE_BYTES], frame[-SIGNATURE_BYTES:]
        return is_signed(self.session.key(sender), DOMAIN + signed, signature)

    def _wrong(self, sender: int, body: Body) -> Refusal | None:
        """Return what is wrong with a message's content, whatever was said before."""
        match body:
            case Key() | Masked() | Closing() | Opening():
                return self._wrong_with_keepers(sender, body)
            case Report():
                return self._wrong_report(sender, body)
            case Feedback():
                return self._wrong_feedback(body)
        return self._wrong_place(body)

    def _wrong_with_keepers(self, sender: int, body: Key | Masked | Closing | Opening) -> Refusal | None:
        match body:
            case Key():
                return None if is_usable(body.public) else Refusal.NOT_CANONICAL
            case Masked():
                return self._wrong_masked(sender, body)
            case Closing():
                return self._wrong_used(body)
        return self._wrong_length(body.round, body.numbers)

    def _wrong_place(self, body: Ask | Done | Present | Stop) -> Refusal | None:
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
        if body.exponent != self.session.exponent(sender, body.update):
            return Refusal.OFF_LATTICE
        return self._beyond(body.numbers, body.exponent)

    def _wrong_length(self, t: int, masked: bytes) -> Refusal | None:
        if t >= self.session.exchanges:
            return Refusal.WRONG_ROUND
        return None if len(masked) == self.session.masked_bytes else Refusal.WRONG_LENGTH

    def _wrong_masked(self, sender: int, body: Masked) -> Refusal | None:
        if (wrong := self._wrong_length(body.update, body.numbers)) is not None:
            return wrong
        right = body.exponent == self.session.exponent(sender, body.update)
        return None if right else Refusal.OFF_LATTICE

    def _wrong_feedback(self, body: Feedback) -> Refusal | None:
        if len(body.numbers) != self._length:
            return Refusal.WRONG_LENGTH
        return self._wrong_used(body) or self._beyond(body.numbers, self.session.lattice.state_exponent)

    def _wrong_used(self, body: Feedback | Closing) -> Refusal | None:
        if body.round >= self.session.exchanges:
            return Refusal.WRONG_ROUND
        if len(body.used) != self._bitmap:
            return Refusal.WRONG_LENGTH
        used = int.from_bytes(body.used, "little")
        if used.bit_length() > self.session.n:
            return Refusal.UNKNOWN_SENDER
        if used.bit_count() != body.count or body.count < self.session.least_quorum:
            return Refusal.WRONG_COUNT
        return None

    def _beyond(self, numbers: bytes, exponent: int) -> Refusal | None:
        lattice = self.session.lattice
        bound = lattice.limit >> (exponent - lattice.state_exponent)
        within = all(-bound <= v <= bound for v in self.unpack(numbers))
        return None if within else Refusal.OUT_OF_RANGE

    def lifted(self, message: Message) -> tuple[Whole, int]:
        """Return a report as `Lattice.mean` takes it: numbers and exponent."""
        return as_array(message.numbers), cast(Report, message.body).exponent


@lru_cache(maxsize=_RECENT)
def _opened(codec: Codec, frame: bytes) -> Message | Refused:
    return codec.read(frame)
