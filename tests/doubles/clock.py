"""A clock that stands still until it is told to move."""

from __future__ import annotations

from typing import final

from tacit.base.errors import ParameterError


@final
class ManualClock:
    """Seconds, moved by hand. Call it to read it.

    Examples
    --------
    >>> clock = ManualClock()
    >>> clock.advance(2.5)
    >>> clock()
    2.5
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Read the clock."""
        return self.now

    def __repr__(self) -> str:
        return f"ManualClock({self.now})"

    def advance(self, seconds: float) -> None:
        """Move forward by some seconds."""
        if not seconds >= 0:
            raise ParameterError(f"a clock only goes forward, got {seconds} s.")
        self.now += seconds

    def advance_to(self, when: float) -> None:
        """Move forward to a time; do nothing if that is past."""
        self.now = max(self.now, when)
