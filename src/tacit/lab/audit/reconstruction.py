"""What an eavesdropper can know about a start: the exact posterior.

As a function of the hypothetical start ϑ, the log-likelihood of a transcript is a sum of terms
−w_t·|ϑ − κ_t| with weights w_t = (1−σ)^t/(c q^t) = ρ^t/c: the noise of message t would vanish at
κ_t. Between neighbouring κ's the posterior is an exponential, so its mode, mean, quantiles and
credible intervals are exact, without a grid. Many transcripts are done at once. Components of
vectors have independent posteriors.

Messages on a lattice are treated as the real numbers they stand for: the step is only 2^−40 of the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError, StateError
from tacit.core.history import AgentHistory
from tacit.lab.audit.likelihood import counted, fades, states


@dataclass(frozen=True)
class Prior:
    """Prior knowledge: a histogram over an interval; one bin is a flat prior.

    Parameters
    ----------
    edges : increasing numbers
        The first and last are the ends of the interval; either may be infinite if all bins
        are equally dense there (a flat prior on a line).
    densities : one per bin, up to a factor; by default equal.
    """

    edges: Sequence[float] = (-np.inf, np.inf)
    densities: Sequence[float] = (1.0,)

    def __post_init__(self) -> None:
        edges, densities = np.array(self.edges, float), np.array(self.densities, float)
        if len(edges) < 2 or np.isnan(edges).any() or not (np.diff(edges) > 0).all():
            raise ParameterError("a prior needs at least two edges, in rising order.")
        if len(densities) != len(edges) - 1 or not (np.isfinite(densities) & (densities > 0)).all():
            raise ParameterError(f"a prior needs a positive density for each of its {len(edges) - 1} bins.")

    @classmethod
    def flat(cls, low: float, high: float) -> Prior:
        """Every value in the interval is equally likely."""
        return cls((low, high))

    def density(self, values: npt.ArrayLike) -> FloatArray:
        """Density at the given values.

        At an edge it is that of the bin above, if there is one.
        """
        edges, heights = np.array(self.edges, float), np.array(self.densities, float)
        heights /= np.sum(heights * np.diff(edges))
        points = np.asarray(values, float)
        piece = np.clip(np.searchsorted(edges, points, side="right") - 1, 0, len(heights) - 1)
        return np.where((edges[0] <= points) & (points <= edges[-1]), heights[piece], 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """The law of a start given a transcript: exponential between knots.

    The last axis of every array runs over pieces [left, right]; the axes before it are
    transcripts (and components).

    Attributes
    ----------
    left, right, slope : array
        A piece, and the slope of the log-density on it.
    log_left, log_right : array
        Log-density at the ends, up to a constant.
    mass : array
        Probability of each piece.
    """

    left: FloatArray
    right: FloatArray
    slope: FloatArray
    log_left: FloatArray
    log_right: FloatArray
    mass: FloatArray

    @property
    def mode(self) -> FloatArray:
        """The most likely value; the lowest one if there are several."""
        best = np.argmax(np.maximum(self.log_left, self.log_right), axis=-1)[..., None]
        left, right, log_left, log_right = (
            np.take_along_axis(a, best, -1) for a in (self.left, self.right, self.log_left, self.log_right)
        )
        return np.asarray(np.where(log_left >= log_right, left, right)[..., 0])

    @property
    def log_peak(self) -> FloatArray:
        """Logarithm of the density at the mode.

        `log_left` and `log_right` are relative to it.
        """
        heaviest = np.argmax(self.mass, axis=-1)[..., None]
        left, right, slope, mass, top = (
            np.take_along_axis(a, heaviest, -1)
            for a in (
                self.left, self.right, self.slope, self.mass, np.maximum(self.log_left, self.log_right)
            )
        )  # fmt: skip
        return np.asarray((np.log(mass / _size(left, right, slope)) - top)[..., 0])

    def density(self, values: npt.ArrayLike) -> FloatArray:
        """Density at the given values, along a last axis of their own."""
        points = np.asarray(values, float)
        lead = self.mass.shape[:-1]
        density = np.zeros((*lead, len(points)))
        peak = self.log_peak
        for row in np.ndindex(lead):
            keep = self.right[row] > self.left[row]
            left, right = self.left[row][keep], self.right[row][keep]
            piece = np.clip(np.searchsorted(right, points, side="right"), 0, len(right) - 1)
            anchor = np.where(np.isinf(left), right, left)[piece]
            at = np.where(np.isinf(left), self.log_right[row][keep], self.log_left[row][keep])[piece]
            log = at + self.slope[row][keep][piece] * (points - anchor)
            inside = (left[0] <= points) & (points <= right[-1])
            density[row] = np.where(inside, np.exp(np.minimum(log, 0.0) + peak[row]), 0.0)
        return density

    @property
    def mean(self) -> FloatArray:
        """The expected value."""
        return np.asarray(np.sum(self.mass * _centre(self.left, self.right, self.slope, self.mass), axis=-1))

    def cdf(self, value: npt.ArrayLike) -> FloatArray:
        """P(initial value ≤ value)."""
        point = np.clip(np.asarray(value, float)[..., None], self.left, self.right)
        share = np.where(point >= self.right, 1.0, _share(self.left, self.right, self.slope, point))
        return np.asarray(np.sum(self.mass * share, axis=-1))

    def quantile(self, probability: float) -> FloatArray:
        """The value v with P(initial value ≤ v) = probability."""
        if not 0 < probability < 1:
            raise ParameterError(f"a probability must be in (0, 1), got {probability}.")
        total = np.cumsum(self.mass, axis=-1)
        place = np.minimum(np.sum(total < probability, axis=-1), self.mass.shape[-1] - 1)[..., None]
        left, right, slope, mass, above = (
            np.take_along_axis(a, place, -1) for a in (self.left, self.right, self.slope, self.mass, total)
        )
        share = np.clip((probability - (above - mass)) / mass, 1e-300, 1.0)
        return np.asarray(_point(left, right, slope, share)[..., 0])

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Ends of the credible interval with equal tails.

        It contains the value with probability `level`.
        """
        if not 0 < level < 1:
            raise ParameterError(f"a level must be in (0, 1), got {level}.")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)


