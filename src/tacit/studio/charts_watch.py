"""Charts of Watch: a session and a belief, up to a round."""

from __future__ import annotations

import math

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.lab.audit.beliefs import Belief
from tacit.studio.charts import ACCENT, CARD, INK, LINE, MUTED, SECOND, WASH, Options, frame, legend, line
from tacit.studio.watched_run import WatchedRun, edges
from tacit.studio.words import percent, with_unit

INNER, OUTER = "var(--band-inner)", "var(--band-outer)"
"""Fills of the narrow and of the wide band."""
_MOST_LINES = 40
_BELOW, _EVEN, _ABOVE = (0, 114, 178), (205, 208, 212), (213, 94, 0)  # blue, grey, vermilion of the figures


def _points(x: FloatArray, y: FloatArray) -> list[list[float]]:
    return [[float(f"{a:.5g}"), float(f"{b:.6g}")] for a, b in zip(x, y, strict=True)]


def _band(name: str, x: FloatArray, low: FloatArray, high: FloatArray, fill: str) -> list[Options]:
    """Return two stacked series: an invisible one up to `low`, then the band."""
    shared = {"stack": name, "stackStrategy": "all"}
    floor = line(f"{name} floor", _points(x, low), "transparent", width=0) | shared
    return [
        floor,
        line(name, _points(x, high - low), WASH, width=0) | shared | {"areaStyle": {"color": fill}},
    ]


def _level(y: float, words: str, colour: str = INK) -> Options:
    return {
        "symbol": "none",
        "silent": True,
        "lineStyle": {"color": colour, "type": "dashed", "width": 1},
        "label": {
            "formatter": words, "position": "insideEndTop", "color": colour, "fontSize": 11,
            "textBorderColor": CARD, "textBorderWidth": 3,
        },
        "data": [{"yAxis": float(f"{y:.6g}")}],
    }  # fmt: skip


