"""The small worlds of Watts and Strogatz."""

from __future__ import annotations

import numpy as np

from tacit.errors import GraphError
from tacit.graph.build import contains, from_keys, pack, require_room
from tacit.graph.core import Graph

_DRAWS = 64
"""Attempts to rewire an edge before it is left unchanged."""


def smallworld_graph(agents: int, neighbours: int, probability: float, seed: int = 0) -> Graph:
    """A ring in which every agent is joined to the k nearest, and some edges are rewired.

    Each edge is rewired with the given probability: it keeps its first agent and gets a
    uniformly drawn other end, drawn again where that would make a self-loop or a duplicate.
    An edge is left unchanged if 64 draws fail, as happens next to an agent that is already joined to
    nearly all. The graph may be disconnected.
    """
    if neighbours < 2 or neighbours % 2 or neighbours >= agents:
        raise GraphError(
            f"neighbours must be even (as many on each side), at least 2 and below the number of agents, "
            f"got {neighbours} of {agents}"
        )
    if not 0 <= probability <= 1:
        raise GraphError(f"the probability must be from 0 to 1, got {probability}")
    require_room(agents, agents * neighbours / 2)
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(agents, dtype=np.int32), neighbours // 2)
    ahead = np.tile(np.arange(1, neighbours // 2 + 1, dtype=np.int64), agents)
    keys = pack(source, (source + ahead) % agents)
    pending = np.flatnonzero(rng.random(len(keys)) < probability)
    for _ in range(_DRAWS):
        if not len(pending):
            break
        end = rng.integers(agents, size=len(pending), dtype=np.int32)
        proposed = pack(source[pending], end)
        first = np.zeros(len(pending), dtype=np.bool_)
        first[np.unique(proposed, return_index=True)[1]] = True
        clean = first & (end != source[pending]) & ~contains(np.sort(keys), proposed)
        keys[pending[clean]] = proposed[clean]
        pending = pending[~clean]
    keys.sort()
    return from_keys(keys, agents)
