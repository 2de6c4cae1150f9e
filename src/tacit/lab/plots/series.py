"""How far off each mean of a series is, over the number of means."""

from __future__ import annotations

from itertools import cycle

import numpy as np
from matplotlib.figure import Figure

from tacit.base.report import counted
from tacit.lab.plots.curves import SeriesCurves
from tacit.lab.plots.sheets import Where, Width, panels
from tacit.lab.plots.style import (
    DASHES,
    colours,
    label_line,
    label_room,
    plain_log,
    spread_labels,
)

_NAMES = {
    "square-root": "square root",
    "tree": "binary tree",
    "pure tree": "binary tree, pure ε",
    "independent": "independent noise",
    "independent laplace": "independent, pure ε",
}


def draw_series(data: SeriesCurves, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw the deviation of each mechanism's worst mean, on log axes."""
    with panels(6.8, 4.4, ax=ax, wanted=width) as sheet:
        ax = sheet.ax
        ends = np.log10([row[-1] for row in data.deviation.values()])
        height = float(np.ptp(np.log10(np.concatenate(list(data.deviation.values()))))) or 1.0
        places = spread_labels(ends.tolist(), label_room(ax) * height)
        rows = zip(data.deviation.items(), places, cycle(colours()), cycle(DASHES), strict=False)
        for (kind, row), place, colour, dashes in rows:
            ax.loglog(data.slots, row, color=colour, linestyle=dashes)
            label_line(ax, data.slots[-1], 10**place, _NAMES[kind], colour)
        ax.grid(which="major")
        ax.set_xticks(*_ticks(data.slots))
        ax.minorticks_off()
        plain_log(ax.yaxis)
        ax.set_xlabel("means in the series")
        ax.set_ylabel("standard deviation of the worst mean,\nin units of the readings")
        ax.set_title("Noise in each mean, at the same loss for the whole series")
        who = counted(data.keepers, "keeper") if data.keepers else "no keeper"
        what = f"{counted(data.agents, 'agent')}, {who}, hides {data.hides}"
        sheet.caption(f"{what}; loss {data.loss:g} for all means, δ = {data.delta:g}")
    return sheet.figure


def _ticks(slots: tuple[int, ...]) -> tuple[list[int], list[str]]:
    """Name a day, week, month and year of quarter hours on the axis."""
    named = {1: "1", 10: "10", 96: "96\na day", 672: "672\na week", 2976: "2,976\na month"}
    named |= {35_040: "35,040\na year"}
    inside = {at: name for at, name in named.items() if slots[0] <= at <= slots[-1]}
    return list(inside), list(inside.values())
