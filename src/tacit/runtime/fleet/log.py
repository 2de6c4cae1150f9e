"""Log events of hubs and followers; nothing private is in them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, final

from tacit.errors import TacitError

_OFTEN = 100
_DAY = 86_400.0


class FleetLog(Protocol):
    """Takes events of a hub or a follower."""

    def __call__(self, event: str, text: str, **facts: Any) -> None:
        """Take one event: a word, a sentence, and facts."""
        ...


def say_nothing(event: str, text: str, **facts: Any) -> None:
    """Ignore all events."""


def unfailing(tell: FleetLog) -> FleetLog:
    """Return a log that loses a line where `tell` cannot write it.

    A session that ends because of its log costs every member its loss.
    """

    def told(event: str, text: str, **facts: Any) -> None:
        with suppress(OSError, TacitError):
            tell(event, text, **facts)

    return told


@final
class SeldomLog:
    """Logs events that others cause: 100 a day, then only at powers of two.

    This holds for each event and whoever causes it. Those beyond a maximum number of them are counted
    together: neither the log nor the counters may grow as others like.
    """

    def __init__(self, tell: FleetLog, most: int, wall: Callable[[], float] = time.time) -> None:
        self._tell, self._most, self._wall = tell, most, wall
        self._counts: Counter[tuple[str, str]] = Counter()
        self._day = 0.0

    def __call__(self, cause: str, event: str, text: str, **facts: Any) -> None:
        """Count an event by its cause, and log it if its turn has come."""
        if (day := self._wall() // _DAY) != self._day:
            self._day = day
            self._counts.clear()
        kind = (event, cause)
        if kind not in self._counts and len(self._counts) >= self._most:
            kind = (event, "")
        self._counts[kind] += 1
        count = self._counts[kind]
        if count <= _OFTEN:
            self._tell(event, text, **facts)
        elif not count & (count - 1):
            self._tell(event, f"{text} ({count} times today)", **facts, times=count)
