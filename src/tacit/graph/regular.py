"""Random regular graphs: the pairing model, repaired by switches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacit.arrays import IntArray
from tacit.errors import GraphError
from tacit.graph.build import contains, from_keys, halves, pack, require_room
from tacit.graph.core import Graph

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
    """Switch bad edges {a, b} with good ones {c, d} to {a, c}, {b, d} where that is clean.

    Returns the keys and the number of switches; each removes at least one bad edge. Degrees do not
    change, and no new self-loop or duplicate is made.
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
    """Join exactly the pairs that are not joined, in blocks of rows to save memory."""
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
