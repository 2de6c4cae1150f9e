"""One verb for every result that has a picture."""

from __future__ import annotations

from functools import singledispatch

from matplotlib.figure import Figure

from tacit.audit.beliefs import Belief
from tacit.audit.report import AuditReport
from tacit.comparison.comparison import Comparison
from tacit.errors import ParameterError
from tacit.history import History
from tacit.plots import curves, runs
from tacit.plots.audit import draw_audit
from tacit.plots.belief import draw_belief
from tacit.plots.chebyshev import draw_chebyshev
from tacit.plots.compare import draw_compare
from tacit.plots.convergence import draw_convergence
from tacit.plots.fans import fan
from tacit.plots.loss import draw_loss
from tacit.plots.radius import draw_radius
from tacit.plots.smoothness import draw_smoothness
from tacit.plots.tradeoff import draw_tradeoff
from tacit.plots.trajectories import draw_trajectories


@singledispatch
def show(result: object) -> Figure:
    """Return the picture of a result; in a notebook it shows itself.

    A belief, the report of an audit, a comparison, a history (of which it shows the private
    states), and the numbers of `tacit.plots.curves` and `tacit.plots.runs`.

    Examples
    --------
    >>> from tacit.plots import curves, show
    >>> figure = show(curves.tradeoff(agents=100, q=[0.4, 0.6, 0.8]))
    """
    raise ParameterError(
        f"there is no picture of a {type(result).__name__}: see tacit.plots for those there are."
    )


show.register(Belief, draw_belief)
show.register(Comparison, draw_compare)
show.register(AuditReport, draw_audit)
show.register(curves.RadiusBounds, draw_chebyshev)
show.register(curves.RadiusCurves, draw_radius)
show.register(curves.Smoothness, draw_smoothness)
show.register(curves.Tradeoff, draw_tradeoff)
show.register(runs.Convergence, lambda result: draw_convergence([result]))
show.register(runs.LossCurves, draw_loss)


@show.register
def _(history: History) -> Figure:
    return draw_trajectories(history, fan(history.mechanism, history.rounds))
