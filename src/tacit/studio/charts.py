"""Charts of Plan and Compare, as options of ECharts.

Colours are CSS variables, which the style sheet defines for light and dark. Charts are SVG, so ``var(--ink)``
works in them and tests can read them. The trade-off chart always has the same series in the same order, so
that ECharts can merge an update, which is fast.
"""

from __future__ import annotations

import math
from typing import Any

from tacit.base.rounding import shown_up
from tacit.core.theory.planned_answer import PlannedAnswer
from tacit.lab.plots.curves import SeriesCurves
from tacit.studio.plan_answer import TradeoffCurve, steps
from tacit.studio.words import with_unit

Options = dict[str, Any]

INK, MUTED, LINE, CARD = "var(--ink)", "var(--muted)", "var(--line)", "var(--card)"
ACCENT, SECOND, THIRD, WASH = "var(--accent)", "var(--second)", "var(--third)", "var(--wash)"
_PARTS = 24  # of an answer, in one chart
_NARROW = 325  # pixels that a chart on a phone has
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


def frame(x: str, y: str, **more: Any) -> Options:
    """Return a chart without data: two labelled axes, no animation."""

    def axis(name: str, gap: int) -> Options:
        return {
            "type": "value",
            "name": name,
            "nameLocation": "middle",
            "nameGap": gap,
            "nameTextStyle": {"color": MUTED, "fontSize": 12},
            "axisLine": {"show": gap < 40, "lineStyle": {"color": LINE}},
            "axisTick": {"show": False},
            "axisLabel": {"color": MUTED, "fontSize": 11, "hideOverlap": True},
            "splitLine": {"show": gap >= 40, "lineStyle": {"color": LINE}},
        }

    return {
        "animation": False,
        "textStyle": {"fontFamily": FONT},
        "grid": {"left": 60, "right": 16, "top": 36, "bottom": 44},
        "xAxis": axis(x, 28),
        "yAxis": axis(y, 44),
        "legend": {
            "type": "scroll",
            "top": 0,
            "left": 0,
            "itemWidth": 22,
            "itemStyle": {"opacity": 0},
            "textStyle": {"color": MUTED, "fontSize": 12},
        },
        "media": [],
        "series": [],
        **more,
    }


def legend(options: Options, entries: list[str | Options]) -> None:
    """Fill the legend of a chart.

    Wide charts have it in one line. In narrow ones, as on a phone, it takes several lines above the axes: one
    line would hide all but the first entries.
    """
    options["legend"]["data"] = entries
    rows, used = 1, 0.0
    for entry in entries:
        name = entry if isinstance(entry, str) else str(entry["name"])
        width = 6.4 * len(name) + 37  # of the letters, the symbol and the gaps
        if used and used + width > _NARROW:
            rows, used = rows + 1, 0.0
        used += width
    if rows > 1:
        below = options["grid"]["top"] + 22 * (rows - 1)
        # A legend of another type is a new one to ECharts, so both must be complete.
        one_line = dict(options["legend"])
        narrow = {"legend": one_line | {"type": "plain", "itemGap": 8}, "grid": {"top": below}}
        wide = {"legend": one_line, "grid": {"top": options["grid"]["top"]}}
        options["media"] = [
            {"query": {"maxWidth": _NARROW + 25}, "option": narrow},
            {"query": {"minWidth": _NARROW + 26}, "option": wide},
        ]


def line(name: str, points: list[list[float]], colour: str, **style: Any) -> Options:
    """Return a series drawn as a line without symbols."""
    return {
        "type": "line",
        "name": name,
        "data": points,
        "symbol": "none",
        "silent": True,
        "color": colour,
        "lineStyle": {"color": colour, "width": 2, **style},
        "emphasis": {"disabled": True},
    }


def dot(
    name: str, at: tuple[float, float] | None, colour: str, words: str, symbol: str = "circle"
) -> Options:
    """Return a series of at most one point with its words beside it."""
    return {
        "type": "scatter",
        "name": name,
        "data": [] if at is None else [list(at)],
        "symbol": symbol,
        "symbolSize": 13,
        "silent": True,
        "z": 5,
        "color": colour,
        "itemStyle": {"color": colour, "borderColor": CARD, "borderWidth": 2},
        "label": {
            "show": True, "formatter": words, "position": "right", "offset": [0, -12], "distance": 8,
            "color": INK, "fontSize": 12, "fontWeight": 600, "textBorderColor": CARD, "textBorderWidth": 3,
        },
        "emphasis": {"disabled": True},
    }  # fmt: skip


def tradeoff(curves: dict[str, TradeoffCurve | None]) -> Options:
    """Draw radius against loss, for one or two settings.

    One setting is shown with one-shot noise and Chebyshev's bound, two settings with one-shot noise only.
    """
    drawn = {name: curve for name, curve in curves.items() if curve is not None}
    unit, of = next(((curve.unit, curve.of) for curve in drawn.values()), ("", "mean"))
    options = frame("privacy loss (less is more private) →", with_unit(f"{of} within ±", unit))
    tallest = [0.0]
    rightmost = _round_number(max((float(steps(curve)[-1]) for curve in drawn.values()), default=1.0))
    colours = (ACCENT, SECOND)
    for colour, (name, curve) in zip(colours, curves.items(), strict=False):
        options["series"] += _lines(name, curve, colour, rightmost)
        if curve is not None:
            reach = [curve.asked[1] or 0.0, curve.point[1] if curve.point else 0.0]
            tallest.append(2.6 * (max(reach) or curve.designed / (rightmost / 2.2)))
    options["xAxis"] |= {"min": 0, "max": rightmost}
    options["yAxis"] |= {"min": 0, "max": _round_number(max(tallest) or 1.0)}
    shown = [s["name"] for s in options["series"] if s["type"] == "line" and s["data"]]
    legend(options, shown)
    return options


