"""Noise for a machine, drawn before it is needed and off the path from hearing to speaking.

`DrawnAhead` hands out one update after the other. A machine that was away skips updates: then draws are
begun anew (`begin`), and handed out on a coarse grid of time, so that when it speaks says nothing of how
long they took. Draws that were skipped were never used, so nothing is drawn twice. Who waits for draws and
when they are made is the host's business (`tacit.runtime.host`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, final

from tacit.noise.ahead import DrawnAhead
from tacit.noise.safe import SafeNoise, WholeNoise

if TYPE_CHECKING:
    from tacit.arrays import IntArray
    from tacit.protocol.session import Session

GRID = 0.1
"""Seconds; draws that were not ready in time are handed out at whole multiples of this."""
_DEPTH, _SHALLOW, _LONG = 16, 4, 8192
"""Number of updates drawn for ahead of time, or fewer if a message has more components than `_LONG`."""


@cache
def _source() -> SafeNoise:
    """Return the source of all machines of this process: draws of one source are made together."""
    return SafeNoise(threads=1)


@final
class NoiseAhead:
    """One agent's draws in one session.

    Parameters
    ----------
    source : WholeNoise, optional
        `SafeNoise` unless this is a test. `Agent` and `Peer` do not let anyone choose.
    """

    def __init__(self, session: Session, who: int, source: WholeNoise | None = None) -> None:
        self._source: WholeNoise = source or _source()
        self._agent = session.lattice_agent(who)
        self._size = None if session.components == 1 else session.components
        self._messages = 1 if session.mechanism.shadowed else session.rounds
        self._depth = _DEPTH if session.components <= _LONG else _SHALLOW
        self._taken = 0  # since the pool was full
        self.pool = self._pool(0)
        """The draws, to be filled before the first is taken."""

    def begin(self, u: int) -> None:
        """Throw away what was drawn, and draw for update u and those after it."""
        self.pool.close()
        self._taken, self.pool = 0, self._pool(u)

    def ready(self, u: int) -> bool:
        """Whether the draw of update u can be handed out at once."""
        return self.pool.ready(u)

    def take(self, u: int) -> int | IntArray:
        """Return the draw of update u, once. Never draws, never waits."""
        draw = self.pool.take(u)
        self._taken += 1
        return draw

    def low(self) -> bool:
        """Whether half of the draws are used. Asked again it says no, until half of the next are."""
        low = 2 * self._taken >= self._depth
        if low:
            self._taken = 0
        return low

    def close(self) -> None:
        """Throw away what was not used."""
        self.pool.close()

    def _pool(self, u: int) -> DrawnAhead:
        return DrawnAhead(
            self._source,
            self._agent.draw_scale,
            size=self._size,
            depth=self._depth,
            first=u,
            messages=self._messages,
        )
