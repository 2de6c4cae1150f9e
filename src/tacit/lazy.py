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
    """Return ``__getattr__`` and ``__dir__`` for a package, given which module has which names."""
    home = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return load, lambda: sorted(home)
