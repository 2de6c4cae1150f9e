"""Series: a mean in every slot, with one promise about all of them.

A series first says which change of a person's data it hides (`Hides`): one reading, a window of readings, or
a step of up to δ for good. The best noise depends on it. For a step it is the square-root mechanism: agents
send a filtered reading w(t) = Σ_s g(t−s)·x(s), noise z is added to w, and what is published is Σ_s
f(t−s)·(w(s) + z(s)). Here f(k) = binom(2k, k)/4^k is the square root of summation, and g undoes f. Everything
is proved in docs/proofs/series.md. Losses and deviations are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, final

import msgspec
import numpy as np

from tacit.base.errors import ParameterError
from tacit.base.report import Shown, Summary
from tacit.core.law.gaussian import delta_of, epsilon_of, mu_of
from tacit.core.question import Mean, Question
from tacit.core.series.codes import (
    GRID_BITS,
    MOST_SLOTS,
    BinaryTree,
    Independent,
    SeriesCode,
    SeriesGrid,
    SquareRoot,
    decoding_filter,
    encoding_filter,
    energy,
    require_slots,
)
from tacit.core.series.vectors import Vectors, vectors_of

if TYPE_CHECKING:
    from tacit.core.question import MeanNoise
    from tacit.core.theory.planned_answer import PlannedAnswer

__all__ = [
    "MOST_SLOTS",
    "Hides",
    "SeriesDesign",
    "candidates",
    "decoding_filter",
    "delta_of",
    "design_series",
    "encoding_filter",
    "energy",
    "epsilon_of",
    "loss_with",
    "mu_of",
    "noise_for",
    "pattern_costs",
    "written",
]

_DISCRETE: Final = 12.0
"""Extra loss of discrete over continuous Gaussian noise, divided by slots/(τ/h)² (docs/proofs/series.md)."""
_SLACK = 1 + 2.0**-30  # covers float64 rounding of sums over MOST_SLOTS terms

Kind = Literal["square-root", "tree", "pure tree", "independent", "independent laplace"]
_PURE: Final = ("pure tree", "independent laplace")
_CODES: Final[dict[Kind, type[SeriesCode]]] = {
    "square-root": SquareRoot,
    "tree": BinaryTree,
    "pure tree": BinaryTree,
    "independent": Independent,
    "independent laplace": Independent,
}


# ---- what is hidden ---------------------------------------------------------------------------------


@final
class Hides(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which change of one agent's readings a series hides.

    ``reading`` is one reading, whatever it was; ``window:K`` is any K readings in a row; ``step:D`` is a
    change of up to D from some slot on, for good. Formally, with ``step:D`` two streams of clamped readings
    are adjacent if their difference has a total variation of at most D, from 0 before the first reading.
    Of vectors it is measured in the L2 norm. ``step`` alone is the largest one: from any record to any other.

    Examples
    --------
    >>> Hides.parse("step:2")
    Hides(kind='step', size=2.0)
    """

    kind: Literal["reading", "window", "step"]
    size: float

    @classmethod
    def parse(cls, text: str) -> Hides:
        """Read ``reading``, ``window:96``, ``step:2`` or ``step``."""
        kind, _, size = text.partition(":")
        try:
            if kind == "reading" and not size:
                return cls("reading", 1.0)
            if text == "step":
                return cls("step", math.inf)
            if kind == "window" and int(size) >= 1:
                return cls("window", float(int(size)))
            if kind == "step" and 0 < float(size) < math.inf:
                return cls("step", float(size))
        except ValueError:
            pass
        raise ParameterError(
            "what a series hides must be reading, window:SLOTS, step or step:SIZE, like step:2, got "
            f"{text!r}."
        )

    def __str__(self) -> str:
        # For people, and exact: what is shown can be given as an option again.
        return written(self).removesuffix(".0")

    @property
    def change(self) -> float:
        """How far a hidden change can move a reading."""
        return self.size if self.kind == "step" else math.inf

    @property
    def runs_with(self) -> Literal["square-root", "independent"]:
        """The mechanism of a series that hides this and is run.

        Others can be designed and simulated.
        """
        return "square-root" if self.kind == "step" else "independent"

    def within(self, question: Question | None, low: float, high: float) -> Hides:
        """Return the same with the size of its step, for what is read in a slot.

        A step of vectors that are no quantities must be a whole one: other sizes say nothing about records.
        """
        if self.kind != "step":
            return self
        widest = (high - low) if question is None else Vectors.of(question).distance
        if question is not None and not question.moves and self.size not in (widest, math.inf):
            raise ParameterError(
                f"a step of a {question.kind} has no size, got {self}: records are no quantities. Hide a "
                "step from any record to any other (--hides step), a reading or a window."
            )
        if widest < self.size < math.inf:
            raise ParameterError(
                f"a step must be at most the range, {widest:g}, got {self.size:g}: clamped readings move no "
                "more."
            )
        return Hides("step", min(self.size, widest))

    def covers(self, other: Hides) -> bool:
        """Whether this hides everything that `other` hides.

        The loss is then no larger. A step covers smaller steps; a window covers shorter windows and a single
        reading. A whole step of a question and a step of some size say nothing about each other.
        """
        if "step" in (self.kind, other.kind):
            whole = (self.size == math.inf, other.size == math.inf)
            return self.kind == other.kind and self.size >= other.size and whole[0] == whole[1]
        return self.size >= other.size


