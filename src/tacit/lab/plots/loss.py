"""Measured against promised loss, over how far apart two starts are."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.base.arrays import FloatArray
from tacit.lab.plots.runs import LossCurves
from tacit.lab.plots.sheets import Where, Width, panels
from tacit.lab.plots.style import BLUE, INK, MARKERS, RED, label_line, label_room, spread_labels, text_size


def draw_loss(data: LossCurves, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw the promised loss as a line, measured lower bounds as points.

    Points above the line refute the promise; they are drawn as such.
    """
    with panels(6.4, 4.4, ax=ax, wanted=width) as sheet:
        ax = sheet.ax
        far = float(data.distance[-1])
        top = 1.1 * max(float(data.promised[-1]), *(float(row.max()) for row in data.measured.values()))
        ax.fill_between([0, far], [0, data.promised[-1]], top, color=RED, alpha=0.07, lw=0)
        ax.plot([0, far], [0, data.promised[-1]], color=BLUE)
        for place, row in enumerate(data.measured.values()):
            over = row > data.promised
            colour, marker = _colour(row, data), MARKERS[place % len(MARKERS)]
            ax.plot(data.distance, row, color=colour, lw=0.9, linestyle=(0, (2, 2)))
            for some, fill in ((~over, "white"), (over, colour)):
                if some.any():  # an empty line that is not clipped would spoil the layout
                    x, y = data.distance[some], row[some]
                    ax.plot(x, y, marker, color=colour, mfc=fill, ms=5, clip_on=False)
        _name_all(ax, data, top)
        ax.set_xlim(0, far)
        ax.set_ylim(0, top)
        ax.grid(axis="y")
        ax.text(
            0.03,
            0.96,
            "more than promised (filled)",
            transform=ax.transAxes,
            color=RED,
            fontsize=text_size(8.5),
            va="top",
        )
        ax.set_xlabel("distance between two starts of one agent, in units of the values")
        ax.set_ylabel("loss: log of the likelihood ratio")
        ax.set_title("Loss proved by sessions, against the promised loss")
        sheet.caption(
            f"{data.sessions:,} sessions of {data.rounds} rounds per point; all points hold at once with "
            f"probability {1 - data.failure_probability:.10g}", 8.5,
        )  # fmt: skip
    return sheet.figure


def _name_all(ax: Axes, data: LossCurves, top: float) -> None:
    """Name the line and the points at their ends, without overlaps."""
    ends = {"promised, at most": (float(data.promised[-1]), BLUE)}
    for name, row in data.measured.items():
        ends[f"{name}, at least"] = (float(row[-1]), _colour(row, data))
    places = spread_labels([end for end, _ in ends.values()], label_room(ax) * top)
    for place, (name, (_, colour)) in zip(places, ends.items(), strict=True):
        label_line(ax, float(data.distance[-1]), place, name, colour, offset=(9, 0))


def _colour(row: FloatArray, data: LossCurves) -> str:
    return RED if (row > data.promised).any() else INK
