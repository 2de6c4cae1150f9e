"""Simulate a series: a mean in every slot, for many agents.

The published error is the decoded noise; it does not depend on the readings. While nobody is missing, the sum
of all messages is the code of the sum of all readings, so agents need not be simulated one by one. They are
simulated, in blocks, if some are missing or if messages are rounded to the grid as in a deployment.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from tacit.base.arrays import FloatArray, frozen
from tacit.base.errors import ParameterError
from tacit.base.report import Row, Shown, Summary, near, up
from tacit.core.noise.safe import SafeGaussian, SafeNoise
from tacit.core.noise.simulated import as_seed
from tacit.core.series import published

if TYPE_CHECKING:
    from tacit.core.series import SeriesCode, SeriesDesign

Readings: TypeAlias = Callable[[int, int], FloatArray]
"""The readings of agents `first` to `last` − 1, of shape (agents, slots)."""

_BLOCK = 4_000_000
"""Numbers that are simulated at a time: about 200 MB with all copies."""
MOST_DRAWS = 50_000_000
"""Maximum number of exact draws; they take about ten minutes."""


@final
@dataclass(frozen=True, eq=False)
class SeriesRuns(Shown):
    """Results of simulated series.

    Attributes
    ----------
    truth : array, shape (slots,)
        The true mean of each slot, of clamped readings.
    first : array, shape (slots,)
        The means that the first run published.
    squares : array, shape (slots,)
        The mean squared error of each slot, over the runs.
    largest : float
        The largest error of any slot in any run.
    """

    design: SeriesDesign
    runs: int
    missing: float
    truth: FloatArray
    first: FloatArray
    squares: FloatArray
    largest: float

    @property
    def deviation(self) -> float:
        """The deviation of the worst mean, estimated from the errors of all slots.

        The error of each slot is scaled by the deviation that this slot should have. If agents are missing,
        the error that this causes is included.
        """
        variances = self.design.code.variances()
        return float(np.sqrt(np.mean(self.squares / variances) * variances.max()))

    @property
    def last(self) -> float:
        """The root mean square error of the last slot alone."""
        return float(np.sqrt(self.squares[-1]))

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, for JSON."""
        return {
            "runs": self.runs,
            "missing": self.missing,
            "deviation": self.deviation,
            "last": self.last,
            "largest": self.largest,
        }

    def summary(self) -> Summary:
        """Return promise and measurement for people."""
        made = self.design
        failing = "" if made.pure else f", except with probability {made.delta:g}"
        worst = f"standard deviation of the worst mean, {made.mechanism} noise"
        of_runs = f"of any mean in {self.runs:,} run{'s' * (self.runs != 1)}"
        sections = {
            "Promised": [
                Row("deviation", up(made.deviation), worst),
                Row("loss", up(made.loss), f"for all {made.slots:,} means together{failing}"),
            ],
            "Measured": [
                Row("deviation", near(self.deviation), "of the worst mean, from the errors of all means"),
                Row("last mean", near(self.last), "root mean square error of the last mean alone"),
                Row("largest error", near(self.largest), of_runs),
            ],
        }
        missing = (
            f"{near(100 * self.missing)}% of the messages are missing. The measured errors include what that "
            "adds; the promise does not."
        )
        title = f"{made.slots:,} means of {made.agents:,} agents; hides {made.hides}"
        return Summary(title, sections, (missing,) if self.missing else ())


def household_readings(slots: int, low: float, high: float, *, seed: int, day: int = 96) -> Readings:
    """Return made-up loads of households.

    Each has its own base load, evening peak and appliances. They are nobody's data. A block of agents is the
    same every time it is requested.
    """
    hours = np.arange(slots) % day / day * 24
    morning, evening = (np.exp(-(((hours - h) / w) ** 2)) for h, w in ((7.5, 1.5), (19.0, 2.5)))

    def readings(first: int, last: int) -> FloatArray:
        made = np.empty((last - first, slots))
        for i in range(first, last):
            rng = np.random.default_rng([seed, i])
            base, am, pm = rng.gamma(2.0, [[0.015], [0.025], [0.06]])[:, 0]
            load = base + am * morning + pm * evening
            on = rng.random(slots) < 0.02 + 0.05 * (morning + evening)
            made[i - first] = low + (high - low) * np.minimum(load + on * rng.gamma(1.5, 0.08, slots), 1)
        return made

    return readings


