"""Methods for private averaging side by side: error, what an eavesdropper learns, rounds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tacit.comparison.comparison import Comparison
from tacit.plots.style import BLUE, GREEN, GREY, INK, ORANGE, PALE, RED, canvas, styled

_KINDS = {
    "pure": (BLUE, "o", "differentially private, whoever listens"),
    "one honest keeper": (GREEN, "D", "the same, while one keeper is honest"),
    "per pair": (ORANGE, "s", "on average over pairs of agents"),
    "none": (RED, "X", "not differentially private"),
}
_DECADES = 1e-5  # of the largest value: what is smaller is drawn at the edge
_ROW = 0.33  # inches


def draw_compare(found: Comparison) -> Figure:
    """Draw one row per method: its error, the attack's error, and the rounds until all agree."""
    rows = found.rows[::-1]
    with styled():
        figure = canvas(9.6, 1.75 + _ROW * len(rows))
        left, middle, right = figure.subplots(1, 3, sharey=True, width_ratios=[1.15, 1, 0.9])
        _sizes(left, found, [row.error for row in rows])
        promised = [max(row.error_closed_form, left.get_xlim()[0]) for row in rows]
        left.plot(promised, range(len(rows)), "|", color=INK, ms=11, mew=1.2)
        _sizes(middle, found, [row.attack_error for row in rows])
        _rounds(right, found)
        left.set_yticks(range(len(rows)), [row.title for row in rows])
        left.set_title("Error of the average")
        left.set_xlabel("root mean square, in units of the values")
        middle.set_title("An eavesdropper is off by")
        middle.set_xlabel("root mean square, one agent's value")
        for ax in (left, middle, right):
            ax.tick_params(axis="y", length=0, pad=9)
            ax.spines["left"].set_visible(False)
            ax.set_ylim(-0.6, len(rows) - 0.4)
        size = f"{found.case.graph.n:,} agents, {found.case.graph.n_edges:,} edges"
        figure.suptitle(
            f"{size}; ε = {found.case.epsilon:g} per unit of adjacency; {found.runs:,} runs each",
            x=0.01, ha="left", fontsize=9, color=GREY,
        )  # fmt: skip
        _legend(figure, found)
    return figure


def _sizes(ax: Axes, found: Comparison, values: Sequence[float]) -> None:
    """Draw sizes on a logarithmic axis, with negligible ones at its edge."""
    ax.set_xscale("log")
    most = max(*values, 1e-12)
    edge = most * _DECADES
    ax.set_xlim(edge, 4 * most)
    for place, (row, value) in enumerate(zip(found.rows[::-1], values, strict=True)):
        colour, marker, _ = _KINDS[row.guarantee.kind]
        ax.hlines(place, edge, max(value, edge), color=PALE, lw=1)
        if value > edge:
            ax.plot(value, place, marker, color=colour, ms=6)
        else:
            ax.plot(edge, place, "<", color=colour, ms=7, clip_on=False)
            _say(ax, (edge, place), "next to nothing", 9)
    ax.grid(axis="x")


def _rounds(ax: Axes, found: Comparison) -> None:
    end = found.case.rounds
    for place, row in enumerate(found.rows[::-1]):
        colour, marker, _ = _KINDS[row.guarantee.kind]
        ax.hlines(place, 0, row.agreed_after or end, color=PALE, lw=1)
        if row.agreed_after is None:
            ax.plot(end, place, ">", color=colour, ms=7, clip_on=False)
            _say(ax, (end, place), "not yet", -9)
        else:
            ax.plot(row.agreed_after, place, marker, color=colour, ms=6)
    ax.set_xlim(0, end)
    ax.grid(axis="x")
    ax.set_title("Rounds until all agree")
    ax.set_xlabel(f"within {found.case.within:g}, in 95% of the runs")


def _say(ax: Axes, place: tuple[float, float], text: str, offset: int) -> None:
    ax.annotate(
        text, place, xytext=(offset, 0), textcoords="offset points", ha="left" if offset > 0 else "right",
        va="center", fontsize=8, color=GREY,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )  # fmt: skip


def _legend(figure: Figure, found: Comparison) -> None:
    seen = [kind for kind in _KINDS if any(row.guarantee.kind == kind for row in found.rows)]
    lines = [Line2D([], [], color=_KINDS[k][0], marker=_KINDS[k][1], ls="", ms=6) for k in seen]
    lines.append(Line2D([], [], color=INK, marker="|", ls="", ms=11, mew=1.2))
    names = [*(_KINDS[kind][2] for kind in seen), "closed form"]
    figure.legend(lines, names, loc="outside lower left", ncols=len(names), fontsize=8.5, handletextpad=0.3)
