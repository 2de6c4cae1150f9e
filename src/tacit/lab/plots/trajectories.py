"""States over the rounds of one run, in the fan of the exact radius."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tacit.base.arrays import FloatArray
from tacit.base.errors import StateError
from tacit.base.rounding import shown_up
from tacit.core.history import History
from tacit.core.theory import accuracy
from tacit.lab.plots.fans import Fan
from tacit.lab.plots.sheets import Where, Width, panels
from tacit.lab.plots.style import BLUE, GREY, INK, RED, SKY, label_line

_MOST_LINES = 200


def draw_trajectories(
    history: History, promised: Fan, unit: str = "value", *, ax: Where = None, width: Width = None
) -> Figure:
    """Draw all states, their weighted average, and its promised range.

    States must be numbers. The figure shows private values: use made-up ones.
    """
    if history.theta.ndim != 2:
        raise StateError("trajectories are drawn for states that are numbers, not vectors.")
    mechanism = history.mechanism
    weights = accuracy.weights(mechanism)
    target = float(weights @ history.theta[0])
    t = np.arange(history.rounds + 1, dtype=np.float64)
    with panels(6.4, 4.4, ax=ax, wanted=width) as sheet:
        ax = sheet.ax
        _draw_fan(ax, t, target, promised)
        step = max(1, mechanism.n // _MOST_LINES)
        ax.plot(t, history.theta[:, ::step], color=GREY, lw=0.7, alpha=0.7)
        ax.plot(
            t[:1].repeat(mechanism.n)[::step],
            history.theta[0, ::step],
            "o",
            color=GREY,
            ms=3,
            clip_on=False,
        )
        ax.axhline(target, color=INK, lw=1, linestyle=(0, (5, 3)))
        path = history.theta @ weights
        ax.plot(t, path, color=RED, lw=2)
        _labels(ax, t, path, target, accuracy.reaches_average(mechanism))
        ax.set_xlim(0, history.rounds)
        ax.set_xlabel("round")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_ylabel(unit)
        ax.set_title(f"{mechanism.n:,} agents come to agree without revealing their values")
    return sheet.figure


def _draw_fan(ax: Axes, t: FloatArray, target: float, promised: Fan) -> None:
    shades = np.linspace(0.42, 0.2, len(promised.failure_probability))
    for b, radius, shade in zip(promised.failure_probability, promised.radius, shades, strict=True):
        ax.fill_between(t, target - radius, target + radius, color=SKY, alpha=float(shade), lw=0)
        ax.plot(t, target + radius, color=BLUE, lw=0.6)
        ax.plot(t, target - radius, color=BLUE, lw=0.6)
        last = float(radius[-1])
        within = f"{100 * (1 - b):.4g}% of runs end within ±{shown_up(last, 3)}"
        label_line(ax, float(t[-1]), target - last, within, BLUE, offset=(-6, 2), ha="right", va="bottom")


def _labels(ax: Axes, t: FloatArray, path: FloatArray, target: float, true_average: bool) -> None:
    name = "true average" if true_average else "weighted average"
    # The path may end near the target: move the two names apart.
    above = path[-1] >= target
    label_line(ax, float(t[-1]), target, name, INK, offset=(4, -7 if above else 7))
    label_line(ax, float(t[-1]), float(path[-1]), "agreed on", RED, offset=(4, 4 if above else -4))
