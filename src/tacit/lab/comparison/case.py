"""The job given to every method: one graph, one ε, so many rounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from tacit.base.arguments import inside_unit, number, positive, whole
from tacit.base.errors import ParameterError
from tacit.base.rounding import product_up
from tacit.core.graph import Graph
from tacit.core.mechanism.topology import Weights, WeightsLike, resolve_weights
from tacit.core.theory.optimum import averaging_mixing
from tacit.core.theory.privacy import require_adjacency
from tacit.core.theory.rates import laplacian_extremes


@dataclass(frozen=True, eq=False)
class Case:
    """What all methods are compared on.

    Parameters
    ----------
    graph : Graph
        Connected, of two agents or more. Methods with a server use only its number of agents.
    epsilon : float
        ε wanted, per unit of adjacency.
    adjacency : float
        Two values of one agent that differ by at most this must be hard to tell apart. It is also the assumed
        spread of the values if a method has to fix its rounds beforehand.
    rounds : int
        Maximum number of rounds of any method; pure ε covers all of them.
    mixing : float
        σ of the paper's mechanisms and s of the Laplacian family, in (0, 1).
    delta : float
        Failure probability of (ε, δ) statements, in (0, 1).
    tolerance : float or None
        How close agents must be to agree; a hundredth of the adjacency if None.
    keepers : int
        How many keepers the method with keepers has.
    weights : str, Weights or matrix, optional
        How much each message counts in the paper's mechanisms on the graph; as of `Distributed`.
    liars : int
        How many dishonest neighbours of an agent trimmed means withstand.
    span : (float, float), optional
        The smallest and the largest value, for methods that need a range.
    """

    graph: Graph
    epsilon: float
    adjacency: float = 1.0
    rounds: int = 50
    mixing: float = 0.99
    delta: float = 1e-6
    tolerance: float | None = None
    keepers: int = 2
    weights: WeightsLike = None
    liars: int = 1
    span: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph", Graph.of(self.graph))
        if self.graph.n < 2:
            raise ParameterError(
                f"a comparison needs at least 2 agents, got {self.graph.n}: take a larger graph."
            )
        self.graph.require_connected()
        require_adjacency(self.adjacency)
        positive("epsilon", self.epsilon)
        positive("tolerance", self.within)
        inside_unit("mixing", self.mixing)
        inside_unit("delta", self.delta)
        whole("keepers", self.keepers, 1)
        whole("rounds", self.rounds, 1)
        whole("liars", self.liars, 1)
        if self.span is not None:
            low, high = (number("span", end, "be two finite numbers") for end in self.span)
            if not low < high:
                raise ParameterError(f"span must have the smaller number first, got {low:g} and {high:g}.")
        self.rows  # noqa: B018 - refuses weights that cannot be used

    @property
    def within(self) -> float:
        """How close agents must be to agree."""
        return self.adjacency / 100 if self.tolerance is None else self.tolerance

    @property
    def loss(self) -> float:
        """ε·adjacency, rounded up."""
        return product_up(self.epsilon, self.adjacency)

    @cached_property
    def rows(self) -> Weights:
        """The weights of messages in the paper's mechanisms on the graph."""
        return resolve_weights(self.graph, self.weights)

    @property
    def uneven(self) -> bool:
        """Whether agents must mix differently to reach the true average."""
        return bool(np.ptp(averaging_mixing(self.graph, self.mixing, self.rows)) > 0)

    @cached_property
    def edge_weight(self) -> float:
        """Return h = 2/(λ_2 + λ_N): I − hL then contracts fastest."""
        found = laplacian_extremes(self.graph)
        return 2 / (found.low + found.high)

    @cached_property
    def rate(self) -> float:
        """Factor by which I − hL shrinks disagreement per round."""
        found, h = laplacian_extremes(self.graph), self.edge_weight
        return max(1 - h * found.low, h * found.high - 1, 0.0)

    @cached_property
    def gossip_matrix(self) -> sp.csr_array[np.float64]:
        """W = I − hL: symmetric, sparse, and it keeps the average."""
        return sp.csr_array(sp.eye_array(self.graph.n) - self.edge_weight * self.graph.laplacian())
