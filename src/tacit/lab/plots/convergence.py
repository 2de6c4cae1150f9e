"""Convergence against the exact rate, on several graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from tacit.base.errors import ParameterError
from tacit.base.report import counted
from tacit.lab.plots.runs import Convergence
from tacit.lab.plots.sheets import Where, Width, panels
from tacit.lab.plots.style import (
    GREY,
    INK,
    MARKERS,
    colours,
    label_line,
    label_room,
    plain_log,
    spread_labels,
    text_size,
)


def draw_convergence(
    curves: Sequence[Convergence],
    unit: str = "units of the values",
    *,
    ax: Where = None,
    width: Width = None,
) -> Figure:
    """Draw how disagreement fades: exact, exact rate, and measured."""
    if not curves:
        raise ParameterError("convergence must be drawn for at least one mechanism.")
    with panels(6.8, 4.6, ax=ax, wanted=width) as sheet:
        ax = sheet.ax
        hues, room = colours(), label_room(ax, 2) * _height(curves)
        ends = spread_labels([float(np.log(curve.exact[-1])) for curve in curves], room)
        for place, (curve, end) in enumerate(zip(curves, ends, strict=True)):
            colour, marker = hues[place % len(hues)], MARKERS[place % len(MARKERS)]
            _draw(ax, curve, colour, marker)
            last = len(curve.exact) - 1
            label_line(
                ax, last, float(np.exp(end)), f"{curve.name}\nrate {curve.rate:.4f}", colour, offset=(9, 0)
            )
        ax.set_yscale("log")
        plain_log(ax.yaxis, subs=(1,))
        ax.set_xlim(0, max(len(curve.exact) for curve in curves) - 1)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.grid(axis="y")
        ax.set_xlabel("round")
        ax.set_ylabel(f"root-mean-square disagreement of the two\nagents farthest apart, in {unit}")
        ax.set_title("Disagreement fades at the rate that theory gives")
        keys = [
            Line2D([], [], color=INK, label="exact, from the second moments"),
            Line2D([], [], color=GREY, lw=1, linestyle=(0, (4, 2)), label="the exact rate, in the long run"),
            Line2D([], [], color=INK, lw=0, marker="o", mfc="white", ms=4.5, label=_measured(curves)),
        ]
        ax.legend(handles=keys, loc="lower left", fontsize=text_size(8.5))
    return sheet.figure


def _measured(curves: Sequence[Convergence]) -> str:
    counts = sorted({curve.runs for curve in curves})
    return f"measured in {' or '.join(counted(runs, 'simulated run') for runs in counts)}"


def _height(curves: Sequence[Convergence]) -> float:
    """How high the curves are, in logarithms."""
    values = np.concatenate([curve.exact for curve in curves])
    return float(np.ptp(np.log(values[values > 0])))


def _draw(ax: Axes, curve: Convergence, colour: str, marker: str) -> None:
    t = np.arange(len(curve.exact))
    # the asymptote through the last point: it shows where the curve has become straight
    ax.plot(t, curve.exact[-1] * curve.rate ** (t - t[-1]), color=GREY, lw=1, linestyle=(0, (4, 2)))
    ax.plot(t, curve.exact, color=colour)
    some = slice(None, None, max(1, len(t) // 14))
    ax.plot(t[some], curve.measured[some], marker, color=colour, mfc="white", ms=4.5, clip_on=False)
