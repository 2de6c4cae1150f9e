"""Constant noise: as large in the last round as in the first.

Streaming counters use such noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np

from tacit.base.arrays import FloatArray, PerAgent, checked_per_agent
from tacit.base.errors import LawError
from tacit.core.law import geometric
from tacit.core.law.base import STEP, Envelope, Law, Terms
from tacit.core.motion import Mixing, Motion


@final
@dataclass(frozen=True, eq=False)
class Constant(Law):
    """Fresh noise every round, Lap(c), which does not fade.

    The influence of a value shrinks, so round t costs (1−σ)^t/c and not 1/c. The total is
    ε_T = (1 − (1−σ)^T)/(σc), and 1/(σc) for an endless run. Every round adds the same amount of noise to the
    average, so its variance grows with the number of rounds. So an endless run has no radius, and agents on a
    graph never agree.

    Examples
    --------
    >>> Constant(sigma=0.8, c=10).scales(3)
    array([10., 10., 10.])
    """

    name: ClassVar[str] = "constant"
    by_mixing: ClassVar[bool] = False

    if TYPE_CHECKING:

        def __init__(self, sigma: PerAgent | Motion, c: PerAgent) -> None: ...

    def scale(self, u: Any) -> Any:
        """The same for every update."""
        return self.c + 0.0 * u

    def upper_scale(self, u: int) -> float:
        """The same for every update."""
        return float(self.c)

    def least_scale(self, rounds: int) -> float:
        """The same for every update."""
        return float(self.c)

    def largest_scale(self, rounds: int) -> float:
        """The same for every update."""
        return float(self.c)

    def epsilons(self, rounds: int | None) -> FloatArray:
        """Σ_{t<T} (1−σ)^t/c; 1/(σc) for an endless run."""
        if not self.mixes:
            return super().epsilons(rounds) if rounds is not None else self.spent_endless(1.0)
        return geometric.epsilons(self.sigma, self.c, 1.0, rounds)

    def loss_parts(self, rounds: int | None, adjacency: float, share: int) -> Iterator[float]:
        """λ_u = δ(1−σ)^u/c."""
        if not self.mixes:
            return super().loss_parts(rounds, adjacency, share)
        return geometric.loss_parts(
            float(self.sigma), float(self.c), 1.0, rounds=rounds, adjacency=adjacency, share=share
        )

    def terms(self, closed: FloatArray, total: float, rounds: int | None) -> Terms:
        """As many equal terms as there are rounds, for each class."""
        if rounds is None:
            raise LawError(
                "constant noise has no radius over an endless run: every round adds as much noise, so the "
                "average drifts without bound. Give a number of rounds, or take fading noise."
            )
        scale = closed * self.c / total
        return Terms(scale, np.zeros_like(scale), np.arange(closed.size), 1, repeat=rounds)

    @property
    def ratio(self) -> PerAgent:
        """1: it does not fade."""
        return 1.0

    def envelope(self, rounds: int | None) -> Envelope:
        """An envelope that is hardly wider than c over finitely many rounds."""
        if rounds is None:
            raise LawError(
                "agents never agree with constant noise on a graph: it moves them apart as much in every "
                "round. Give a number of rounds, or take fading noise."
            )
        return super().envelope(rounds)

    @classmethod
    def best(cls, sigma: PerAgent | Motion, epsilon: float, rounds: int | None = None) -> Self:
        """Return the least constant noise with a loss of at most ε."""
        if isinstance(sigma, Motion):
            law = cls(sigma, float(np.max(cls(sigma, 1.0).epsilons(rounds))) / epsilon)
            while float(np.max(law.epsilons(rounds))) > epsilon:
                law = law.with_noise(law.c * STEP)
            return law
        mixing = np.asarray(checked_per_agent(sigma, "mixing (sigma)", below_one=True))
        spent = 1.0 if rounds is None else Mixing(mixing).followed(rounds)
        c = spent / (mixing * epsilon)
        while float(np.max(cls(mixing, c).epsilons(rounds))) > epsilon:
            c = c * STEP
        return cls(mixing, c)