def written(hides: Hides) -> str:
    """Return the text that `Hides.parse` reads back exactly.

    It is step:0.1, and not a rounded number.
    """
    if hides.kind == "reading" or hides.size == math.inf:
        return hides.kind
    return f"window:{hides.size:.0f}" if hides.kind == "window" else f"step:{hides.size!r}"


def accepted_as(hides: Hides, question: Question | None) -> Hides:
    """Return what an owner accepts: a whole step of a question has no size."""
    whole = hides.kind == "step" and question is not None and not question.moves
    return Hides("step", math.inf) if whole else hides


# ---- mechanisms -----------------------------------------------------------------------------------------


class DrawnNoise(NamedTuple):
    """The noise that one mechanism needs, and its part of a mean.

    `draw` is the standard deviation of one draw (τ), `times` the factor from it to that of a published sum.
    `sensitivity` is how far one agent's change can move the messages: in the L2 norm for Gaussian noise, in
    the L1 norm for Laplace noise.
    """

    draw: float
    times: float
    sensitivity: float


def _levels(slots: int) -> tuple[int, int]:
    """Return the levels of a binary tree, and the most nodes in use.

    The tree is over this many slots, and a prefix of them uses that many nodes at most.
    """
    levels = slots.bit_length()
    ones = max(slots.bit_count(), levels - 1)  # 2^(levels−1) − 1 is below slots and all ones
    return levels, ones


class _Reach(NamedTuple):
    """How far one agent's change moves the messages.

    Also how many messages it moves, and the weight of a draw in a published sum.
    """

    moved: float
    messages: int
    times: float


def _reach(kind: Kind, slots: int, hides: Hides, vectors: Vectors) -> _Reach:
    k = vectors.components
    if kind == "square-root":
        _require(hides, "step", kind)
        whole = energy(slots) * _SLACK
        return _Reach(hides.size * math.sqrt(whole), k * slots, math.sqrt(whole))
    if kind in ("tree", "pure tree"):
        _require(hides, "step", kind)
        levels, ones = _levels(slots)
        norm = levels if kind == "pure tree" else math.sqrt(levels)
        return _Reach(hides.size * norm, 2 * k * slots, math.sqrt(ones))
    count, size = _moved(slots, hides, vectors.diameter if kind in _PURE else vectors.distance)
    return _Reach(size * (count if kind in _PURE else math.sqrt(count)), k * count, 1.0)


def noise_for(
    kind: Kind, slots: int, hides: Hides, *, span: float | Vectors, epsilon: float, delta: float
) -> DrawnNoise:
    """Return the least noise with which a mechanism keeps (ε, δ).

    It is for the whole series, on its grid. `span` is how far apart two readings are.
    """
    moved, messages, times = _reach(kind, slots, hides, vectors_of(span))
    if kind in _PURE:
        left = epsilon - messages * 2.0 ** -_bits(kind)  # rounding takes the rest
        scale = moved * (1 + 1e-11) / left if left > 0 else math.inf
        return DrawnNoise(math.sqrt(2) * scale, times, moved)
    mu = mu_of(epsilon - _discreteness(messages, 2.0 ** (GRID_BITS + 1)), delta)
    mu -= math.sqrt(messages) * 2.0**-GRID_BITS
    return DrawnNoise(moved / mu if mu > 0 else math.inf, times, moved)


def loss_with(
    kind: Kind,
    slots: int,
    hides: Hides,
    *,
    grid: SeriesGrid,
    steps: float,
    delta: float,
    vectors: Vectors | None = None,
) -> float:
    """Return the loss of a whole series on its grid, rounded up.

    It is for the noise that is really drawn.

    Parameters
    ----------
    grid : SeriesGrid
        Gives the range of readings and the rounding error of a message.
    steps : float
        The parameter of each draw in grid steps: τ/h for Gaussian noise, the scale for Laplace noise.
    delta : float
        The failure probability; pure mechanisms need none.
    vectors : Vectors, optional
        What is read in a slot, if it is more than one number of the range.
    """
    moved, messages, _ = _reach(kind, slots, hides, vectors or vectors_of(grid.high - grid.low))
    noise = steps * grid.step
    if kind in _PURE:
        return (moved + messages * grid.moved) / noise * (1 + 1e-12)
    mu = (moved + math.sqrt(messages) * grid.moved) / noise
    return (epsilon_of(mu, delta) + _discreteness(messages, steps)) * (1 + 1e-12)


