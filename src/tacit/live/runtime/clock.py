"""Clocks, which are arguments: the system's, or one that a test advances."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol, final


class Clock(Protocol):
    """A clock that only goes forward."""

    def now(self) -> float:
        """Return the time in seconds since an arbitrary start."""
        ...

    def wall(self) -> float:
        """Return seconds since 1970 (UTC), for expiry dates.

        It jumps forward or backward when the machine's clock is set.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for this many seconds."""
        ...


@final
class SystemClock:
    """The machine's own monotonic clock."""

    def now(self) -> float:
        """Return seconds since some moment of this boot."""
        return time.monotonic()

    def wall(self) -> float:
        """Return seconds since 1970 (UTC)."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait for this many seconds."""
        await asyncio.sleep(seconds)