def simulate_series(
    design: SeriesDesign,
    readings: Readings,
    *,
    runs: int = 1,
    seed: int = 0,
    missing: float = 0.0,
    on_grid: bool = False,
    safe: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> SeriesRuns:
    """Run a series many times on the same readings.

    Parameters
    ----------
    readings : function of (first, last)
        See `Readings`; clamped to the range here.
    missing : float
        Probability that an agent's message is not used, in each slot, independent of everything else.
    on_grid : bool
        Round every agent's messages, and the noise, to the grid of a deployment.
    safe : bool
        Draw the noise as a deployment does: exact, on the grid, and not repeatable.
    progress : function of (done, all), optional
        Called after each block of agents.

    Examples
    --------
    >>> from tacit.core.series import design_series
    >>> made = design_series(96, "step:2", agents=1000, low=0, high=10, keepers=1)
    >>> ran = simulate_series(made, household_readings(96, 0, 10, seed=1), runs=1000, seed=1)
    >>> round(ran.deviation / made.deviation, 1)
    1.0
    """
    if runs < 1:
        raise ParameterError(f"runs must be at least 1, got {runs}.", "runs")
    if not 0 <= missing < 1:
        raise ParameterError(
            f"missing, the share of messages that do not come, must be in [0, 1), got {missing}.", "missing"
        )
    if safe and runs * _draws(design) * len(design.code.sent_in) > MOST_DRAWS:
        raise ParameterError(
            f"exact noise is slow: {runs} runs would take more than {MOST_DRAWS:,} draws. Take fewer runs, "
            "keepers, or simulated noise."
        )
    followed = _Followed(runs, as_seed(seed), missing, on_grid or safe)
    truth, sums, used = _summed(design, readings, followed, progress)
    squares, largest, first = np.zeros(design.slots), 0.0, None
    code, grid = design.code, design.grid
    for run in range(runs):
        rng = np.random.default_rng([seed, 1, run])
        noise = _noise(design, rng, len(code.sent_in), grid.step if on_grid else 0.0, safe)
        noisy = sums[run % len(sums)] + noise
        means = published(code, grid, noisy, design.agents, used[run % len(used)])
        error = means - truth
        squares += error**2 / runs
        largest = max(largest, float(np.max(np.abs(error))))
        first = means if first is None else first
    assert first is not None
    for array in (truth, first, squares):
        frozen(array)
    return SeriesRuns(design, runs, missing, truth, first, squares, largest)


def _draws(design: SeriesDesign) -> int:
    """How many draws are in a message's sum: one per keeper, or one per agent."""
    return design.keepers or design.agents


def _noise(design: SeriesDesign, rng: np.random.Generator, size: int, step: float, safe: bool) -> FloatArray:
    """Draw the noise of every message, in the units of the readings.

    It is rounded to `step`, unless that is 0.
    """
    draws = _draws(design)
    if safe:
        source = SafeNoise() if design.pure else SafeGaussian()
        whole = sum((source.draw(design.steps, size) for _ in range(draws)), np.zeros(size, np.int64))
        return np.asarray(whole * design.grid.step)
    if design.pure:  # a sum of Laplace draws is the difference of two gamma draws
        scale = design.noise_deviation / math.sqrt(2)
        found = scale * (rng.standard_gamma(draws, size) - rng.standard_gamma(draws, size))
    else:
        found = design.noise_deviation * math.sqrt(draws) * rng.standard_normal(size)
    return np.asarray(np.rint(found / step) * step if step else found)


class _Followed(NamedTuple):
    """How agents are simulated one by one."""

    runs: int
    seed: int
    missing: float
    on_grid: bool


def _summed(
    design: SeriesDesign, readings: Readings, how: _Followed, progress: Callable[[int, int], None] | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the true means, and the used messages of every run.

    Messages are summed, and counted. If nobody is missing, all runs are the same, and there is one row.
    """
    code, agents, slots = design.code, design.agents, design.slots
    runs, seed, missing, on_grid = how
    rows = runs if missing else 1
    total, sums = np.zeros(slots), np.zeros((rows, len(code.sent_in)))
    used = np.zeros((rows, slots)) if missing else np.full((1, slots), float(agents))
    block = max(1, _BLOCK // slots)
    for first in range(0, agents, block):
        last = min(first + block, agents)
        x = np.clip(readings(first, last), design.low, design.high) - design.low
        total += x.sum(axis=0)
        if missing or on_grid:
            messages = _messages(design, code, x, on_grid)
            for run in range(rows):
                if missing:
                    rng = np.random.default_rng([seed, 2, run, first])
                    inside = rng.random((last - first, slots)) >= missing
                    used[run] += inside.sum(axis=0)
                    sums[run] += np.einsum("ij,ij->j", messages, inside[:, code.sent_in])
                else:
                    sums[run] += messages.sum(axis=0)
        if progress is not None:
            progress(last, agents)
    if not (missing or on_grid):
        sums[0] = code.encode(total)
    return total / agents + design.low, sums, used


def _messages(design: SeriesDesign, code: SeriesCode, x: FloatArray, on_grid: bool) -> FloatArray:
    found = code.encode(x)
    return np.rint(found / design.grid.step) * design.grid.step if on_grid else found
