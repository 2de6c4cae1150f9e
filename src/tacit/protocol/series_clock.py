"""What machines of a series share: the current slot, from ticks."""

from __future__ import annotations

import math
from abc import abstractmethod

from tacit.protocol.codec import Sign
from tacit.protocol.effects import Tick
from tacit.protocol.machine import Machine
from tacit.protocol.series import Series
from tacit.protocol.session import Session


class SlotClock(Machine):
    """A machine that wakes when a slot begins or must be closed.

    Attributes
    ----------
    slot : int
        The current slot; −1 before the first, the number of slots after the last. A clock that is set back
        does not bring a slot back.
    """

    def __init__(self, session: Session, number: int, sign: Sign) -> None:
        super().__init__(session, number, sign)
        self.slot = -1
        self._now = self._wall = -math.inf  # at the last tick

    @property
    def series(self) -> Series:
        """The session's series."""
        assert self.session.series is not None
        return self.session.series

    @property
    def wake(self) -> float | None:
        """When the next `Tick` is due, −∞ for at once, None for never."""
        wakes = [] if (timer := super().wake) is None else [timer]
        if (due := self._next_due()) is not None:
            # Slots follow the wall clock, wake-ups the monotonic one: convert. If the wall clock is set in
            # between, the tick comes too early or too late, and the next `wake` is right again.
            told = self._now > -math.inf
            wakes.append(self._now + max(due - self._wall, 0.0) if told else -math.inf)
        return min(wakes, default=None)

    def _tick(self, tick: Tick) -> None:
        self._now, self._wall = tick.now, tick.wall
        # Never backwards: a slot that comes twice would get two readings and two messages.
        self.slot = max(self.slot, self.series.slot_at(tick.wall))
        super()._tick(tick)

    @abstractmethod
    def _next_due(self) -> float | None:
        """Return when something is due, in seconds since 1970; None for never."""
