"""The Laplacian family: agents add part of their noise to the state.

Nozari, Tallapragada and Cortés (Automatica 2017): x = θ + η, θ⁺ = θ − hLx + Sη, η_i(t) ~ Lap(c_i·q_i^t) with
s_i in (0, 2) and q_i in (|s_i − 1|, 1). Given the messages, two states that start δ apart are δ(1−s_i)^t
apart in round t. So message t costs δ|1−s_i|^t/(c_i·q_i^t), the same series as the paper's with
1 − σ = |1 − s|. Hence the best decay is q* = |1−s|^{1/3} here, too. s and 2 − s cost the same, and the
variance grows with s², so only s ≤ 1 is useful. The best of all is s = 1 with noise in the first round only
(`OneShotConsensus`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self, final

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError
from tacit.core.law import Fading, OneShot
from tacit.core.theory.laplace_sum import LaplaceSum
from tacit.core.theory.optimum import best_fading, best_one_shot
from tacit.core.theory.privacy import epsilon
from tacit.lab.comparison.case import Case
from tacit.lab.comparison.method import Error, Guarantee, Method, Said, laplace, likeliest_start
from tacit.lab.comparison.paper import ANYONE


@dataclass(frozen=True, eq=False)
class Laplacian(Method):
    """A member of the family, with s, c and q for all agents or for each.

    Parameters
    ----------
    case : Case
        Gives the graph, the edge weight h and the rounds.
    s : float or one per agent
        In (0, 2).
    c : float or one per agent
        Positive: scale of the noise of round 0.
    q : float or one per agent
        In (|s − 1|, 1); or 0 with s = 1, for noise in the first round alone.
    """

    case: Case
    s: float | FloatArray
    c: float | FloatArray
    q: float | FloatArray

    name: ClassVar[str] = "laplacian"
    title: ClassVar[str] = "Laplacian family"
    source: ClassVar[str] = "Nozari, Tallapragada, Cortés 2017"
    needs: ClassVar[str] = "edge weight h"

    def __post_init__(self) -> None:
        s, c, q = self._each
        keeps = np.abs(s - 1)
        fine = (s > 0) & (s < 2) & (c > 0) & np.isfinite(c)
        fine &= ((keeps < q) & (q < 1)) | ((keeps == 0) & (q == 0))
        if not fine.all():
            k = int(np.argmin(fine))
            raise ParameterError(
                f"the Laplacian family needs s in (0, 2), c > 0 and q in (|s - 1|, 1), got s = {s[k]:g}, "
                f"c = {c[k]:g} and q = {q[k]:g}: otherwise its noise fades faster than a value's influence."
            )

    @property
    def _each(self) -> tuple[FloatArray, ...]:
        """s, c and q of every agent."""
        n = self.case.graph.n
        return tuple(np.broadcast_to(np.asarray(v, dtype=np.float64), (n,)) for v in (self.s, self.c, self.q))

    @classmethod
    def tuned(cls, case: Case) -> Self:
        """Take s from the case's mixing, and the best q and c for it."""
        noise = best_fading(case.mixing, case.epsilon, case.rounds)
        return cls(case, case.mixing, noise.c, noise.q)

    @property
    def rounds(self) -> int:  # type: ignore[override]
        """All rounds of the case."""
        return self.case.rounds

    @cached_property
    def epsilon(self) -> float:
        """The largest ε_T of any agent, per unit of adjacency, rounded up.

        ε_T = Σ_{t<T} |1−s_i|^t/(c_i·q_i^t).
        """
        kinds = np.unique(np.column_stack(self._each), axis=0)
        return max(self._epsilon(*kind) for kind in kinds.tolist())

    def _epsilon(self, s: float, c: float, q: float) -> float:
        if s == 1:
            return epsilon(OneShot(0.5, c))  # 1/c: x(0) determines the next state, and so all later messages
        return epsilon(Fading(1 - abs(1 - s), c, q), self.rounds)

    @property
    def guarantee(self) -> Guarantee:
        """Pure, against everyone."""
        return Guarantee("pure", ANYONE, self.epsilon)

    @property
    def settings(self) -> dict[str, float]:
        """s, c, q and the edge weight h."""
        s, c, q = (float(value.max()) for value in self._each)
        return {"s": s, "c": c, "q": q, "h": self.case.edge_weight}

    @property
    def messages(self) -> int:
        """Both ways along every edge."""
        return 2 * self.case.graph.n_edges

    def run(self, theta: FloatArray, rng: np.random.Generator) -> Iterator[Said]:
        """θ⁺ = (1−s)θ + (s − hL)x, the update with η = x − θ put in."""
        s, c, q = (value[:, None] for value in self._each)
        for t in range(self.rounds):
            scale = c * q**t
            x = theta + scale * laplace(rng, theta.shape) if scale.any() else theta
            y = np.asarray(self.case.gossip_matrix @ x) - (1 - s) * x
            theta = (1 - s) * theta + y
            yield Said(x, y, theta)

    def error(self, failure_probability: float) -> Error:
        """V = Σ_t Σ_i s_i·η_i(t)/N: as 1ᵀL = 0, nothing else changes the average."""
        kinds, count = np.unique(np.column_stack(self._each), axis=0, return_counts=True)
        s, c, q = kinds.T
        law = LaplaceSum(s * c / self.case.graph.n, q, count.astype(np.float64), self.rounds)
        return Error(law.variance**0.5, law.quantile(failure_probability).high)

    def least_error(self, agents: int) -> float | None:
        """The least error for the part of states that follows from messages.

        That part is 1 − (1−s_i)^T for agent i.
        """
        kinds, count = np.unique(np.column_stack(self._each), axis=0, return_counts=True)
        told = [(1 - (1 - s) ** self.rounds) / self._epsilon(s, c, q) for s, c, q in kinds.tolist()]
        return float(np.sqrt(np.sum(count * np.square(told)))) / agents

    def attack(self, agent: int, x: FloatArray, y: FloatArray) -> FloatArray:
        """All noise is independent: the weighted median."""
        s, c, q = (float(value[agent]) for value in self._each)
        if s == 1:
            return np.asarray(x[0])  # the state after it is public
        return likeliest_start(x, y, 1 - s, c * q ** np.arange(self.rounds, dtype=np.float64))


@final
class OneShotConsensus(Laplacian):
    """The best of the family: s = 1, noise Lap(1/ε) in round 0 only.

    Its variance 2/(ε²N) is the least of all members.
    """

    name: ClassVar[str] = "one-shot"
    title: ClassVar[str] = "one-shot, graph"
    source: ClassVar[str] = "Nozari, Tallapragada, Cortés 2017, their optimum"

    @classmethod
    def tuned(cls, case: Case) -> Self:
        """The one-shot noise with a loss of at most ε."""
        return cls(case, 1.0, float(best_one_shot(0.5, case.epsilon).c), 0.0)
