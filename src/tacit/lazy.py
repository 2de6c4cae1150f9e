"""Packages whose public names load their module when first used.

``import tacit`` and ``tacit --help`` stay light that way, and a user pays only for what is used. A public
name never is the name of a module beside it (`tests/test_structure.py`): importing that module would put it
in the name's place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def exports(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package, given which module has which names.

    ``FleetAgent as Agent`` is the module's `FleetAgent`, called `Agent` here.
    """
    listed = [(module, *name.split(" as ")) for module, names in homes.items() for name in names]
    home = {name[-1]: (f"{package}.{module}", name[0]) for module, *name in listed}

    def load(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, there = home[name]
        return getattr(import_module(module), there)

    return load, lambda: sorted(home)
