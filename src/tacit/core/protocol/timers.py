"""Deadlines without a clock: each starts at the first tick after `set`."""

from __future__ import annotations

import math
from collections.abc import Iterator

MOST_BACKOFF = 8
"""Maximum backoff factor of a repeated message."""


class Timers:
    """Named deadlines that can be restarted or switched off.

    A machine learns the time only from ticks, and may act between two of them. So a timer starts at the next
    tick: starting it at the last tick could make it expire too early.
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._due: dict[str, float] = {}

    def set(self, name: str, seconds: float) -> None:
        """Start a timer, or start it again."""
        self._seconds[name] = seconds
        self._due.pop(name, None)

    def off(self, name: str) -> None:
        """Switch off a timer."""
        self._seconds.pop(name, None)
        self._due.pop(name, None)

    def tick(self, now: float) -> Iterator[str]:
        """Yield the timers that are due, each once; they are off then."""
        for name, seconds in list(self._seconds.items()):
            if self._due.setdefault(name, now + seconds) <= now:
                self.off(name)
                yield name

    @property
    def wake(self) -> float | None:
        """When the next tick is due; −∞ for at once, None for never."""
        # A timer that was set since the last tick has no time yet: it needs a tick to start.
        if len(self._due) < len(self._seconds):
            return -math.inf
        return min(self._due.values(), default=None)
