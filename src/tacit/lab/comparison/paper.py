"""The paper's mechanisms in a comparison, run by the package's code.

Fading noise with a server, on a graph and with keepers; and, on the same motion, one-shot and constant noise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.core.law import Constant
from tacit.core.mechanism import ClientServer, Distributed, Mechanism
from tacit.core.theory import accuracy
from tacit.core.theory.bounds import best_possible
from tacit.core.theory.laplace_sum import LaplaceSum
from tacit.core.theory.optimum import averaging_mixing, best_fading, best_one_shot
from tacit.core.theory.privacy import epsilon
from tacit.lab.comparison.case import Case
from tacit.lab.comparison.method import Error, Guarantee, Method, Said, laplace, likeliest_start

ANYONE = "an eavesdropper on everything"


@dataclass(frozen=True, eq=False)
class Paper(Method):
    """A mechanism of this package, judged by `tacit.core.theory`."""

    mechanism: Mechanism
    rounds: int

    @classmethod
    def tuned(cls, case: Case) -> Self:
        """Return the mechanism with its best noise for these rounds."""
        return cls(cls.best(case), case.rounds)

    @staticmethod
    @abstractmethod
    def best(case: Case) -> Mechanism:
        """The mechanism with its best noise."""

    @property
    def epsilon(self) -> float:
        """ε per unit of adjacency over these rounds, rounded up."""
        return epsilon(self.mechanism.law, self.rounds)

    def scales(self) -> FloatArray:
        """Laplace scale of each round, of shape (rounds,) or (rounds, n)."""
        return self.mechanism.law.scales(self.rounds)

    @property
    def guarantee(self) -> Guarantee:
        """Pure, against everyone, for each agent."""
        return Guarantee("pure", ANYONE, self.epsilon)

    @property
    def settings(self) -> dict[str, float]:
        """σ, c and, where noise fades, q."""
        return {name: float(np.max(value)) for name, value in self.mechanism.law.values().items()}

    @property
    def messages(self) -> int:
        """To the server and back, or both ways along every edge."""
        if isinstance(self.mechanism, ClientServer):
            return 2 * self.mechanism.n
        return int(np.sum(self.mechanism.closed_degrees - 1))

    def run(self, theta: FloatArray, rng: np.random.Generator) -> Iterator[Said]:
        """Step through the mechanism itself; runs take the place of components."""
        state, sigma = self.mechanism.start(theta), self._column(self.mechanism.law.sigma)
        for scale in self.scales():
            eta = laplace(rng, theta.shape) * self._column(scale) if np.any(scale) else np.zeros((1, 1))
            state, said = self.mechanism.step(state, eta)
            y = np.atleast_2d(said.y)
            yield Said(said.x, sigma * y, state.theta)

    def error(self, failure_probability: float) -> Error | None:
        """Exact, by the law of the sum of Laplace variables."""
        law = self.law()
        return Error(law.variance**0.5, law.quantile(failure_probability).high)

    def least_error(self, agents: int) -> float | None:  # noqa: ARG002
        """The least error for the part of the states that follows from messages.

        With keepers it is the bound for shared secrets.
        """
        return math.sqrt(best_possible(self.mechanism, self.rounds))

    def law(self) -> LaplaceSum:
        """The law of the error of the average; all γ_i are equal."""
        return accuracy.deviation(self.mechanism, self.rounds)

    def attack(self, agent: int, x: FloatArray, y: FloatArray) -> FloatArray:
        """All noise is independent: the weighted median."""
        if self.mechanism.shadowed:
            return np.asarray(x[0])  # all later messages follow from it
        scales = self.scales()
        own = scales if scales.ndim == 1 else scales[:, agent]
        return likeliest_start(x, y, float(self.mechanism.motion.of_agent(agent).keep), own)

    @staticmethod
    def _column(value: float | FloatArray) -> FloatArray:
        return np.asarray(value, dtype=np.float64).reshape(-1, 1)


@final
class Server(Paper):
    """Section 3 of the paper, with the best noise for these rounds.

    The best decay is q* = (1 − σ)^{1/3}.
    """

    name: ClassVar[str] = "server"
    title: ClassVar[str] = "fading, server"
    source: ClassVar[str] = "Huang, Mitra, Dullerud 2012, section 3"
    needs: ClassVar[str] = "a server, not trusted"

    @staticmethod
    def best(case: Case) -> ClientServer:
        """The best fading noise for the case."""
        return ClientServer(best_fading(case.mixing, case.epsilon, case.rounds), case.graph.n)


@final
class ServerOneShot(Paper):
    """Noise Lap(1/ε) once per agent (docs/proofs/best-noise.md)."""

    name: ClassVar[str] = "server-one-shot"
    title: ClassVar[str] = "one-shot, server"
    source: ClassVar[str] = "docs/proofs/best-noise.md, after Nozari, Tallapragada, Cortés 2017"
    needs: ClassVar[str] = "a server, not trusted"

    @staticmethod
    def best(case: Case) -> ClientServer:
        """One-shot noise with a loss of at most ε."""
        return ClientServer(best_one_shot(case.mixing, case.epsilon), case.graph.n)


@final
class OnGraph(Paper):
    """Section 4 of the paper, with the true average as its target.

    That needs σ_i ∝ |N(i)| + 1. If degrees differ, agents with few neighbours then move slowly, which
    needs more noise. With Metropolis weights all agents mix alike.
    """

    name: ClassVar[str] = "graph"
    title: ClassVar[str] = "fading, graph"
    source: ClassVar[str] = "Huang, Mitra, Dullerud 2012, section 4"
    needs: ClassVar[str] = "largest degree"

    @staticmethod
    def best(case: Case) -> Distributed:
        """The best fading noise for the case."""
        sigma = averaging_mixing(case.graph, case.mixing, case.rows)
        return Distributed(best_fading(sigma, case.epsilon, case.rounds), case.graph, case.rows)


@final
class ConstantNoise(Paper):
    """The distributed mechanism with noise that does not fade.

    Every round has the same cost, so the number of rounds must be limited.
    """

    name: ClassVar[str] = "constant"
    title: ClassVar[str] = "constant, graph"
    source: ClassVar[str] = "Dwork, Naor, Pitassi, Rothblum 2010 (streaming counters), on the paper's motion"
    needs: ClassVar[str] = "largest degree, a last round"

    @staticmethod
    def best(case: Case) -> Distributed:
        """The least constant noise with a loss of at most ε over the rounds."""
        sigma = averaging_mixing(case.graph, case.mixing, case.rows)
        return Distributed(Constant.best(sigma, case.epsilon, case.rounds), case.graph, case.rows)


@final
class Keepers(Paper):
    """Masked messages; each keeper adds noise instead of each agent.

    The noise is the best fading noise. In the attack all other agents and all keepers but one collude.
    """

    name: ClassVar[str] = "keepers"
    title: ClassVar[str] = "fading, keepers"
    source: ClassVar[str] = "docs/proofs/keepers.md"
    needs: ClassVar[str] = "a server, not trusted; keepers, of whom one is trusted"

    @staticmethod
    def best(case: Case) -> ClientServer:
        """The best fading noise for the case."""
        law = best_fading(case.mixing, case.epsilon, case.rounds)
        return ClientServer(law, case.graph.n, case.keepers)

    @property
    def guarantee(self) -> Guarantee:
        """Pure while one keeper is honest, against bounded computing power.

        The bound is needed because masks are pseudo-random.
        """
        m = self.mechanism.keepers
        others = "without the keeper" if m == 1 else f"with all but one of {m} keepers"
        return Guarantee("one honest keeper", f"{ANYONE}, {others}", self.epsilon)

    @property
    def messages(self) -> int:
        """To the server and back, for agents and keepers."""
        return 2 * (self.mechanism.n + self.mechanism.keepers)

    def run(self, theta: FloatArray, rng: np.random.Generator) -> Iterator[Said]:
        """Step through the mechanism, as the attacker sees it.

        The attacker sees an agent's state with the noise of one keeper.
        """
        state, sigma = self.mechanism.start(theta), self._column(self.mechanism.law.sigma)
        for scale in self.scales():
            eta = laplace(rng, (self.mechanism.keepers, theta.shape[1])) * scale
            state, said = self.mechanism.step(state, eta)
            yield Said(said.x + eta[:1], sigma * np.atleast_2d(said.y), state.theta)
