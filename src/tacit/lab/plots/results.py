"""Figures of results: promise, design, simulated runs, sweep, series."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tacit.base.errors import ParameterError
from tacit.base.report import counted
from tacit.base.rounding import shown_up
from tacit.core.theory.answers import Design
from tacit.core.theory.endings import ending
from tacit.core.theory.promise import Promise
from tacit.lab.plots.fans import fan, knots
from tacit.lab.plots.sheets import Where, Width, panels
from tacit.lab.plots.style import (
    BLUE,
    DASHES,
    GREY,
    INK,
    MARKERS,
    RED,
    SKY,
    colours,
    label_line,
    label_room,
    plain_log,
    spread_labels,
)
from tacit.lab.simulation.series import SeriesRuns

if TYPE_CHECKING:
    import xarray as xr

_MOST_LINES = 50
_MOST_ROUNDS = 200
_MOST_CURVES = 6
_SETTLED = 0.995


def draw_promise(made: Promise | Design, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw how far off the agents may be after each round.

    For an endless run, it is the average of their states. For a design, the same with one-shot noise is
    drawn too.
    """
    promise = made.promise if isinstance(made, Design) else made
    rounds = min(max(promise.rounds, 2), _MOST_ROUNDS)
    b = promise.failure_probability
    every = promise.horizon is not None  # then the promise is about every agent's state
    drawn = {"every agent" if every else "average": promise.mechanism}
    if isinstance(made, Design):
        drawn["with one-shot noise"] = made.baseline.mechanism
    if every:
        t = np.array([0, *knots(rounds)])
        curves = {
            name: np.array([ending(mechanism, b, int(at), promise.spread).radius for at in t])
            for name, mechanism in drawn.items()
        }
    else:
        curves = {name: fan(mechanism, rounds, (b,)).radius[0] for name, mechanism in drawn.items()}
        settled = max(int(np.argmax(row >= _SETTLED * row[-1])) for row in curves.values())
        rounds = min(rounds, max(10, 2 * settled))  # the rest would be flat
        curves = {name: row[: rounds + 1] for name, row in curves.items()}
        t = np.arange(rounds + 1)
    with panels(6.4, 4.0, ax=ax, wanted=width) as sheet:
        ax, hues = sheet.ax, colours()
        top = max(float(row.max()) for row in curves.values())
        places = spread_labels([float(row[-1]) for row in curves.values()], label_room(ax, 2.8) * 1.15 * top)
        for k, ((name, row), place) in enumerate(zip(curves.items(), places, strict=True)):
            ax.plot(t, row, color=hues[k % len(hues)], linestyle=DASHES[k])
            label_line(ax, rounds, place, f"{name}\n{shown_up(float(row[-1]), 3)}", hues[k % len(hues)])
        ax.set_xlim(0, rounds)
        ax.set_ylim(0, 1.15 * top)
        ax.grid(axis="y")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("round")
        ax.set_ylabel("radius, in units of the values")
        whose = "Every agent is" if every else "The average of all states is"
        ax.set_title(f"{whose} within this of the target in {100 * (1 - b):.4g}% of runs")
        sheet.caption(
            f"{counted(promise.mechanism.n, 'agent')}, ε = {shown_up(promise.epsilon, 4)} per unit, "
            f"loss {shown_up(promise.loss, 4)}; target: {promise.target} average".replace(
                "average average", "the true average"
            )
        )
    return sheet.figure


