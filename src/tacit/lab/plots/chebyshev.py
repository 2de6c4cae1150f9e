"""How much wider than the exact radius Chebyshev's bound is."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from tacit.base.arrays import FloatArray
from tacit.base.report import counted
from tacit.lab.plots.curves import RadiusBounds
from tacit.lab.plots.sheets import Where, Width, panels
from tacit.lab.plots.style import (
    DASHES,
    GREY,
    INK,
    colours,
    label_line,
    label_room,
    plain_log,
    spread_labels,
)

_NAMED = (0.5, 0.05, 0.01, 0.001)
_FEW = 6  # points that are worth a dot


def draw_chebyshev(data: RadiusBounds, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw both radii over the failure probability, and write their ratio."""
    with panels(6.4, 4.6, ax=ax, wanted=width) as sheet:
        ax = sheet.ax
        b = data.failure_probability
        hues = colours()
        for place in range(len(data.agents)):
            colour = hues[place % len(hues)]
            dots = "o" if len(b) < _FEW else None
            ax.loglog(b, data.chebyshev_radius[place], color=colour, linestyle=DASHES[1], marker=dots, ms=4)
            ax.loglog(b, data.radius[place], color=colour, marker=dots, ms=4)
        _times(ax, b, data.radius[-1], data.chebyshev_radius[-1])
        _names(ax, data)
        ax.invert_xaxis()
        ax.margins(x=0.13)
        ticks = _ticks(b)
        ax.set_xticks(ticks, [f"{chance:g}" for chance in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
        plain_log(ax.yaxis, subs=(1,) if data.chebyshev_radius.max() > 1e3 * data.radius.min() else (1, 2, 5))
        ax.grid(axis="y")
        ax.set_xlabel("failure probability b: how often the radius may be missed")
        ax.set_ylabel("radius r, in units of the values")
        ax.set_title("The rarer misses must be, the looser Chebyshev’s bound")
        crowd = f"{counted(data.agents[0], 'agent')}, " if len(data.agents) == 1 else ""
        sheet.caption(f"{crowd}mixing σ = {data.sigma:g}, noise c = {data.c:g}, decay q = {data.q:g}")
    return sheet.figure


def _names(ax: Axes, data: RadiusBounds) -> None:
    """Name every curve at its end, without overlaps."""
    both = np.concatenate([data.chebyshev_radius, data.radius])
    places = spread_labels(np.log(both[:, 0]).tolist(), label_room(ax) * float(np.ptp(np.log(both))))
    for row, place in enumerate(places):
        kind, which = divmod(row, len(data.agents))
        who = f", {counted(data.agents[which], 'agent')}" if len(data.agents) > 1 else ""
        name, colour = ("Chebyshev", "exact")[kind] + who, colours()[which % len(colours())]
        label_line(ax, data.failure_probability[0], float(np.exp(place)), name, colour, offset=(6, 0))


def _ticks(b: FloatArray) -> list[float]:
    """Powers of ten, and 0.5 and 0.05; all points if these are too few."""
    usual = [0.5, 0.05, *(10.0**-k for k in range(1, 16))]
    inside = [chance for chance in usual if b[0] <= chance * 1.001 and chance <= b[-1] * 1.001]
    return inside if len(inside) > 1 else b.tolist()


def _times(ax: Axes, b: FloatArray, exact: FloatArray, loose: FloatArray) -> None:
    """Mark the gap between the radii at some places; write their ratio."""
    for chance in _NAMED:
        for place in np.flatnonzero(np.isclose(b, chance)):
            low, high = exact[place], loose[place]
            ax.vlines(b[place], low, high, color=GREY, lw=0.8)
            first = place == len(b) - 1  # the curve rises steeply to the right of it
            side = {"offset": (-4, 0), "ha": "right"} if first else {"offset": (4, 0)}
            label_line(ax, b[place], (low * high) ** 0.5, f"{high / low:.1f} ×", INK, **side)
