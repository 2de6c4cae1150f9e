"""The small worlds of Watts and Strogatz."""

from __future__ import annotations

import numpy as np

from tacit.errors import GraphError
from tacit.graph.build import contains, from_keys, pack, require_room
from tacit.graph.core import Graph

_DRAWS = 64
"""Ends drawn for an edge before it is left where it is."""


def smallworld_graph(agents: int, neighbours: int, probability: float, seed: int = 0) -> Graph:
    """A ring where everyone knows the k nearest, and some edges lead far away.

    Each edge is rewired with the given probability: it keeps its first agent and gets a
    uniformly drawn other end, drawn again where that would make a self-loop or a duplicate.
    An edge stays where it is if 64 draws fail, as they do next to an agent that already
    knows nearly all. The graph may come out in parts.
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
