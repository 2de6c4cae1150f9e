"""tacit: agree on the average of private numbers, round by round.

In the order in which you need them:

- `ask`: what a question of your records would give. `design`: the best parameters for a promise; `analyze`:
  what given parameters promise. `simulate`: many runs. `compare`: other methods. `examine`: try to break it.
- `synthesise`: gains of agents with dynamics of their own, together with their noise.
- `FleetAgent` follows a hub; `tacit.live` has agents, keepers and coordinators of single sessions.

Below are three floors, from the ground up, and two doors:

- `tacit.base`: errors, files, arrays, reports: what every floor needs.
- `tacit.core`: what is promised, and why: questions, laws, mechanisms, theory, protocol. Pure.
- `tacit.lab`: what would happen and what could be learned: simulation, audit, comparison, plots.
- `tacit.live`: what runs for real: members, hubs, ledgers, the verifier.
- `tacit.cli` and `tacit.studio`: the command line and the web page.

All names load their module when first used, so that ``import tacit`` costs nothing.
"""

from typing import TYPE_CHECKING

from tacit.base.lazy import exports

if TYPE_CHECKING:
    from tacit.base.errors import Infeasible, InputError, TacitError
    from tacit.core.graph import Graph
    from tacit.core.history import History
    from tacit.core.law import Constant, Fading, Gaussian, OneShot, Scheduled
    from tacit.core.mechanism import ClientServer, Distributed
    from tacit.core.motion import Linear
    from tacit.core.question import (
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
    from tacit.core.theory.answers import Design, design
    from tacit.core.theory.plan import Plan
    from tacit.core.theory.promise import Promise, analyze
    from tacit.core.theory.synthesis import Synthesis, synthesise
    from tacit.lab.audit import examine
    from tacit.lab.comparison import compare
    from tacit.lab.simulation import ask, simulate
    from tacit.live.fleet.follower import FleetAgent

    from . import base as base
    from . import cli as cli
    from . import core as core
    from . import lab as lab
    from . import live as live
    from . import studio as studio

__version__ = "0.3.0"

__all__ = [
    "ClientServer",
    "Constant",
    "Count",
    "Design",
    "Distributed",
    "Fading",
    "FleetAgent",
    "Gaussian",
    "Graph",
    "GroupBy",
    "Histogram",
    "History",
    "Infeasible",
    "InputError",
    "Linear",
    "Mean",
    "OneShot",
    "Own",
    "Plan",
    "Promise",
    "Quantile",
    "Scheduled",
    "Several",
    "Sum",
    "Synthesis",
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
    "synthesise",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "lab.audit": ("examine",),
            "lab.comparison": ("compare",),
            "base.errors": ("Infeasible", "InputError", "TacitError"),
            "core.graph": ("Graph",),
            "core.history": ("History",),
            "core.law": ("Constant", "Fading", "Gaussian", "OneShot", "Scheduled"),
            "core.mechanism": ("ClientServer", "Distributed"),
            "core.motion": ("Linear",),
            "core.question": (
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
            "live.fleet.follower": ("FleetAgent",),
            "lab.simulation": ("ask", "simulate"),
            "core.theory.answers": ("Design", "design"),
            "core.theory.promise": ("Promise", "analyze"),
            "core.theory.plan": ("Plan",),
            "core.theory.synthesis": ("Synthesis", "synthesise"),
        },
        ("base", "core", "lab", "live", "cli", "studio"),
    )
