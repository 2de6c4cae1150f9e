"""Connected parts, in a few passes over arrays of one number per agent.

Trees of agents are joined at their roots and flattened until no edge leads from one tree to
another. Most edges need not be visited (after Sutton, Ben-Nun and Barak, "Optimizing parallel
graph connectivity computation via subgraph sampling", IPDPS 2018): two edges of every agent
nearly always leave one giant tree, and then only the edges of agents outside it matter,
because every edge is stored at both its ends.
"""

from __future__ import annotations

import numpy as np

from tacit.base.arrays import IntArray
from tacit.core.graph.core import IndexArray

_CHUNK = 2**24
"""Maximum number of edges' ends processed together, to bound the memory."""


def label_components(indptr: IntArray, indices: IndexArray) -> IndexArray:
    """Return for every agent the number of its part.

    Parts are numbered in the order of their first agents.
    """
    n = len(indptr) - 1
    tree = np.arange(n, dtype=np.int32)
    for k in range(2):
        rows = np.flatnonzero(np.diff(indptr) > k).astype(np.int32)
        _join(tree, rows, indices[indptr[rows] + k])
    giant = np.argmax(np.bincount(tree, minlength=1))
    outside = np.flatnonzero(tree != giant).astype(np.int32)
    for rows in _chunks(outside, indptr):
        counts = indptr[rows + 1] - indptr[rows]
        skipped = indptr[rows] - (np.cumsum(counts) - counts)
        _join(tree, np.repeat(rows, counts), indices[np.repeat(skipped, counts) + np.arange(counts.sum())])
    is_first = tree == np.arange(n)
    return (np.cumsum(is_first, dtype=np.int32) - 1)[tree]


def _join(tree: IndexArray, i: IndexArray, j: IndexArray) -> None:
    """Make one tree of the trees at the ends of every edge {i, j}, in place.

    A root is the smallest agent of its tree, and every agent points at its root.
    """
    while True:
        i, j = tree[i], tree[j]
        apart = i != j
        if not apart.any():
            return
        i, j = i[apart], j[apart]
        # The smallest root wins: an arbitrary one would take n passes on a star with a late hub.
        np.minimum.at(tree, np.maximum(i, j), np.minimum(i, j))
        while not np.array_equal(tree, above := tree[tree]):
            tree[:] = above


def _chunks(rows: IndexArray, indptr: IntArray) -> list[IndexArray]:
    """Split the rows into pieces, to bound the memory.

    A piece has at most `_CHUNK` ends of edges, or a single row.
    """
    ends = np.cumsum(indptr[rows + 1] - indptr[rows])
    if not len(rows) or ends[-1] <= _CHUNK:
        return [rows]
    return np.split(rows, np.searchsorted(ends, np.arange(_CHUNK, ends[-1], _CHUNK)))
