"""One function that draws every result that has a figure."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from matplotlib.figure import Figure

from tacit.base.errors import ParameterError
from tacit.core.graph import Graph
from tacit.core.history import History
from tacit.core.series import SeriesDesign
from tacit.core.theory.answers import Design
from tacit.core.theory.promise import Promise
from tacit.lab.audit.beliefs import Belief
from tacit.lab.audit.report import AuditReport
from tacit.lab.comparison.comparison import Comparison
from tacit.lab.plots import curves, runs
from tacit.lab.plots.audit import draw_audit
from tacit.lab.plots.belief import draw_belief
from tacit.lab.plots.bounds import draw_bounds, draw_tail
from tacit.lab.plots.chebyshev import draw_chebyshev
from tacit.lab.plots.compare import draw_compare
from tacit.lab.plots.convergence import draw_convergence
from tacit.lab.plots.fans import fan
from tacit.lab.plots.graph import draw_network
from tacit.lab.plots.loss import draw_loss
from tacit.lab.plots.radius import draw_radius
from tacit.lab.plots.results import draw_promise, draw_series_runs, draw_simulation, draw_sweep
from tacit.lab.plots.series import draw_series
from tacit.lab.plots.smoothness import draw_smoothness
from tacit.lab.plots.tradeoff import draw_tradeoff
from tacit.lab.plots.trajectories import draw_trajectories
from tacit.lab.simulation.series import SeriesRuns


@singledispatch
def show(result: object, **how: Any) -> Figure:
    """Return the figure of a result; a notebook displays it.

    The result can be a design, a promise, a graph, a comparison, a belief, the report of an audit, a history
    (whose private states are shown), a dataset of simulated runs or of a sweep, the design of a series and
    its simulation, or numbers of `tacit.lab.plots.curves` and `tacit.lab.plots.runs`. `ax=` and `width=` are
    passed on to the `draw_*` function.

    Examples
    --------
    >>> from tacit.lab.plots import curves, show
    >>> figure = show(curves.tradeoff(agents=100, q=[0.4, 0.6, 0.8]))
    """
    if any(kind.__module__.startswith("xarray") for kind in type(result).__mro__):  # without loading it
        return _draw_dataset(result, **how)
    raise ParameterError(
        f"there is no picture of a {type(result).__name__}: give a design, promise, graph, comparison, "
        "belief, audit report, history, dataset of runs or of a sweep, or the numbers of a figure."
    )


def _draw_dataset(found: Any, **how: Any) -> Figure:
    """Draw a sweep, which has a radius for each cell, or simulated runs."""
    if "average_radius" in found:
        return draw_sweep(found, **how)
    return draw_simulation(found, **how)


show.register(Belief, draw_belief)
show.register(Comparison, draw_compare)
show.register(AuditReport, draw_audit)
show.register(Design, draw_promise)
show.register(Promise, draw_promise)
show.register(Graph, draw_network)
show.register(SeriesRuns, draw_series_runs)
show.register(curves.Closeness, draw_bounds)
show.register(curves.TailCurves, draw_tail)
show.register(curves.RadiusBounds, draw_chebyshev)
show.register(curves.RadiusCurves, draw_radius)
show.register(curves.SeriesCurves, draw_series)
show.register(curves.Smoothness, draw_smoothness)
show.register(curves.Tradeoff, draw_tradeoff)
show.register(runs.LossCurves, draw_loss)


@show.register
def _(curve: runs.Convergence, **how: Any) -> Figure:
    return draw_convergence([curve], **how)


@show.register
def _(history: History, **how: Any) -> Figure:
    return draw_trajectories(history, fan(history.mechanism, history.rounds), **how)


@show.register
def _(made: SeriesDesign, **how: Any) -> Figure:
    """Draw each mechanism for series of up to this length, at this loss."""
    slots = sorted({*(each for each in curves.SLOTS if each < made.slots), made.slots})
    data = curves.series_curves(
        slots, str(made.hides), agents=made.agents, low=made.low, high=made.high, keepers=made.keepers,
        loss=made.loss, delta=made.delta or 1e-6,
    )  # fmt: skip
    return draw_series(data, **how)