def reconstruct(view: AgentHistory, prior: Prior | None = None, *, rounds: int | None = None) -> Posterior:
    """Return the posterior of θ_k(0) for each transcript.

    Parameters
    ----------
    view : AgentHistory
        ``history.of(agent)``.
    prior : Prior, optional
        By default every number is equally likely beforehand.
    rounds : int, optional
        Use only the first `rounds` rounds.

    Examples
    --------
    >>> from tacit import ClientServer, OneShot
    >>> history = ClientServer(OneShot(0.8, 10), agents=1).execute([1.0], [[5.0]])
    >>> low, high = reconstruct(history.of(0)).interval(0.95)
    >>> low.round(3), high.round(3)
    (array([-23.957]), array([35.957]))
    """
    slots = view.x.shape[1] if rounds is None else int(np.searchsorted(view.rounds_of, rounds))
    known = Prior() if prior is None else prior
    kink, weight = kinks(view)
    kink, weight = kink[..., :slots], weight[..., :slots]
    if not weight.any(axis=-1).all() and np.isinf(known.edges).any():
        raise StateError(
            "every session must have at least one message of the agent: without one, nothing is known about "
            "its value except the prior. Give a prior on a finite interval, or leave such sessions out."
        )
    return from_kinks(kink, weight, known)


