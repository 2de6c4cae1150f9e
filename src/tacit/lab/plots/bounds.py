"""How close to the best possible a mechanism comes, and its far tail."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from tacit.base.report import counted
from tacit.lab.plots.curves import Closeness, TailCurves
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
    text_size,
)

_NAMED = (0.1, 0.5, 0.8)
_TAILS = {"constant": "constant noise", "fading": "best fading noise", "one_shot": "one-shot noise"}


def draw_bounds(data: Closeness, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw the variance over the least possible, against the mixing σ."""
    with panels(6.4, 4.4, ax=ax, wanted=width) as sheet:
        ax, hues = sheet.ax, colours()
        ax.plot(data.sigma, data.motion, color=hues[0])
        ax.plot(data.sigma, data.linear, color=hues[1 % len(hues)], linestyle=DASHES[1])
        ax.axhline(data.one_shot, color=hues[2 % len(hues)], linestyle=DASHES[3])
        ax.axhline(1, color=INK)
        ax.axhspan(0.3, 1, color=GREY, alpha=0.15, lw=0)
        for sigma, times in zip(data.sigma, data.motion, strict=True):
            if sigma in _NAMED:
                ax.plot(sigma, times, "o", color=hues[0], ms=4)
                label_line(ax, sigma, times, f"{times:.3g}", hues[0], offset=(6, 5))
        at = int(np.argmin(np.abs(data.sigma - 0.25)))
        label_line(
            ax, float(data.sigma[at]), data.motion[at], "fading noise (server, or\nMetropolis weights)",
            hues[0], offset=(8, 3), va="bottom",
        )  # fmt: skip
        linear = "best linear estimate\nfrom the same messages"
        low = int(np.argmin(np.abs(data.sigma - 0.45)))
        label_line(
            ax, 0.03, 0.9 * data.linear[low], linear, hues[1 % len(hues)], offset=(0, 0), va="top",
        )  # fmt: skip
        label_line(ax, 0.03, data.one_shot, "one-shot noise", hues[2 % len(hues)], offset=(0, -8))
        label_line(ax, 0.03, 1, "least possible: no private protocol is below", INK, offset=(0, -8))
        ax.set_yscale("log")
        plain_log(ax.yaxis)
        ax.set_xlim(0, 1)
        ax.set_ylim(0.4, 1.7 * float(data.motion.max()))
        ax.grid(axis="y")
        ax.set_xlabel("mixing σ: how far an agent moves towards the feedback per round")
        ax.set_ylabel("variance, divided by the least possible")
        ax.set_title("How close to the best possible, at the same ε")
        sheet.caption("no private protocol with an unbiased result has less variance than (1/N²)Σ1/εᵢ²")
    return sheet.figure


def draw_tail(data: TailCurves, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw the radius over its limit for tiny failure probabilities.

    The axis is k for a failure probability of 10⁻ᵏ.
    """
    with panels(6.4, 4.0, ax=ax, wanted=width) as sheet:
        ax, hues = sheet.ax, colours()
        digits = -np.log10(data.failure_probability)
        top = max(float(row.max()) for row in data.times.values())
        ends = [float(row[-1]) for row in data.times.values()]
        places = spread_labels(ends, label_room(ax) * (top - 0.9))
        for k, ((kind, row), place) in enumerate(zip(data.times.items(), places, strict=True)):
            colour = hues[k % len(hues)]
            ax.plot(digits, row, color=colour, linestyle=DASHES[k])
            label_line(ax, digits[-1], place, _TAILS[kind], colour)
        ax.axhline(1, color=INK, lw=0.8)
        ax.annotate(
            "limit of constant and one-shot noise", (digits[0], 1), xytext=(5, -3), color=INK, va="top",
            textcoords="offset points", fontsize=text_size(8.5),
        )  # fmt: skip
        ax.set_xscale("log")  # nobody asks for k beyond 15, and a linear axis would show that part as a cliff
        plain_log(ax.xaxis)
        ax.set_xlim(digits[0], digits[-1])
        ax.set_ylim(0.6, 1.03 * top)
        ax.grid(axis="y")
        ax.set_xlabel("k: the radius is missed with probability 10⁻ᵏ")
        ax.set_ylabel("exact radius, divided by the limit")
        ax.set_title("For tiny failure probabilities, constant noise nears one-shot noise")
        sheet.caption(
            f"{counted(data.agents, 'agent')}, {counted(data.rounds, 'round')}, mixing σ = {data.sigma:g}; "
            "the limit is (1 − (1−σ)ᵀ)·ln(1/b)/(Nε)"
        )
    return sheet.figure
