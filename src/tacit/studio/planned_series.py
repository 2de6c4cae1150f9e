"""The part of Plan for a series: one loss for all its means."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tacit.base.errors import InputError, ParameterError
from tacit.base.report import near
from tacit.base.rounding import shown_up
from tacit.core.series import Hides, SeriesDesign, design_series
from tacit.core.theory.advice import right_at_most, strength
from tacit.lab.plots.curves import SLOTS, SeriesCurves, series_curves
from tacit.studio.form import FieldErrors, Form, Reader, number, quoted, whole
from tacit.studio.plan_answer import PlanAnswer, PlanPart
from tacit.studio.words import typed, with_unit

MOST_SLOTS = 1_000_000
"""Up to this number an answer takes less than a second."""
_MINUTES = 24 * 60


@dataclass(frozen=True)
class SeriesQuestion:
    """A question about a series with one mean every `every` minutes."""

    slots: int
    every: float
    hides: Hides
    agents: int
    low: float
    high: float
    keepers: int
    loss: float
    delta: float

    @property
    def slots_per_day(self) -> int:
        """Return how many means there are in a day, at least one."""
        return max(1, round(_MINUTES / self.every))

    def asked(self) -> dict[str, Any]:
        """Return the arguments of `design_series`."""
        return {name: value for name, value in vars(self).items() if name != "every"}


def _read(form: Form) -> SeriesQuestion:
    """Turn the fields into a question, or report every field that is wrong."""
    get = Reader()
    slots, agents = get("slots", whole, form.slots), get("agents", whole, form.agents)
    every = get("every", _positive, form.every)
    size = 1.0 if form.hides == "reading" else get("size", _positive, form.size)
    low, high = get("low", number, form.low), get("high", number, form.high)
    keepers = get("keepers", lambda text: whole(text, 0), form.keepers)
    loss, delta = get("budget", _positive, form.budget), get("delta", _positive, form.delta)
    if slots is not None and slots > MOST_SLOTS:
        get.wrong["slots"] = (
            f"the studio takes up to {MOST_SLOTS:,} means, got {slots:,}: try `tacit design`."
        )
    if every is not None and not 1 / 60 <= every <= 365 * _MINUTES:
        get.wrong["every"] = f"a mean comes every 1/60 to {365 * _MINUTES:,} minutes, got {near(every)}."
    if form.hides == "window" and size is not None and not size.is_integer():
        get.wrong["size"] = f"a window is a whole number of readings, got {near(size)}."
    if loss is not None and not 1e-6 <= loss <= 1000:
        get.wrong["budget"] = f"the loss of a series is from 1e-6 to 1,000, got {near(loss)}."
    if delta is not None and not delta < 1:
        get.wrong["delta"] = f"the failure probability must be below 1, got {near(delta)}."
    if low is not None and high is not None and low >= high:
        get.wrong["high"] = f"values must have low < high, got {near(low)} and {near(high)}."
    elif form.hides == "step" and None not in (low, high, size) and size > high - low:  # type: ignore[operator]
        get.wrong["size"] = f"a step is at most the range, {near(high - low)}, got {near(size or 0)}."  # type: ignore[operator]
    if get.wrong:
        raise FieldErrors(get.wrong)
    hides = Hides(form.hides, size)  # type: ignore[arg-type]
    return SeriesQuestion(slots, every, hides, agents, low, high, keepers, loss, delta)  # type: ignore[arg-type]


def _positive(text: str) -> float:
    value = number(text)
    if not 0 < value < 1e100:
        raise InputError(f"this must be a positive number, got {quoted(text)}.")
    return value


def _asked(form: Form, question: SeriesQuestion) -> PlanAnswer:
    return PlanAnswer(form, question.keepers, command=_command(question), python=_python(question))


def _drawn(asked: PlanAnswer, question: SeriesQuestion) -> PlanAnswer:
    return replace(asked, slots=_curves(question))


@lru_cache(maxsize=64)
def _design(question: SeriesQuestion) -> SeriesDesign:
    return design_series(**question.asked())


@lru_cache(maxsize=64)
def _curves(question: SeriesQuestion) -> SeriesCurves | None:
    """Return each mechanism's deviation over the number of means.

    None if it cannot be drawn.
    """
    asked = question.asked()
    slots = sorted({*(n for n in SLOTS if n <= 100_000), asked.pop("slots")})
    try:
        return series_curves(slots, str(asked.pop("hides")), **asked)
    except (ParameterError, ArithmeticError):
        return None


def _answered(asked: PlanAnswer, question: SeriesQuestion) -> PlanAnswer:
    found, unit = _design(question), asked.form.unit.strip()
    off = with_unit(shown_up(found.deviation, 4), unit)
    failing = f", except with probability {found.delta:g}" if found.delta else ""
    plain = (
        f"{found.slots:,} means, {_lasting(question)}. The noise of each has a standard deviation of at most "
        f"{off}: it is within ±{with_unit(shown_up(2 * found.deviation, 4), unit)} of the true mean about 19 "
        f"times in 20. All means together hide {_hidden(question, unit)}, at a loss of "
        f"{shown_up(found.loss, 4)}{failing}. Someone who sees them all and must tell whether it happened is "
        f"right at most {right_at_most(found.loss)} of the time. Protection: {strength(found.loss).name}."
    )
    return replace(
        _drawn(asked, question),
        series=found,
        headline=f"Deviation {off} per mean",
        plain=plain,
        summary=found.summary(unit, question.slots_per_day),
    )


def _lasting(question: SeriesQuestion) -> str:
    """Say how often a mean is published, and for how long."""
    minutes = question.slots * question.every
    for size, name in ((365 * _MINUTES, "years"), (_MINUTES, "days"), (60, "hours"), (1, "minutes")):
        if minutes >= 2 * size or name == "minutes":
            return f"one every {near(question.every)} minutes for {near(minutes / size, 3)} {name}"
    raise AssertionError


def _hidden(question: SeriesQuestion, unit: str) -> str:
    """Say which change of one agent's readings is hidden."""
    size = question.hides.size
    return {
        "reading": "any one reading of an agent, whatever it was",
        "window": f"any {near(size)} readings of an agent in a row, whatever they were",
        "step": f"a lasting change of an agent's readings by up to {with_unit(near(size), unit)}",
    }[question.hides.kind]


def _command(question: SeriesQuestion) -> str:
    words = ["tacit", "design", "--series", str(question.slots), "--hides", str(question.hides)]
    words += ["--agents", str(question.agents), "--range", f"{typed(question.low)}:{typed(question.high)}"]
    words += ["--keepers", str(question.keepers), "--loss", typed(question.loss)]
    return shlex.join([*words, "--delta", typed(question.delta)])


def _python(question: SeriesQuestion) -> str:
    asked = question.asked()
    slots, hides = asked.pop("slots"), asked.pop("hides")
    arguments = "".join(f"    {name}={typed(value)},\n" for name, value in asked.items())
    return (
        "from tacit.core.series import design_series\n\n"
        f"answer = design_series(\n    {slots},\n    {str(hides)!r},\n{arguments})\n"
        "print(answer.mechanism, answer.deviation, answer.loss)"
    )


PART = PlanPart(_read, _asked, _answered, _drawn)
