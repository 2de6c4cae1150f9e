"""Constant noise: as large in the last round as in the first, as streaming counters have it."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from tacit.arrays import FloatArray, PerAgent
from tacit.compare.case import Case
from tacit.compare.paper import Paper
from tacit.mechanism import Distributed, Fading
from tacit.theory.laplace_sum import LaplaceSum
from tacit.theory.optimum import averaging_mixing
from tacit.theory.rates import step_sizes
from tacit.theory.rounding import ULP, extended, round_up

_STEP = 1 + 4 * float(np.finfo(np.float64).eps)
_UNUSED = 0.5
"""A decay for `Fading`, which here says only how agents move: `Constant.scales` has the noise."""


@final
class Constant(Paper):
    """The distributed mechanism with noise that does not fade; each round costs, so rounds must end.

    States forget, so round t costs (1−σ)^t/c and not 1/c: ε_T = (1 − (1−σ)^T)/(σc). The average takes in
    the noise of every round alike, so its variance grows with the number of rounds.
    """

    name: ClassVar[str] = "constant"
    title: ClassVar[str] = "constant, graph"
    source: ClassVar[str] = "Dwork, Naor, Pitassi, Rothblum 2010 (streaming counters), on the paper's motion"
    needs: ClassVar[str] = "largest degree, a last round"

    @staticmethod
    def best(case: Case) -> Distributed:
        """The least constant noise that costs no more than ε over the rounds."""
        sigma = averaging_mixing(case.graph, case.mixing)
        c = -np.expm1(case.rounds * np.log1p(-sigma)) / (sigma * case.epsilon)
        while _epsilon(sigma, c, case.rounds) > case.epsilon:
            c = c * _STEP
        return Distributed(Fading(sigma, c, _UNUSED), case.graph)

    @property
    def epsilon(self) -> float:
        """ε_T = Σ_{t<T} (1−σ)^t/c, rounded up."""
        return _epsilon(self.mechanism.parameters.sigma, self.mechanism.parameters.c, self.rounds)

    @property
    def settings(self) -> dict[str, float]:
        """σ and c."""
        return {name: value for name, value in super().settings.items() if name != "q"}

    def scales(self) -> FloatArray:
        """The same scale in every round."""
        c = self.mechanism.parameters.c
        return np.broadcast_to(c, (self.rounds, *np.shape(c)))

    def law(self) -> LaplaceSum:
        """V = Σ_t Σ_i σ_i η_i(t)/N, as all γ_i are equal."""
        mechanism = self.mechanism
        gamma = 1 / step_sizes(mechanism)
        each = mechanism.closed_degrees * np.asarray(mechanism.parameters.c) / gamma.sum()
        scale, count = np.unique(np.broadcast_to(each, (mechanism.n,)), return_counts=True)
        return LaplaceSum(scale, np.zeros_like(scale), self.rounds * count.astype(np.float64), 1)


def _epsilon(mixing: PerAgent, noise: PerAgent, rounds: int) -> float:
    sigma, c = extended(mixing), extended(noise)
    spent = -np.expm1(rounds * np.log1p(-sigma)) / (sigma * c)
    return float(np.max(round_up(spent, ULP * (16 + 4 * rounds))))
