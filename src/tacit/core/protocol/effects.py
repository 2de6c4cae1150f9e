"""What goes into a state machine and what comes out of it.

Events go in; one `Step` comes out of each. The driver of a machine must

1. save all `records` of a step durably, in order, all or none;
2. then, and only then, send its `messages`, in order;
3. then show its `notices`.

If saving fails the machine must be discarded: its state is ahead of what is durable. A new machine made with
`resume` from the saved records is in exactly the saved state, and repeats the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, final

from tacit.core.protocol.notices import Notice
from tacit.core.protocol.records import Record

# ---- events ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Start:
    """Begin, or continue after `resume`. The first event of every machine."""


@final
@dataclass(frozen=True)
class Heard:
    """Bytes arrived.

    `hint` is the sender according to the network. Only the signature is trusted.
    """

    frame: bytes = field(repr=False)
    hint: int | None = None


@final
@dataclass(frozen=True)
class Tick:
    """The time is `now`, in seconds of a monotonic clock.

    `Machine.wake` says when the next tick is due. `wall` is the time in seconds since 1970, which decides
    when slots of a series begin. It may be set back.
    """

    now: float
    wall: float = -math.inf


@final
@dataclass(frozen=True)
class Joined:
    """An agent (or the coordinator) is connected.

    Only a valid signature makes it present.
    """

    who: int


@final
@dataclass(frozen=True)
class Left:
    """The connection to this agent (or the coordinator) is lost.

    Deadlines decide whether it is absent.
    """

    who: int


@final
@dataclass(frozen=True)
class NoiseReady:
    """The noise of one update: a whole number, or one per component.

    It counts message steps. Its scale must be `LatticeAgent.draw_scale(u)`. An agent with keepers adds no
    noise of its own: it gets 32 random bytes, the salt of its masks. The machine says in `wants_noise` for
    which update it needs one. A second draw for the same update is refused.
    """

    update: int
    draw: Any = field(repr=False)


@final
@dataclass(frozen=True)
class ReadingReady:
    """The reading of a slot of a series, and 32 random bytes for its masks.

    `reading` is None if there was none. The machine says in `wants_reading` for which slot it needs one. A
    second one for the same slot is refused.
    """

    slot: int
    reading: Any = field(repr=False)
    salt: bytes = field(repr=False)


@final
@dataclass(frozen=True)
class Halt:
    """The owner ends the session for good (coordinator) or leaves it."""


@final
@dataclass(frozen=True)
class Expired:
    """The session's `expires` has passed, by the wall clock of this machine.

    The driver must check the clock before every other event, and at the start pass this event instead of
    `Start`, unless the machine has `ended`. A machine that has handled it never makes a report or an opening
    again, even if the clock is set back: that is recorded. It may still repeat recorded bytes, and tell
    others that it has stopped.
    """


Event: TypeAlias = Start | Heard | Tick | Joined | Left | NoiseReady | ReadingReady | Halt | Expired

# ---- messages -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Send:
    """Bytes to send to one member, or to all who listen (None)."""

    to: int | None
    frame: bytes = field(repr=False)


@final
class Step(NamedTuple):
    """What to do after an event: save records, send messages, show notices.

    In this order. If saving fails, nothing may be sent.
    """

    records: tuple[Record, ...] = ()
    messages: tuple[Send, ...] = ()
    notices: tuple[Notice, ...] = ()
