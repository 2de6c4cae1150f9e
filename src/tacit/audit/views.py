"""What each adversary sees of an execution or a recorded session.

Every channel; the curious server; a compromised set of agents; all together. The guarantee is against
the last: for an agent that is not compromised, nothing in any view bears on its start but its own
messages and the feedback it heard (`Transcripts.of`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tacit.arrays import as_states
from tacit.audit.likelihood import states
from tacit.audit.transcript import Transcripts
from tacit.errors import StateError
from tacit.mechanism import Execution, Observation


def channels(source: Execution | Transcripts, run: int = 0) -> Observation:
    """What is heard on all wires: x and y."""
    if isinstance(source, Execution):
        return source.channels()
    return Observation(x=source.x[run], y=source.y[run])


def server(source: Execution | Transcripts, run: int = 0) -> Observation:
    """Return the server's state y, for whoever reads its memory but no wire."""
    return source.server() if isinstance(source, Execution) else Observation(y=source.y[run])


def compromised(
    source: Execution | Transcripts,
    agents: Iterable[int],
    starts: npt.ArrayLike | None = None,
    run: int = 0,
) -> Observation:
    """Channels, and the internal states of a compromised set of agents.

    A transcript has no states; those of compromised agents follow from their `starts`, which they
    tell, in the order of their numbers, and from the feedback. One state per slot.
    """
    if isinstance(source, Execution):
        return source.compromised(agents)
    chosen = tuple(sorted({int(i) for i in agents}))
    if chosen and not (0 <= chosen[0] and chosen[-1] < source.mechanism.n):
        raise StateError(f"compromised agents must be numbers from 0 to {source.mechanism.n - 1}.")
    if starts is None:
        raise StateError("compromised agents tell their starts: a transcript alone has no states.")
    told = as_states(starts, len(chosen), "starts") if chosen else np.empty((0, *source.x.shape[3:]))
    one = source[slice(run, run + 1)]
    paths = [states(one.of(agent), start)[0] for agent, start in zip(chosen, told, strict=True)]
    theta = np.stack(paths, axis=1) if paths else np.empty((source.x.shape[1], 0, *source.x.shape[3:]))
    return Observation(x=source.x[run], y=source.y[run], agents=chosen, theta=theta)


def together(*views: Observation) -> Observation:
    """What adversaries know who pool what they saw of one session."""
    x = next((v.x for v in views if v.x is not None), None)
    y = next((v.y for v in views if v.y is not None), None)
    known = {
        agent: v.theta[:, place] for v in views if v.theta is not None for place, agent in enumerate(v.agents)
    }
    agents = tuple(sorted(known))
    theta = np.stack([known[agent] for agent in agents], axis=1) if agents else None
    return Observation(x=x, y=y, agents=agents, theta=theta)
