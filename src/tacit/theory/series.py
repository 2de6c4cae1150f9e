"""Series: a mean in every slot, for a whole year, with one promise about all of them.

A series first says which change of a person's data it hides (`Hides`): one reading, a window of readings, or
a step of up to δ for good. The best noise depends on it. For a step it is the square-root mechanism: agents
send a filtered reading w(t) = Σ_s g(t−s)·x(s), noise z is added to w, and what is published is
Σ_s f(t−s)·(w(s) + z(s)). Here f(k) = binom(2k, k)/4^k is the square root of summation, and g undoes f.

Everything is proved in docs/proofs/series.md. Losses and deviations are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, final

import numpy as np

from tacit.arrays import FloatArray
from tacit.errors import Infeasible, ParameterError

MOST_SLOTS = 10_000_000
"""A series longer than this would overflow the proof's rounding allowance."""
GRID_BITS: Final = 32
"""The grid of the messages is this many bits finer than the noise."""
_DISCRETE = 12.0
"""What discrete Gaussian noise costs beyond the continuous one, over slots/(τ/h)² (docs/proofs/series.md)."""
_SLACK = 1 + 2.0**-30  # covers float64 rounding of sums over MOST_SLOTS terms

Kind = Literal["square-root", "tree", "pure tree", "independent", "independent laplace"]


# ---- filters ----------------------------------------------------------------------------------------


