"""The paper's Figure: privacy and accuracy over the decay of the noise."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.core.motion.mixing import kept
from tacit.lab.plots.curves import Tradeoff
from tacit.lab.plots.sheets import Where, Width, panels
from tacit.lab.plots.style import BLUE, DASHES, GREY, RED, label_line, plain_log, text_size


def draw_tradeoff(data: Tradeoff, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw ε above and both radii below, over the decay q."""
    with panels(6.4, 5.4, 2, ax=ax, wanted=width, below=True, sharex=True) as sheet:
        above, below = sheet.axes
        for each in sheet.axes:
            _frame(each, kept(data.sigma))
        _privacy(above, data)
        _accuracy(below, data)
        with_what = f"{data.agents:,} agents, mixing σ = {data.sigma:g}, noise c = {data.c:g}"
        how_sure = f"failure probability b = {data.failure_probability:g}"
        sheet.caption(f"{with_what}, {how_sure}")
    return sheet.figure


def _frame(ax: Axes, least: float) -> None:
    """Shade the decays at which no finite ε covers an endless run."""
    ax.set_yscale("log")
    plain_log(ax.yaxis)
    ax.grid(axis="y")
    ax.set_xlim(max(0.0, least - 0.14 * (1 - least)), 1)
    ax.axvspan(0, least, color="#f0f0f0", lw=0)
    ax.axvline(least, color=GREY, lw=0.8)


def _privacy(ax: Axes, data: Tradeoff) -> None:
    ax.plot(data.q, data.epsilon, color=BLUE)
    ax.set_ylabel("ε, per unit of adjacency")
    ax.set_title("Privacy: the slower the decay, the smaller ε …")
    ax.annotate(
        "grey, q ≤ 1 − σ: no finite ε", (kept(data.sigma), 0.86), xycoords=("data", "axes fraction"),
        xytext=(14, 0), textcoords="offset points", va="top", fontsize=text_size(8), color=GREY,
    )  # fmt: skip


def _accuracy(ax: Axes, data: Tradeoff) -> None:
    ax.plot(data.q, data.chebyshev_radius, color=RED, linestyle=DASHES[1])
    ax.plot(data.q, data.radius, color=BLUE)
    ax.set_ylabel("radius r, in units of the values")
    ax.set_title("Accuracy: … but the larger the radius")
    ax.set_xlabel("decay q (the noise of round t has scale c·qᵗ)")
    ax.margins(y=0.15)
    middle = int(np.argmin(np.abs(data.q - (1 - 0.62 * data.sigma))))
    at = float(data.q[middle])
    label_line(
        ax,
        at,
        data.chebyshev_radius[middle],
        "Chebyshev’s, as in the paper",
        RED,
        offset=(0, 11),
        ha="center",
    )
    label_line(
        ax, at, data.radius[middle], "exact", BLUE,
        offset=(0, -9), ha="center",
    )  # fmt: skip