def draw_simulation(runs: xr.Dataset, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw the average of the agents' states in simulated runs.

    Either over the rounds, or a histogram of where the runs ended.
    """
    if "theta" in runs and {"run", "round", "agent"} <= set(runs.theta.dims) and runs.theta.ndim == 3:
        path = runs.theta.mean("agent")
    elif "average" in runs and set(runs.average.dims) == {"run", "round"}:
        path = runs.average
    else:
        raise ParameterError(
            "a dataset of runs is drawn if it has the states or the average of all agents, as numbers: "
            "simulate with --record final, average or every:1."
        )
    rounds, values = path["round"].to_numpy(), path.transpose("run", "round").to_numpy()
    with panels(6.4, 4.0, ax=ax, wanted=width) as sheet:
        ax = sheet.ax
        if len(rounds) == 1:
            ax.hist(values[:, 0], bins="auto", color=SKY, edgecolor=BLUE, linewidth=0.6)
            ax.set_xlabel(f"average of all states after {counted(int(rounds[0]), 'round')}")
            ax.set_ylabel("runs")
        else:
            low, middle, high = np.quantile(values, [0.025, 0.5, 0.975], axis=0)
            ax.fill_between(rounds, low, high, color=SKY, alpha=0.4, lw=0)
            ax.plot(rounds, values[:_MOST_LINES].T, color=GREY, lw=0.5, alpha=0.6)
            ax.plot(rounds, middle, color=BLUE)
            label_line(ax, rounds[-1], middle[-1], "median", BLUE)
            label_line(ax, rounds[-1], high[-1], "95% of runs", BLUE, offset=(4, 6))
            ax.set_xlim(rounds[0], rounds[-1])
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
            ax.set_xlabel("round")
            ax.set_ylabel("average of all states")
        ax.set_title(f"{counted(len(values), 'simulated run')} of {runs.attrs['agents']:,} agents")
    return sheet.figure


def draw_sweep(found: xr.Dataset, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw measured and promised errors over one axis of a sweep.

    The errors are those that a share b of the runs exceeds, for the sweep's failure probability b. The
    axis is the longest one of numbers. Each combination of the others is a curve; at most 6 are drawn.
    """
    axes = [str(name) for name in found.deviation.dims if name != "run" and found.sizes[name] > 1]
    numbers = [name for name in axes if np.issubdtype(found[name].dtype, np.number)]
    if not numbers:
        raise ParameterError("a sweep is drawn if an axis has several numbers, like mixing or agents.")
    along = max(numbers, key=lambda name: found.sizes[name])
    others = [name for name in axes if name != along]
    b = float(found.attrs.get("failure_probability", 0.05))
    measured = abs(found.deviation).quantile(1 - b, "run").squeeze(drop=True)
    promised = found.average_radius.squeeze(drop=True)
    if others:
        measured, promised = (part.stack(curve=others) for part in (measured, promised))
    else:
        measured, promised = (part.expand_dims("curve") for part in (measured, promised))
    if measured.sizes["curve"] > _MOST_CURVES:
        raise ParameterError(
            f"a sweep is drawn with at most {_MOST_CURVES} curves, got {measured.sizes['curve']}: select "
            f"some of {', '.join(others)} first, with `.sel` or `.isel`."
        )
    x = found[along].to_numpy()
    with panels(6.8, 4.4, ax=ax, wanted=width) as sheet:
        ax, hues = sheet.ax, colours()
        rows = [promised.isel(curve=k).to_numpy() for k in range(measured.sizes["curve"])]
        finite = np.concatenate(rows)
        height = float(np.ptp(np.log(finite[np.isfinite(finite)]))) or 1.0
        places = spread_labels(
            [float(np.log(row[-1])) for row in rows], label_room(ax, max(len(others), 1)) * height
        )
        for k, (row, place) in enumerate(zip(rows, places, strict=True)):
            colour = hues[k % len(hues)]
            ax.plot(x, row, color=colour, linestyle=DASHES[k])
            dots = measured.isel(curve=k).to_numpy()
            ax.plot(x, dots, MARKERS[k], color=colour, mfc="white", ms=5)
            name = ",\n".join(f"{other} {measured[other].to_numpy()[k]}" for other in others) or "promised"
            label_line(ax, x[-1], float(np.exp(place)), name, colour, offset=(8, 0))
        ax.set_yscale("log")
        if x[0] > 0 and x[-1] >= 20 * x[0]:
            ax.set_xscale("log")
            plain_log(ax.xaxis, (1,))
        plain_log(ax.yaxis)
        ax.grid(axis="y")
        ax.set_xlabel(along.replace("_", " "))
        ax.set_ylabel(f"error exceeded in {100 * b:g}% of runs")
        ax.set_title("Lines: promised. Marks: measured")
    return sheet.figure


def draw_series_runs(ran: SeriesRuns, *, ax: Where = None, width: Width = None) -> Figure:
    """Draw the true and the published means of the first simulated series."""
    slots = np.arange(1, len(ran.truth) + 1)
    with panels(6.8, 4.0, ax=ax, wanted=width) as sheet:
        ax = sheet.ax
        ax.plot(slots, ran.first, color=RED, lw=0.9)
        ax.plot(slots, ran.truth, color=INK)
        span = float(np.ptp(np.concatenate([ran.first, ran.truth]))) or 1.0
        ends = spread_labels([float(ran.truth[-1]), float(ran.first[-1])], label_room(ax) * span)
        for name, place, colour in zip(("true mean", "published"), ends, (INK, RED), strict=True):
            label_line(ax, slots[-1], place, name, colour)
        ax.set_xlim(slots[0], slots[-1])
        ax.grid(axis="y")
        ax.set_xlabel("slot")
        ax.set_ylabel("mean of all readings")
        made = ran.design
        ax.set_title(f"{counted(made.slots, 'mean')} of {counted(made.agents, 'agent')}")
        sheet.caption(f"{made.mechanism} noise, loss {shown_up(made.loss, 4)} for the whole series")
    return sheet.figure
