"""Gaussian noise once, then fast gossip: privacy per pair of agents.

Cyffers, Even, Bellet and Massoulié (NeurIPS 2022, "Muffliato"): z(0) = θ(0) + N(0, s²), then gossip with W,
here by Chebyshev's recursion. An eavesdropper on everything sees z(0). One curious agent v hears only its
neighbours: it sees Mz(0), where the rows of M are rows of the first powers of W. Let P be the projection on
the rows of M and on v's own e_v. What v learns about u is exactly a Gaussian mechanism whose squared
sensitivity is the leverage ‖Pe_u‖² ≤ 1 (the linear-system view of Koskela and Kulkarni 2025). Over all u the
leverages add up to the rank, so their average is at most |N(v)|·T/(N−1): few rounds on a large graph are
private. Neighbours are not protected from each other at all.

Adding up the losses of single messages, as if their noise were independent, can give far too small a loss
(docs/explanation/compare.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self, final

import numpy as np
from scipy.linalg import qr
from scipy.sparse.csgraph import dijkstra
from scipy.special import ndtri

from tacit.base.arrays import FloatArray
from tacit.lab.comparison.case import Case
from tacit.lab.comparison.method import Error, Guarantee, Method, Said

_SAFE = 1 + 1e-9  # the root finder behind ε is accurate to 1e-12
_WATCHERS = 8  # agents whose view is computed for the guarantee by distance
_ALL_WATCH = 200  # agents up to which every view is computed
_MOST_AGENTS = 2000  # a view is a dense basis; for more agents only the average over pairs is computed
_DEPENDENT = 1e-12  # of a unit vector: a smaller remainder counts as rounding
_APART = 0.05  # probability that agents do not yet agree when the rounds are over


@final
@dataclass(frozen=True, eq=False)
class Gossip(Method):
    """Gaussian noise of deviation s, then `rounds` rounds of gossip."""

    case: Case
    s: float
    rounds: int

    name: ClassVar[str] = "gossip"
    title: ClassVar[str] = "Gaussian gossip"
    source: ClassVar[str] = "Cyffers, Even, Bellet, Massoulié 2022"
    needs: ClassVar[str] = "edge weight h, a last round"

    @classmethod
    def tuned(cls, case: Case) -> Self:
        """Take the least noise with this average ε, and the fewest rounds.

        The average is over pairs of agents; the rounds are as many as agreement needs.
        """
        from dp_accounting import get_sigma_gaussian  # type: ignore[import-untyped]

        local = case.adjacency * get_sigma_gaussian(case.loss, case.delta)
        rounds = _rounds(case, local)
        return cls(case, local * math.sqrt(mean_leverage(case, rounds)) * _SAFE, rounds)

    @cached_property
    def guarantee(self) -> Guarantee:
        """(ε, δ) per pair: on average, at worst and by distance.

        The last only if the graph is small enough to compute it.
        """
        return Guarantee(
            "per pair",
            "one agent that taps no wire",
            self._epsilon(mean_leverage(self.case, self.rounds)),
            self.case.delta,
            worst=self._epsilon(1.0),
            by_distance=tuple((d, self._epsilon(most)) for d, most in self._by_distance()),
        )

    def _epsilon(self, leverage: float) -> float:
        """ε per unit of adjacency of Gaussian noise with this leverage.

        The leverage is the squared sensitivity.
        """
        from dp_accounting import get_epsilon_gaussian

        ratio = self.s / (self.case.adjacency * math.sqrt(leverage))
        return float(get_epsilon_gaussian(ratio, self.case.delta)) * _SAFE / self.case.adjacency

    def _by_distance(self) -> Iterator[tuple[int, float]]:
        n = self.case.graph.n
        if n > _MOST_AGENTS:
            return
        watchers = np.unique(np.linspace(0, n - 1, _WATCHERS).astype(np.int64))
        far = dijkstra(self.case.graph.adjacency(), unweighted=True, indices=watchers).astype(np.int64)
        seen = np.stack([leverages(self.case, int(v), self.rounds) for v in watchers])
        for distance in range(1, int(far.max()) + 1):
            most = float(seen[far == distance].max())
            if most > 0:
                yield distance, min(most * _SAFE, 1.0)

    @property
    def settings(self) -> dict[str, float]:
        """s, the edge weight h and the rounds."""
        return {"s": self.s, "h": self.case.edge_weight, "rounds": self.rounds}

    @property
    def messages(self) -> int:
        """Both ways along every edge."""
        return 2 * self.case.graph.n_edges

    def run(self, theta: FloatArray, rng: np.random.Generator) -> Iterator[Said]:
        """z(t+1) = ω(Wz(t) − z(t−1)) + z(t−1), which keeps the average."""
        z, before, omega = theta + self.s * rng.standard_normal(theta.shape), 0.0 * theta, 1.0
        rho = self.case.rate
        for t in range(self.rounds):
            after = np.asarray(self.case.gossip_matrix @ z)
            if t > 0:
                omega = 1 / (1 - rho**2 / 2) if t == 1 else 1 / (1 - rho**2 * omega / 4)
                after = omega * (after - before) + before
            said, before, z = z, z, after
            yield Said(said, z, z)

    def error(self, failure_probability: float) -> Error:
        """N(0, s²/N): gossip keeps the average."""
        deviation = self.s / self.case.graph.n**0.5
        return Error(deviation, -float(ndtri(failure_probability / 2)) * deviation)

    def attack(self, agent: int, x: FloatArray, y: FloatArray) -> FloatArray:  # noqa: ARG002
        """All messages follow from the first one."""
        return np.asarray(x[0])


def _rounds(case: Case, deviation: float) -> int:
    """Rounds after which agents agree, with noise of this deviation.

    The values are assumed to be spread over the adjacency.
    """
    if case.rate == 0:
        return 1
    apart = 2 * -float(ndtri(_APART / (2 * case.graph.n))) * math.hypot(deviation, case.adjacency / 2)
    # Chebyshev's polynomial shrinks disagreement by cosh(t·acosh(1/ρ))
    needed = math.acosh(max(apart / case.within, 1.0)) / math.acosh(1 / case.rate)
    return min(max(1, math.ceil(needed)), case.rounds)


def mean_leverage(case: Case, rounds: int) -> float:
    """The average leverage over all pairs; an upper bound on large graphs.

    Besides its own value, v sees a space of rank at most |N(v)|·T. So the average over u is at most
    min(1, |N(v)|·T/(N−1)). On graphs with symmetries it can be far less.
    """
    n = case.graph.n
    if n <= _ALL_WATCH:
        ranks = [float(leverages(case, v, rounds).sum()) - 1 for v in range(n)]
        return min(float(np.mean(ranks)) / (n - 1) * _SAFE, 1.0)
    return float(np.mean(np.minimum(1.0, case.graph.degrees * rounds / (n - 1.0))))


def leverages(case: Case, watcher: int, rounds: int) -> FloatArray:
    """‖P e_u‖² of every agent u: how much one agent learns about it.

    P is the projection on everything that the watching agent sees and knows. Computed by block Lanczos
    with full orthogonalisation, because the powers of W soon become numerically dependent. This needs a
    dense basis of N × (|N(v)|·rounds + 1) numbers.
    """
    n, heard = case.graph.n, case.graph.neighbours(watcher)
    known = np.concatenate([[watcher], heard])
    basis = np.zeros((n, len(known)))
    basis[known, np.arange(len(known))] = 1.0
    block = basis[:, 1:]
    for _ in range(rounds - 1):
        block = np.asarray(case.gossip_matrix @ block)
        for _twice in range(2):  # once leaves rounding errors that grow with every round
            block = block - basis @ (basis.T @ block)
        q, r, _ = qr(block, mode="economic", pivoting=True)
        block = np.asarray(q[:, np.abs(np.diag(r)) > _DEPENDENT], dtype=np.float64)
        if not block.size or basis.shape[1] >= n:
            break
        basis = np.hstack([basis, block])
    return np.asarray(np.minimum(np.sum(basis**2, axis=1), 1.0))
