"""A frozen, sparse, undirected graph: who talks to whom."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from tacit.arrays import FloatArray, IntArray, frozen
from tacit.errors import GraphError

if TYPE_CHECKING:
    import networkx as nx

IndexArray = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An undirected simple graph on agents 0 … n − 1, as compressed sparse rows.

    The neighbours N(i) of agent i are ``indices[indptr[i]:indptr[i + 1]]``, in rising order.
    Make one with `from_edges`, `from_networkx`, `from_sparse`, `from_file`, `from_name`, or
    `load` for a name or a file.

    Attributes
    ----------
    indptr : int64 array, shape (n + 1,)
    indices : int32 array, shape (2 · edges,)
    labels : tuple or None
        What the source called the agents, where that was not 0 … n − 1.
    """

    indptr: IntArray
    indices: IndexArray
    labels: tuple[Hashable, ...] | None = None

    def __post_init__(self) -> None:
        frozen(self.indptr)
        frozen(self.indices)

    def __repr__(self) -> str:
        return f"<Graph {self.n} agents, {self.n_edges} edges>"

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

    def neighbours(self, i: int) -> IndexArray:
        """N(i): the agents that agent i exchanges messages with."""
        return self.indices[self.indptr[i] : self.indptr[i + 1]]

    def label(self, i: int) -> Hashable:
        """What the source called agent i."""
        return i if self.labels is None else self.labels[i]

    def adjacency(self) -> sp.csr_array[np.float64]:
        """Return A as a sparse array: 1 where two agents are neighbours."""
        return sp.csr_array((np.ones(len(self.indices)), self.indices, self.indptr), shape=(self.n, self.n))

    def laplacian(self) -> sp.csr_array[np.float64]:
        """Return L of eq:L_dis as a sparse array: degrees on the diagonal, −1 for neighbours."""
        return sp.csr_array(sp.diags_array(self.degrees.astype(np.float64)) - self.adjacency())

    @cached_property
    def components(self) -> npt.NDArray[np.int32]:
        """For every agent the number of the connected part it belongs to."""
        # int8 ones: the values do not matter, and a million agents should cost little
        pattern = sp.csr_array(
            (np.ones(len(self.indices), dtype=np.int8), self.indices, self.indptr), shape=(self.n, self.n)
        )
        _, part = connected_components(pattern, directed=False)
        return np.asarray(part, dtype=np.int32)

    @property
    def is_connected(self) -> bool:
        """Whether every agent can reach every other."""
        return self.n > 0 and not self.components.any()

    def require_connected(self) -> None:
        """Refuse a graph in two parts, naming two agents that cannot reach each other."""
        if not self.is_connected:
            other = int(np.argmax(self.components != self.components[0]))
            raise GraphError(
                f"the graph must be connected, but agents {self.label(0)} and {self.label(other)} "
                f"cannot reach each other ({int(self.components.max()) + 1} separate parts): values would never agree. "
                "Add edges between the parts, or run each part on its own."
            )

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[int, int]] | npt.ArrayLike, n: int | None = None) -> Graph:
        """Make a graph from pairs of agent numbers.

        Refuses self-loops, duplicate edges (in either order) and numbers outside 0 … n − 1.
        """
        from tacit.graph.sources import from_edges

        return from_edges(edges, n)

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any]) -> Graph:
        """Make a graph from an undirected networkx graph, its node names kept as labels."""
        from tacit.graph.sources import from_networkx

        return from_networkx(graph)

    @classmethod
    def from_sparse(cls, matrix: Any) -> Graph:
        """Make a graph from a symmetric scipy sparse matrix; every stored non-zero is an edge."""
        from tacit.graph.sources import from_sparse

        return from_sparse(matrix)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Graph:
        """Make a graph from an edge-list or GraphML file."""
        from tacit.graph.sources import from_file

        return from_file(path)

    @classmethod
    def from_name(cls, name: str) -> Graph:
        """Make a graph of a named family, like ``ring:100`` or ``regular:1000:8:seed=1``."""
        from tacit.graph.families import from_name

        return from_name(name)

    @classmethod
    def load(cls, name_or_file: str | os.PathLike[str]) -> Graph:
        """Make a graph from a name (``ring:100``) or, if there is such a file, from the file."""
        if os.path.exists(name_or_file):
            return cls.from_file(name_or_file)
        return cls.from_name(os.fspath(name_or_file))

    def to_networkx(self) -> nx.Graph[Any]:
        """Return the graph as networkx has it, with the labels as node names."""
        import networkx as nx

        graph: nx.Graph[Any] = nx.Graph()
        graph.add_nodes_from(self.label(i) for i in range(self.n))
        graph.add_edges_from((self.label(int(i)), self.label(int(j))) for i, j in self.edges())
        return graph

    def edges(self) -> npt.NDArray[np.int64]:
        """Every edge once, as rows (i, j) with i < j."""
        rows = np.repeat(np.arange(self.n), self.degrees)
        keep = rows < self.indices
        return np.column_stack([rows[keep], self.indices[keep]])

    def neighbour_sums(self, x: FloatArray) -> FloatArray:
        """Σ_{j ∈ N(i)} x_j for every agent i, over the first axis of x."""
        return np.asarray(self.adjacency() @ x)
