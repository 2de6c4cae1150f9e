"""Scales of sliders: positions from 0 to 1000, and their numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

STEPS = 1000
STEP = 5  # of an arrow key


@dataclass(frozen=True)
class Scale:
    """Numbers from `low` to `high`, linear or logarithmic.

    They are shown with `digits` significant digits.
    """

    low: float
    high: float
    log: bool = True
    digits: int = 3
    whole: bool = False

    def text(self, position: float) -> str:
        """Return the number at a position, as it would be typed."""
        along = min(max(position / STEPS, 0.0), 1.0)
        if self.log:
            value = math.exp(math.log(self.low) + along * math.log(self.high / self.low))
        else:
            value = self.low + along * (self.high - self.low)
        rounded = float(f"{value:.{self.digits}g}")
        if self.whole:
            return str(round(rounded))
        return f"{rounded:.15g}"

    def position(self, value: float) -> float:
        """Return the position of a number, clamped to the ends."""
        if self.log:
            along = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            along = (value - self.low) / (self.high - self.low)
        return round(min(max(along, 0.0), 1.0) * STEPS)
