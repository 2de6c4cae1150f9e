"""Figures of results, in one style.

The style works in black and white and for colour-blind readers.

The numbers behind the figures are in `curves` (closed forms) and `runs` (simulated sessions) and need no
matplotlib; the rest needs the extra ``plots``. The names below load their module when first used.
"""

import logging
from typing import TYPE_CHECKING

from tacit.base.lazy import exports

if TYPE_CHECKING:
    from tacit.lab.plots.audit import draw_audit
    from tacit.lab.plots.belief import draw_belief
    from tacit.lab.plots.bounds import draw_bounds, draw_tail
    from tacit.lab.plots.chebyshev import draw_chebyshev
    from tacit.lab.plots.compare import draw_compare
    from tacit.lab.plots.convergence import draw_convergence
    from tacit.lab.plots.graph import draw_graph, draw_network
    from tacit.lab.plots.loss import draw_loss
    from tacit.lab.plots.notebook import show
    from tacit.lab.plots.radius import draw_radius
    from tacit.lab.plots.results import draw_promise, draw_series_runs, draw_simulation, draw_sweep
    from tacit.lab.plots.series import draw_series
    from tacit.lab.plots.smoothness import draw_smoothness
    from tacit.lab.plots.style import save
    from tacit.lab.plots.tradeoff import draw_tradeoff
    from tacit.lab.plots.trajectories import draw_trajectories

# On a new machine matplotlib indexes all fonts once, and warns if that is slow: ignore it.
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)

__all__ = [
    "draw_audit",
    "draw_belief",
    "draw_bounds",
    "draw_chebyshev",
    "draw_compare",
    "draw_convergence",
    "draw_graph",
    "draw_loss",
    "draw_network",
    "draw_promise",
    "draw_radius",
    "draw_series",
    "draw_series_runs",
    "draw_simulation",
    "draw_smoothness",
    "draw_sweep",
    "draw_tail",
    "draw_tradeoff",
    "draw_trajectories",
    "save",
    "show",
]

_FIGURES = (
    "audit", "belief", "chebyshev", "compare", "convergence", "graph", "loss", "radius", "series",
    "smoothness", "tradeoff", "trajectories",
)  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "notebook": ("show",),
            "style": ("save",),
            **{name: (f"draw_{name}",) for name in _FIGURES},
            "bounds": ("draw_bounds", "draw_tail"),
            "graph": ("draw_graph", "draw_network"),
            "results": ("draw_promise", "draw_series_runs", "draw_simulation", "draw_sweep"),
        },
    )