_MECHANISMS = {
    "square-root": "square root", "tree": "binary tree", "pure tree": "binary tree, pure ε",
    "independent": "independent noise", "independent laplace": "independent, pure ε",
}  # fmt: skip


def over_slots(curves: SeriesCurves | None, chosen: str, slots: int, unit: str) -> Options:
    """Draw each mechanism's deviation over the number of means.

    Both axes are logarithmic.
    """
    options = frame(
        "means in the series", with_unit("deviation of each mean,", unit) if unit else "deviation"
    )
    styles: list[tuple[str, Options]] = [
        (ACCENT, {}), (SECOND, {"type": "dashed"}), (THIRD, {"type": "dotted"}), (MUTED, {"type": "dashed"}),
    ]  # fmt: skip
    for axis in ("xAxis", "yAxis"):
        options[axis] |= {"type": "log"}
    found = {} if curves is None else curves.deviation
    order = sorted(found, key=lambda kind: kind != chosen)
    for (colour, style), kind in zip(styles, order, strict=False):
        points = [
            [n, float(f"{y:.5g}")] for n, y in zip(curves.slots if curves else (), found[kind], strict=True)
            if math.isfinite(y)
        ]  # fmt: skip
        name = _MECHANISMS[kind] + (" (chosen)" if kind == chosen else "")
        options["series"].append(line(name, points, colour, width=2.5 if kind == chosen else 1.5, **style))
        if kind == chosen:
            at = next((point for point in points if point[0] == slots), None)
            options["series"].append(dot("asked", (at[0], at[1]) if at else None, colour, f"{slots:,} means"))
            options["series"][-1]["label"] |= {"position": "bottom", "offset": [0, 0]}
    options["xAxis"] |= {"min": 1}
    legend(options, [one["name"] for one in options["series"] if one["type"] == "line"])
    return options


def _lines(name: str, curve: TradeoffCurve | None, colour: str, rightmost: float) -> list[Options]:
    prefix = f"{name}: " if name else ""
    styles = {
        "this design": {},
        "one-shot": {"type": "dashed"},
        "Chebyshev": {"type": "dotted"},
    }
    points: dict[str, list[list[float]]] = {}
    if curve is not None:
        losses = steps(curve) * (rightmost / float(steps(curve)[-1]))
        for kind, radii in curve.radii(losses).items():
            points[kind] = [
                [float(f"{x:.5g}"), float(f"{y:.5g}")] for x, y in zip(losses, radii, strict=True)
            ]
    widths = {"this design": 2.5, "one-shot": 1.5, "Chebyshev": 1.5}
    series = [
        line(prefix + kind, points.get(kind, []), colour if kind != "Chebyshev" else MUTED,
             width=widths[kind], **style)
        for kind, style in styles.items()
        if not (name and kind == "Chebyshev")
    ]  # fmt: skip
    point = None if curve is None else curve.point
    words = name or ("" if point is None else f"loss {shown_up(point[0], 3)}")
    series.append(dot(f"{prefix}found", point, colour, words))
    asked = None
    if curve is not None and point is None and curve.asked[0] and curve.asked[1]:
        asked = (curve.asked[0], curve.asked[1])
    series.append(dot(f"{prefix}asked", asked, SECOND, f"{name} asked for: out of reach".strip(), "diamond"))
    series[-1]["label"] |= {"position": "bottom", "offset": [0, 0]}  # below the curve there is room
    return series


def _round_number(value: float) -> float:
    """Return a round number at or just above the value, to end an axis at."""
    ten = 10.0 ** math.floor(math.log10(value))
    return next(k * ten for k in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if k * ten >= value * (1 - 1e-9))


def intervals(answer: PlannedAnswer | None, unit: str) -> Options:
    """Return the intervals of an answer: for each part, and for all at once."""
    options = frame("", unit)
    each = [] if answer is None else list(answer.each.parts[:_PARTS])
    joint = {} if answer is None else {part.name: part for part in answer.together.parts}
    shown = [part for part in each if part.low is not None and part.high is not None]
    options["xAxis"] = options["xAxis"] | {"type": "category", "data": [part.name for part in shown]}

    def bars(name: str, ends: list[tuple[float, float]], colour: str, stack: str) -> list[Options]:
        bar = {"type": "bar", "stack": stack, "silent": True, "barMaxWidth": 26}
        seen = {"name": name, "color": colour, "itemStyle": {"color": colour}}
        return [
            bar | {"itemStyle": {"color": "transparent"}, "data": [low for low, _ in ends]},
            bar | seen | {"data": [high - low for low, high in ends]},
        ]

    alone = [(part.low or 0.0, part.high or 0.0) for part in shown]
    wider = [joint.get(part.name, part) for part in shown]
    wide = [(part.low or 0.0, part.high or 0.0) for part in wider]
    options["series"] = [
        *bars("each part", alone, ACCENT, "each"),
        *bars("all parts at once", wide, SECOND, "all"),
    ]
    legend(options, ["each part", "all parts at once"])
    options["legend"] |= {"itemStyle": {"opacity": 1}, "itemWidth": 12}
    options["tooltip"] = {"show": False}
    return options
