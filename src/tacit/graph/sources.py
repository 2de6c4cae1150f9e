"""Graphs from what users have: edge lists, networkx, scipy, files."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tacit.errors import GraphError
from tacit.graph.core import Graph


def from_edges(edges: Iterable[tuple[int, int]] | npt.ArrayLike, n: int | None = None) -> Graph:
    """Make a graph from pairs of agent numbers (see `Graph.from_edges`)."""
    pairs = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges), dtype=np.int64).reshape(-1, 2)
    size = int(pairs.max()) + 1 if n is None else n
    if (pairs[:, 0] == pairs[:, 1]).any():
        raise GraphError("self-loop")
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    indptr = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(both[:, 0], minlength=size), out=indptr[1:])
    return Graph(indptr, both[:, 1].astype(np.int32))
