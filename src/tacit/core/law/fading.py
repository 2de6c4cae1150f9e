"""The paper's noise: fresh in every round, of scale c·q^t."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np

from tacit.base.arrays import FloatArray, PerAgent, checked_per_agent
from tacit.base.errors import MotionError, ParameterError
from tacit.base.rounding import extended
from tacit.core.law import geometric
from tacit.core.law.base import STEP, Envelope, Law, Terms
from tacit.core.motion import Motion
from tacit.core.motion.mixing import gap, kept, log_kept

_LONG = 5000  # rounds that stand for an endless run in a search, at most


@final
@dataclass(frozen=True, eq=False)
class Fading(Law):
    """Fresh noise every round, Lap(c·q^t), as in the paper.

    Parameters
    ----------
    sigma, c
        See `Law`.
    q : float or one per agent
        Decay, in (0, 1). An endless run is private only if q > 1 − σ (Lemma 1).

    Examples
    --------
    >>> Fading(sigma=0.8, c=10, q=0.6).scales(3)
    array([10. ,  6. ,  3.6])
    """

    q: float | FloatArray

    name: ClassVar[str] = "fading"
    below_one: ClassVar[frozenset[str]] = frozenset({"sigma", "q"})
    by_mixing: ClassVar[bool] = False
    meanings: ClassVar[Mapping[str, str]] = {"q": "the noise of round t has scale c·q^t"}

    if TYPE_CHECKING:

        def __init__(self, sigma: PerAgent | Motion, c: PerAgent, q: PerAgent) -> None: ...

    def scale(self, u: Any) -> Any:
        """c·q^u."""
        return self.c * self.q**u

    def round_scales(self) -> Iterator[FloatArray]:
        """Yield c·q^t; with one q per agent by a running product.

        Calling `pow` for a million agents would take as long as the round itself.
        """
        if not isinstance(self.q, np.ndarray):
            yield from super().round_scales()
        powers = np.ones_like(self.q)
        while True:
            yield np.multiply(self.c, powers)
            powers *= self.q

    def faded(self, t: FloatArray) -> FloatArray:
        """q^t."""
        return np.asarray(self.q**t)

    def upper_scale(self, u: int) -> float:
        """The least float64 that is at least c·q^u."""
        return geometric.fading_scale(float(self.c), float(self.q), u)

    def least_scale(self, rounds: int) -> float:
        """The scale of the last round."""
        return self.upper_scale(max(rounds - 1, 0))

    def largest_scale(self, rounds: int) -> float:
        """The scale of the first round."""
        return float(self.c)

    def epsilons(self, rounds: int | None) -> FloatArray:
        """Lemma 1 (lem:pri) and Lemma 5 (lem:pri_dis); ε_T is exact."""
        if not self.mixes:
            return super().epsilons(rounds) if rounds is not None else self.spent_endless(self.q)
        if rounds is None:
            self._require_gap(gap(extended(self.sigma), extended(self.q)) > 0)
        return geometric.epsilons(self.sigma, self.c, self.q, rounds)

    def _require_gap(self, private: np.ndarray) -> None:
        if not np.all(private):
            n = self.agents or 1
            where = int(np.argmin(np.broadcast_to(private, (n,))))
            sigma, q = (float(np.broadcast_to(v, (n,))[where]) for v in (self.sigma, self.q))
            agent = f" for agent {where}" if self.agents else ""
            raise ParameterError(
                f"decay must be in (1 - mixing, 1) = ({kept(sigma):.6g}, 1), got {q:.6g}{agent}: the noise "
                "would fade faster than the states forget, so no finite epsilon covers an endless run "
                "(Lemma 1). Raise decay or mixing, or give a number of rounds."
            )

    def costs(self, rounds: int, distance: float) -> FloatArray:
        """a_t = d·(1−σ)^t/(c q^t)."""
        if not self.mixes:
            return super().costs(rounds, distance)
        return np.asarray(distance / self.c * (kept(self.sigma) / self.q) ** np.arange(rounds))

    def loss_parts(self, rounds: int | None, adjacency: float, share: int) -> Iterator[float]:
        """λ_u = δ(1−σ)^u/(c·q^u)."""
        if not self.mixes:
            return super().loss_parts(rounds, adjacency, share)
        return geometric.loss_parts(
            float(self.sigma), float(self.c), float(self.q), rounds=rounds, adjacency=adjacency, share=share
        )

    def terms(self, closed: FloatArray, total: float, rounds: int | None) -> Terms:
        """V = Σ_t Σ_i (|N(i)|+1) η_i(t) / Σγ: a geometric series per class."""
        q = np.broadcast_to(np.asarray(self.q, dtype=np.float64), closed.shape)
        return Terms(closed * self.c / total, q, np.arange(closed.size), rounds)

    def significant_rounds(self, rounds: int | None) -> int:
        """The number of rounds after which the rest is below double precision."""
        # Given the Gamma draws, the variance of V is S = Σ_g w_g Σ_t q_g^2t G_{g,t}. Let R be the part of S
        # from round T ≥ 2 on. V without it is off by a factor √(1 − R/S) ≥ 1 − R/S. R is independent of
        # rounds 0 and 1. These two alone give S ≥ Σ_g w_g q_g² X_g with X_g ~ Gamma(2m_g) and
        # E[1/X_g] = 1/(2m_g − 1) ≤ 1/m_g. By Jensen's inequality over g,
        #     E[R/S] ≤ Σ_g w_g m_g q_g^2T/(1 − q_g²) / Σ_g w_g m_g q_g² ≤ max_g q_g^(2T−2)/(1 − q_g²),
        # which is at most 2^−53 for the T below. The right side rises with q, so the largest q decides.
        q = float(np.max(self.q))
        log_rest = 53 * math.log(2) - math.log1p(-q) - math.log1p(q)
        matter = 1 + max(1, math.ceil(log_rest / (-2 * math.log(q))))
        return matter if rounds is None else min(rounds, matter)

    @property
    def ratio(self) -> PerAgent:
        """The decay q."""
        return self.q

    def envelope(self, rounds: int | None) -> Envelope:
        """The scale itself."""
        return Envelope(self.c, self.q)

    @classmethod
    def best(cls, sigma: PerAgent | Motion, epsilon: float, rounds: int | None = None) -> Self:
        """Return the best fading noise with a loss of at most ε.

        Rounding is included.
        """
        if isinstance(sigma, Motion):
            return cls._best_for(sigma, epsilon, rounds)
        # refuse mixing out of range before its logarithm is taken
        sigma = checked_per_agent(sigma, "mixing (sigma)", below_one=True)
        c, q = best_noise(sigma, epsilon, rounds), best_decay(sigma)
        law = cls(sigma, c, q)
        while float(np.max(law.epsilons(rounds))) > epsilon:
            c = c * STEP
            law = cls(sigma, c, q)
        return law

    @classmethod
    def _best_for(cls, motion: Motion, epsilon: float, rounds: int | None) -> Self:
        """Return the best c·q^t for a motion, by its true influence.

        For a decay q the loss 1 needs c = Σa_t/q^t, and the variance is 2c²(1 − q^2T)/(1 − q²).
        """
        from scipy.optimize import brentq, minimize_scalar

        if rounds is None:  # so many messages that the rest does not matter
            if not motion.modulus < 1:
                raise MotionError(
                    "an endless run needs a start that fades, and the slowest mode here has modulus "
                    f"{motion.modulus:.6g}. Give a number of rounds, or draw noise once."
                )
            long = min(max(math.ceil(-45 / math.log(max(motion.modulus, 1e-9))), 32), _LONG)
        table = motion.influence_table(long if rounds is None else rounds)
        t = np.arange(len(table), dtype=np.float64)

        def value(log: float) -> float:
            c = float((table * np.exp(-log * t)[:, None]).sum(axis=0).max())
            ends = math.expm1(2 * log * len(t)) if rounds is not None else -1.0
            return 2 * math.log(c) + math.log(ends / math.expm1(2 * log))

        def slope(log: float) -> float:
            faded = table[:, 0] * np.exp(-log * t)
            some = rounds is not None and -log * len(t) < 300
            kept = 2 * len(t) / math.expm1(-2 * log * len(t)) if some else 0.0
            return float(-2 * (t @ faded) / faded.sum() - kept + 2 / math.expm1(-2 * log))

        slowest = -700 / len(t) if rounds is not None else max(math.log(motion.modulus), -700 / len(t))
        tried = slowest * np.geomspace(1e-4, 0.999, 60)  # coarse first: it may have several minima
        k = int(np.argmin([value(log) for log in tried]))
        ends = tried[min(k + 1, 59)], tried[max(k - 1, 0)]
        if table.shape[1] == 1 and slope(ends[0]) < 0 < slope(ends[1]):
            log = float(brentq(slope, *ends, xtol=1e-15, rtol=1e-14))
        else:
            log = float(minimize_scalar(value, bounds=ends, method="bounded", options={"xatol": 1e-12}).x)
        q = math.exp(log)
        law = cls(motion, 1.0, q)
        c = float(np.max(law.epsilons(rounds))) / epsilon
        while float(np.max((law := cls(motion, c, q)).epsilons(rounds))) > epsilon:
            c *= STEP
        return law

    def rounded(self, up: Callable[..., float]) -> Self:
        """Round c and q up.

        For a decay near 1, keep the digits of its distance from 1.
        """
        if isinstance(self.c, np.ndarray) or isinstance(self.q, np.ndarray):
            return self
        return type(self)(**{**self.values(), "c": up(self.c), "q": up(self.q, 1 - self.q)})


def best_decay(sigma: PerAgent) -> float | FloatArray:
    """q* = (1 − σ)^{1/3}, for every ε and number of rounds."""
    return _plain(np.exp(log_kept(np.asarray(sigma, dtype=np.float64)) / 3))


def best_noise(sigma: PerAgent, epsilon: float, rounds: int | None = None) -> float | FloatArray:
    """Return c* = 1/(ε(1 − (1−σ)^{2/3})), the best noise.

    It is multiplied by 1 − (1−σ)^{2T/3} if only T rounds are run.
    """
    log_ratio = 2 / 3 * log_kept(np.asarray(sigma, dtype=np.float64))
    spent = 1.0 if rounds is None else -np.expm1(rounds * log_ratio)
    return _plain(spent / (epsilon * -np.expm1(log_ratio)))


def _plain(value: FloatArray) -> float | FloatArray:
    return value if np.ndim(value) else float(value)
