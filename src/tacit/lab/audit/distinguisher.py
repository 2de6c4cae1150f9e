"""The law of the log-likelihood ratio: no distinguisher does better.

With a_t = d·(1−σ)^t/s_t for the cost of message t at distance d, s_t being the scale of its noise, the
ratio is a sum of independent terms. Under the true start each is a_t with probability 1/2, and otherwise
below: P(L_t ≤ l) = ½·exp((l − a_t)/2) for −a_t ≤ l < a_t. Under the other start the sum has the mirrored
law. Sums are convolved twice on a grid, once rounded down and once rounded up, so that
probabilities are enclosed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.signal import fftconvolve

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError
from tacit.core.law import Law
from tacit.core.theory.privacy import require_adjacency

Enclosure: TypeAlias = tuple[FloatArray, FloatArray]
"""Two arrays of numbers with the true ones between them."""

# Rounding error of a probability by the FFT, with a wide margin. Without it an enclosure could miss the
# truth.
_NOISE = 1e-13


@dataclass(frozen=True, eq=False, repr=False)
class LossLaw:
    """The law of log p(transcript | θ) − log p(transcript | θ') under θ.

    Attributes
    ----------
    costs : array, shape (messages,)
        a_t; their sum is the largest value, ε_T·d, reached with probability 2^−messages or more.
    step : float
        Of the grid; `low` and `high` hold the probabilities of multiples of it.
    """

    costs: FloatArray
    step: float
    low: FloatArray
    high: FloatArray

    @property
    def most(self) -> float:
        """The largest value that the ratio can take: ε_T·d."""
        return float(self.costs.sum())

    def tail(self, threshold: npt.ArrayLike) -> Enclosure:
        """P(ratio ≥ threshold) when the start is θ, enclosed."""
        down, up = (_sum_from(law, self.step, threshold) for law in (self.low, self.high))
        return _clip(down - _NOISE), _clip(up + _NOISE)

    def other_tail(self, threshold: npt.ArrayLike) -> Enclosure:
        """P(ratio ≥ threshold) when the start is θ', enclosed.

        The law under θ' is the mirror image of the law under θ.
        """
        up, down = (_sum_to(law, self.step, -np.asarray(threshold)) for law in (self.low, self.high))
        return _clip(down - _NOISE), _clip(up + _NOISE)


def loss_law(law: Law, rounds: int, distance: float, *, agent: int = 0, points: int = 2**15) -> LossLaw:
    """Return the law for one agent with two starts `distance` apart.

    The transcripts have `rounds` rounds. For vectors the starts differ in one component, which is the
    worst case.
    """
    require_adjacency(distance)
    if rounds < 1:
        raise ParameterError(f"rounds must be at least 1, got {rounds}: without a message there is no loss.")
    return sum_law(message_costs(law, rounds, distance, agent=agent), points=points)


def message_costs(law: Law, rounds: int, distance: float, *, agent: int = 0) -> FloatArray:
    """The most that each message can add to the ratio (Lemma 1).

    For message t this is a_t = d·(1−σ)^t/s_t.
    """
    if law.whole_domain:
        raise law.undefined("Laplace costs", "the law of the loss")
    return law.of_agent(agent).costs(rounds, distance)


def sum_law(costs: FloatArray, *, points: int = 2**15) -> LossLaw:
    """Convolve the laws of messages with the given costs."""
    return _sum_law(tuple(costs.tolist()), points)


@lru_cache(maxsize=64)  # a plan asks for the same laws as the bounds, and the next audit for all of them
def _sum_law(all_costs: tuple[float, ...], points: int) -> LossLaw:
    costs = np.array(all_costs)
    # Rounding all terms down, and once more up, gives two sums with the true one in between. So tails are
    # enclosed, and a threshold chosen from them cannot be too optimistic. One rounding to the nearest step
    # would be closer, but wrong on an unknown side.
    step = 2 * float(costs.sum()) / points
    laws = []
    for up in (False, True):
        law = np.ones(1)
        for cost in costs:
            law = np.maximum(fftconvolve(law, _term(float(cost), step, up)), 0)
        laws.append(law)
    return LossLaw(costs, step, *laws)


def _term(cost: float, step: float, up: bool) -> FloatArray:
    """Probabilities of one message's term, rounded to multiples of `step`.

    `up` says whether values are rounded up or down.
    """
    # One step more than needed, so that rounding cannot lose the atoms at ±cost.
    reach = int(np.ceil(cost / step)) + 1
    edges = np.arange(-reach, reach + 1, dtype=np.float64) * step

    def cdf(value: FloatArray) -> FloatArray:  # P(L ≤ value)
        inside = 0.5 * np.exp((np.minimum(value, cost) - cost) / 2)
        return np.where(value >= cost, 1.0, np.where(value < -cost, 0.0, inside))

    if up:  # mass in (edge − step, edge] goes to edge
        return np.diff(cdf(edges), prepend=0.0)
    # mass in [edge, edge + step) goes to edge; the atoms at ±cost are between edges or on them
    below = np.where(edges > cost, 1.0, np.where(edges <= -cost, 0.0, 0.5 * np.exp((edges - cost) / 2)))
    return np.diff(below, append=1.0)


def _sum_from(law: FloatArray, step: float, threshold: npt.ArrayLike) -> FloatArray:
    """Σ of probabilities at grid values ≥ threshold."""
    tail = np.append(np.cumsum(law[::-1])[::-1], 0.0)
    place = np.ceil(np.asarray(threshold) / step - 1e-9) + len(law) // 2
    return np.asarray(tail[np.clip(place, 0, len(law)).astype(np.int64)])


def _sum_to(law: FloatArray, step: float, threshold: npt.ArrayLike) -> FloatArray:
    """Σ of probabilities at grid values ≤ threshold."""
    head = np.append(0.0, np.cumsum(law))
    place = np.floor(np.asarray(threshold) / step + 1e-9) + len(law) // 2 + 1
    return np.asarray(head[np.clip(place, 0, len(law)).astype(np.int64)])


def _clip(probability: FloatArray) -> FloatArray:
    return np.clip(probability, 0.0, 1.0)