def kinks(view: AgentHistory) -> tuple[FloatArray, FloatArray]:
    """Return κ and w of every message.

    Their shape is (runs, slots), or (runs, k, slots) for vectors. A message without new information has
    weight 0.
    """
    tail = (1,) * (view.x.ndim - 2)
    told, fade = counted(view), fades(view)
    path = states(view, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kink = (view.x - path) / fade.reshape(*fade.shape, *tail)
        weight = np.where(told, fade / view.scales, 0.0)
    weight = np.broadcast_to(weight.reshape(*told.shape, *tail), path.shape)
    sound = (weight > 0) & np.isfinite(kink)  # at the end of a long run both may underflow
    kink, weight = np.where(sound, kink, 0.0), np.where(sound, weight, 0.0)
    return np.moveaxis(kink, 1, -1), np.moveaxis(weight, 1, -1)


def from_kinks(kink: FloatArray, weight: FloatArray, prior: Prior) -> Posterior:
    """Cut the line at all κ's and prior edges, and weigh the pieces.

    `kink` and `weight` broadcast; their last axis runs over messages. Takes O(n log n) for n messages.
    """
    edges, density = np.array(prior.edges, float), np.log(np.array(prior.densities, float))
    inner = edges[np.isfinite(edges)]
    kink, weight = np.broadcast_arrays(kink, weight)
    lead = kink.shape[:-1]
    cuts = np.concatenate([kink, np.broadcast_to(inner, (*lead, len(inner)))], axis=-1)
    cuts = np.clip(cuts, edges[0], edges[-1])
    order = np.argsort(cuts, axis=-1, kind="stable")
    cuts = np.take_along_axis(cuts, order, -1)
    weights = np.concatenate([weight, np.zeros((*lead, len(inner)))], axis=-1)
    below = np.cumsum(np.take_along_axis(weights, order, -1), axis=-1)
    below = np.concatenate([np.zeros((*lead, 1)), below], axis=-1)
    ends = [np.broadcast_to(e, (*lead, 1)) for e in (edges[0], edges[-1])]
    left, right = np.concatenate([ends[0], cuts], axis=-1), np.concatenate([cuts, ends[1]], axis=-1)
    # d/dϑ of −Σ w|ϑ − κ| between cuts: weights above minus weights below
    slope = below[..., -1:] - 2 * below
    heights = np.cumsum(slope[..., 1:-1] * np.diff(cuts, axis=-1), axis=-1)
    heights = np.concatenate([np.zeros((*lead, 1)), heights], axis=-1)  # at the cuts; 0 at the first
    return _weighed(left, right, slope, heights, edges, density)


def _weighed(  # noqa: PLR0917 - the pieces and the prior
    left: FloatArray,
    right: FloatArray,
    slope: FloatArray,
    heights: FloatArray,
    edges: FloatArray,
    density: FloatArray,
) -> Posterior:
    """Add the prior to the heights at the cuts, and measure the pieces."""
    middle = np.where(np.isinf(left), right - 1, np.where(np.isinf(right), left + 1, (left + right) / 2))
    bins = density[np.clip(np.searchsorted(edges, middle, side="right") - 1, 0, len(density) - 1)]
    empty = right <= left
    with np.errstate(invalid="ignore"):  # a slope of 0 on an empty piece of infinite length
        first = np.where(np.isinf(left[..., :1]), -np.inf, heights[..., :1])
        last = np.where(np.isinf(right[..., -1:]), -np.inf, heights[..., -1:])
    log_left = np.where(empty, -np.inf, np.concatenate([first, heights], axis=-1) + bins)
    log_right = np.where(empty, -np.inf, np.concatenate([heights, last], axis=-1) + bins)
    top = np.maximum(log_left, log_right)
    peak = top.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        mass = np.where(empty, 0.0, np.exp(top - peak) * _size(left, right, slope))
    mass /= mass.sum(axis=-1, keepdims=True)
    return Posterior(left, right, slope, log_left - peak, log_right - peak, mass)


def _size(left: FloatArray, right: FloatArray, slope: FloatArray) -> FloatArray:
    """Mass of a piece divided by its largest density: never overflows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        width = right - left
        z = np.abs(slope * width)
        return np.where(z < 1e-12, width, -np.expm1(-z) / np.abs(slope))


def _share(left: FloatArray, right: FloatArray, slope: FloatArray, point: FloatArray) -> FloatArray:
    """The share of a piece's mass below a point."""
    # Rising and falling pieces need different forms: each exponent must be negative, or exp overflows.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z, below, above = slope * (right - left), slope * (point - left), slope * (right - point)
        rising = np.expm1(-below) * np.exp(-above) / np.expm1(-z)
        share = np.where(z > 0, rising, np.expm1(below) / np.expm1(z))
        share = np.where(np.abs(z) < 1e-12, (point - left) / (right - left), share)
        share = np.where(np.isinf(left), np.exp(-above), share)
        share = np.where(np.isinf(right), -np.expm1(below), share)
    return np.where(point <= left, 0.0, share)


def _point(left: FloatArray, right: FloatArray, slope: FloatArray, share: FloatArray) -> FloatArray:
    """The point of a piece with this share of its mass below it."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = slope * (right - left)
        rising = right + np.log1p((1 - share) * np.expm1(-z)) / slope
        falling = left + np.log1p(share * np.expm1(z)) / slope
        point = np.where(np.abs(z) < 1e-12, left + share * (right - left), np.where(z > 0, rising, falling))
        point = np.where(np.isinf(left), right + np.log(share) / slope, point)
        return np.where(np.isinf(right), left + np.log1p(-share) / slope, point)


def _centre(left: FloatArray, right: FloatArray, slope: FloatArray, mass: FloatArray) -> FloatArray:
    """Mean of each piece."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        width = right - left
        z = slope * width
        inner = np.where(np.abs(z) < 1e-4, 0.5 + z / 12, 1 / -np.expm1(-z) - 1 / z)
        centre = np.where(np.isinf(left), right - 1 / slope, left + width * inner)
        centre = np.where(np.isinf(right), left - 1 / slope, centre)
    return np.where(mass > 0, centre, 0.0)
