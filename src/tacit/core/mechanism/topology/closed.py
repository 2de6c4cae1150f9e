"""The paper's feedback: the mean over the closed neighbourhood.

These are an agent's neighbours and the agent itself (eq:y_dis).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.core.mechanism.topology.base import RowShares, Weights, per_row
from tacit.core.mechanism.whole import Whole, WholeArray, nearest


@final
@dataclass(frozen=True, eq=False)
class ClosedNeighbourhood(Weights):
    """W_ij = 1/(|N(i)|+1) for every message that agent i hears.

    Its own message is one of them.
    """

    name: ClassVar[str] = "closed"

    def shares(self, i: int) -> RowShares:
        """Return row i: every message counts once."""
        return RowShares(1, (1,) * int(self.graph.degrees[i]))

    @property
    def plain(self) -> bool:
        """Always."""
        return True

    @property
    def reversible(self) -> bool:
        """Always: (|N(i)|+1)·W_ij is 1 both ways."""
        return True

    @cached_property
    def own(self) -> FloatArray:
        """1/(|N(i)|+1)."""
        return np.asarray(1 / self.stationary)

    @cached_property
    def heard(self) -> FloatArray:
        """1/(|N(i)|+1), once for every neighbour."""
        return np.repeat(self.own, self.graph.degrees)

    @cached_property
    def stationary(self) -> FloatArray:
        """|N(i)| + 1."""
        return self.graph.degrees.astype(np.float64) + 1

    def aggregate(self, x: FloatArray) -> FloatArray:
        """Phase (ii), without a matrix of weights.

        y_i(t) = Σ_{j ∈ N(i) ∪ {i}} x_j(t) / (|N(i)| + 1), eq:y_dis.
        """
        return np.asarray((x + self.graph.neighbour_sums(x)) / per_row(self.stationary, x))

    def aggregate_whole(self, lifted: WholeArray) -> Whole:
        """The same on whole numbers, to the nearest state step, ties up."""
        graph = self.graph
        total = lifted.copy()
        if len(graph.indices):  # reduceat needs neighbours in every row; a connected graph has them
            total += np.add.reduceat(lifted[graph.indices], graph.indptr[:-1], axis=0)
        return nearest(total, (graph.degrees + 1).astype(object).reshape((-1,) + (1,) * (lifted.ndim - 1)))
