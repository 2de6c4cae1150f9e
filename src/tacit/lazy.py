"""Packages whose public names load their module when first used.

``import tacit`` and ``tacit --help`` stay light that way, and a user pays only for what is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType


def exports(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package, given which module has which names.

    A public name stays what it is even after a module of the same name is imported: the import
    system would bind the module in its place.
    """
    home = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    class Package(ModuleType):
        def __setattr__(self, name: str, value: object) -> None:
            if not (name in home and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

    sys.modules[package].__class__ = Package

    def load(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return load, lambda: sorted(home)