def trajectories(session: WatchedRun, t: int, agent: int) -> Options:
    """Draw the states up to round t, over the bands of the exact radius."""
    theta, unit = session.history.theta, _unit(session)
    rounds = np.arange(session.rounds + 1.0)
    options = frame("round", with_unit("state,", unit) if unit else "state")
    options["series"] = []
    bands = []
    for b, radius in zip(session.fan.failure_probability, session.fan.radius, strict=True):
        inner = b == max(session.fan.failure_probability)
        name, fill = f"{percent(1 - b)} of runs end here", INNER if inner else OUTER
        bands.append(_swatch(name, fill))
        options["series"] += _band(name, rounds, session.target - radius, session.target + radius, fill)
    step = max(1, session.agents // _MOST_LINES)
    past = rounds[: t + 1]
    for i in range(0, session.agents, step):
        options["series"].append(
            line(f"agent {i}", _points(past, theta[: t + 1, i]), MUTED, width=0.7, opacity=0.7)
        )
    options["series"].append(line("chosen agent", _points(past, theta[: t + 1, agent]), ACCENT))
    mean = line("average of all", _points(past, session.average[: t + 1]), SECOND, width=2.5)
    options["series"].append(mean | {"markLine": _level(session.target, "target")})
    legend(options, [*bands, "average of all", "chosen agent"])
    low, high = float(theta.min()), float(theta.max())
    options["xAxis"] |= {"min": 0, "max": session.rounds, "minInterval": 1}
    options["yAxis"] |= _ends(low, high)
    return options


def network(session: WatchedRun, t: int, agent: int) -> Options:
    """Draw the agents and their links, coloured by their states.

    Blue is below the target, orange above it, and grey at it.
    """
    assert session.places is not None
    theta = session.history.theta
    reach = float(np.max(np.abs(theta[0] - session.target))) or 1.0
    size = 14 if session.agents <= 60 else 9 if session.agents <= 150 else 6
    nodes = [
        {
            "name": str(i),
            "x": float(f"{x:.4g}"),
            "y": float(f"{y:.4g}"),
            "symbolSize": size + 6 * (i == agent),
            "itemStyle": {
                "color": _colour((theta[t, i] - session.target) / reach),
                "borderColor": INK if i == agent else LINE,
                "borderWidth": 2.5 if i == agent else 0.5,
            },
        }
        for i, (x, y) in enumerate(300 * session.places)  # ECharts snaps lines to half units
    ]
    if session.plan.question is not None and session.plan.question.graph is None:
        server = {"name": str(session.agents), "x": 0, "y": 0, "symbol": "roundRect", "symbolSize": 16}
        nodes.append(
            {**server, "itemStyle": {"color": MUTED}, "label": {"show": True, "formatter": "server"}}
        )
    return {
        "animation": False,
        "series": [
            {
                "type": "graph",
                "layout": "none",
                "preserveAspect": True,
                "silent": True,
                "left": 14, "right": 14, "top": 14, "bottom": 14,
                "data": nodes,
                "links": [{"source": str(i), "target": str(j)} for i, j in edges(session)],
                "lineStyle": {"color": LINE, "width": 1, "opacity": 1},
                "label": {"position": "bottom", "color": MUTED, "fontSize": 11},
                "emphasis": {"disabled": True},
            }
        ],
    }  # fmt: skip


def graph_key() -> dict[str, str]:
    """Return the legend of the graph: the style of each dot, and its meaning."""
    return {
        f"background: {_colour(-1)}": "below the target",
        f"background: {_colour(0)}": "at the target",
        f"background: {_colour(1)}": "above the target",
        "background: transparent; border: 2.5px solid var(--ink)": "the chosen agent",
    }


def spent(session: WatchedRun, t: int) -> Options:
    """Draw the loss after every round, below the promised loss."""
    design = session.plan.design
    promised = design.promise.loss if design is not None else float(session.spent[-1])
    options = frame("round", "loss so far")
    bars = _points(np.arange(t + 1.0), session.spent[: t + 1])
    made = line("loss so far", bars, ACCENT) | {"step": "end", "areaStyle": {"color": WASH}}
    options["series"] = [made | {"markLine": _level(promised, "promised at most", MUTED)}]
    options["legend"]["show"] = False
    options["grid"]["top"] = 16
    options["xAxis"] |= {"min": 0, "max": session.rounds, "minInterval": 1}
    options["yAxis"] |= _ends(0, 1.12 * promised)
    return options


def density(found: Belief, session: WatchedRun, t: int, without: Belief | None = None) -> Options:
    """Draw the belief after t rounds, the prior belief and the truth.

    `without` is what an eavesdropper would believe without keepers.
    """
    unit, truth = _unit(session), float(session.history.theta[0, found.agent])
    options = frame(
        with_unit("value of the chosen agent,", unit) if unit else "value of the chosen agent", "belief"
    )
    name = "now" if without is None else "with keepers"
    prior = line("before", _points(found.values, found.prior), MUTED, width=1.5, type="dotted")
    now = line(name, _points(found.values, found.density[t]), ACCENT) | {"areaStyle": {"color": WASH}}
    now["markLine"] = _level(0, "truth", INK) | {"data": [{"xAxis": float(f"{truth:.6g}")}]}
    now["markLine"]["label"] |= {"position": "end"}
    now["markLine"]["lineStyle"] |= {"type": "solid", "width": 2}
    options["series"], top = [prior, now], float(found.density.max())
    if without is not None:
        seen = without.density[min(t, len(without.density) - 1)]
        points = _points(without.values, seen)
        options["series"].append(line("without keepers", points, SECOND, type="dashed"))
        top = max(top, float(without.density.max()))
    legend(options, [series["name"] for series in options["series"]])
    options["yAxis"] |= _ends(0, 1.15 * top)
    options["yAxis"]["axisLabel"] = {"show": False}
    options["yAxis"]["nameGap"] = 14
    options["grid"]["left"] = 34
    options["xAxis"] |= {"min": float(found.values[0]), "max": float(found.values[-1])}
    return options


def interval(found: Belief, session: WatchedRun, t: int) -> Options:
    """Draw the adversary's interval after each round, and the truth."""
    unit, truth = _unit(session), float(session.history.theta[0, found.agent])
    options = frame("round", with_unit("value,", unit) if unit else "value")
    past = found.rounds[: t + 1].astype(np.float64)
    name = f"{percent(found.level)} sure"
    options["series"] = _band(name, past, found.low[: t + 1], found.high[: t + 1], OUTER)
    mean = line("best guess", _points(past, found.mean[: t + 1]), ACCENT)
    mean["markLine"] = _level(truth, "truth", INK)
    mean["markLine"]["lineStyle"] |= {"type": "solid", "width": 2}
    options["series"].append(mean)
    legend(options, [_swatch(name, OUTER), "best guess"])
    options["xAxis"] |= {"min": 0, "max": session.rounds, "minInterval": 1}
    options["yAxis"] |= {"min": float(found.values[0]), "max": float(found.values[-1])}
    return options


def _swatch(name: str, fill: str) -> Options:
    """Return the legend entry of a band."""
    return {"name": name, "icon": "roundRect", "itemStyle": {"color": fill, "opacity": 1}}


def _unit(session: WatchedRun) -> str:
    return session.plan.form.unit.strip()


def _ends(low: float, high: float) -> dict[str, float]:
    """Return round ends of an axis, just beyond the data."""
    step = 10.0 ** math.floor(math.log10(high - low or 1.0)) / 2
    return {"min": step * math.floor(low / step), "max": step * math.ceil(high / step)}


def _colour(share: float) -> str:
    """Return blue, grey or vermilion for −1, 0 or 1, and mixtures in between."""
    end, along = (_ABOVE if share > 0 else _BELOW), min(abs(share), 1.0) ** 0.7
    return "#" + "".join(f"{round(a + (b - a) * along):02x}" for a, b in zip(_EVEN, end, strict=True))
