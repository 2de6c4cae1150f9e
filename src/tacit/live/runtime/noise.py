"""Noise for a machine, drawn before it is needed.

No draw is made between receiving and sending. A machine that was disconnected skips updates. Then the pool
starts over (`DrawnAhead.begin`), and draws are released at coarse time steps, so that the time of a message
does not reveal how long sampling took. Skipped draws were never used, so nothing is drawn twice. The host
decides when draws are made (`tacit.live.runtime.host`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tacit.core.noise.ahead import DrawnAhead
from tacit.core.noise.safe import SafeGaussian, WholeNoise, source_of

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session

GRID = 0.1
"""Seconds; draws that were not ready in time are released at whole multiples of this."""
_DEPTH, _SHALLOW, _LONG = 16, 4, 8192
"""Number of updates to draw for ahead of time; the second if a message has over `_LONG` components."""


@cache
def _gaussian() -> SafeGaussian:
    """Return the source of all keepers of series in this process."""
    return SafeGaussian()


def noise_of_series(session: Session, source: WholeNoise | None = None) -> DrawnAhead:
    """Return one keeper's draws in a series: discrete Gaussian.

    There is one for each slot and component. Each component needs its own: the sensitivity is in the L2 norm.
    """
    series = session.series
    assert series is not None
    deviation = series.steps
    return DrawnAhead(
        source or _gaussian(),
        lambda _: deviation,
        size=None if session.components == 1 else session.components,
        depth=_SHALLOW,
        messages=series.slots,
    )


def noise_ahead(session: Session, who: int, source: WholeNoise | None = None) -> DrawnAhead:
    """Return the pool of one agent's draws in one session, still empty.

    The source is one of `tacit.core.noise.safe`, except in tests. Users of `Agent` cannot choose another one.
    Machines of one process share it, so that their draws can be made in one call.
    """
    agent = session.lattice_agent(who)
    return DrawnAhead(
        source or source_of(agent, session.adjacency),
        agent.draw_scale,
        size=None if session.components == 1 else session.components,
        depth=_DEPTH if session.components <= _LONG else _SHALLOW,
        messages=1 if session.mechanism.shadowed else session.rounds,
    )
