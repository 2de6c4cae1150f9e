"""Graphs that are built part by part, a range of agents at a time.

`tacit.simulation.partition` splits a graph into ranges of agents, and each worker builds its own range.
Any picklable object with `n` and `neighbours(lo, hi)` works. This module has graphs given by formulas, and
one that reads a pair of files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tacit.arrays import IntArray
from tacit.errors import FileError, GraphError
from tacit.graph import Graph


class Rows(Protocol):
    """The rows of an undirected simple graph on agents 0 … n − 1."""

    @property
    def n(self) -> int:
        """Number of agents."""

    def neighbours(self, lo: int, hi: int) -> tuple[IntArray, IntArray | npt.NDArray[np.int32]]:
        """Return N(i) of agents lo ≤ i < hi, as (indptr, indices).

        Each row is in rising order.
        """


@dataclass(frozen=True)
class RingRows:
    """The graph ``ring:AGENTS``, by formula."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 3:
            raise GraphError(f"a ring must have at least 3 agents, got {self.n}.")

    def neighbours(self, lo: int, hi: int) -> tuple[IntArray, IntArray]:
        """See `Rows.neighbours`."""
        i = np.arange(lo, hi)
        return _regular(np.column_stack([(i - 1) % self.n, (i + 1) % self.n]))


@dataclass(frozen=True)
class TorusRows:
    """The graph ``torus:ROWSxCOLUMNS``, by formula."""

    rows: int
    columns: int

    def __post_init__(self) -> None:
        if min(self.rows, self.columns) < 3:
            raise GraphError(f"both sides must be at least 3, got {self.rows}x{self.columns}.")

    @property
    def n(self) -> int:
        """Number of agents."""
        return self.rows * self.columns

    def neighbours(self, lo: int, hi: int) -> tuple[IntArray, IntArray]:
        """See `Rows.neighbours`."""
        i = np.arange(lo, hi)
        row = i - i % self.columns
        sideways = [row + (i - 1) % self.columns, row + (i + 1) % self.columns]
        return _regular(
            np.column_stack([(i - self.columns) % self.n, (i + self.columns) % self.n, *sideways])
        )


@dataclass(frozen=True)
class StoredRows:
    """A graph in a folder that every worker can read.

    Its files ``indptr.npy`` and ``indices.npy`` have integer arrays as in `Graph`, each row in rising order.
    Only the required rows are read.
    """

    folder: str

    @property
    def n(self) -> int:
        """Number of agents."""
        return len(self._array("indptr")) - 1

    def neighbours(self, lo: int, hi: int) -> tuple[IntArray, IntArray]:
        """See `Rows.neighbours`."""
        ends = np.array(self._array("indptr")[lo : hi + 1], dtype=np.int64)
        return ends - ends[0], np.array(self._array("indices")[ends[0] : ends[-1]], dtype=np.int64)

    def _array(self, name: str) -> IntArray:
        path = os.path.join(self.folder, f"{name}.npy")
        try:
            array: IntArray = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise FileError(
                f"{path!r} must be an array that numpy.save wrote, and every worker must reach it."
            ) from error
        return array


@dataclass(frozen=True, eq=False)
class SlicedRows:
    """Rows lo ≤ i < hi of a graph on this machine, to be sent to another."""

    n: int
    indptr: IntArray
    indices: npt.NDArray[np.int32]

    @classmethod
    def of(cls, graph: Graph, lo: int, hi: int) -> SlicedRows:
        """Cut a range of agents out of a graph."""
        ends = graph.indptr[lo : hi + 1]
        return cls(graph.n, ends - ends[0], graph.indices[ends[0] : ends[-1]])

    def neighbours(self, lo: int, hi: int) -> tuple[IntArray, npt.NDArray[np.int32]]:
        """See `Rows.neighbours`; the range must be the one that was cut out."""
        assert hi - lo == len(self.indptr) - 1
        return self.indptr, self.indices


def rows_of(graph: Graph | Rows | str) -> Graph | Rows:
    """Return rows by formula if the name has one; otherwise the whole graph."""
    if not isinstance(graph, str):
        return graph
    family, _, size = graph.partition(":")
    try:
        if family == "ring":
            return RingRows(int(size))
        if family == "torus":
            rows, columns = map(int, size.split("x"))
            return TorusRows(rows, columns)
    except ValueError:
        pass  # not a valid name of this family: `Graph.load` raises the error
    return Graph.load(graph)


def _regular(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Rows of equal length as (indptr, indices)."""
    rows.sort(axis=1)
    return np.arange(0, rows.size + 1, rows.shape[1]), rows.reshape(-1)
