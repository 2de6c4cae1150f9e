"""Packages whose public names load their module when first used.

This keeps ``import tacit`` and ``tacit --help`` fast. A public name must differ from the names of the
package's modules (`tests/test_structure.py`): importing such a module would replace the public name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def modules(package: str, names: tuple[str, ...]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package of modules."""

    def load(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    return load, lambda: sorted(names)


def exports(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a lazy package.

    `homes` says which module has which names.
    """
    home = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(home[name]), name)
        except ModuleNotFoundError as error:
            from tacit.base.extras import missing_extra

            raise missing_extra(error, f"{package}.{name}") or error from None

    return load, lambda: sorted(home)
