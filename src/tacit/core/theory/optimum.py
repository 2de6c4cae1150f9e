"""The best noise in closed form, and the price of smooth motion.

For a given mixing σ and privacy ε the variance of the consensus value is least with the scales
s_t ∝ (1−σ)^{t/3}. This is the best of all schedules, not only of the geometric ones. It holds for every
number of rounds and for each agent separately (docs/proofs/best-noise.md).
"""

from __future__ import annotations

import math

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.core.graph import Graph
from tacit.core.law import Fading, OneShot
from tacit.core.law.fading import best_decay, best_noise
from tacit.core.mechanism import Distributed
from tacit.core.mechanism.topology import WeightsLike
from tacit.core.motion.mixing import log_kept

__all__ = [
    "averaging_mixing",
    "best_decay",
    "best_fading",
    "best_noise",
    "best_one_shot",
    "one_shot_variance",
    "price_of_smoothness",
]


def best_fading(sigma: float | FloatArray, epsilon: float, rounds: int | None = None) -> Fading:
    """Return the best fading noise with a loss of at most ε.

    Rounding is included.
    """
    return Fading.best(sigma, epsilon, rounds)


def best_one_shot(sigma: float | FloatArray, epsilon: float) -> OneShot:
    """Return the one-shot noise with a loss of at most ε: c = 1/ε."""
    return OneShot.best(sigma, epsilon)


def one_shot_variance(epsilon: float, n: int) -> float:
    """Return 2/(ε²N), the variance of one-shot noise.

    It is also the limit of the best fading noise as σ → 1.
    """
    return 2 / (epsilon * epsilon * n)


def price_of_smoothness(sigma: float) -> float:
    """Deviation of the best fading noise over that of one-shot noise.

    It is √(σ²/(1 − (1−σ)^{2/3})³): 5.66 at σ = .1, 1.50 at σ = .8, 1 in the limit σ → 1.
    """
    return sigma / math.sqrt(-math.expm1(2 / 3 * log_kept(sigma))) ** 3


def averaging_mixing(graph: Graph, largest: float, weights: WeightsLike = None) -> FloatArray:
    """σ_i ∝ ω_i, so that all γ_i are equal and the target is the true average.

    In the paper ω_i = |N(i)| + 1.
    """
    omega = Distributed(OneShot(largest, 1.0), graph, weights).stationary
    return np.asarray(largest * (omega / np.max(omega)))
