"""Notices on their way to a log: counted, and not told too often."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TypeAlias, final

from tacit.base.errors import TacitError
from tacit.core.protocol.notices import Counts, Notice

Tell: TypeAlias = Callable[[Notice, int], None]
"""Takes a notice, and how often its like has happened today; 0 if that is not counted."""
_DAY = 86_400.0


def say_nothing(notice: Notice, count: int) -> None:
    """Ignore all notices."""


@final
class Throttled:
    """Passes on what others cause some times a day, then at powers of two.

    This holds for each kind of notice and whoever causes it. Causes beyond a maximum number are counted
    together: neither the log nor the counters may grow as others like.
    """

    def __init__(self, tell: Tell, wall: Callable[[], float] = time.time) -> None:
        self._tell, self._wall = tell, wall
        self._counts: dict[type[Notice], Counter[Hashable]] = {}
        self._day = 0.0

    def __call__(self, notice: Notice) -> None:
        """Tell of a notice if its turn has come."""
        if (cause := notice.cause()) is None:
            self._tell(notice, 0)
            return
        if (day := self._wall() // _DAY) != self._day:
            self._day = day
            self._counts.clear()
        counts = self._counts.setdefault(type(notice), Counter())
        if cause not in counts and len(counts) >= notice.causes:
            cause = None
        counts[cause] += 1
        count = counts[cause]
        if count <= notice.often or not count & (count - 1):
            self._tell(notice, count)


@final
class Teller:
    """Counts the notices of a hub or a follower, and tells of them.

    A notice that cannot be told is lost: a session that ends because of its log costs every member its loss.
    """

    def __init__(self, tell: Tell, wall: Callable[[], float] = time.time) -> None:
        def told(notice: Notice, count: int) -> None:
            with suppress(OSError, TacitError):
                tell(notice, count)

        self._told = Throttled(told, wall)
        self.counts: Counts = {}
        """What was counted since the start."""

    def __call__(self, notice: Notice) -> None:
        """Count a notice, and tell of it."""
        notice.add_to(self.counts)
        if notice.logged:
            self._told(notice)

    def counted(self, name: str, label: str = "") -> int:
        """Return one count."""
        return self.counts.get(name, {}).get(label, 0)
