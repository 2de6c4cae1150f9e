"""tacit: agree on the average of private numbers, round by round.

The map of the package, from the ground up:

- `tacit.errors`: every exception raised on purpose.
- `tacit.graph`: who talks to whom.
- `tacit.law`: noise laws: the size of the noise in each round, and its loss.
- `tacit.question`: what is asked: mean, count, histogram and more.
- `tacit.mechanism`: what the paper's mechanisms do; pure functions of (state, noise).
- `tacit.history`: what happened in a run, as one value and one file.
- `tacit.theory`: their guarantees in closed form, without sampling.
- `tacit.noise`: where randomness comes from.
- `tacit.simulation`: simulated runs, with noise from a seed.
- `tacit.audit`: what an adversary could learn, and testers that try to break the promise.
- `tacit.protocol`: agent, coordinator and peer as machines without a network.
- `tacit.runtime`: the only place with network, disk and clock.
- `tacit.plots`: data in, Figure out.
- `tacit.cli`: the command line, one file per verb.

The names below load their module when first used, so that ``import tacit`` costs nothing.
"""

from typing import TYPE_CHECKING

from tacit.lazy import exports

if TYPE_CHECKING:
    from tacit.audit import examine
    from tacit.comparison import compare
    from tacit.errors import Infeasible, InputError, TacitError
    from tacit.graph import Graph
    from tacit.history import History
    from tacit.law import Constant, Fading, OneShot
    from tacit.mechanism import ClientServer, Distributed
    from tacit.question import (
        Count,
        GroupBy,
        Histogram,
        Mean,
        Own,
        Quantile,
        Several,
        Sum,
        Variance,
        WeightedMean,
    )
    from tacit.runtime.fleet.follower import FleetAgent
    from tacit.simulation import ask, simulate
    from tacit.theory.answers import Design, design
    from tacit.theory.plan import Plan
    from tacit.theory.promise import Promise, analyze

__version__ = "0.2.0"

__all__ = [
    "ClientServer",
    "Constant",
    "Count",
    "Design",
    "Distributed",
    "Fading",
    "FleetAgent",
    "Graph",
    "GroupBy",
    "Histogram",
    "History",
    "Infeasible",
    "InputError",
    "Mean",
    "OneShot",
    "Own",
    "Plan",
    "Promise",
    "Quantile",
    "Several",
    "Sum",
    "TacitError",
    "Variance",
    "WeightedMean",
    "__version__",
    "analyze",
    "ask",
    "compare",
    "design",
    "examine",
    "simulate",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "audit": ("examine",),
        "comparison": ("compare",),
        "errors": ("Infeasible", "InputError", "TacitError"),
        "graph": ("Graph",),
        "history": ("History",),
        "law": ("Constant", "Fading", "OneShot"),
        "mechanism": ("ClientServer", "Distributed"),
        "question": (
            "Count",
            "GroupBy",
            "Histogram",
            "Mean",
            "Own",
            "Quantile",
            "Several",
            "Sum",
            "Variance",
            "WeightedMean",
        ),
        "runtime.fleet.follower": ("FleetAgent",),
        "simulation": ("ask", "simulate"),
        "theory.answers": ("Design", "design"),
        "theory.promise": ("Promise", "analyze"),
        "theory.plan": ("Plan",),
    },
)