def _bits(kind: Kind) -> int:
    """How many bits finer than the noise the grid is.

    With Laplace noise the loss by rounding grows with the number of messages T, with Gaussian noise with √T.
    """
    return GRID_BITS + 8 if kind in _PURE else GRID_BITS


def _discreteness(messages: int, steps: float) -> float:
    """Return the extra loss of discrete over continuous noise.

    The noise is Gaussian with this many grid steps.
    """
    return _DISCRETE * messages / steps**2


def _moved(slots: int, hides: Hides, distance: float) -> tuple[int, float]:
    """How many means one agent's change reaches, and by how much each."""
    if hides.kind == "step":
        return slots, hides.size
    return (1 if hides.kind == "reading" else min(int(hides.size), slots)), distance


def _require(hides: Hides, kind: str, mechanism: str) -> None:
    if hides.kind != kind:
        raise ParameterError(f"{mechanism} noise hides a {kind}, got {hides}: ask for step:SIZE.")


# ---- design ---------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class SeriesDesign(Shown):
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
    question : Question, optional
        What is asked in every slot; None if it is the mean of a number. `low` and `high` are then those of
        its vectors, and the deviations are of each component of the mean vector.
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
    question: Question | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        costs = self.costs()
        losses = {name: self.loss_of(times) for name, times in costs.items()}
        found = {**vars(self), "hides": str(self.hides), "costs": costs, "losses": losses}
        asked = found.pop("question")
        if asked is None:
            return found
        from tacit.core.theory.planned_answer import question_word

        answer = self.answer()
        return found | {
            "question": question_word(asked),
            "answer": None if answer is None else answer.as_dict(),
        }

    def summary(self, unit: str = "", slots_per_day: int = 96) -> Summary:
        """Return the design for people, in the unit of the values."""
        from tacit.core.series.rows import series_summary

        return series_summary(self, unit, slots_per_day)

    @property
    def vectors(self) -> Vectors:
        """How many numbers are read in a slot, and how far apart two readings are."""
        return vectors_of(self.high - self.low) if self.question is None else Vectors.of(self.question)

    def answer(self, failure_probability: float = 0.05) -> PlannedAnswer | None:
        """Return the intervals of the answer of the worst slot.

        They are for records that are spread evenly, and if nobody is missing. None for the tree with Laplace
        noise, whose law is not computed.
        """
        from tacit.core.theory.planned_answer import planned_with

        asked, noise = self.question or Mean(self.low, self.high), self._mean_noise()
        return None if noise is None else planned_with(noise, self.agents, asked, failure_probability)

    def _mean_noise(self) -> MeanNoise | None:
        """Return the law of the noise of the worst mean vector."""
        from tacit.core.law import OneShot
        from tacit.core.mechanism import ClientServer
        from tacit.core.theory.mean_noise import ComponentNoise, NormalNoise

        if not self.pure:
            return NormalNoise(self.deviation)
        if self.mechanism != "independent laplace":
            return None
        scale = self.noise_deviation / math.sqrt(2) * _SLACK
        return ComponentNoise.of(ClientServer(OneShot(0.5, scale), agents=self.agents, keepers=self.keepers))

    def costs(self, slots_per_day: int = 96) -> dict[str, float]:
        """Return how far other changes of the same size move the messages.

        The unit is a step's distance Δ₂.
        """
        return pattern_costs(self.slots, slots_per_day) if self.mechanism == "square-root" else {}

    def loss_of(self, times: float) -> float:
        """Return the loss of another change.

        It moves the messages `times` as far as the hidden one.
        """
        if self.pure:
            return self.loss * times
        return epsilon_of(mu_of(self.loss, self.delta) * (1 + 1e-9) * times, self.delta)

    @property
    def pure(self) -> bool:
        """Whether the promise is pure: Laplace noise, and no failure probability."""
        return self.mechanism in _PURE

    @property
    def code(self) -> SeriesCode:
        """How readings become messages, and sums of messages become means."""
        return _CODES[self.mechanism](self.slots)

    @property
    def grid(self) -> SeriesGrid:
        """The grid that messages are rounded to."""
        noise = self.noise_deviation / (math.sqrt(2) if self.pure else 1.0)
        return SeriesGrid.fitting(noise, self.low, self.high, _bits(self.mechanism))

    @property
    def steps(self) -> float:
        """The parameter of a draw in grid steps.

        It is a standard deviation, or a Laplace scale where pure.
        """
        return self.noise_deviation / (math.sqrt(2) if self.pure else 1.0) / self.grid.step


