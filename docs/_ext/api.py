"""API pages from docstrings: ``<!-- api: tacit.simulation -->`` becomes all of a package's public modules."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

MARK = re.compile(r"^<!-- api: ([\w.]+) -->$", re.MULTILINE)
BARS = re.compile(r"`[^`]*`|\|")


def public_modules(package: str) -> list[str]:
    """Names of a package's modules that are not private, in the order of the alphabet."""
    path = getattr(importlib.import_module(package), "__path__", [])
    names = [info.name for info in pkgutil.iter_modules(path, f"{package}.")]
    return [name for name in names if not name.rpartition(".")[2].startswith("_")]


def all_modules(package: str) -> list[str]:
    """Names of a package's public modules, each followed by those inside it."""
    return [name for module in public_modules(package) for name in (module, *all_modules(module))]


def homes(package: str) -> dict[str, str]:
    """Names that a package exports, and under which module each of them is described."""
    module = importlib.import_module(package)
    tree = ast.parse(inspect.getsource(module))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    origin = {alias.name: str(node.module) for node in imports for alias in node.names}
    names = [name for name in getattr(module, "__all__", ()) if not name.startswith("__")]
    return {name: package if "._" in origin[name] else _end(origin[name], name) for name in names}


def _end(module: str, name: str) -> str:
    """Follow a name that a package only hands on."""
    found = importlib.import_module(module)
    return homes(module)[name] if hasattr(found, "__path__") else module


def markdown(package: str) -> str:
    """Return the text of a package's page: what it exports, then module by module."""
    exported = homes(package)
    modules = [] if package == "tacit" else all_modules(package)  # its packages have their own pages
    links = [f"{{py:obj}}`{name} <{home}.{name}>`" for name, home in exported.items() if home != package]
    here = [name for name, home in exported.items() if home == package]
    parts = [_automodule(package, here if links else None)]
    if links:
        parts.append(f"From `{package}` import {', '.join(links)}.")
    parts += [f"## {name.removeprefix(package + '.')}\n\n{_automodule(name, None)}" for name in modules]
    return "\n\n".join(parts)


def _automodule(module: str, names: list[str] | None) -> str:
    """Describe a module: all public names, or only those given."""
    if names is None:
        options = "   :members:\n"
    else:
        options = f"   :members: {', '.join(names)}\n   :imported-members:\n" if names else ""
    return f"```{{eval-rst}}\n.. automodule:: {module}\n{options}```"


def _expand(app: Sphinx, docname: str, source: list[str]) -> None:  # noqa: ARG001
    source[0] = MARK.sub(lambda mark: markdown(mark[1]), source[0])


def _bars(*event: Any) -> None:
    """Keep |x|, an absolute value in docstrings, from being a substitution."""
    lines: list[str] = event[-1]
    lines[:] = [BARS.sub(lambda found: r"\|" if found[0] == "|" else found[0], line) for line in lines]


def _names(app: Sphinx, doctree: nodes.document) -> None:  # noqa: ARG001
    """Look names in types up as Python does, in their module: ``n`` in an array's shape is no link."""
    for reference in list(doctree.findall(pending_xref)):
        if "refspecific" not in reference.attributes or "." in reference["reftarget"]:
            continue
        module = importlib.import_module(reference.get("py:module") or "tacit")
        found: Any = getattr(module, reference["reftarget"], None)
        if hasattr(found, "__qualname__"):
            reference["reftarget"] = f"{found.__module__}.{found.__qualname__}"
            reference["refspecific"] = False
        else:
            reference.replace_self(reference.children)


def _foreign(*event: Any) -> bool | None:
    """Leave out what a library puts into our classes, as matplotlib does."""
    home: str = getattr(event[3], "__module__", None) or "tacit"
    return True if inspect.isfunction(event[3]) and not home.startswith("tacit") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx expand the marks when it reads a page."""
    app.connect("source-read", _expand)
    app.connect("autodoc-process-docstring", _bars)
    app.connect("autodoc-skip-member", _foreign)
    app.connect("doctree-read", _names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
