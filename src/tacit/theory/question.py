"""A design question: which sides are given, and what each choice would lead to."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tacit.arrays import FloatArray, PerAgent
from tacit.errors import Infeasible, ParameterError
from tacit.graph import Graph
from tacit.mechanism import ClientServer, Distributed, Mechanism, OneShot
from tacit.mechanism.parameters import Parameters
from tacit.theory import accuracy, convergence
from tacit.theory.laplace_sum import require_probability
from tacit.theory.optimum import averaging_mixing, best_fading, best_one_shot
from tacit.theory.privacy import require_adjacency
from tacit.theory.promise import Promise, promise

BRISK = 0.99
"""Mixing when it is free: accuracy only gains with mixing, and here all but 6% is gained."""

_MOST_AGENTS = 10**15
_GRAIN = 1000  # mixing is searched in thousandths


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """The four sides as they were given; None is what is asked for."""

    agents: int | None
    graph: Graph | None
    epsilon: float | None
    radius: float | None
    failure_probability: float | None
    rounds: int | None
    tolerance: float
    spread: float
    adjacency: float
    mixing: PerAgent | None
    true_average: bool

    def __post_init__(self) -> None:
        require_adjacency(self.adjacency)
        for name in ("epsilon", "tolerance", "spread"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ParameterError(f"{name} must be a positive number, got {value}.")
        if self.radius is not None and not (math.isfinite(self.radius) and self.radius >= 0):
            raise ParameterError(f"radius must be a number of at least 0, got {self.radius}.")
        if self.rounds is not None and self.rounds < 1:
            raise ParameterError(f"rounds must be at least 1, got {self.rounds}.")
        if self.agents is not None and self.graph is not None:
            raise ParameterError(
                "give a number of agents (around a server) or a graph (without one), not both."
            )
        given = (self.epsilon is not None, self.radius is not None, self.sized)
        if sum(given) < 2:
            raise ParameterError(
                "a design needs at least two of privacy (epsilon), accuracy (radius) and size (agents or "
                "graph): the third is what it answers."
            )
        require_probability(self.b)
        OneShot(self.sigma, 1.0)  # refuses a mixing out of range
        if self.failure_probability is None and not all(given):
            raise ParameterError("to be told the failure probability, give epsilon, radius and a size.")

    @property
    def sized(self) -> bool:
        """Whether the number of agents is given."""
        return self.agents is not None or self.graph is not None

    @property
    def b(self) -> float:
        """The failure probability, where it is given."""
        return 0.05 if self.failure_probability is None else self.failure_probability

    @property
    def sigma(self) -> float | FloatArray:
        """The mixing to use."""
        sigma = np.asarray(BRISK if self.mixing is None else self.mixing, dtype=np.float64)
        if self.true_average:
            largest = float(np.max(sigma))
            return largest if self.graph is None else averaging_mixing(self.graph, largest)
        return sigma if sigma.ndim else float(sigma)

    def on_topology(self, parameters: Parameters) -> Mechanism:
        """Put parameters on the graph, or around a server."""
        if self.graph is not None:
            return Distributed(parameters, self.graph)
        return ClientServer(parameters, agents=1 if self.agents is None else self.agents)

    def fading(self, epsilon: float) -> Mechanism:
        """Return the mechanism with the best fading noise for ε."""
        return self.on_topology(best_fading(self.sigma, epsilon, self.rounds))

    def one_shot(self, epsilon: float) -> Mechanism:
        """Return the mechanism with one-shot noise for ε."""
        return self.on_topology(best_one_shot(self.sigma, epsilon))

    def radius_of(self, mechanism: Mechanism) -> float:
        """The exact radius of a mechanism at the failure probability asked for."""
        return accuracy.radius(mechanism, self.b, self.rounds)

    def failure_of(self, mechanism: Mechanism) -> float:
        """How likely a mechanism leaves the radius asked for."""
        return accuracy.deviation(mechanism, self.rounds).exceedance(self.radius or 0.0).high

    def disagreement_of(self, mechanism: Mechanism) -> float:
        """How far apart agents may be after the rounds asked for."""
        return convergence.disagreement(mechanism, self.rounds or 0, self.spread, self.b)

    def promise_of(self, mechanism: Mechanism) -> Promise:
        """Everything a mechanism promises, in the terms of the question."""
        return promise(
            mechanism,
            adjacency=self.adjacency,
            failure_probability=self.b,
            rounds=self.rounds,
            tolerance=self.tolerance,
            spread=self.spread,
        )

    def least_epsilon(self) -> float:
        """The ε that the radius allows: radius and 1/ε are exactly proportional."""
        radius = self.radius or 0.0
        epsilon = self.radius_of(self.fading(1.0)) / radius
        while self.radius_of(self.fading(epsilon)) > radius:
            epsilon *= 1 + 1e-12
        return epsilon

    def least_agents(self) -> int:
        """The number of agents around a server that brings the radius down to what is asked."""
        radius = self.radius or 0.0

        def radius_with(n: int) -> float:
            sized = replace(self, agents=n, graph=None)
            return sized.radius_of(sized.fading(self.epsilon or 1.0))

        n, previous = 1, 0
        while n != previous:  # the radius is nearly proportional to 1/√N, so this settles at once
            previous, n = n, math.ceil(n * (radius_with(n) / radius) ** 2)
            if n > _MOST_AGENTS:
                raise Infeasible(
                    f"more than {_MOST_AGENTS:.0e} agents would be needed: ask for less privacy or accuracy."
                )
            if abs(n - previous) <= 1:
                break
        while radius_with(n) > radius:
            n += 1
        while n > 1 and radius_with(n - 1) <= radius:
            n -= 1
        return n

    def least_mixing(self) -> float | None:
        """The smoothest motion that meets everything asked; None where none does."""
        if np.ndim(BRISK if self.mixing is None else self.mixing):
            return None

        def enough(step: int) -> bool:
            trial = replace(self, mixing=step / _GRAIN)
            mechanism = trial.fading(self.epsilon or 1.0)
            if trial.radius_of(mechanism) > (self.radius or 0.0):
                return False
            return self.rounds is None or trial.disagreement_of(mechanism) <= self.tolerance

        low, high = 0, _GRAIN - 1
        if not enough(high):
            return None
        while high - low > 1:  # more mixing is never less accurate
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high / _GRAIN
