"""Modules that are loaded when something of them is first used.

This keeps ``import tacit`` and ``tacit --help`` fast, and ``dir`` shows what is public. A public name must
differ from the names of the package's modules (`tests/test_structure.py`): importing such a module would
replace the public name. A package hides ``__getattr__`` from type checkers: it would accept any name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import final

_LOADING = RLock()


def modules(
    package: str, names: tuple[str, ...] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package of modules.

    Without `names`, all modules are public whose names begin with a letter.
    """

    def listed() -> list[str]:
        if names is not None:
            return sorted(names)
        from pkgutil import iter_modules

        found = (module.name for module in iter_modules(sys.modules[package].__path__))
        return sorted(name for name in found if not name.startswith("_"))

    def load(name: str) -> object:
        if name.startswith("_") or name not in listed():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    return load, listed


def exports(
    package: str, homes: Mapping[str, tuple[str, ...]], rooms: tuple[str, ...] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a lazy package.

    `homes` says which module has which names; `rooms` are modules that are public themselves.
    """
    home = {name: f"{package}.{module}" for module, names in homes.items() for name in names}
    load_module, _ = modules(package, rooms)

    def load(name: str) -> object:
        if name not in home:
            return load_module(name)
        try:
            return getattr(import_module(home[name]), name)
        except ModuleNotFoundError as error:
            from tacit.base.extras import missing_extra

            raise missing_extra(error, f"{package}.{name}") or error from None

    return load, lambda: sorted((*home, *rooms))


@final
class _Late(ModuleType):
    """Stands in for a module until something of it is used."""

    def __getattr__(self, name: str) -> object:
        with _LOADING:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            # Modules that imported this one go on using it, so it gets all that the other one has.
            vars(self).update(vars(import_module(self.__name__)))
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


def import_late(module: str) -> None:
    """Let ``import MODULE`` load nothing before something of it is used.

    For a program's own process, before anything imports the module. A library must not call it: other code
    of the process would find the module there and not loaded.
    """
    if module not in sys.modules:
        sys.modules[module] = _Late(module)
