"""API pages from docstrings.

``<!-- api: tacit.simulation -->`` becomes all that a package exports, ``<!-- api: tacit.theory privacy -->``
all of the modules that are named.
"""

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

MARK = re.compile(r"^<!-- api: ([\w.]+)((?: \w+)*) -->$", re.MULTILINE)
BARS = re.compile(r"`[^`]*`|\|")


def public_modules(package: str) -> list[str]:
    """Names of a package's modules that are not private, in the order of the alphabet."""
    path = getattr(importlib.import_module(package), "__path__", [])
    names = [info.name for info in pkgutil.iter_modules(path, f"{package}.")]
    return [name for name in names if not name.rpartition(".")[2].startswith("_")]


def exported(package: str) -> list[str]:
    """Names that a package exports: what its page describes."""
    names = getattr(importlib.import_module(package), "__all__", ())
    return [name for name in names if not name.startswith("__")]


def own(module: str) -> list[str]:
    """Names of the public functions and classes that a module defines, or of those that it exports."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None) or [name for name in vars(found) if not name.startswith("_")]
    things = {name: getattr(found, name) for name in names}
    return [
        name
        for name, thing in things.items()
        if getattr(thing, "__module__", None) == module and hasattr(thing, "__qualname__")
    ]


def marks(page: str) -> list[tuple[str, list[str]]]:
    """Return what a page describes: packages, and of each the modules that are described in full."""
    return [(mark[1], mark[2].split()) for mark in MARK.finditer(page)]


def markdown(package: str, modules: list[str]) -> str:
    """Return the text of a package's page: what it exports, then the modules that are given, in full.

    The root's names are described on the pages of its packages; a module that exports nothing is
    described in full.
    """
    names = [] if package == "tacit" else exported(package)
    parts = [_rst(f".. automodule:: {package}", members=not names and not modules and package != "tacit")]
    parts += [_rst(_directive(package, name)) for name in names]
    for module in modules:
        parts.append(f"## {module}\n\n" + _rst(f".. automodule:: {package}.{module}"))
    return "\n\n".join(parts)


def _directive(package: str, name: str) -> str:
    """Return what lets Sphinx describe an exported name."""
    thing = getattr(importlib.import_module(package), name)
    if inspect.isclass(thing):
        kind = "exception" if issubclass(thing, BaseException) else "class"
    elif callable(thing):
        kind = "function"
    else:  # the text below a constant is only found where it is defined
        return f".. autodata:: {_home(package, name)}.{name}\n   :no-value:"
    return f".. auto{kind}:: {package}.{name}"


def _home(package: str, name: str) -> str:
    """Return the module from which a package takes a name."""
    tree = ast.parse(inspect.getsource(importlib.import_module(package)))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return next(
        (str(node.module) for node in imports if name in [alias.name for alias in node.names]), package
    )


def _rst(directive: str, *, members: bool = True) -> str:
    has_members = re.match(r"\.\. auto(module|class|exception)", directive)
    options = "\n   :members:" if members and has_members else ""
    return f"```{{eval-rst}}\n{directive}{options}\n```"


def _expand(app: Sphinx, docname: str, source: list[str]) -> None:  # noqa: ARG001
    source[0] = MARK.sub(lambda mark: markdown(mark[1], mark[2].split()), source[0])


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
