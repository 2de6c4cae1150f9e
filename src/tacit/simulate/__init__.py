"""What would happen: simulated runs, sampled outcomes, sweeps, and files to keep them in.

Noise here is seedable and therefore not private: never for real values that others can see.
The names below load their module when first used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.simulate._kept import executions
    from tacit.simulate.engine import simulate
    from tacit.simulate.outcome import sample_agent, sample_average, sample_outcome
    from tacit.simulate.record import Record
    from tacit.simulate.reference import reference
    from tacit.simulate.results import load, save
    from tacit.simulate.sweep import load_sweep, sweep

__all__ = [
    "Record",
    "executions",
    "load",
    "load_sweep",
    "reference",
    "sample_agent",
    "sample_average",
    "sample_outcome",
    "save",
    "simulate",
    "sweep",
]

_HOMES = {
    "tacit.simulate._kept": ("executions",),
    "tacit.simulate.engine": ("simulate",),
    "tacit.simulate.outcome": ("sample_agent", "sample_average", "sample_outcome"),
    "tacit.simulate.record": ("Record",),
    "tacit.simulate.reference": ("reference",),
    "tacit.simulate.results": ("load", "save"),
    "tacit.simulate.sweep": ("load_sweep", "sweep"),
}


class _Package(ModuleType):
    """Keeps `reference` and `sweep` the functions, also after their modules are imported.

    The import system binds a loaded module in its package; without this, what ``tacit.simulate.sweep``
    is would depend on who imported what before.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'tacit.simulate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
