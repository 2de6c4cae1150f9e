"""How much work one sender may cause: a token bucket."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import final

_PER_SECOND, _AT_ONCE = 50.0, 1000.0


@final
class Allowance:
    """Counts messages of one sender that are not frames of a session.

    An honest member sends about three for each session, and opens all its sessions again when it reconnects.
    Who has used it up is not refused, but read more slowly.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._left, self._since = clock, _AT_ONCE, clock()

    def take(self, cost: float = 1.0) -> float:
        """Count a message; return for how many seconds to read no further one."""
        self._left = self._now() - cost
        return self.wait

    @property
    def wait(self) -> float:
        """Seconds until the sender may send again; 0 if it may now."""
        return max(0.0, -self._now() / _PER_SECOND)

    @property
    def unused(self) -> bool:
        """Whether nothing is to be remembered of the sender."""
        return self._now() >= _AT_ONCE

    def _now(self) -> float:
        now = self._clock()
        self._left = min(_AT_ONCE, self._left + (now - self._since) * _PER_SECOND)
        self._since = now
        return self._left
