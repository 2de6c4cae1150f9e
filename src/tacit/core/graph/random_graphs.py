"""Families of random graphs.

The same arguments, seed included, give the same graph. Regular graphs (pairing model, repaired by switches),
G(n, p) of Gilbert, Erdős and Rényi, preferential attachment of Barabási and Albert, small worlds of Watts and
Strogatz, and geometric graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import GraphError
from tacit.core.graph.build import contains, from_keys, from_pairs, halves, pack, require_room
from tacit.core.graph.core import Graph, IndexArray

_PATIENCE = 100
"""After this many rounds of switches without progress, start over."""


def regular_graph(agents: int, degree: int, seed: int = 0) -> Graph:
    """Every agent has exactly `degree` neighbours, drawn at random.

    The ends of all edges are paired at random; the few pairs that are self-loops or duplicates
    (about (d² − 1)/4, for any number of agents) are switched with random edges until there are
    none. For a fixed degree this is uniform in the limit of many agents (Janson, "Random graphs
    with given vertex degrees and switchings", 2020); for few it is not exactly uniform.
    """
    if not 1 <= degree < agents:
        raise GraphError(
            f"the degree must be at least 1 and below the number of agents, got {degree} of {agents}"
        )
    if agents * degree % 2:
        raise GraphError(
            f"agents times degree must be even (an edge has two ends), got {agents} times {degree}"
        )
    require_room(agents, agents * degree / 2)
    rng = np.random.default_rng(seed)
    if 2 * degree < agents:
        return from_keys(_simple_pairing(agents, degree, rng), agents)
    # With more than half of all pairs, switches rarely succeed: draw the complement instead.
    return _complement(from_keys(_simple_pairing(agents, agents - 1 - degree, rng), agents))


def _simple_pairing(n: int, degree: int, rng: np.random.Generator) -> IntArray:
    """Return the rising keys of a simple regular graph."""
    while True:
        ends = np.repeat(np.arange(n, dtype=np.int32), degree)
        rng.shuffle(ends)
        keys = pack(ends[::2], ends[1::2])
        del ends  # a third of the memory at this point
        keys.sort()
        patience = _PATIENCE
        while patience and (bad := _bad(keys)).size:
            keys, done = _switched(keys, bad, rng)
            patience = _PATIENCE if done else patience - 1
        if patience:
            return keys


def _bad(keys: IntArray) -> IntArray:
    """Where the self-loops are, and the second and later copies of an edge."""
    high, low = halves(keys)
    bad = high == low
    bad[1:] |= keys[1:] == keys[:-1]
    return np.flatnonzero(bad)


def _switched(keys: IntArray, bad: IntArray, rng: np.random.Generator) -> tuple[IntArray, int]:
    """Switch bad edges with good ones, where the result is clean.

    Edges {a, b} and {c, d} become {a, c} and {b, d}. Returns the keys and the number of switches; each
    removes at least one bad edge. Degrees do not change, and no new self-loop or duplicate is made.
    """
    other = rng.integers(len(keys), size=len(bad))
    high, low = halves(keys)
    a, b = high[bad], low[bad]
    flip = rng.random(len(bad)) < 0.5
    c, d = np.where(flip, low[other], high[other]), np.where(flip, high[other], low[other])
    one, two = pack(a, c), pack(b, d)
    clean = (a != c) & (b != d) & ~contains(keys, one) & ~contains(keys, two)
    clean &= _alone(other) & ~contains(bad, other)
    # Two switches of one round must not make the same edge either.
    both = _alone(np.concatenate([one, two])).reshape(2, -1)
    clean &= both[0] & both[1]
    kept = np.delete(keys, np.concatenate([bad[clean], other[clean]]))
    fresh = np.sort(np.concatenate([one[clean], two[clean]]))
    return np.insert(kept, np.searchsorted(kept, fresh), fresh), int(clean.sum())


def _alone(values: IntArray) -> npt.NDArray[np.bool_]:
    """Whether each value occurs only once."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.equal(counts[place], 1)


def _complement(graph: Graph) -> Graph:
    """Join exactly the pairs that are not joined.

    Rows are made in blocks, to save memory.
    """
    n = graph.n
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(n - 1 - graph.degrees, out=indptr[1:])
    indices = np.empty(indptr[-1], dtype=np.int32)
    step = max(1, 2**24 // n)
    for start in range(0, n, step):
        stop = min(start + step, n)
        free = np.ones((stop - start, n), dtype=np.bool_)
        rows = np.repeat(np.arange(stop - start), graph.degrees[start:stop])
        free[rows, graph.indices[graph.indptr[start] : graph.indptr[stop]]] = False
        free[np.arange(stop - start), np.arange(start, stop)] = False
        indices[indptr[start] : indptr[stop]] = np.nonzero(free)[1]
    return Graph(indptr, indices)


_BATCH = 2**24
"""Maximum number of gaps drawn together, to bound the memory."""


def erdos_graph(agents: int, probability: float, seed: int = 0) -> Graph:
    """Every pair of agents is joined with the same probability, independently.

    Pairs are numbered row by row, and the gaps between chosen pairs are geometric, so the work is
    proportional to the edges, not to the pairs. The graph may be disconnected.
    """
    if agents < 1:
        raise GraphError(f"there must be at least 1 agent, got {agents}")
    if not 0 <= probability <= 1:
        raise GraphError(f"the probability must be from 0 to 1, got {probability}")
    total = agents * (agents - 1) // 2
    require_room(agents, total * probability, 48)
    chosen = _chosen(total, probability, np.random.default_rng(seed))
    # Row i holds the pairs (i, 0) … (i, i − 1) and starts at i(i − 1)/2.
    i = np.arange(agents, dtype=np.int64)
    starts = i * (i - 1) // 2
    row = np.searchsorted(starts, chosen, side="right") - 1
    return from_pairs(row, chosen - starts[row], agents)


def _chosen(total: int, probability: float, rng: np.random.Generator) -> IntArray:
    """Return which of `total` trials succeed, in rising order."""
    if probability == 0:
        return np.empty(0, dtype=np.int64)
    parts: list[IntArray] = []
    last = -1
    while True:
        expected = (total - 1 - last) * probability
        gaps = rng.geometric(probability, size=min(int(expected + 4 * expected**0.5) + 16, _BATCH))
        places = last + np.cumsum(gaps)
        past = (places >= total) | (places < 0)  # a sum beyond the largest integer is negative
        if past.any():
            parts.append(places[: np.argmax(past)])
            return np.concatenate(parts)
        parts.append(places)
        last = int(places[-1])


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
    """Fill `picked` from place `done` on.

    It stops when `picked` is full or the draws are used up. An agent of degree d occurs d times in the list
    of all edges' ends, so a uniform place in it is a draw in proportion to degree. The list is not stored: it
    consists of blocks of 2m ends, the m picked by an arrival and m times the arrival itself, after one block
    for the start.
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


_DRAWS = 64
"""Attempts to rewire an edge before it is left unchanged."""


def smallworld_graph(agents: int, neighbours: int, probability: float, seed: int = 0) -> Graph:
    """Return a ring of near neighbours with some edges rewired.

    Every agent is joined to the k nearest. Each edge is rewired with the given probability: it keeps its
    first agent and gets a uniformly drawn other end, drawn again where that would make a self-loop or a
    duplicate. An edge is left unchanged if 64 draws fail, as happens next to an agent that is already joined
    to nearly all. The graph may be disconnected.
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


def geometric_graph(agents: int, radius: float, seed: int = 0) -> Graph:
    """Agents at random places in the unit square, joined within a radius.

    The graph keeps the places as `positions`. It may be disconnected.
    """
    if agents < 1:
        raise GraphError(f"there must be at least 1 agent, got {agents}")
    if not (math.isfinite(radius) and radius >= 0):
        raise GraphError(f"the radius must be a number of at least 0, got {radius}")
    require_room(agents, agents * (agents - 1) / 2 * min(1.0, math.pi * radius**2), 80)
    from scipy.spatial import KDTree

    positions = np.random.default_rng(seed).random((agents, 2))
    pairs = KDTree(positions).query_pairs(radius, output_type="ndarray")
    return from_pairs(pairs[:, 0], pairs[:, 1], agents, positions)
