"""Noise for a machine, drawn before it is needed and off the path from hearing to speaking.

`DrawnAhead` hands out one update after the other. A machine that was away skips updates: then draws are
begun anew, and handed out on a coarse grid of time, so that when it speaks says nothing of how
long they took. Draws that were skipped were never used, so nothing is drawn twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, final

from tacit.noise.ahead import DrawnAhead
from tacit.noise.safe import SafeNoise, WholeNoise
from tacit.runtime.clock import Clock
from tacit.runtime.workers import in_worker

if TYPE_CHECKING:
    from tacit.arrays import IntArray
    from tacit.protocol.session import Session

GRID = 0.1
"""Seconds; draws that were not ready in time are handed out at whole multiples of this."""


@final
class NoiseAhead:
    """One agent's draws in one session.

    Parameters
    ----------
    source : WholeNoise, optional
        `SafeNoise` unless this is a test. `Agent` and `Peer` do not let anyone choose.
    """

    def __init__(self, session: Session, who: int, clock: Clock, source: WholeNoise | None = None) -> None:
        self._source = SafeNoise(threads=1) if source is None else source
        self._agent, self._clock = session.lattice_agent(who), clock
        self._size = None if session.components == 1 else session.components
        self._messages = 1 if session.noise_kind == "one-shot" else session.rounds
        self._pool: DrawnAhead | None = None
        self._behind: asyncio.Future[None] | None = None

    async def prime(self, u: int) -> None:
        """Draw for update u and those after it, before anything can be heard."""
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
        return self._pool.take(u)

    def refill(self) -> None:
        """Draw what comes next, in the background. Call it after speaking."""
        if self._pool is not None and (self._behind is None or self._behind.done()):
            self._behind = asyncio.ensure_future(in_worker(self._pool.refill))

    async def close(self) -> None:
        """Throw away what was not used."""
        await self._settle()
        if self._pool is not None:
            self._pool.close()

    async def _begin(self, u: int) -> None:
        await self.close()
        self._pool = DrawnAhead(
            self._source, self._agent.draw_scale, size=self._size, first=u, messages=self._messages
        )
        await in_worker(self._pool.refill)

    async def _settle(self) -> None:
        if self._behind is not None:
            await self._behind
            self._behind = None

    async def _on_grid(self) -> None:
        now = self._clock.now()
        await self._clock.sleep(GRID - now % GRID)
