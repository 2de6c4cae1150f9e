"""Records, which must be durable before anything is sent.

An agent's ledger is private: `Began`, `Moved`, `Sampled` hold its state or readings. No repr shows them.
The current position of a machine is what its records, read in order, say; `resume` needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, final

import msgspec

from tacit.base.errors import FileError, StateError
from tacit.core.protocol.messages import Reason


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="record"):
    def __repr__(self) -> str:
        # States are private and frames long: a record shows its kind and round only.
        number = next((getattr(self, f) for f in ("update", "round", "slot") if hasattr(self, f)), None)
        return f"<{type(self).__name__}{'' if number is None else f' {number}'}>"

    __str__ = __repr__

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec's own would show every field wherever rich prints a record.
        return [(name, getattr(self, name)) for name in ("update", "round", "slot") if hasattr(self, name)]


@final
class Began(_Record, frozen=True, tag="began", omit_defaults=True):
    """An agent or peer entered a session with this state.

    It is the first record of the session. `planned` is the largest loss of the whole session, which a ledger
    may reserve. `state` is private, and so is `clamped`, which says whether the value was outside the range.
    `motion` is how the agent moves, if that is its own: it goes on with that after a restart.
    """

    session: bytes
    agent: int
    state: bytes
    planned: float
    spent: float
    cap: float
    clamped: bool = False
    motion: bytes = b""


@final
class Spoke(_Record, frozen=True, tag="spoke", omit_defaults=True):
    """Message `update`, its exact bytes, and its loss: one per update.

    `basis` is the shadow that began with it, if that is more than the message says.
    """

    update: int
    frame: bytes
    loss: float
    basis: bytes = b""


@final
class Moved(_Record, frozen=True, tag="moved"):
    """Update `update` was made from these frames, to this private state.

    There are now `update` + 1 updates. With a server `heard` is the feedback. On a graph it is the reports of
    all agents whose messages were used, `used` are these agents, and `y` is the mean. `basis` is the public
    shadow if noise is drawn once.
    """

    update: int
    heard: tuple[bytes, ...]
    used: tuple[int, ...]
    y: bytes
    state: bytes
    basis: bytes


@final
class Sampled(_Record, frozen=True, tag="sampled"):
    """The reading of an agent of a series in one slot. Private.

    It is clamped, and counted from the low end of the range, or of a question a vector, counted from its
    stand-in. Slots without a record had no reading. The
    filter goes on from these records, so a slot is recorded also where no message could be made.
    """

    slot: int
    reading: float | tuple[float, ...]


@final
class Silenced(_Record, frozen=True, tag="silenced"):
    """From this update on the agent sends nothing, because of the cap.

    It still receives feedback.
    """

    update: int
    reason: Reason


@final
class Keyed(_Record, frozen=True, tag="keyed"):
    """The first and only ephemeral key of a member, in its signed frame."""

    member: int
    frame: bytes


@final
class Erasing(_Record, frozen=True, tag="erasing"):
    """The own private ephemeral key is not needed from `update` on.

    This record is written first. Then the file of the key is removed, and again at every later start. So if
    the file is missing without this record, the key was lost, and the session cannot continue.
    """

    update: int


@final
class Disclosed(_Record, frozen=True, tag="disclosed"):
    """A keeper's opening, its exact bytes, and its closing: one per update.

    The noise is stored nowhere else: anyone who learns it could subtract it.
    """

    update: int
    frame: bytes
    closing: bytes


@final
class Reported(_Record, frozen=True, tag="reported"):
    """The coordinator of a session that stays open keeps this report.

    It is recorded before its receipt is sent: the agent leaves then.
    """

    agent: int
    frame: bytes


@final
class Shut(_Record, frozen=True, tag="shut"):
    """The coordinator shut a round: exact bytes of closing and reports."""

    round: int
    frame: bytes
    used: tuple[int, ...]
    reports: tuple[bytes, ...]

    def each(self) -> Iterator[tuple[int, bytes]]:
        """Return the agents used, each with its report."""
        return zip(self.used, self.reports, strict=True)


@final
class Unopened(_Record, frozen=True, tag="unopened"):
    """The opened sum of a round is nonsense: the openings, as evidence."""

    round: int
    openings: tuple[bytes, ...]


@final
class Opened(_Record, frozen=True, tag="opened"):
    """The coordinator opened round 0 with these agents present."""

    session: bytes
    present: tuple[int, ...]


@final
class Closed(_Record, frozen=True, tag="closed"):
    """A round is over: the exact bytes of its feedback and reports.

    With keepers the reports are in the round's `Shut`, and here are the keepers' `openings`.
    """

    round: int
    frame: bytes
    used: tuple[int, ...]
    reports: tuple[bytes, ...]
    openings: tuple[bytes, ...] = ()

    def each(self) -> Iterator[tuple[int, bytes]]:
        """Return the agents used, each with its report; not with keepers."""
        return zip(self.used, self.reports, strict=True)


@final
class Evidence(_Record, frozen=True, tag="evidence"):
    """Two messages that `sender` signed and that cannot both be honest.

    Either two for one round, or feedback of round `round` that does not follow the feedback this agent
    was given for the round before. `first` is empty where the frame is in an earlier record;
    `first_digest` says which.

    If `second` is a place, it contradicts this ledger: in the feedback `first` it has a message of this agent
    that the agent did not make.
    """

    sender: int
    round: int
    first_digest: bytes
    first: bytes
    second: bytes


@final
class Ended(_Record, frozen=True, tag="ended"):
    """The session is over for this machine: finished, or stopped.

    `reason` says why it was stopped; None if it was finished. A coordinator records this when all agents have
    received the last feedback.
    """

    round: int
    reason: Reason | None


Record: TypeAlias = (
    Began
    | Spoke
    | Moved
    | Silenced
    | Opened
    | Closed
    | Evidence
    | Ended
    | Keyed
    | Erasing
    | Disclosed
    | Shut
    | Unopened
    | Sampled
    | Reported
)

_DECODER: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


encode_record: Callable[[Record], bytes] = msgspec.msgpack.Encoder().encode
"""Write a record as bytes for a ledger."""


def require_order(holds: bool) -> None:
    """Refuse records that do not follow one another.

    Records may be missing, or those of two ledgers mixed. A machine that went on from them could draw noise
    again for a message that was sent.
    """
    if not holds:
        raise StateError("the ledger's records must follow one another, and these do not.")


def decode_record(data: bytes) -> Record:
    """Read what `encode_record` wrote."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise FileError("a ledger's record cannot be read: it is damaged or from a newer version.") from None
