"""Radius against ε for several numbers of agents."""

from __future__ import annotations

from itertools import cycle

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tacit.plots.curves import RadiusCurves
from tacit.plots.style import CYCLE, GREY, INK, canvas, counted, label_line, plain_log, styled


def draw_radius(data: RadiusCurves) -> Figure:
    """Draw the radius of the best fading noise, and of one-shot noise, on logarithmic axes."""
    with styled():
        figure = canvas(6.4, 4.6)
        ax = figure.subplots()
        rows = zip(data.agents, data.radius, data.one_shot, cycle(CYCLE), strict=False)
        for agents, fading, one_shot, colour in rows:
            ax.loglog(data.epsilon, fading, color=colour)
            ax.loglog(data.epsilon, one_shot, color=colour, linestyle=(0, (1, 1.2)), lw=1.3)
            middle = (fading[-1] * one_shot[-1]) ** 0.5
            label_line(ax, data.epsilon[-1], middle, counted(agents, "agent"), colour)
        ax.grid(which="major")
        plain_log(ax.xaxis, subs=(1,))
        plain_log(ax.yaxis, subs=(1,))
        ax.set_xlabel("ε, per unit of adjacency")
        ax.set_ylabel("exact radius, in units of the values")
        ax.set_title("Half the loss, twice the radius; four times the agents, half of it")
        lines = [Line2D([], [], color=INK), Line2D([], [], color=INK, linestyle=(0, (1, 1.2)), lw=1.3)]
        names = [f"best fading noise, mixing σ = {data.sigma:g}", "one-shot noise"]
        ax.legend(lines, names, loc="upper right", fontsize=8.5)
        ax.text(
            0.02, 0.03, f"missed with probability {data.failure_probability:g}", transform=ax.transAxes,
            color=GREY, fontsize=8.5,
        )  # fmt: skip
    return figure
