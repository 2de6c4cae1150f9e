"""Clocks, which are passed as arguments: the system's, or one that a test advances."""

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
        """Return seconds since 1970 (UTC), for expiry dates. It can jump forward or backward."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for so long."""
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
        """Wait for so long."""
        await asyncio.sleep(seconds)
