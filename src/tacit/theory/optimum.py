"""The best noise in closed form, and what smooth motion costs.

For a given mixing σ and privacy ε the variance of the consensus value is least with the scales
s_t ∝ (1−σ)^{t/3}. That is best not only among geometric schedules but among all of them, for
every number of rounds and for every agent on its own (docs/proofs/best-noise.md).
"""

from __future__ import annotations

import math

import numpy as np

from tacit.arrays import FloatArray, PerAgent
from tacit.graph import Graph
from tacit.mechanism import Fading, OneShot
from tacit.theory import privacy

_STEP = 1 + 4 * float(np.finfo(np.float64).eps)


def best_decay(sigma: PerAgent) -> float | FloatArray:
    """q* = (1 − σ)^{1/3}, whatever ε and the number of rounds."""
    return _plain(np.exp(np.log1p(-np.asarray(sigma, dtype=np.float64)) / 3))


def best_noise(sigma: PerAgent, epsilon: float, rounds: int | None = None) -> float | FloatArray:
    """c* = 1/(ε(1 − (1−σ)^{2/3})); times 1 − (1−σ)^{2T/3} when only T rounds are run."""
    log_ratio = 2 / 3 * np.log1p(-np.asarray(sigma, dtype=np.float64))
    spent = 1.0 if rounds is None else -np.expm1(rounds * log_ratio)
    return _plain(spent / (epsilon * -np.expm1(log_ratio)))


def best_fading(sigma: float | FloatArray, epsilon: float, rounds: int | None = None) -> Fading:
    """Return the best fading noise that costs no more than ε, rounding included."""
    sigma = OneShot(sigma, 1.0).sigma  # refuses mixing out of its range before logarithms meet it
    c, q = best_noise(sigma, epsilon, rounds), best_decay(sigma)
    parameters = Fading(sigma, c, q)
    while privacy.epsilon(parameters, rounds) > epsilon:
        c = c * _STEP
        parameters = Fading(sigma, c, q)
    return parameters


def best_one_shot(sigma: float | FloatArray, epsilon: float) -> OneShot:
    """Return the one-shot noise that costs no more than ε: c = 1/ε."""
    c = 1 / epsilon
    while privacy.epsilon(OneShot(sigma, c)) > epsilon:
        c *= _STEP
    return OneShot(sigma, c)


def one_shot_variance(epsilon: float, n: int) -> float:
    """2/(ε²N): the least variance any such mechanism has, reached as σ → 1."""
    return 2 / (epsilon * epsilon * n)


def price_of_smoothness(sigma: float) -> float:
    """How many times wider than the one-shot limit the best fading noise makes the deviation.

    √(σ²/(1 − (1−σ)^{2/3})³): 5.66 at σ = .1, 1.50 at σ = .8, 1 in the limit σ → 1.
    """
    return sigma / math.sqrt(-math.expm1(2 / 3 * math.log1p(-sigma))) ** 3


def averaging_mixing(graph: Graph, largest: float) -> FloatArray:
    """σ_i ∝ |N(i)| + 1, so that all γ_i are equal and the target is the true average."""
    closed = graph.degrees + 1.0
    return np.asarray(largest * (closed / np.max(closed)))


def _plain(value: FloatArray) -> float | FloatArray:
    return value if np.ndim(value) else float(value)
