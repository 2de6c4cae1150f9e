"""Radius against ε for several numbers of agents."""

from __future__ import annotations

from itertools import cycle

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tacit.base.report import counted
from tacit.lab.plots.curves import RadiusCurves
from tacit.lab.plots.sheets import Where, Width, panels
from tacit.lab.plots.style import INK, colours, label_line, plain_log, text_size


def draw_radius(data: RadiusCurves, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw the radius of best fading and one-shot noise, on log axes."""
    with panels(6.4, 4.6, ax=ax, wanted=width) as sheet:
        ax = sheet.ax
        rows = zip(data.agents, data.radius, data.one_shot, cycle(colours()), strict=False)
        for agents, fading, one_shot, colour in rows:
            ax.loglog(data.epsilon, fading, color=colour)
            ax.loglog(data.epsilon, one_shot, color=colour, linestyle=(0, (1, 1.2)), lw=1.3)
            middle = (fading[-1] * one_shot[-1]) ** 0.5
            label_line(ax, data.epsilon[-1], middle, counted(agents, "agent"), colour)
        ax.set_ylim(bottom=float(data.one_shot.min()) / 20)  # room for the legend
        ax.grid(which="major")
        plain_log(ax.xaxis, subs=(1,))
        plain_log(ax.yaxis, subs=(1,))
        ax.set_xlabel("ε, per unit of adjacency")
        ax.set_ylabel("exact radius, in units of the values")
        ax.set_title("Half the ε doubles the radius, four times the agents halve it")
        lines = [Line2D([], [], color=INK), Line2D([], [], color=INK, linestyle=(0, (1, 1.2)), lw=1.3)]
        names = [f"best fading noise, mixing σ = {data.sigma:g}", "one-shot noise"]
        ax.legend(lines, names, loc="lower left", fontsize=text_size(8.5))
        sheet.caption(f"radius missed with probability {data.failure_probability:g}")
    return sheet.figure
