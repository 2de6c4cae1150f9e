"""How much wider than the exact radius Chebyshev's bound is."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.plots.curves import Bounds
from tacit.plots.style import CYCLE, DASHES, GREY, INK, canvas, label_line, plain_log, styled

_NAMED = (0.5, 0.05, 0.01, 0.001)


def draw_chebyshev(data: Bounds) -> Figure:
    """Draw both radii over the failure probability, and name how many times apart they are."""
    with styled():
        figure = canvas(6.4, 4.6)
        ax = figure.subplots()
        b = data.failure_probability
        for place, agents in enumerate(data.agents):
            colour = CYCLE[place % len(CYCLE)]
            ax.loglog(b, data.radius_chebyshev[place], color=colour, linestyle=DASHES[1])
            ax.loglog(b, data.radius[place], color=colour)
            _times(ax, b, data.radius[place], data.radius_chebyshev[place])
            who = f", {agents:,} agents" if len(data.agents) > 1 else ""
            label_line(ax, b[0], data.radius_chebyshev[place, 0], f"Chebyshev{who}", colour, offset=(6, 0))
            label_line(ax, b[0], data.radius[place, 0], f"exact{who}", colour, offset=(6, 0))
        ax.invert_xaxis()
        ax.margins(x=0.13)
        plain_log(ax.xaxis, subs=(1,))
        ax.set_xticks([b for b in ax.get_xticks() if data.failure_probability[0] <= b * 1.001 < 1])
        ax.set_xticks([0.5, 0.05], ["0.5", "0.05"], minor=True)
        ax.tick_params(axis="x", which="minor", length=3.5, pad=3.5)
        plain_log(ax.yaxis)
        ax.grid(axis="y")
        ax.set_xlabel("failure probability b: how often the radius may be missed")
        ax.set_ylabel("radius r, in units of the values")
        ax.set_title("The rarer the misses, the more Chebyshev’s bound overstates the radius")
        crowd = f"{data.agents[0]:,} agents, " if len(data.agents) == 1 else ""
        figure.suptitle(
            f"{crowd}mixing σ = {data.sigma:g}, noise c = {data.c:g}, decay q = {data.q:g}",
            x=0.01, ha="left", fontsize=9, color=GREY,
        )  # fmt: skip
    return figure


def _times(ax: Axes, b: np.ndarray, exact: np.ndarray, loose: np.ndarray) -> None:
    """Span the gap at some failure probabilities, and say how many times it is."""
    for chance in _NAMED:
        for place in np.flatnonzero(np.isclose(b, chance)):
            low, high = exact[place], loose[place]
            ax.vlines(b[place], low, high, color=GREY, lw=0.8)
            first = place == len(b) - 1  # the curve rises steeply to the right of it
            side = {"offset": (-4, 0), "ha": "right"} if first else {"offset": (4, 0)}
            label_line(ax, b[place], (low * high) ** 0.5, f"{high / low:.1f} ×", INK, **side)
