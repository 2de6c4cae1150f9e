"""What the paper's mechanisms share in a comparison: the package's own code, many runs at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from tacit.arrays import FloatArray
from tacit.comparison.case import Case
from tacit.comparison.method import Error, Guarantee, Method, Said, laplace, likeliest_start
from tacit.mechanism import ClientServer, Mechanism
from tacit.theory import accuracy
from tacit.theory.laplace_sum import LaplaceSum
from tacit.theory.privacy import epsilon

ANYONE = "whoever hears everything"


@dataclass(frozen=True, eq=False)
class Paper(Method):
    """A mechanism of this package; its privacy and accuracy come from `tacit.theory`."""

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

    def error(self, failure_probability: float) -> Error:
        """Exact, by the law of the sum of Laplace variables."""
        law = self.law()
        return Error(law.variance**0.5, law.quantile(failure_probability).high)

    def law(self) -> LaplaceSum:
        """The law of the average minus the true one; all γ_i are equal."""
        return accuracy.deviation(self.mechanism, self.rounds)

    def attack(self, agent: int, x: FloatArray, y: FloatArray) -> FloatArray:
        """All noise is independent: the weighted median."""
        if self.mechanism.shadowed:
            return np.asarray(x[0])  # all later messages follow from it
        scales = self.scales()
        own = scales if scales.ndim == 1 else scales[:, agent]
        sigma = np.broadcast_to(self.mechanism.law.sigma, (self.mechanism.n,))
        return likeliest_start(x, y, 1 - float(sigma[agent]), own)

    @staticmethod
    def _column(value: float | FloatArray) -> FloatArray:
        return np.asarray(value, dtype=np.float64).reshape(-1, 1)
