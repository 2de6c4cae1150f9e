"""Preferential attachment, the scale-free graphs of Barabási and Albert."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from tacit.arrays import FloatArray
from tacit.errors import GraphError
from tacit.graph.build import from_pairs, require_room
from tacit.graph.core import Graph, IndexArray

_WORTH_COMPILING = 50_000
"""From this many edges on, compiling the loop saves time."""


def barabasi_graph(agents: int, edges_each: int, seed: int = 0) -> Graph:
    """Agents arrive one by one and join others in proportion to their degrees.

    It starts with agent 0 joined to agents 1 … m; every later agent picks m different earlier
    ones, each drawn in proportion to its degree at that time and drawn again if picked before.
    The graph is connected and has m(n − m) edges.
    """
    m = edges_each
    if not 1 <= m < agents:
        raise GraphError(f"edges each must be at least 1 and below the number of agents, got {m} of {agents}")
    require_room(agents, m * (agents - m))
    rng = np.random.default_rng(seed)
    picked = np.empty(m * (agents - m - 1), dtype=np.int32)
    attach = _compiled() if len(picked) > _WORTH_COMPILING else _attach
    done = 0
    while done < len(picked):
        done = attach(picked, done, m, rng.random(min(len(picked) - done + 64, 2**22)))
    arrivals = np.arange(m + 1, agents, dtype=np.int32)
    i = np.concatenate([np.zeros(m, dtype=np.int32), picked])
    j = np.concatenate([np.arange(1, m + 1, dtype=np.int32), np.repeat(arrivals, m)])
    return from_pairs(i, j, agents)


def _attach(picked: IndexArray, done: int, m: int, draws: FloatArray) -> int:
    """Fill `picked` from place `done` on until it is full or the draws are used up.

    An agent of degree d occurs d times in the list of all edges' ends, so a uniform place in
    it is a draw in proportion to degree. The list is not stored: it consists of blocks of 2m ends,
    the m picked by an arrival and m times the arrival itself, after one block for the start.
    """
    for draw in draws:
        if done == len(picked):
            break
        arrival = done // m
        place = int(draw * (2 * m * (arrival + 1)))
        block = place // (2 * m)
        offset = place % (2 * m)
        if block == 0:
            agent = 0 if offset < m else offset - m + 1
        elif offset < m:
            agent = picked[(block - 1) * m + offset]
        else:
            agent = m + block
        for k in range(arrival * m, done):
            if picked[k] == agent:
                break
        else:
            picked[done] = agent
            done += 1
    return done


@cache
def _compiled() -> Callable[[IndexArray, int, int, FloatArray], int]:
    import numba

    return numba.njit()(_attach)
