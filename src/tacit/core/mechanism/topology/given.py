"""User-defined weights.

They come from edge weights, from a matrix, or from whole numbers in a session file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from tacit.base.arguments import shown
from tacit.base.arrays import FloatArray, IntArray, frozen
from tacit.base.errors import ParameterError
from tacit.core.graph import Graph
from tacit.core.mechanism.topology.base import RowShares, Weights

ONE = 1 << 53
"""The denominator of weights that were given as fractions of 1."""
_EDGE_BITS = 42
_ROW_SLACK = 1e-9


@final
@dataclass(frozen=True, eq=False)
class GivenWeights(Weights):
    """W_ij = counts_ij/Σ_j counts_ij, for whole numbers of at least 0.

    Attributes
    ----------
    own_counts : int64 array, shape (n,)
        The weight of an agent's own message; may be 0.
    counts : int64 array, shape (2 · edges,)
        The weights of the neighbours' messages, in the order of the graph's indices; 0 if one is not used.
    """

    own_counts: IntArray
    counts: IntArray

    name: ClassVar[str] = "given"

    def __post_init__(self) -> None:
        for array, size in ((self.own_counts, self.graph.n), (self.counts, len(self.graph.indices))):
            frozen(array)
            if array.shape != (size,) or (size and array.min() < 0):
                raise ParameterError("weights must be at least 0, one for every agent and every neighbour.")
        # Totals must be exact in int64, and for reversible weights also as floats.
        if max(self.own_counts.max(), self.counts.max(initial=0)) > ONE:
            raise ParameterError("weights must be whole numbers of at most 2^53.")
        if not all(self.shares(int(i)).total > 0 for i in np.flatnonzero(self.own_counts == 0)):
            raise ParameterError("every agent must give some message a positive weight.")
        super().__post_init__()
        if self.reversible:
            self.require_irreducible()

    @classmethod
    def of_edges(cls, graph: Graph) -> GivenWeights:
        """Use the graph's edge weights.

        They are for the neighbours' messages; the own message has weight 1. Whole numbers are kept exactly;
        other weights are rounded to 2^−42 of the largest.
        """
        if graph.weights is None:
            raise ParameterError(
                "weights `edges` need a graph with edge weights, and this one has none. "
                "Use closed or metropolis."
            )
        scale, largest = 1.0, max(1.0, float(graph.weights.max()))
        if (graph.weights % 1).any() or largest > 2**_EDGE_BITS:
            scale = 2.0 ** (_EDGE_BITS - np.frexp(largest)[1])
        counts = np.rint(graph.weights * scale).astype(np.int64)
        own = int(max(scale, 1))
        if ((counts == 0) & (graph.weights > 0)).any() or scale < 1:
            raise ParameterError(
                f"edge weights must be within a factor of 2^{_EDGE_BITS} of each other and of 1, the weight "
                "of the own message."
            )
        return cls(graph, np.full(graph.n, own), counts)

    @classmethod
    def of_matrix(cls, graph: Graph, matrix: Any) -> GivenWeights:
        """Take a row-stochastic matrix W, sparse or not.

        It has weights only on the graph's edges. Rows must add up to 1 within 10⁻⁹. Weights are rounded to
        multiples of 2^−53; the rest of a row goes to the agent's own weight, unless that is given as 0.
        """
        import scipy.sparse as sp

        try:
            w = sp.csr_array(matrix, dtype=np.float64)
        except (TypeError, ValueError):
            raise ParameterError(
                f"weights must be the name of a rule or a matrix of numbers, got {shown(matrix)}."
            ) from None
        n = graph.n
        if w.shape != (n, n):
            raise ParameterError(f"weights must be a matrix of {n} × {n}, got shape {w.shape}.")
        w.sum_duplicates()
        rows = np.repeat(np.arange(n), np.diff(w.indptr))
        for bad, must in (
            (~np.isfinite(w.data), "be finite"),
            (w.data < 0, "not be negative: the feedback must be a mean"),
        ):
            if bad.any():
                k = int(np.argmax(bad))
                raise ParameterError(f"weights must {must}, got {w.data[k]} in row {rows[k]}.")
        sums = np.bincount(rows, w.data, n)
        if (np.abs(sums - 1) > _ROW_SLACK).any():
            k = int(np.argmax(np.abs(sums - 1)))
            raise ParameterError(
                f"every row of weights must add up to 1, but row {k} adds up to {sums[k]:.12g}. "
                "Divide it by that."
            )
        own = w.diagonal()
        off = rows != w.indices
        places = np.repeat(np.arange(n), graph.degrees) * n + graph.indices
        wanted = rows[off] * n + w.indices[off]
        place = np.searchsorted(places, wanted)
        known = place < len(places)
        known[known] = places[place[known]] == wanted[known]
        if (~known & (w.data[off] > 0)).any():
            k = int(np.argmax(~known & (w.data[off] > 0)))
            i, j = graph.label(int(rows[off][k])), graph.label(int(w.indices[off][k]))
            raise ParameterError(
                f"weights must be on edges of the graph, but row {i} has one for {j}, not a neighbour."
            )
        counts = np.zeros(len(graph.indices), dtype=np.int64)
        counts[place[known]] = np.rint(w.data[off][known] * ONE).astype(np.int64)
        rest = ONE - np.bincount(np.repeat(np.arange(n), graph.degrees), counts.astype(np.float64), n)
        own_counts = np.where(own == 0, 0, np.maximum(rest, 0)).astype(np.int64)
        return cls(graph, own_counts, counts)

    @classmethod
    def of_entries(cls, graph: Graph, entries: Sequence[Sequence[int]]) -> GivenWeights:
        """Read what `entries` wrote."""
        own = np.zeros(graph.n, dtype=np.int64)
        counts = np.zeros(len(graph.indices), dtype=np.int64)
        places = np.repeat(np.arange(graph.n), graph.degrees) * graph.n + graph.indices
        last = (-1, -1)
        for entry in entries:
            if len(entry) != 3 or any(type(v) is not int for v in entry) or not 0 < entry[2] <= ONE:
                raise ParameterError(
                    "weights must be (agent, agent, whole number from 1 to 2^53), and are not."
                )
            i, j, count = entry
            if not (0 <= i < graph.n and 0 <= j < graph.n) or (i, j) <= last:
                raise ParameterError("weights must name agents of the graph, each pair once in rising order.")
            last = (i, j)
            if i == j:
                own[i] = count
                continue
            place = int(np.searchsorted(places, i * graph.n + j))
            if place == len(places) or places[place] != i * graph.n + j:
                raise ParameterError(
                    f"weights must be on edges of the graph, but agents {i} and {j} have none."
                )
            counts[place] = count
        return cls(graph, own, counts)

    def entries(self) -> tuple[tuple[int, int, int], ...]:
        """Return (i, j, count) for every positive weight, in rising order.

        (i, i, count) is the weight of the own message.
        """
        rows = []
        for i in range(self.graph.n):
            shares = self.shares(i)
            heard = zip(self.graph.neighbours(i).tolist(), shares.heard, strict=True)
            rows += sorted([(i, j, count) for j, count in [(i, shares.own), *heard] if count])
        return tuple(rows)

    def shares(self, i: int) -> RowShares:
        """Return row i as it was given."""
        first, last = self.graph.indptr[i], self.graph.indptr[i + 1]
        return RowShares(int(self.own_counts[i]), tuple(self.counts[first:last].tolist()))

    @cached_property
    def plain(self) -> bool:
        """Whether all weights of every row are the same."""
        return bool((np.repeat(self.own_counts, self.graph.degrees) == self.counts).all())

    @cached_property
    def reversible(self) -> bool:
        """Whether both ends of every edge give each other the same weight."""
        return bool(np.array_equal(self.counts, self.graph.turned(self.counts)))

    @cached_property
    def stationary(self) -> FloatArray:
        """The left eigenvector: the totals of symmetric rows.

        It is computed if the counts are not symmetric.
        """
        if not self.reversible:
            return Weights.stationary.func(self)  # type: ignore[attr-defined, no-any-return]
        totals = np.array([self.shares(i).total for i in range(self.graph.n)], dtype=np.float64)
        return np.asarray(totals / totals.max())
