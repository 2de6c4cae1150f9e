"""The distributed mechanism on a graph, section 4 of the paper (sec:distributed)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from tacit.arrays import FloatArray, IntArray, per_agent_columns
from tacit.graph import Graph
from tacit.mechanism.base import Mechanism


@final
@dataclass(frozen=True, eq=False)
class Distributed(Mechanism):
    """Agents that talk to their neighbours on a connected graph, without a server.

    Examples
    --------
    >>> from tacit import Distributed, Fading, Graph
    >>> path = Graph.from_edges([(0, 1), (1, 2)])
    >>> execution = Distributed(Fading(0.5, 1, 0.9), path).execute([0, 3, 6], [[0, 0, 0]])
    >>> execution.y
    array([[1.5, 3. , 4.5]])
    """

    graph: Graph
    kind: ClassVar[str] = "distributed"

    def __post_init__(self) -> None:
        self.graph.require_connected()
        super().__post_init__()

    @property
    def n(self) -> int:
        """Number of agents N."""
        return self.graph.n

    @property
    def closed_degrees(self) -> IntArray:
        """|N(i)| + 1: an agent's feedback is the mean over its neighbours and itself."""
        return self.graph.degrees + 1

    def aggregate(self, x: FloatArray) -> FloatArray:
        """Phase (ii): y_i(t) = Σ_{j ∈ N(i) ∪ {i}} x_j(t) / (|N(i)| + 1), eq:y_dis."""
        total = x + self.graph.neighbour_sums(x)
        return np.asarray(total / per_agent_columns(self.closed_degrees.astype(np.float64), x.ndim))
