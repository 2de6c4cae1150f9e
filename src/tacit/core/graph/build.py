"""Directly to sparse rows, for builders whose edges need no checks.

An edge is packed as one int64 key, its smaller agent in the high half: sorting keys sorts
edges, equal keys are duplicate edges, and nothing larger than 16 bytes per edge is held.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import GraphError
from tacit.base.memory import machine_memory
from tacit.core.graph.core import Graph, IndexArray

MAX_AGENTS = int(np.iinfo(np.int32).max)

Integers = npt.NDArray[np.integer]


def halves(keys: IntArray) -> tuple[IndexArray, IndexArray]:
    """Return the high and the low half of every key, as views into `keys`."""
    pairs = keys.view(np.int32).reshape(-1, 2)
    return (pairs[:, 1], pairs[:, 0]) if sys.byteorder == "little" else (pairs[:, 0], pairs[:, 1])


def pack(i: Integers, j: Integers) -> IntArray:
    """Return one key per edge {i, j}, the same in either order."""
    keys = np.empty(len(i), dtype=np.int64)
    high, low = halves(keys)
    np.minimum(i, j, out=high, casting="same_kind")
    np.maximum(i, j, out=low, casting="same_kind")
    return keys


def contains(ordered: IntArray, keys: IntArray) -> npt.NDArray[np.bool_]:
    """Whether each of `keys` is among the `ordered` ones."""
    place = np.searchsorted(ordered, keys)
    found = place < len(ordered)
    found[found] = ordered[place[found]] == keys[found]
    return found


def from_keys(keys: IntArray, n: int, positions: FloatArray | None = None) -> Graph:
    """Make a graph from rising, distinct keys without self-loops."""
    row, above = halves(keys)
    turned = np.empty_like(keys)
    turned_row, below = halves(turned)
    turned_row[:], below[:] = above, row
    turned.sort()
    # Row i is its smaller neighbours, then its larger ones; each kind is in order already.
    counts = np.column_stack([np.bincount(turned_row, minlength=n), np.bincount(row, minlength=n)])
    is_above = np.repeat(np.tile([False, True], n), counts.ravel())
    indices = np.empty(2 * len(keys), dtype=np.int32)
    indices[is_above] = above
    indices[np.logical_not(is_above, out=is_above)] = below
    return Graph(_row_starts(counts.sum(axis=1)), indices, positions=positions)


def from_pairs(i: Integers, j: Integers, n: int, positions: FloatArray | None = None) -> Graph:
    """Make a graph from distinct edges {i, j}, in any order.

    There must be no self-loops.
    """
    keys = pack(i, j)
    keys.sort()
    return from_keys(keys, n, positions)


def from_rows(
    candidates: Integers,
    present: npt.NDArray[np.bool_] | None = None,
    positions: FloatArray | None = None,
) -> Graph:
    """Make a graph from rows of neighbours in rising order.

    Where `present` is given, only those neighbours count.
    """
    n = len(candidates)
    counts = np.full(n, candidates.shape[1]) if present is None else present.sum(axis=1)
    chosen = candidates.ravel() if present is None else candidates[present]
    return Graph(_row_starts(counts), chosen.astype(np.int32, copy=False), positions=positions)


def _row_starts(counts: npt.NDArray[np.integer]) -> IntArray:
    indptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def require_room(n: int, edges: float, bytes_per_edge: int = 32, instead: str = "") -> None:
    """Refuse a graph that does not fit in memory, before building it."""
    if n > MAX_AGENTS:
        raise GraphError(f"a graph can have at most {MAX_AGENTS} agents, got {n}")
    need = edges * bytes_per_edge + 40 * n
    if need > machine_memory():
        raise GraphError(
            f"{n} agents with about {edges:.3g} edges need about {need / 1e9:.3g} GB of memory, "
            f"and this machine has {machine_memory() / 1e9:.3g} GB{instead}"
        )
