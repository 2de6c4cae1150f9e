"""Methods side by side: error, error of an eavesdropper, rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tacit.lab.comparison.comparison import Comparison, MethodResult
from tacit.lab.plots.sheets import Panels, Where, Width, panels
from tacit.lab.plots.style import BLUE, GREEN, GREY, INK, ORANGE, RED, text_size

_KINDS = {
    "pure": (BLUE, "Private against every eavesdropper"),
    "one honest keeper": (GREEN, "Private while one keeper is honest"),
    "per pair": (ORANGE, "Private on average over pairs"),
    "none": (RED, "Not differentially private"),
}
_SAME = 1.02  # methods of one kind whose errors are within this factor share a row
_ROW = 0.3  # inches
_NOTHING = 1e-3  # share of the largest value; a smaller value is shown as about 0

Group = list[MethodResult]


def draw_compare(found: Comparison, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw the errors of methods and eavesdroppers, and rounds to agree.

    Methods with the same kind of guarantee and the same error share a row. `ax` are three Axes.
    """
    groups = _groups(found.rows)
    places, heads = _places(groups)
    height = 1.5 + _ROW * (len(groups) + len(heads))
    layout: dict[str, Any] = {"sharey": True, "width_ratios": [1.2, 1, 1]}
    with panels(9.2, height, 3, ax=ax, wanted=width, rows=True, **layout) as sheet:
        left, middle, right = sheet.axes
        _bars(left, groups, places, _errors)
        _least(left, groups, places)
        _bars(middle, groups, places, lambda group: [row.attack_error for row in group])
        _rounds(right, groups, places, found.case.rounds)
        _name(sheet, groups, places, heads)
        left.set_title("Error of the average")
        left.set_xlabel("root mean square")
        middle.set_title("Error of an eavesdropper")
        middle.set_xlabel("root mean square, of one value")
        right.set_title("Rounds to agree")
        right.set_xlabel(f"within {found.case.within:g}, 95% of the runs")
        size = f"{found.case.graph.n:,} agents, {found.case.graph.n_edges:,} edges"
        sheet.caption(f"{size}; ε = {found.case.epsilon:g} per unit of adjacency; {found.runs:,} runs each")
    return sheet.figure


def _groups(rows: Sequence[MethodResult]) -> list[Group]:
    """Group methods of one kind and nearly the same error.

    The most accurate group of each kind is first.
    """
    groups: list[Group] = []
    for kind in _KINDS:
        same = sorted((row for row in rows if row.guarantee.kind == kind), key=_size)
        for before, row in pairwise([None, *same]):
            assert row is not None
            if before is not None and _alike(before, row):
                groups[-1].append(row)
            else:
                groups.append([row])
    return groups


def _alike(one: MethodResult, other: MethodResult) -> bool:
    """Whether the least errors, too, are nearly the same, or unknown for both."""
    leasts = [row.least_error for row in (one, other) if row.least_error is not None]
    same_least = len(leasts) != 1 and (not leasts or max(leasts) <= _SAME * min(leasts))
    return same_least and _size(other) <= _SAME * _size(one)


def _size(row: MethodResult) -> float:
    """The error by theory, or the measured one if there is no theory."""
    return row.error if row.error_closed_form is None else row.error_closed_form


def _places(groups: Sequence[Group]) -> tuple[list[float], dict[str, float]]:
    """Return the heights of the rows, and of the headings of kinds.

    Both are from the top down.
    """
    places: list[float] = []
    heads: dict[str, float] = {}
    y = 0.0
    for group in groups:
        kind = group[0].guarantee.kind
        if kind not in heads:
            y -= 0.35
            heads[kind] = y
            y -= 0.85
        places.append(y)
        y -= 1
    return places, heads


def _errors(group: Group) -> list[float]:
    return [row.error for row in group]


def _bars(
    ax: Axes, groups: Iterable[Group], places: Sequence[float], of: Callable[[Group], list[float]]
) -> None:
    """Draw the mean of each row as a bar from 0, and write it beside."""
    sizes = [sum(of(group)) / len(group) for group in groups]
    most = max(*sizes, 1e-12)
    said: set[str] = set()
    for group, y, size in zip(groups, places, sizes, strict=True):
        kind, least = group[0].guarantee.kind, group[0].least_error if of is _errors else None
        ax.barh(y, size, height=0.56, color=_KINDS[kind][0], lw=0)
        told = f"{size:.2g}" if size > _NOTHING * most else "about 0"
        if least is not None and kind not in said:  # once for each kind of promise
            told += f" (least possible {least:.2g})"
            said.add(kind)
        _write(ax, size, y, told)
    ax.set_xlim(0, 1.28 * most)


def _least(ax: Axes, groups: Sequence[Group], places: Sequence[float]) -> None:
    """Mark the least error that any method with the same promise could have."""
    for group, y in zip(groups, places, strict=True):
        if (least := group[0].least_error) is not None:
            ax.plot([least, least], [y - 0.4, y + 0.4], color=INK, lw=1.4)


def _rounds(ax: Axes, groups: Sequence[Group], places: Sequence[float], end: int) -> None:
    for group, y in zip(groups, places, strict=True):
        colour = _KINDS[group[0].guarantee.kind][0]
        taken = sorted(row.agreed_after for row in group if row.agreed_after is not None)
        if not taken:
            ax.barh(y, end, height=0.56, facecolor="none", edgecolor=colour, hatch="////", lw=0.6)
            _write(ax, end, y, "not yet")
            continue
        ax.barh(y, taken[-1], height=0.56, color=colour, lw=0)
        told = f"{taken[0]}" if taken[0] == taken[-1] else f"{taken[0]} to {taken[-1]}"
        _write(ax, taken[-1], y, told)
    ax.set_xlim(0, 1.3 * end)


def _write(ax: Axes, x: float, y: float, text: str) -> None:
    ax.annotate(
        text, (x, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=text_size(8.5),
        color=INK,
    )  # fmt: skip


def _name(sheet: Panels, groups: Sequence[Group], places: Sequence[float], heads: dict[str, float]) -> None:
    """Name each row on the left, below the heading of its kind."""
    for panel, ax in enumerate(sheet.axes):
        ax.set_ylim(places[-1] - 0.7, 0.25)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.axvline(0, color=GREY, lw=0.8)
        for kind, y in heads.items():
            if panel == 0 or sheet.stacked:
                colour, words = _KINDS[kind]
                # Below each other the panels are narrow, and a heading needs the whole width.
                place = (0.02, "figure fraction") if sheet.stacked else (0.0, "data")
                ax.annotate(
                    words if sheet.stacked else f"  {words}", (place[0], y), xycoords=(place[1], "data"),
                    va="center", color=colour, fontweight="bold", fontsize=text_size(8.5),
                    annotation_clip=False,
                ).set_in_layout(not sheet.stacked)  # fmt: skip
        ax.set_yticks(list(places), [_title(group) for group in groups])
        if panel and not sheet.stacked:
            ax.tick_params(axis="y", labelleft=False)


def _title(group: Group) -> str:
    """Join titles: "one-shot (server, graph)" is two methods."""
    joined: dict[str, list[str]] = {}
    for row in group:
        head, _, where = row.title.partition(", ")
        joined.setdefault(head, []).extend([where] if where else [])
    return "\n".join(f"{head} ({', '.join(where)})" if where else head for head, where in joined.items())
