"""What machines of a series share: the current slot, from ticks."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import final

from tacit.protocol.codec import Sign
from tacit.protocol.effects import Tick
from tacit.protocol.machine import Machine
from tacit.protocol.series import Series
from tacit.protocol.session import Session


@final
@dataclass
class SlotTime:
    """The time of a series, as the last tick told it.

    Attributes
    ----------
    slot : int
        The current slot; −1 before the first, the number of slots after the last. A clock that is set back
        does not bring a slot back.
    wall : float
        Seconds since 1970.
    """

    series: Series
    slot: int = -1
    now: float = -math.inf
    wall: float = -math.inf

    def tick(self, tick: Tick) -> None:
        """Take the time."""
        self.now, self.wall = tick.now, tick.wall
        # Never backwards: a slot that comes twice would get two readings and two messages.
        self.slot = max(self.slot, self.series.slot_at(tick.wall))

    def wake(self, due: float) -> float:
        """Return when to wake for something that is due at a wall time.

        Slots follow the wall clock, wake-ups the monotonic one. If the wall clock is set in between, the tick
        comes too early or too late, and the next `wake` is right again.
        """
        return self.now + max(due - self.wall, 0.0) if self.now > -math.inf else -math.inf


class SlotClock(Machine):
    """A machine that wakes when a slot begins or must be closed."""

    def __init__(self, session: Session, number: int, sign: Sign) -> None:
        super().__init__(session, number, sign)
        self.clock = SlotTime(self.series)

    @property
    def series(self) -> Series:
        """The session's series."""
        assert self.session.series is not None
        return self.session.series

    @property
    def slot(self) -> int:
        """The current slot: see `SlotTime`."""
        return self.clock.slot

    @property
    def wake(self) -> float | None:
        """When the next `Tick` is due, −∞ for at once, None for never."""
        wakes = [] if (timer := super().wake) is None else [timer]
        if (due := self._next_due()) is not None:
            wakes.append(self.clock.wake(due))
        return min(wakes, default=None)

    def _tick(self, tick: Tick) -> None:
        self.clock.tick(tick)
        super()._tick(tick)

    @abstractmethod
    def _next_due(self) -> float | None:
        """Return when something is due, in seconds since 1970; None for never."""