def decoding_filter(slots: int) -> FloatArray:
    """f(0), …, f(slots−1) with f(k) = binom(2k, k)/4^k; convolved with itself it is all ones."""
    k = np.arange(1, _slots(slots), dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def encoding_filter(slots: int) -> FloatArray:
    """g(0) = 1, g(k) = −f(k)/(2k−1): the filter that agents run. Its running sums are f."""
    found = decoding_filter(slots)
    found[1:] /= 1 - 2 * np.arange(1, slots)
    return found


def energy(slots: int) -> float:
    """F(T) = Σ_{k<T} f(k)², which grows like (ln T + γ + 4 ln 2)/π."""
    return float(math.fsum(np.square(decoding_filter(slots)).tolist()))


def _slots(slots: int) -> int:
    if not 1 <= slots <= MOST_SLOTS:
        raise ParameterError(f"a series must have from 1 to {MOST_SLOTS:,} slots, got {slots}.")
    return int(slots)


# ---- what is hidden ---------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Hides:
    """Which change of one agent's readings a series hides.

    ``reading`` is one reading, whatever it was; ``window:K`` is any K readings in a row; ``step:D`` is a
    change of up to D from some slot on, for good. Formally, with ``step:D`` two streams of clamped readings
    are adjacent if their difference has a total variation of at most D, from 0 before the first reading.

    Examples
    --------
    >>> Hides.parse("step:2")
    Hides(kind='step', size=2.0)
    """

    kind: Literal["reading", "window", "step"]
    size: float = 1.0

    @classmethod
    def parse(cls, text: str) -> Hides:
        """Read ``reading``, ``window:96`` or ``step:2``."""
        kind, _, size = text.partition(":")
        try:
            if kind == "reading" and not size:
                return cls("reading")
            if kind == "window" and int(size) >= 1:
                return cls("window", float(int(size)))
            if kind == "step" and 0 < float(size) < math.inf:
                return cls("step", float(size))
        except ValueError:
            pass
        raise ParameterError(
            f"what a series hides must be reading, window:SLOTS or step:SIZE, like step:2, got {text!r}."
        )

    def __str__(self) -> str:
        return self.kind if self.kind == "reading" else f"{self.kind}:{self.size:g}"


# ---- Gaussian differential privacy ----------------------------------------------------------------------


def delta_of(mu: float, epsilon: float) -> float:
    """δ(ε) of μ-Gaussian differential privacy: Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2)."""
    from scipy.special import log_ndtr

    first, second = log_ndtr(-epsilon / mu + mu / 2), epsilon + log_ndtr(-epsilon / mu - mu / 2)
    return float(-np.exp(first) * np.expm1(second - first))


def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest μ whose (ε, δ) is within the given one, rounded down.

    Examples
    --------
    >>> round(mu_of(1.0, 1e-6), 10)
    0.2367043807
    """
    from scipy.optimize import brentq

    if not (epsilon > 0 and 0 < delta < 1):
        raise ParameterError(
            f"the loss must be positive and its failure probability in (0, 1), got {epsilon} and {delta}."
        )
    low, high = 1e-12, 1.0
    while delta_of(high, epsilon) < delta:
        high *= 2
    found = float(brentq(lambda mu: delta_of(mu, epsilon) - delta, low, high, xtol=1e-15, rtol=1e-14))
    return found * (1 - 1e-12)


def epsilon_of(mu: float, delta: float) -> float:
    """Return the least ε that μ-Gaussian differential privacy gives with this δ, rounded up."""
    from scipy.optimize import brentq

    if delta_of(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_of(mu, high) > delta:
        high *= 2
    found = float(brentq(lambda epsilon: delta_of(mu, epsilon) - delta, 0.0, high, xtol=1e-15, rtol=1e-14))
    return found * (1 + 1e-12)


# ---- mechanisms -----------------------------------------------------------------------------------------


class DrawnNoise(NamedTuple):
    """What one mechanism needs: the noise of each draw, and what of it is in the worst mean.

    `draw` is the standard deviation of one draw (τ), `times` the factor from it to a published sum,
    `sensitivity` how far the messages can move in the norm that the noise is for.
    """

    draw: float
    times: float
    sensitivity: float


def _levels(slots: int) -> tuple[int, int]:
    """Levels of a binary tree over so many slots, and the most nodes that a prefix needs."""
    levels = slots.bit_length()
    ones = max(slots.bit_count(), levels - 1)  # 2^(levels−1) − 1 is below slots and all ones
    return levels, ones


def noise_for(
    kind: Kind, slots: int, hides: Hides, *, span: float, epsilon: float, delta: float
) -> DrawnNoise:
    """Return the least noise with which a mechanism keeps (ε, δ) for the whole series."""
    if kind == "square-root":
        _require(hides, "step", kind)
        whole = energy(slots) * _SLACK
        # Rounding w to the grid h moves it by up to h/2 in each world: h√T in all.
        mu = mu_of(epsilon - _discreteness(slots), delta)
        moved = hides.size * math.sqrt(whole)
        draw = moved / (mu - math.sqrt(slots) * 2.0**-GRID_BITS)
        return DrawnNoise(draw, math.sqrt(whole), moved)
    if kind in ("tree", "pure tree"):
        _require(hides, "step", kind)
        levels, ones = _levels(slots)
        if kind == "pure tree":
            scale = hides.size * levels / epsilon
            return DrawnNoise(math.sqrt(2) * scale, math.sqrt(ones), hides.size * levels)
        moved = hides.size * math.sqrt(levels)
        return DrawnNoise(moved / mu_of(epsilon, delta), math.sqrt(ones), moved)
    count, size = _moved(slots, hides, span)
    if kind == "independent laplace":
        return DrawnNoise(math.sqrt(2) * size * count / epsilon, 1.0, size * count)
    moved = size * math.sqrt(count)
    return DrawnNoise(moved / mu_of(epsilon, delta), 1.0, moved)


def _discreteness(slots: int) -> float:
    """What discrete Gaussian noise on the grid costs beyond the continuous one."""
    return _DISCRETE * slots / 4.0**GRID_BITS


def _moved(slots: int, hides: Hides, span: float) -> tuple[int, float]:
    """How many means one agent's change reaches, and by how much each."""
    if hides.kind == "step":
        return slots, hides.size
    return (1 if hides.kind == "reading" else min(int(hides.size), slots)), span


def _require(hides: Hides, kind: str, mechanism: str) -> None:
    if hides.kind != kind:
        raise ParameterError(f"{mechanism} noise hides a {kind}, got {hides}: ask for step:SIZE.")


# ---- design ---------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class SeriesDesign:
    """The best noise for a series, and what it promises.

    Attributes
    ----------
    mechanism : str
        Which noise: square-root, tree, pure tree, independent or independent laplace.
    noise_deviation : float
        Standard deviation of one draw (τ).
    deviation : float
        Standard deviation of each published mean, the worst one, rounded up.
    loss, delta : float
        For the whole series: the change that is hidden is (loss, delta)-private. `delta` is 0 where pure.
    """

    slots: int
    hides: Hides
    agents: int
    low: float
    high: float
    keepers: int
    mechanism: Kind
    noise_deviation: float
    deviation: float
    loss: float
    delta: float

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {**vars(self), "hides": str(self.hides), "costs": self.costs()}

    def costs(self, slots_per_day: int = 96) -> dict[str, float]:
        """What other changes of the same size cost, as multiples of the step's loss scale (of Δ₂)."""
        return pattern_costs(self.slots, slots_per_day) if self.mechanism == "square-root" else {}


def candidates(
    slots: int, hides: Hides, *, agents: int, span: float, keepers: int, epsilon: float, delta: float
) -> dict[Kind, float]:
    """Return the deviation of the worst mean for every mechanism that hides this, by name."""
    kinds: tuple[Kind, ...] = ("independent", "independent laplace")
    if hides.kind == "step":
        kinds = ("square-root", "tree", "pure tree", "independent")
    draws = keepers or agents  # without keepers every agent adds noise of its own
    found: dict[Kind, float] = {}
    for kind in kinds:
        noise = noise_for(kind, slots, hides, span=span, epsilon=epsilon, delta=delta)
        found[kind] = noise.draw * noise.times * math.sqrt(draws) / agents * _SLACK
    return found


def design_series(
    slots: int,
    hides: Hides | str,
    *,
    agents: int,
    low: float,
    high: float,
    keepers: int = 0,
    loss: float = 1.0,
    delta: float = 1e-6,
) -> SeriesDesign:
    """Return the mechanism with the least error for a series, at (loss, delta) for all of it.

    Parameters
    ----------
    slots : int
        How many means (T).
    hides : Hides or str
        ``reading``, ``window:SLOTS`` or ``step:SIZE``.
    keepers : int
        How many keepers add noise; 0 if every agent adds its own.
    loss, delta : float
        For the whole series, whatever it publishes.

    Examples
    --------
    >>> made = design_series(35040, "step:2", agents=1000, low=0, high=10, keepers=1)
    >>> made.mechanism, round(made.deviation, 4)
    ('square-root', 0.0372)
    """
    what = Hides.parse(hides) if isinstance(hides, str) else hides
    _check(slots, agents, low, high, keepers)
    span = high - low
    if what.kind == "step" and what.size > span:
        raise ParameterError(
            f"a step must be at most the range, {span:g}, got {what.size:g}: clamped readings move no more."
        )
    found = candidates(slots, what, agents=agents, span=span, keepers=keepers, epsilon=loss, delta=delta)
    kind = min(found, key=lambda name: found[name])
    if found[kind] > span / 2:
        raise Infeasible(
            f"no noise hides {what} in {slots:,} means of {agents:,} agents at a loss of {loss:g}: each mean "
            f"would have a standard deviation of {found[kind]:.4g}, and the middle of the range is never off "
            f"by more than {span / 2:g}. Hide less (reading, or a step), allow a larger loss, or use keepers."
        )
    noise = noise_for(kind, slots, what, span=span, epsilon=loss, delta=delta)
    pure = kind in ("pure tree", "independent laplace")
    return SeriesDesign(
        slots, what, agents, low, high, keepers, kind, noise.draw, found[kind], loss, 0.0 if pure else delta
    )


def _check(slots: int, agents: int, low: float, high: float, keepers: int) -> None:
    _slots(slots)
    if agents < 1 or keepers < 0:
        raise ParameterError(
            f"there must be at least 1 agent and 0 or more keepers, got {agents} and {keepers}."
        )
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ParameterError(f"the range must be two numbers LOW:HIGH with LOW below HIGH, got {low}:{high}.")


def pattern_costs(slots: int, slots_per_day: int = 96) -> dict[str, float]:
    """What changes of the same height cost under the square-root mechanism, as multiples of a step.

    A change d(t) of the readings moves w by g ∗ d. A pulse of k slots moves it by f(t) − f(t−k), so every
    pattern of pulses is a sum of shifted copies of f.
    """
    f, hour = decoding_filter(slots), max(1, slots_per_day // 24)
    step = math.sqrt(float(f @ f))

    def of(pulses: list[tuple[int, int]]) -> float:
        moved = np.zeros(slots)
        for first, last in pulses:
            moved[first:] += f[: slots - first]
            if last < slots:
                moved[last:] -= f[: slots - last]
        return math.sqrt(float(moved @ moved)) / step * _SLACK

    rows = {"step": 1.0, "one reading": of([(0, 1)])}
    for name, width in (("one hour", hour), ("one day", slots_per_day), ("half of the series", slots // 2)):
        if 1 < width < slots:
            rows[name] = of([(0, width)])
    if slots >= 2 * slots_per_day:
        rows["the same hour every day"] = of([(d, d + hour) for d in range(0, slots, slots_per_day)])
    return rows
