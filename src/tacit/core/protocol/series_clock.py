"""The current slot of a series, from ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from tacit.core.protocol.effects import Tick
from tacit.core.protocol.series import Series


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
