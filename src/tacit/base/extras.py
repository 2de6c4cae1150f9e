"""Packages that only some users install, and their extras.

It also has what to say where one is missing. An agent, a keeper, a coordinator and a hub need none of them.
`pyproject.toml` has the extras; `tests/test_extras.py` compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from tacit.base.errors import MissingExtra

P = ParamSpec("P")
R = TypeVar("R")

EXTRAS = {
    "dp_accounting": "theory",
    "networkx": "theory",
    "scipy": "theory",
    "h5netcdf": "simulation",
    "h5py": "simulation",
    "numba": "simulation",
    "pandas": "simulation",
    "xarray": "simulation",
    "matplotlib": "plots",
    "dask": "cluster",
    "distributed": "cluster",
    "nicegui": "studio",
    "psycopg": "postgres",
}
"""Which extra brings a package, by the name it is imported under."""

_NEEDS = {
    "tacit.lab.audit": "simulation",
    "tacit.lab.comparison": "simulation",
    "tacit.lab.simulation": "simulation",
    "tacit.cli.drawing": "plots",
    "tacit.cli.figure": "plots",
    "tacit.cli.figure_sessions": "plots",
    "tacit.lab.plots": "plots",
    "tacit.studio": "studio",
}
"""What a part of tacit needs as a whole: naming a smaller extra would fail again at the next import."""

_SIZE = ["theory", "simulation", "plots", "cluster", "studio", "postgres"]
"""From the smallest to the largest; each but cluster and postgres contains those before it."""


def missing_extra(error: ImportError, who: str) -> MissingExtra | None:
    """Return what to raise if a package of an extra is missing.

    None if no extra has the package.
    """
    package = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package not in EXTRAS:
        return None
    known = error.extra if isinstance(error, MissingExtra) else EXTRAS[package]
    needed = [known, *(extra for part, extra in _NEEDS.items() if part in _importing(error))]
    return MissingExtra(who, max(needed, key=_SIZE.index), package)


def explains_extras(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function say which extra it needs.

    It is a function of the root, and says so where a package is missing.
    """

    @wraps(function)
    def explained(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except ModuleNotFoundError as error:
            raise missing_extra(error, f"tacit.{function.__name__}") or error from None

    return explained


def _importing(error: ImportError) -> set[str]:
    """Return the parts of tacit in whose code the import failed."""
    return {".".join(names[:length]) for names in _modules(error) for length in range(1, len(names) + 1)}


def _modules(error: ImportError) -> Iterator[list[str]]:
    trace = error.__traceback__
    while trace is not None:
        yield str(trace.tb_frame.f_globals.get("__name__")).split(".")
        trace = trace.tb_next
