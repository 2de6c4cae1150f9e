"""Metropolis weights: the true average on every connected graph.

An agent's weights follow from its own and its neighbours' degrees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from tacit.base.arrays import FloatArray, IntArray
from tacit.core.mechanism.topology.base import RowShares, Weights


@final
@dataclass(frozen=True, eq=False)
class Metropolis(Weights):
    """W_ij = 1/(1 + max(|N(i)|, |N(j)|)) on edges.

    The rest of a row goes to the agent's own message. W is symmetric, so with one mixing for all, the agents
    agree on the true average, with the same deviation as with a server (docs/proofs/weights.md). An agent
    needs to know only its neighbours' degrees. Where two agents miss each other's messages W stays symmetric,
    because each keeps the weight to itself.
    """

    name: ClassVar[str] = "metropolis"
    keeps_missing: ClassVar[bool] = True

    def _bounds(self) -> IntArray:
        """1 + max(|N(i)|, |N(j)|) for every neighbour j of i."""
        graph = self.graph
        return np.maximum(np.repeat(graph.degrees, graph.degrees), graph.degrees[graph.indices]) + 1

    def shares(self, i: int) -> RowShares:
        """Return row i over the least common denominator."""
        graph = self.graph
        own = int(graph.degrees[i])
        bounds = [1 + max(own, int(graph.degrees[j])) for j in graph.neighbours(i)]
        total = math.lcm(*bounds)
        heard = tuple(total // bound for bound in bounds)
        return RowShares(total - sum(heard), heard)

    @cached_property
    def plain(self) -> bool:
        """Whether all agents have the same degree.

        Then it is the mean of the closed neighbourhood.
        """
        return bool(self.graph.degrees.min() == self.graph.degrees.max())

    @property
    def reversible(self) -> bool:
        """Always: W is symmetric."""
        return True

    @cached_property
    def heard(self) -> FloatArray:
        """1/(1 + max(|N(i)|, |N(j)|))."""
        return np.asarray(1 / self._bounds())

    @cached_property
    def own(self) -> FloatArray:
        """The rest of a row."""
        graph, n = self.graph, self.graph.n
        rows = np.repeat(np.arange(n), graph.degrees)
        # The result is at least 1/(|N(i)|+1), so the subtraction loses no digits.
        return np.asarray(1 - np.bincount(rows, self.heard, n))

    @cached_property
    def stationary(self) -> FloatArray:
        """1 for everyone."""
        return np.ones(self.graph.n)
