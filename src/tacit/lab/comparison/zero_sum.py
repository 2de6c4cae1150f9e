"""Zero-sum noise: agents subtract their noise again later.

So the exact average is reached.

Mo and Murray (IEEE TAC 2017): θ⁺ = W(θ + w), w(0) = v(0), w(t) = φ^t·v(t) − φ^{t−1}·v(t−1), v ~ N(0, s²).
The noise up to round t sums to φ^t·v(t), which fades, and so does the privacy. Anyone who hears an agent
and all its neighbours can compute θ(t+1) = Σ_j W_ij x_j(t), and so every w(t) except the first. Then
v(t) = (v(0) + S_t)/φ^t with known S_t = w(1) + … + w(t), and all of them must look like N(0, s²). The most
likely v(0) is −Σφ^{−2t}S_t/Σφ^{−2t}, with an error of s/√(Σ_{t<T} φ^{−2t}), which vanishes. For an endless
run no ε holds, at any δ < 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np
from scipy.special import ndtri

from tacit.base.arrays import FloatArray
from tacit.lab.comparison.case import Case
from tacit.lab.comparison.method import Error, Guarantee, Method, Said

_LEAST_PHI = 0.5  # a lower limit on φ, for graphs on which neighbours agree at once


@final
@dataclass(frozen=True, eq=False)
class ZeroSum(Method):
    """Zero-sum noise of deviation s at first, fading like φ^t."""

    case: Case
    s: float
    phi: float

    name: ClassVar[str] = "zero-sum"
    title: ClassVar[str] = "zero-sum, graph"
    source: ClassVar[str] = "Mo, Murray 2017"
    needs: ClassVar[str] = "edge weight h, no lost round"

    @classmethod
    def tuned(cls, case: Case) -> Self:
        """Take as much first noise as one-shot noise of this ε has.

        φ is the rate of W, so that noise fades as fast as disagreement.
        """
        return cls(case, 2**0.5 / case.epsilon, max(case.rate, _LEAST_PHI))

    @property
    def rounds(self) -> int:  # type: ignore[override]
        """All rounds of the case."""
        return self.case.rounds

    @property
    def guarantee(self) -> Guarantee:
        """Not differentially private."""
        return Guarantee("none", "an eavesdropper who misses a neighbour")

    @property
    def settings(self) -> dict[str, float]:
        """s, φ and the edge weight h."""
        return {"s": self.s, "phi": self.phi, "h": self.case.edge_weight}

    @property
    def messages(self) -> int:
        """Both ways along every edge."""
        return 2 * self.case.graph.n_edges

    def run(self, theta: FloatArray, rng: np.random.Generator) -> Iterator[Said]:
        """Add the new noise, subtract the last."""
        last = np.zeros((1, 1))
        for t in range(self.rounds):
            fresh = self.s * self.phi**t * rng.standard_normal(theta.shape)
            x = theta + (fresh - last)
            theta, last = np.asarray(self.case.gossip_matrix @ x), fresh
            yield Said(x, theta, theta)

    def error(self, failure_probability: float) -> Error:
        """The noise that is not yet subtracted: N(0, s²φ^{2(T−1)}/N)."""
        deviation = self.s * self.phi ** (self.rounds - 1) / self.case.graph.n**0.5
        return Error(deviation, -float(ndtri(failure_probability / 2)) * deviation)

    def attack(self, agent: int, x: FloatArray, y: FloatArray) -> FloatArray:  # noqa: ARG002
        """Weighted least squares for v(0), from what an agent says and hears."""
        taken = np.cumsum(np.vstack([np.zeros_like(x[:1]), x[1:] - y[:-1]]), axis=0)  # S_t
        weight = self.phi ** (2.0 * np.arange(len(x) - 1, -1, -1))  # φ^{−2t}, up to a factor
        return np.asarray(x[0] + weight @ taken / weight.sum())
