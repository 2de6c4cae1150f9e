"""tacit: agree on the average of private numbers, round by round.

The map of the package, from the ground up:

- `tacit.errors`: every exception raised on purpose.
- `tacit.graph`: who talks to whom.
- `tacit.mechanism`: what the paper's mechanisms do; pure functions of (state, noise).
- `tacit.theory`: what is claimed and proved of them; closed forms, no sampling.
- `tacit.noise`: where randomness comes from.
- `tacit.simulate`: what would happen.
- `tacit.plots`: data in, Figure out.
- `tacit.cli`: the command line, one file per verb.

The names below load their module when first used, so that ``import tacit`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.errors import Infeasible, InputError, TacitError
    from tacit.graph import Graph
    from tacit.mechanism import ClientServer, Distributed, Execution, Fading, OneShot

__version__ = "0.1.0"

__all__ = [
    "ClientServer",
    "Distributed",
    "Execution",
    "Fading",
    "Graph",
    "Infeasible",
    "InputError",
    "OneShot",
    "TacitError",
    "__version__",
]

_HOMES = {
    "tacit.errors": ("Infeasible", "InputError", "TacitError"),
    "tacit.graph": ("Graph",),
    "tacit.mechanism": ("ClientServer", "Distributed", "Execution", "Fading", "OneShot"),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
