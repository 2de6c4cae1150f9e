"""A frozen, sparse, undirected graph: who talks to whom."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tacit.base.arguments import path_text
from tacit.base.arrays import ByValue, FloatArray, IntArray, by_label, frozen
from tacit.base.errors import GraphError

if TYPE_CHECKING:
    import networkx as nx
    import numpy.typing as npt
    import pandas as pd
    import scipy.sparse as sp  # loaded when first used: an agent of a server never does

    from tacit.base.report import Summary

IndexArray: TypeAlias = "npt.NDArray[np.int32]"
GraphLike: TypeAlias = (
    "Graph | str | os.PathLike[str] | nx.Graph[Any] | sp.sparray | sp.spmatrix | npt.NDArray[np.integer[Any]]"
    " | Iterable[tuple[int, int]]"
)
"""Anything that `Graph.of` makes a graph from."""


@dataclass(frozen=True, eq=False, repr=False)
class Graph(ByValue):
    """An undirected simple graph on agents 0 … n − 1.

    It is stored as compressed sparse rows. The neighbours N(i) of agent i are ``indices[indptr[i]:indptr[i +
    1]]``, in rising order. Make one with `from_edges`, `from_networkx`, `from_sparse`, `from_file`,
    `from_name`, or `load` for a name or a file: they check what they are given. The constructor takes over
    the arrays it is given, makes them read-only and does not check that they are a graph.

    Attributes
    ----------
    indptr : int64 array, shape (n + 1,)
    indices : int32 array, shape (2 · edges,)
    labels : tuple or None
        The source's names of the agents, if they were not 0 … n − 1.
    positions : float64 array, shape (n, 2), or None
        Positions of the agents in the plane, for families that have them (grid, geometric).
    weights : float64 array, shape (2 · edges,), or None
        Edge weights, if the source has them: the weight of a neighbour's message, relative to 1 for the own
        message. In the order of `indices`. The two directions of an edge may differ; 0 if the source is
        directed and has no edge in that direction.
    """

    indptr: IntArray
    indices: IndexArray
    labels: tuple[Hashable, ...] | None = None
    positions: FloatArray | None = None
    weights: FloatArray | None = None

    def __post_init__(self) -> None:
        for array in (self.indptr, self.indices, self.positions, self.weights):
            if array is not None:
                frozen(array)

    def __reduce__(self) -> tuple[Any, ...]:
        # Without this a copy would include the caches, and its arrays would be writable.
        return Graph, (self.indptr, self.indices, self.labels, self.positions, self.weights)

    def __repr__(self) -> str:
        return f"<Graph {self.n} agents, {self.n_edges} edges>"

    def _summary(self) -> Summary:
        from tacit.base.report import Row, Summary

        parts, counts = int(self.components.max()) + 1 if self.n else 0, self.degree_counts()
        rows = [
            Row("agents", f"{self.n:,}"),
            Row("edges", f"{self.n_edges:,}"),
            Row("parts", f"{parts:,}", "1 if every agent can reach every other"),
            Row("degrees", f"{min(counts, default=0)} to {max(counts, default=0)}"),
            Row("weights", "none" if self.weights is None else "on edges"),
        ]
        return Summary("Graph", {"": rows})

    def _repr_html_(self) -> str:
        from tacit.base.report import html

        return html(self._summary())

    def to_latex(self) -> str:
        """Return size, parts and degrees as a table for a paper.

        It needs no LaTeX package.
        """
        from tacit.base.report import latex

        return latex(self._summary())

    def to_dataframe(self) -> pd.DataFrame:
        """Return the edges as a pandas table.

        It says who hears whom (by label), and the weight, 1 if there is none. Every edge has two rows, one
        for each end that hears the other.
        """
        from tacit.base.report import dataframe

        names = self.names
        hears = np.repeat(np.arange(self.n), self.degrees).tolist()
        weights = np.ones(len(self.indices)) if self.weights is None else self.weights
        columns = {
            "hears": [names[i] for i in hears],
            "heard": [names[j] for j in self.indices.tolist()],
            "weight": weights.tolist(),
        }
        return dataframe(columns)

    @property
    def n(self) -> int:
        """Number of agents N."""
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        """Number of undirected edges."""
        return len(self.indices) // 2

    @cached_property
    def degrees(self) -> IntArray:
        """|N(i)| of every agent."""
        degrees = np.diff(self.indptr)
        frozen(degrees)
        return degrees

    def degree_counts(self) -> dict[int, int]:
        """How many agents have each degree that occurs, in rising order of degree."""
        counts = np.bincount(self.degrees)
        present = np.flatnonzero(counts)
        return dict(zip(present.tolist(), counts[present].tolist(), strict=True))

    def neighbours(self, i: int) -> IndexArray:
        """N(i): the agents that agent i exchanges messages with."""
        self._require_agent(i)
        return self.indices[self.indptr[i] : self.indptr[i + 1]]

    def label(self, i: int) -> Hashable:
        """The source's name of agent i."""
        self._require_agent(i)
        return i if self.labels is None else self.labels[i]

    def _require_agent(self, i: int) -> None:
        # A negative number would silently read the rows from the end.
        if not 0 <= i < self.n:
            raise GraphError(f"agents are numbered 0 to {self.n - 1}, got {i}.")

    @cached_property
    def _adjacency(self) -> sp.csr_array[np.float64]:
        # Kept, at 16 bytes per edge: a round is one product with it.
        ones = np.ones(len(self.indices))
        # scipy wants one type for both index arrays: without this it would copy `indices` as int64.
        fits = len(self.indices) <= np.iinfo(np.int32).max
        indptr = self.indptr.astype(np.int32) if fits else self.indptr
        frozen(ones)
        frozen(indptr)
        import scipy.sparse as sp

        return sp.csr_array((ones, self.indices, indptr), shape=(self.n, self.n))

    def adjacency(self) -> sp.csr_array[np.float64]:
        """Return A as a sparse array: 1 where two agents are neighbours.

        Its arrays are shared with the graph and read-only: `copy` it to change it.
        """
        import scipy.sparse as sp

        return sp.csr_array(self._adjacency)  # a new wrapper: setdiag and others would change ours

    def laplacian(self) -> sp.csr_array[np.float64]:
        """Return L of eq:L_dis as a sparse array.

        It has degrees on the diagonal, and −1 for neighbours.
        """
        import scipy.sparse as sp

        return sp.csr_array(sp.diags_array(self.degrees.astype(np.float64)) - self.adjacency())

    @cached_property
    def components(self) -> IndexArray:
        """For every agent the number of the connected part it belongs to.

        Parts are numbered in the order of their first agents, so agent 0 is in part 0.
        """
        from tacit.core.graph.components import label_components

        part = label_components(self.indptr, self.indices)
        frozen(part)
        return part

    @property
    def is_connected(self) -> bool:
        """Whether every agent can reach every other."""
        return self.n > 0 and not self.components.any()

    def require_connected(self) -> None:
        """Refuse a graph in two parts.

        The error names two agents that cannot reach each other.
        """
        if not self.is_connected:
            other = int(np.argmax(self.components != self.components[0]))
            raise GraphError(
                f"the graph must be connected, but agents {self.label(0)} and {self.label(other)} "
                f"cannot reach each other ({int(self.components.max()) + 1} separate parts): "
                "values would never agree. Add edges between the parts, or run each part on its own."
            )

    @classmethod
    def of(cls, given: GraphLike) -> Graph:
        """Make a graph from anything that describes one.

        Every function that takes a graph does this.

        Parameters
        ----------
        given : Graph, str, path, networkx graph, scipy sparse matrix, or pairs of agent numbers
            A text is a name like ``ring:100``, or a file if there is one of that name.

        Examples
        --------
        >>> Graph.of("ring:4"), Graph.of([(0, 1), (1, 2)])
        (<Graph 4 agents, 4 edges>, <Graph 3 agents, 2 edges>)
        """
        from tacit.core.graph.sources import graph_of

        return graph_of(given)

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[int, int]] | npt.ArrayLike, n: int | None = None) -> Graph:
        """Make a graph from pairs of agent numbers.

        They may be an array of shape (edges, 2). Refuses self-loops, duplicate edges (in either order) and
        numbers outside 0 … n − 1. Without `n`, the largest number determines the number of agents.
        """
        from tacit.core.graph.sources import from_edges

        return from_edges(edges, n)

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any]) -> Graph:
        """Make a graph from a networkx graph, its node names kept as labels.

        Agent i is the i-th node in the graph's own order (``list(graph)``), whatever the nodes are called.
        Edge attributes ``weight`` other than 1 are kept as `weights`. An edge u → v of a directed graph
        means that v hears u.
        """
        from tacit.core.graph.sources import from_networkx

        return from_networkx(graph)

    @classmethod
    def from_sparse(cls, matrix: Any) -> Graph:
        """Make a graph from a scipy sparse matrix.

        A non-zero entry (i, j) is an edge: i hears j. Entries other than 1, or a matrix that is not
        symmetric, are kept as `weights`.
        """
        from tacit.core.graph.sources import from_sparse

        return from_sparse(matrix)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Graph:
        """Make a graph from an edge-list or GraphML file.

        Agents are in the order of their numbers, or of their names. The formats are in
        `tacit.core.graph.files`.
        """
        from tacit.core.graph.files import from_file

        return from_file(path)

    @classmethod
    def from_name(cls, name: str) -> Graph:
        """Make a graph of a named family.

        A name is like ``ring:100`` or ``regular:1000:8:seed=1``.
        """
        from tacit.core.graph.families import from_name

        return from_name(name)

    @classmethod
    def load(cls, name_or_file: str | os.PathLike[str]) -> Graph:
        """Make a graph from a name (``ring:100``) or from a file.

        If there is a file of that name, it is read.
        """
        path_text("the name or file of a graph", name_or_file, GraphError)
        is_file = os.path.exists(name_or_file) and not os.path.isdir(name_or_file)
        if is_file or not isinstance(name_or_file, str):
            return cls.from_file(name_or_file)
        return cls.from_name(name_or_file)

    def in_order(self, given: Any) -> Any:
        """Return labelled numbers in the order of the agents.

        Parameters
        ----------
        given : mapping, pandas Series or DataFrame
            One entry for each agent, by its label. Anything else is returned as it is.

        Examples
        --------
        >>> import networkx as nx
        >>> Graph.of(nx.Graph([("b", "a")])).in_order({"a": 1, "b": 2})
        [2, 1]
        """
        return by_label(given, self.names, "numbers")

    @cached_property
    def sha256(self) -> str:
        """A hash of edges, weights and labels: equal graphs have the same."""
        made = hashlib.sha256(np.int64(self.n).tobytes())
        for array in (self.indptr, self.indices, self.weights):
            made.update(b"none" if array is None else array.tobytes())
        made.update(repr(self.labels).encode())
        return made.hexdigest()

    @property
    def names(self) -> Sequence[Hashable]:
        """The labels of the agents in their order, 0 … n − 1 if there are none."""
        return range(self.n) if self.labels is None else self.labels

    def to_networkx(self) -> nx.Graph[Any]:
        """Return the graph as a networkx graph, with the labels as node names."""
        import networkx as nx

        names = self.names
        graph: nx.Graph[Any] = nx.Graph()
        graph.add_nodes_from(names)
        graph.add_edges_from((names[i], names[j]) for i, j in self.edges().tolist())
        if self.weights is None:
            return graph
        rows = np.repeat(np.arange(self.n), self.degrees).tolist()
        heard = zip(rows, self.indices.tolist(), self.weights.tolist(), strict=True)
        weighted: nx.Graph[Any] = nx.Graph() if self.is_symmetric else nx.DiGraph()
        weighted.add_nodes_from(names)
        weighted.add_weighted_edges_from((names[j], names[i], weight) for i, j, weight in heard if weight)
        return weighted

    def turned(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return each value from the other direction of its edge.

        There is one value per entry of `indices`.
        """
        return values[np.argsort(self.indices, kind="stable")]

    @property
    def is_symmetric(self) -> bool:
        """Whether both ends of every edge give each other the same weight."""
        return self.weights is None or bool(np.array_equal(self.weights, self.turned(self.weights)))

    def edges(self) -> IntArray:
        """Every edge once, as rows (i, j) with i < j, in rising order."""
        rows = np.repeat(np.arange(self.n, dtype=np.int32), self.degrees)
        keep = rows < self.indices
        return np.column_stack([rows[keep], self.indices[keep]]).astype(np.int64)

    def neighbour_sums(self, x: FloatArray) -> FloatArray:
        """Σ_{j ∈ N(i)} x_j for every agent i, over the first axis of x."""
        flat = x if x.ndim <= 2 else x.reshape(self.n, -1)
        return np.asarray(self._adjacency @ flat).reshape(x.shape)
