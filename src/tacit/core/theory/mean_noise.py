"""The noise of a mean vector, as the decoders of questions take it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import final

import numpy as np

from tacit.base.arguments import inside_unit
from tacit.core.mechanism import Mechanism
from tacit.core.motion.mixing import kept
from tacit.core.theory import accuracy
from tacit.core.theory.agreement import apart
from tacit.core.theory.endings import shares
from tacit.core.theory.laplace_sum import LaplaceSum
from tacit.core.theory.once_sums import OnceSum

_MARGIN = 1 + 1e-9
"""Covers rounding, and that noise of a series is on a grid of 2^−32 of its width."""


@final
@dataclass(frozen=True)
class NormalNoise:
    """Gaussian noise of one deviation in each component: that of a series.

    Examples
    --------
    >>> round(NormalNoise(1.0).radius(0.05), 6)
    1.959964
    """

    deviation: float

    @property
    def variance(self) -> float:
        """The square of the deviation."""
        return self.deviation**2

    def radius(self, failure_probability: float, weights: Sequence[float] = (1.0,)) -> float:
        """Return r with P(|Σ_j w_j·V_j| > r) ≤ b, rounded up."""
        inside_unit("the failure probability", failure_probability)
        return (
            -NormalDist().inv_cdf(failure_probability / 2) * self.deviation * math.hypot(*weights) * _MARGIN
        )


@final
@dataclass(frozen=True, eq=False)
class ComponentNoise:
    """The exact law of the noise of linear functions of a mean vector.

    The components have independent noise of one law, `each`. With a mechanism, a number of rounds and a
    spread, the radii are those of every agent's own vector then. It is also off by what is left of the
    starts.

    Examples
    --------
    >>> from tacit import ClientServer, OneShot
    >>> noise = ComponentNoise.of(ClientServer(OneShot(0.5, 1.0), agents=1000, keepers=2))
    >>> round(1000 * noise.radius(0.05), 6)
    4.113003
    """

    each: LaplaceSum | OnceSum
    ended: tuple[Mechanism, int, float] | None = None
    last: bool = False
    _found: dict[tuple[float, tuple[tuple[float, int], ...]], float] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, mechanism: Mechanism, rounds: int | None = None, spread: float | None = None
    ) -> ComponentNoise:
        """Return the noise of what a mechanism's agents agree on.

        With rounds and a spread of the starts, it is that of every agent's own vector after these rounds.
        """
        ended = None if rounds is None or spread is None else (mechanism, rounds, spread)
        return cls(accuracy.pure_deviation(mechanism, rounds), ended)

    @classmethod
    def heard(cls, mechanism: Mechanism, rounds: int, spread: float) -> ComponentNoise:
        """Return the noise of what any agent hears last, with noise drawn once.

        y(T−1) = (θ(T) − (1−σ)·θ(T−1))/σ, and the average of θ(T) has the share 1 − (1−σ)^T of the noise V. So
        y is V away from the target, and by what is left of the starts in both states.
        """
        return cls(accuracy.deviation(mechanism), (mechanism, rounds, spread), last=True)

    @property
    def variance(self) -> float:
        """The variance of one component's noise."""
        return self.each.variance

    def radius(self, failure_probability: float, weights: Sequence[float] = (1.0,)) -> float:
        """Return r with P(|Σ_j w_j·V_j| > r) ≤ b, rounded up."""
        sizes, times = np.unique(np.abs(np.asarray(weights, dtype=np.float64)), return_counts=True)
        parts = tuple((size, many) for size, many in zip(sizes.tolist(), times.tolist(), strict=True) if size)
        key = (failure_probability, parts)
        if key not in self._found:  # a decoder asks for the same sums again and again
            self._found[key] = self._radius(failure_probability, parts) if parts else 0.0
        return self._found[key]

    def _radius(self, b: float, parts: Sequence[tuple[float, int]]) -> float:
        if self.ended is None:
            return self._quantile(b, parts)
        mechanism, rounds, spread = self.ended
        share = shares(mechanism, b)
        # Each of the components may be so far from the average; all of them together are within that.
        b = share.agreement / sum(many for _, many in parts)
        own = apart(mechanism, rounds, spread, b).own
        if self.last:
            sigma = float(np.max(mechanism.law.sigma))
            before, now = (apart(mechanism, t, spread, b / 2).own for t in (rounds - 1, rounds))
            own = (now + kept(sigma) * before) / sigma
        weight = sum(size * many for size, many in parts)
        return (self._quantile(share.average, parts) + weight * own) * (1 + 2.0**-40)

    def _quantile(self, b: float, parts: Sequence[tuple[float, int]]) -> float:
        """Return a sum's radius; of bits it is bounded term by term."""
        one = self.each
        if isinstance(one, OnceSum):
            many = sum(times for _, times in parts)
            return one.quantile(b / many).high * sum(size * times for size, times in parts)
        return self._sum_of(one, parts).quantile(b).high

    @staticmethod
    def _sum_of(one: LaplaceSum, parts: Sequence[tuple[float, int]]) -> LaplaceSum:
        scale = np.concatenate([size * one.scale for size, _ in parts])
        count = np.concatenate([many * one.count for _, many in parts])
        return LaplaceSum(scale, np.tile(one.ratio, len(parts)), count, one.rounds)
