"""Noise for a machine, drawn before it is needed and off the path from hearing to speaking.

`DrawnAhead` hands out one update after the other. A machine that was away skips updates: then draws are
begun anew, and handed out on a coarse grid of time, so that when it speaks says nothing of how
long they took. Draws that were skipped were never used, so nothing is drawn twice.

One draw by itself costs ten times what it costs among many. So draws are made for several updates at once,
and agents of one process that need the same scale share what was drawn for it: each draw goes to one agent,
for one update.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, cast, final
from weakref import WeakKeyDictionary

from tacit.noise.ahead import DrawnAhead
from tacit.noise.safe import SafeNoise, WholeNoise
from tacit.runtime.clock import Clock
from tacit.runtime.workers import finished, in_worker

if TYPE_CHECKING:
    from tacit.arrays import IntArray
    from tacit.protocol.session import Session

GRID = 0.1
"""Seconds; draws that were not ready in time are handed out at whole multiples of this."""
_DEPTH, _SHALLOW, _LONG = 16, 4, 8192
"""So many updates are drawn for ahead of time, or so few if a message has more components than this."""
_MOST_SHARED, _SCALES = 128, 64


@final
class _Shared:
    """Plain numbers for all agents of this process; each number is handed out once."""

    def __init__(self) -> None:
        self._source, self._lock = SafeNoise(threads=1), Lock()
        self._drawn: dict[float, list[int]] = {}
        self._process = os.getpid()
        self._users = 0

    def count(self, change: int) -> None:
        """Take note of a user that comes or goes; what the last one leaves is thrown away."""
        with self._lock:
            self._users += change
            if self._users == 0:
                self._drawn.clear()

    def draw(self, scale: float, size: int | None = None) -> int | IntArray:
        if size is not None:
            return self._source.draw(scale, size)
        with self._lock:
            if self._process != os.getpid():  # after a fork two processes would use the same numbers
                self._drawn.clear()
                self._process = os.getpid()
            if not self._drawn.get(scale):
                while len(self._drawn) >= _SCALES:
                    del self._drawn[next(iter(self._drawn))]
                together = max(1, min(self._users, _MOST_SHARED))
                self._drawn[scale] = self._source.draw(scale, together).tolist()
            return self._drawn[scale].pop()


@cache
def _shared() -> _Shared:
    return _Shared()


@final
class _Refills:
    """Draws for all agents of one event loop that need some by now: one thread does it for all."""

    def __init__(self) -> None:
        self._pools: list[DrawnAhead] = []
        self._drawing: asyncio.Task[None] | None = None

    def begin(self, pool: DrawnAhead) -> asyncio.Task[None]:
        """Draw for this one too; it may share what is waited for, so `finished` must wait for it."""
        if self._drawing is None or not self._pools:
            self._drawing = asyncio.ensure_future(self._draw())
        self._pools.append(pool)
        return self._drawing

    async def _draw(self) -> None:
        await asyncio.sleep(0)  # others of the same round come by
        pools, self._pools = self._pools, []
        await in_worker(lambda: _refill(pools))


def _refill(pools: Iterable[DrawnAhead]) -> None:
    for pool in pools:
        pool.refill()


_REFILLS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Refills] = WeakKeyDictionary()


@final
class NoiseAhead:
    """One agent's draws in one session.

    Parameters
    ----------
    source : WholeNoise, optional
        `SafeNoise` unless this is a test. `Agent` and `Peer` do not let anyone choose.
    """

    def __init__(self, session: Session, who: int, clock: Clock, source: WholeNoise | None = None) -> None:
        self._source: WholeNoise = source or cast(WholeNoise, _shared())
        self._agent, self._clock = session.lattice_agent(who), clock
        self._size = None if session.components == 1 else session.components
        self._messages = 1 if session.mechanism.shadowed else session.rounds
        self._depth = _DEPTH if session.components <= _LONG else _SHALLOW
        self._pool: DrawnAhead | None = None
        self._taken = 0  # since the pool was full
        self._behind: asyncio.Future[None] | None = None
        self._user = False

    async def prime(self, u: int) -> None:
        """Draw for update u and those after it, before anything can be heard."""
        self._count(True)
        await self._begin(u)

    def ready(self, u: int) -> bool:
        """Whether the draw of update u can be handed out at once."""
        return self._pool is not None and self._pool.ready(u)

    async def draw(self, u: int) -> int | IntArray:
        """Return the draw of update u, once. Ready at once unless updates were skipped or came too fast."""
        if not self.ready(u):
            await self._settle()
            if not self.ready(u):
                await self._begin(u)
            await self._on_grid()
        assert self._pool is not None
        self._taken += 1
        return self._pool.take(u)

    def refill(self) -> None:
        """Draw what comes next, in the background, if half of it is used. Call it after speaking."""
        idle = self._behind is None or self._behind.done()
        if self._pool is not None and idle and 2 * self._taken >= self._depth:
            self._taken = 0
            refills = _REFILLS.setdefault(asyncio.get_running_loop(), _Refills())
            self._behind = refills.begin(self._pool)

    async def close(self) -> None:
        """Throw away what was not used."""
        self._count(False)
        await self._forget()

    def _count(self, here: bool) -> None:
        """Say whether this one uses what is shared."""
        if here != self._user:
            self._user = here
            _shared().count(1 if here else -1)

    async def _forget(self) -> None:
        await self._settle()
        if self._pool is not None:
            self._pool.close()

    async def _begin(self, u: int) -> None:
        await self._forget()
        self._taken = 0
        self._pool = DrawnAhead(
            self._source,
            self._agent.draw_scale,
            size=self._size,
            depth=self._depth,
            first=u,
            messages=self._messages,
        )
        await in_worker(self._pool.refill)

    async def _settle(self) -> None:
        if self._behind is not None:
            await finished(self._behind)
            self._behind = None

    async def _on_grid(self) -> None:
        now = self._clock.now()
        await self._clock.sleep(GRID - now % GRID)
