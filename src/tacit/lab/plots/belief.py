"""What an adversary believes about one agent, and what is promised."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tacit.base.report import counted
from tacit.base.rounding import shown_up
from tacit.lab.audit.beliefs import Belief
from tacit.lab.plots.sheets import Where, Width, panels
from tacit.lab.plots.style import BLUE, DASHES, GREY, INK, PALE, RED, SKY, label_line, text_size

_WHO = {
    "eavesdropper": "An eavesdropper",
    "server": "The curious server",
    "compromised": "An eavesdropper with compromised agents",
    "insiders": "Compromised agents",
    "conspirators": "All others and all keepers but one",
}


def draw_belief(
    data: Belief,
    truth: float | None = None,
    unit: str = "value",
    *,
    ax: Where = None,
    width: Width = None,
) -> Figure:
    """Draw the credible interval per round, and the belief at the end.

    Parameters
    ----------
    data : Belief
    truth : float, optional
        The agent's real initial value, to be shown as well. Real ones are private: use made-up ones.
    unit : str
        What the values are, and their unit.
    ax : two Axes, optional
        To draw on; otherwise a new figure, of this `width`.
    """
    layout: dict[str, Any] = {"sharey": True, "width_ratios": [1.5, 1]}
    with panels(8.6, 4.4, 2, ax=ax, wanted=width, **layout) as sheet:
        left, right = sheet.axes
        _over_rounds(left, data, truth)
        _at_the_end(right, data, truth)
        if sheet.own:
            keys, columns = right.get_legend_handles_labels(), 1 if sheet.stacked else 3
            sheet.figure.legend(*keys, loc="outside lower right", ncols=columns, fontsize=text_size(8.5))
        else:
            right.legend(fontsize=text_size(8.5))
        for each in sheet.axes if not sheet.own or sheet.stacked else [left]:
            each.set_ylabel(f"start of agent {data.agent}: {unit}")
            each.set_ylim(data.values[0], data.values[-1])
        heard = "what reached them" if data.adversary == "insiders" else "everything"
        rounds = counted(int(data.rounds[-1]), "round")
        who = f"{_WHO[data.adversary]} who knew only the range and heard {heard}"
        spent = f"ε = {shown_up(float(data.epsilon[-1]), 4)} per unit after {rounds}"
        sheet.caption(f"{who}; {spent}")
    return sheet.figure


def _over_rounds(ax: Axes, data: Belief, truth: float | None) -> None:
    last = int(data.rounds[-1])
    ax.fill_between(data.rounds, data.low, data.high, color=SKY, alpha=0.35, lw=0)
    for end in (data.low, data.high):
        ax.plot(data.rounds, end, color=BLUE, lw=0.8)
    ax.plot(data.rounds, data.mean, color=BLUE, linestyle=DASHES[1])
    if truth is not None:
        ax.axhline(truth, color=RED, lw=1.2, linestyle=(0, (1, 1.2)))
    middle = last / 2
    top, bottom = (float(np.interp(middle, data.rounds, end)) for end in (data.high, data.low))
    room = top - bottom > 0.15 * (data.values[-1] - data.values[0])  # else the name goes above
    label_line(
        ax, middle, top, f"{100 * data.level:.4g}% credible interval", BLUE,
        offset=(0, -9 if room else 9), ha="center",
    )  # fmt: skip
    ax.set_xlim(0, last)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("rounds heard")
    ax.set_title("The belief, round by round")
    near = truth is not None and abs(truth - data.mean[-1]) < 0.05 * (data.values[-1] - data.values[0])
    push = 6 if near else 0
    above = 1 if truth is None or data.mean[-1] >= truth else -1
    label_line(ax, last, float(data.mean[-1]), "mean", BLUE, offset=(4, push * above))
    if truth is not None:
        label_line(ax, last, truth, "truth", RED, offset=(4, -push * above))


def _at_the_end(ax: Axes, data: Belief, truth: float | None) -> None:
    ax.fill_betweenx(data.values, data.least[-1], data.most[-1], color=PALE, alpha=0.6, lw=0)
    ax.plot(data.most[-1], data.values, color=GREY, lw=0.8)
    ax.plot(data.least[-1], data.values, color=GREY, lw=0.8)
    ax.plot(data.prior, data.values, color=INK, lw=1.2, linestyle=DASHES[4], label="before the first round")
    ax.plot(
        data.density[-1], data.values, color=BLUE, label=f"after {counted(int(data.rounds[-1]), 'round')}"
    )
    ax.fill_betweenx([], [], [], color=PALE, alpha=0.6, lw=0.8, ec=GREY, label="what the promise allows")
    if truth is not None:
        ax.axhline(truth, color=RED, lw=1.2, linestyle=(0, (1, 1.2)))
    ax.set_xlim(0, 1.08 * float(max(data.most[-1].max(), data.density[-1].max())))
    ax.set_xlabel("density, per unit of the value")
    ax.set_title("The belief after the last round")
