"""The price of smoothness: fresh noise against one-shot noise."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.lab.plots.curves import Smoothness
from tacit.lab.plots.sheets import Where, Width, panels
from tacit.lab.plots.style import DASHES, GREY, INK, colours, label_line, plain_log, text_size

_NAMED = (0.1, 0.5, 0.8)
_DOTS = (0.01, 0.02, 0.04, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)


def draw_smoothness(data: Smoothness, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw how much wider than one-shot noise the radius is, over σ."""
    with panels(6.4, 4.2, ax=ax, wanted=width) as sheet:
        ax = sheet.ax
        for place, (agents, row) in enumerate(zip(data.agents, data.radius, strict=True)):
            style, colour = DASHES[place % len(DASHES)], colours()[place % len(colours())]
            ax.plot(data.sigma, row, color=colour, linestyle=style, label=f"exact radius, {agents:,} agents")
        _closed_form(ax, data)
        ax.axhline(1, color=GREY, lw=0.8)
        label_line(ax, 0.02, 1, "one-shot noise", GREY, offset=(0, -8))
        ax.set_yscale("log")
        plain_log(ax.yaxis)
        ax.set_xlim(0, 1)
        ax.set_ylim(0.65, 1.5 * float(max(data.radius.max(), data.deviation.max())))
        ax.grid(axis="y")
        ax.set_xlabel("mixing σ: how far an agent moves towards the feedback per round")
        ax.set_ylabel("radius, divided by that of one-shot noise")
        ax.set_title("The slower agents move, the more fresh noise in every round costs")
        ax.legend(loc="upper right", fontsize=text_size(8.5))
        b = data.failure_probability
        sheet.caption(
            f"best noise and decay for each σ; radius missed with probability {b:g}; "
            "the deviation’s ratio is the same for any number of agents"
        )
    return sheet.figure


def _closed_form(ax: Axes, data: Smoothness) -> None:
    """Mark the standard deviation, and write some of its values.

    It has a closed form.
    """
    dots = np.isin(data.sigma, _DOTS)
    ax.plot(
        data.sigma[dots], data.deviation[dots], "o", color=INK, ms=4, mfc="white",
        label="standard deviation",
    )  # fmt: skip
    for sigma, price in zip(data.sigma, data.deviation, strict=True):
        if sigma in _NAMED:
            label_line(ax, sigma, price, f"{price:.2f} at σ = {sigma:g}", INK, offset=(7, 7))
