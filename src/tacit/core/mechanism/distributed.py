"""The distributed mechanism on a graph.

This is section 4 of the paper (sec:distributed).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from tacit.base.arrays import FloatArray, IntArray
from tacit.core.graph import Graph
from tacit.core.graph.core import GraphLike
from tacit.core.law import Law
from tacit.core.mechanism.base import Mechanism
from tacit.core.mechanism.topology import Weights, WeightsLike, resolve_weights


@final
@dataclass(frozen=True, eq=False)
class Distributed(Mechanism):
    """Agents on a connected graph, without a server.

    They exchange messages with their neighbours.

    Parameters
    ----------
    law : Law
    graph : Graph, name, file, networkx graph, scipy sparse matrix, or pairs of agent numbers
        See `Graph.of`.
    weights : str, Weights or matrix, optional
        The weights of the messages in an agent's feedback: ``"closed"`` (the paper's mean over the
        neighbours and itself), ``"metropolis"``, ``"edges"`` (the graph's edge weights), or a row-stochastic
        matrix in which W_ij is the weight of j's message at i. The default is the edge weights if the graph
        has any, else closed.

    Examples
    --------
    >>> from tacit import Distributed, Fading
    >>> execution = Distributed(Fading(0.5, 1, 0.9), [(0, 1), (1, 2)]).execute([0, 3, 6], [[0, 0, 0]])
    >>> execution.y
    array([[1.5, 3. , 4.5]])
    """

    graph: Graph
    weights: WeightsLike = None
    kind: ClassVar[str] = "distributed"

    if TYPE_CHECKING:  # the constructor accepts more types than the attributes have

        def __init__(self, law: Law, graph: GraphLike, weights: WeightsLike = None) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph", Graph.of(self.graph))
        self.graph.require_connected()
        self.topology  # noqa: B018 - refuses weights that cannot be used
        super().__post_init__()

    def _compared(self) -> tuple[Any, ...]:
        return self.law, self.graph, self.topology  # the same weights can be given in several ways

    @cached_property
    def topology(self) -> Weights:
        """The weights of the messages."""
        return resolve_weights(self.graph, self.weights)

    @property
    def n(self) -> int:
        """Number of agents N."""
        return self.graph.n

    @property
    def names(self) -> Sequence[Hashable]:
        """What the agents are called: the labels of the graph."""
        return self.graph.names

    @property
    def closed_degrees(self) -> IntArray:
        """|N(i)| + 1: the number of messages in an agent's feedback."""
        return self.graph.degrees + 1

    @property
    def stationary(self) -> FloatArray:
        """ω with ωᵀW = ωᵀ.

        It is |N(i)| + 1 in the paper, and 1 for all agents with Metropolis weights.
        """
        # The theory takes plain means as unit conductances, so this must not depend on the rule.
        return self.closed_degrees.astype(np.float64) if self.topology.plain else self.topology.stationary

    def aggregate(self, x: FloatArray) -> FloatArray:
        """Phase (ii): return the feedback y_i(t) = Σ_j W_ij x_j(t).

        In the paper it is the mean over N(i) ∪ {i}, eq:y_dis.
        """
        return self.topology.aggregate(x)
