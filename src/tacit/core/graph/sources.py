"""Graphs from objects in memory: pairs of numbers, networkx, scipy.

Everything is checked here, once, so that the rest of the package can trust a `Graph`.
Edge weights other than 1 are kept: the weight of a neighbour's message, relative to 1 for the own message.
Other attributes are not used.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.base.arguments import shown
from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import GraphError
from tacit.core.graph.build import MAX_AGENTS, from_keys, pack
from tacit.core.graph.core import Graph

if TYPE_CHECKING:
    import networkx as nx
    import scipy.sparse as sp


def is_one_graph(given: object) -> bool:
    """Whether this is one graph, and not a list of graphs.

    One can iterate over some graphs, too.
    """
    networkx, sparse = sys.modules.get("networkx"), sys.modules.get("scipy.sparse")
    foreign = (networkx and isinstance(given, networkx.Graph)) or (sparse and sparse.issparse(given))
    return bool(foreign) or isinstance(given, Graph | str | os.PathLike)


def graph_of(given: object) -> Graph:
    """Make a graph from anything that describes one (see `Graph.of`)."""
    if isinstance(given, Graph):
        return given
    if isinstance(given, str | os.PathLike):
        return Graph.load(given)
    # Such an object exists only if its package is loaded: do not load it for everyone else.
    if (networkx := sys.modules.get("networkx")) and isinstance(given, networkx.Graph):
        return from_networkx(given)
    if (sparse := sys.modules.get("scipy.sparse")) and sparse.issparse(given):
        return from_sparse(given)
    if isinstance(given, Iterable) and not isinstance(given, bytes | type):
        return from_edges(given)
    raise GraphError(
        "a graph must be a Graph, a name like 'ring:100', a file, a networkx graph, a scipy sparse matrix or "
        f"pairs of agent numbers, got {shown(given)}. Give one of these."
    )


def from_edges(edges: Iterable[tuple[int, int]] | npt.ArrayLike, n: int | None = None) -> Graph:
    """Make a graph from pairs of agent numbers (see `Graph.from_edges`)."""
    pairs = _as_pairs(edges)
    size = _size(pairs, n)
    i, j = pairs[:, 0], pairs[:, 1]
    outside = ((pairs < 0) | (pairs >= size)).any(axis=1)
    if outside.any():
        k = int(np.argmax(outside))
        numbers = "from 0" if n is None else f"0 to {size - 1}"
        raise GraphError(f"agents must be numbered {numbers}, but edge {k} is ({i[k]}, {j[k]}).")
    if (i == j).any():
        k = int(np.argmax(i == j))
        raise GraphError(
            f"an edge must join two agents, but edge {k} joins agent {i[k]} with itself. "
            "Remove it: an agent counts its own message anyway."
        )
    keys = pack(i, j)
    keys.sort()
    twice = keys[1:] == keys[:-1]
    if twice.any():
        key = keys[1:][np.argmax(twice)]
        first, second = np.flatnonzero(pack(i, j) == key)[:2]
        raise GraphError(
            f"every edge must be given once, but edge {second} ({i[second]}, {j[second]}) is edge {first} "
            "again. Remove one of them; order does not matter."
        )
    return from_keys(keys, size)


def _as_pairs(edges: Iterable[tuple[int, int]] | npt.ArrayLike) -> IntArray:
    """Return the edges as an int64 array of shape (m, 2)."""
    if not isinstance(edges, np.ndarray | Iterable):
        raise GraphError(f"edges must be pairs of agent numbers, got {type(edges).__name__}.")
    given = edges if isinstance(edges, np.ndarray) else list(edges)
    if len(given) == 0:
        return np.empty((0, 2), dtype=np.int64)
    try:
        pairs = np.asarray(given)
    except (ValueError, OverflowError):
        pairs = np.asarray(None)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise GraphError(f"edges must be pairs of agent numbers, {_not_a_pair(given)}.")
    odd = None if pairs.dtype.kind in "iu" else _not_whole(given)
    if odd is not None:
        raise GraphError(
            f"agents must be whole numbers, got {odd}. Convert numbers with astype(int); "
            "for agents with names use from_networkx or from_file."
        )
    if pairs.dtype.kind != "i" and pairs.max() >= MAX_AGENTS:
        raise GraphError(f"agents must have numbers below {MAX_AGENTS}, got {pairs.max()}.")
    return pairs.astype(np.int64, copy=False)


def _not_a_pair(given: Sequence[Any] | npt.NDArray[Any]) -> str:
    if isinstance(given, np.ndarray):
        return f"an array of shape (edges, 2), got shape {given.shape}"
    for k, edge in enumerate(given):
        if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) != 2:
            return f"but edge {k} is {edge!r}"
    return "got entries that are not numbers"


def _not_whole(given: Iterable[Any]) -> str | None:
    """Show the first entry that is not a whole number, if there is one."""
    entries = (entry.item() if isinstance(entry, np.generic) else entry for edge in given for entry in edge)
    odd = (repr(entry) for entry in entries if not isinstance(entry, int) or isinstance(entry, bool))
    return next(odd, None)


def _size(pairs: IntArray, n: int | None) -> int:
    """Return the number of agents: `n`, or as the largest number requires."""
    if n is None:
        if len(pairs) == 0:
            raise GraphError("a graph must have at least one agent: there are no edges, so give n.")
        size = max(int(pairs.max()) + 1, 1)
    else:
        try:
            size = operator.index(n)
        except TypeError:
            size = 0
        if isinstance(n, bool | np.bool_) or size < 1:
            raise GraphError(f"n must be a whole number of at least 1, got {n!r}.")
    if size > MAX_AGENTS:
        raise GraphError(f"a graph can have at most {MAX_AGENTS} agents, got {size}.")
    return size


def from_networkx(graph: nx.Graph[Any]) -> Graph:
    """Make a graph from a networkx graph (see `Graph.from_networkx`).

    Agents are the nodes in the graph's own order. Nodes are kept as labels, unless they are 0 … n − 1 in
    this order.
    """
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise GraphError(f"from_networkx needs a networkx graph, got {type(graph).__name__}.")
    nodes = list(graph)
    return from_ordered_networkx(graph, nodes, None if nodes == list(range(len(nodes))) else tuple(nodes))


def weighted_graph(heard: IntArray, said: IntArray, weight: FloatArray, n: int) -> Graph:
    """Make a graph with weights of messages.

    Agent ``heard[e]`` counts the message of ``said[e]`` ``weight[e]`` times. The entries are clean: no
    self-loops, no pair twice in one direction, weights above 0.
    """
    graph = from_keys(np.unique(pack(heard, said)), n)
    rows = np.repeat(np.arange(n, dtype=np.int64), graph.degrees)
    weights = np.zeros(len(graph.indices))
    weights[np.searchsorted(rows * n + graph.indices, heard.astype(np.int64) * n + said)] = weight
    return graph if (weights == 1).all() else replace(graph, weights=weights)


def require_weights(weight: FloatArray, edge: Callable[[int], str]) -> None:
    """Refuse a weight that is not a positive number, naming its edge."""
    bad = ~(np.isfinite(weight) & (weight > 0))
    if bad.any():
        k = int(np.argmax(bad))
        raise GraphError(
            f"an edge weight must be a positive number, but {edge(k)} has {weight[k]:g}. It says how many "
            "times a neighbour's message counts, the own message counting once. Leave out edges that should "
            "not count."
        )


def from_ordered_networkx(
    graph: nx.Graph[Any], nodes: Iterable[Hashable], labels: tuple[Hashable, ...] | None
) -> Graph:
    """Make a graph whose agent i is the i-th of `nodes`, called by its label."""
    if len(graph) == 0:
        raise GraphError("a graph must have at least one agent, got a networkx graph without nodes.")
    number = {node: i for i, node in enumerate(nodes)}
    seen: set[Hashable] = set()
    for u, v in graph.edges() if graph.is_multigraph() else ():
        if (edge := (u, v) if graph.is_directed() else frozenset((u, v))) in seen:
            raise GraphError(
                f"every edge must be given once, but {u!r} and {v!r} have parallel edges. "
                "Use networkx.Graph(graph)."
            )
        seen.add(edge)
    for u, v in graph.edges():
        if u == v:
            raise GraphError(
                f"an edge must join two agents, but {u!r} is joined with itself. "
                "Remove it: an agent counts its own message anyway."
            )
    flat = (number[node] for edge in graph.edges() for node in edge)
    pairs = np.fromiter(flat, dtype=np.int64, count=2 * graph.number_of_edges()).reshape(-1, 2)
    weight = _weights_of(graph)
    if not graph.is_directed() and (weight == 1).all():
        return replace(from_edges(pairs, len(number)), labels=labels)
    said, heard = pairs.T  # u → v: v hears u
    if not graph.is_directed():
        said, heard, weight = np.r_[said, heard], np.r_[heard, said], np.r_[weight, weight]
    return replace(weighted_graph(heard, said, weight, len(number)), labels=labels)


def _weights_of(graph: nx.Graph[Any]) -> FloatArray:
    """Return the attribute `weight` of every edge, 1 where there is none."""
    ends = list(graph.edges())
    weights = []
    for u, v, weight in graph.edges(data="weight", default=1):
        try:
            weights.append(float(weight))
        except (TypeError, ValueError):
            raise GraphError(
                f"an edge weight must be a number, but edge {u!r}, {v!r} has {weight!r}."
            ) from None
    found = np.array(weights, dtype=np.float64)
    require_weights(found, lambda k: f"edge {ends[k][0]!r}, {ends[k][1]!r}")
    return found


def from_sparse(matrix: Any) -> Graph:
    """Make a graph from a scipy sparse matrix (see `Graph.from_sparse`)."""
    import scipy.sparse as sp

    sparse: bool = sp.issparse(matrix)
    if not sparse:
        raise GraphError(
            f"from_sparse needs a scipy sparse matrix, got {type(matrix).__name__}. "
            "Use scipy.sparse.csr_array(matrix)."
        )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise GraphError(
            f"the matrix must be square, one row and column per agent, got shape {matrix.shape}."
        )
    _size(np.empty((0, 2), dtype=np.int64), matrix.shape[0])
    rows: sp.csr_array[Any, tuple[int, int]] = sp.csr_array(matrix)
    if not rows.has_canonical_format:
        rows = rows.copy()  # the next line works in place
        rows.sum_duplicates()
    edge = rows.data != 0
    i = np.repeat(np.arange(rows.shape[0], dtype=np.int32), np.diff(rows.indptr))[edge]
    j = rows.indices[edge].astype(np.int32, copy=False)
    if (i == j).any():
        raise GraphError(
            f"the diagonal must be zero, but agent {i[np.argmax(i == j)]} is joined with itself. "
            "Remove it: an agent counts its own message anyway."
        )
    weight = np.asarray(rows.data[edge], dtype=np.float64)
    require_weights(weight, lambda k: f"entry ({i[k]}, {j[k]})")
    return weighted_graph(i, j, weight, rows.shape[0])