def candidates(
    slots: int,
    hides: Hides,
    *,
    agents: int,
    span: float | Vectors,
    keepers: int,
    epsilon: float,
    delta: float,
) -> dict[Kind, float]:
    """Return every mechanism that hides this, with its deviation.

    The deviation is that of the worst mean. A step of vectors is one in the L2 norm, so the tree with Laplace
    noise, which needs the L1 norm, is for plain numbers.
    """
    kinds: tuple[Kind, ...] = ("independent", "independent laplace")
    if hides.kind == "step":
        kinds = ("square-root", "tree", "pure tree", "independent")
        kinds = kinds if vectors_of(span).components == 1 else ("square-root", "tree", "independent")
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
    low: float | None = None,
    high: float | None = None,
    keepers: int = 0,
    loss: float = 1.0,
    delta: float = 1e-6,
    mechanism: Kind | None = None,
    question: Question | None = None,
) -> SeriesDesign:
    """Return the mechanism with the least error for a series.

    The loss and delta are for the whole series.

    Parameters
    ----------
    slots : int
        How many means (T).
    hides : Hides or str
        ``reading``, ``window:SLOTS`` or ``step:SIZE``; ``step`` for the largest one.
    low, high : float
        The range of readings. A question has its own.
    keepers : int
        How many keepers add noise; 0 if every agent adds its own.
    loss, delta : float
        For the whole series, whatever it publishes.
    mechanism : str, optional
        Use this mechanism, even if another one has a smaller error; for comparisons.
    question : Question, optional
        What is asked in every slot; the mean of numbers in the range unless given.

    Examples
    --------
    >>> made = design_series(35040, "step:2", agents=1000, low=0, high=10, keepers=1)
    >>> made.mechanism, round(made.deviation, 4)
    ('square-root', 0.0372)
    """
    what = Hides.parse(hides) if isinstance(hides, str) else hides
    question, (low, high) = _read_range(question, low, high)
    _check(slots, agents, low, high, keepers)
    span = vectors_of(high - low) if question is None else Vectors.of(question)
    require_slots(slots, span.components)
    what = what.within(question, low, high)
    found = candidates(slots, what, agents=agents, span=span, keepers=keepers, epsilon=loss, delta=delta)
    if mechanism is not None and mechanism not in found:
        raise ParameterError(f"{mechanism} noise does not hide {what}: take one of {', '.join(found)}.")
    best: Kind = min(found, key=lambda name: found[name])
    kind: Kind = best if mechanism is None else mechanism
    if mechanism is None and found[kind] > (high - low) / 2:
        from tacit.core.series.alternatives import AskedSeries

        AskedSeries(slots, what, agents, high - low, keepers, loss, delta, span).refuse()
    noise = noise_for(kind, slots, what, span=span, epsilon=loss, delta=delta)
    delta = 0.0 if kind in _PURE else delta
    return SeriesDesign(
        slots, what, agents, low, high, keepers, kind, noise.draw, found[kind], loss, delta, question
    )


def _read_range(
    question: Question | None, low: float | None, high: float | None
) -> tuple[Question | None, tuple[float, float]]:
    """Return what is asked, None if it is the mean of a number, and the range."""
    if question is None:
        if low is None or high is None:
            raise ParameterError("a series needs a range of readings, low and high, or a question.", "range")
        return None, (low, high)
    if (low, high) not in ((None, None), question.box):
        raise ParameterError("a question has its own range: leave low and high out.", "range")
    plain = isinstance(question, Mean) and question.numbers == 1
    return (None if plain else question), question.box


def _check(slots: int, agents: int, low: float, high: float, keepers: int) -> None:
    require_slots(slots)
    if agents < 1 or keepers < 0:
        raise ParameterError(
            f"there must be at least 1 agent and 0 or more keepers, got {agents} and {keepers}."
        )
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ParameterError(f"the range must be two numbers LOW:HIGH with LOW below HIGH, got {low}:{high}.")


def pattern_costs(slots: int, slots_per_day: int = 96) -> dict[str, float]:
    """Return how far changes move the messages, compared with a step.

    The changes have one height, and the messages are those of the square-root mechanism. A change d(t) of the
    readings moves w by g ∗ d. A pulse of k slots moves it by f(t) − f(t−k), so every pattern of pulses is a
    sum of shifted copies of f.
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
