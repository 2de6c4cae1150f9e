"""API pages from docstrings, in the order in which a page names things.

``<!-- api: tacit.lab.simulation simulate sweep -->`` becomes the description of these two names. A name may
be one that the package exports, ``module.name``, or a module, which is then described in full. Without names
everything that the package exports is described.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import lru_cache, reduce
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

MARK = re.compile(r"^<!-- api: ([\w.]+)((?:\s+[\w.]+)*) -->$", re.MULTILINE)
SEARCH = re.compile(r"^<!-- search: (.+) -->$", re.MULTILINE)
"""Words under which the site's search finds a page first."""
BARS = re.compile(r"`[^`]*`|\|")
DOTTED = re.compile(r"tacit(\.\w+)+")


def public_modules(package: str) -> list[str]:
    """Names of a package's modules that are not private, in the order of the alphabet."""
    path = getattr(importlib.import_module(package), "__path__", [])
    names = [info.name for info in pkgutil.iter_modules(path, f"{package}.")]
    return [name for name in names if not name.rpartition(".")[2].startswith("_")]


def exported(package: str) -> list[str]:
    """Names that a package exports."""
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
    """Return what a page describes: packages, and of each the names."""
    return [(mark[1], mark[2].split() or exported(mark[1])) for mark in MARK.finditer(page)]


def markdown(package: str, names: list[str]) -> str:
    """Return the text that lets Sphinx describe names of a package; all of a module that exports nothing."""
    return "\n\n".join(_directives(package, names)) if names else _rst(f".. automodule:: {package}")


def _directives(package: str, names: list[str]) -> Iterator[str]:
    for name in names:
        if name in exported(package) or "." in name:
            home, _, last = f"{package}.{name}".rpartition(".")
            yield _rst(_directive(home, last))
        else:
            yield f"## {name}\n\n" + _rst(f".. automodule:: {package}.{name}")


def _directive(package: str, name: str) -> str:
    """Return what lets Sphinx describe a name of a package or module."""
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
    """Put descriptions in the place of marks, and before the first of a package the package itself."""
    packages: set[str] = set()

    def described(mark: re.Match[str]) -> str:
        package, names = mark[1], mark[2].split() or exported(mark[1])
        first = package not in packages and bool(names)
        packages.add(package)
        return (_rst(f".. py:module:: {package}") + "\n\n") * first + markdown(package, names)

    source[0] = MARK.sub(described, source[0])
    source[0] = SEARCH.sub(_index_entries, source[0])


def _index_entries(mark: re.Match[str]) -> str:
    """Return main entries (!) of the index: the search shows all others after every other result."""
    return f"```{{index}} {', '.join('! ' + word.strip() for word in mark[1].split(','))}\n```"


def _no_type(*event: Any) -> None:
    """Keep the words before a colon in the text of a property from being taken for its type."""
    what, lines = event[1], event[-1]
    if what in ("attribute", "data", "property"):
        lines.insert(0, "")


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


@lru_cache
def _first_names() -> dict[str, str]:
    """Where the root offers a thing that is defined deeper, under the name that users call."""
    root = importlib.import_module("tacit")
    things = {name: getattr(root, name) for name in exported("tacit")}
    return {f"{thing.__module__}.{thing.__qualname__}": f"tacit.{name}" for name, thing in things.items()}


def _elsewhere(app: Sphinx, env: Any, node: pending_xref, contents: nodes.Element) -> nodes.Node | None:
    """Find a name that is described under another one.

    `tacit.lab.simulation.simulate` is `tacit.simulate`.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    for start in (node.get("py:module"), "tacit", None):
        found = _resolved(f"{start}.{target}" if start else target)
        home = f"{getattr(found, '__module__', None)}.{getattr(found, '__qualname__', None)}"
        for name in (_first_names().get(home), home):
            if name and name != target and name in env.domains["py"].objects:
                entry = env.domains["py"].objects[name]
                uri = app.builder.get_relative_uri(node["refdoc"], entry.docname) + f"#{entry.node_id}"
                return nodes.reference("", "", contents, internal=True, refuri=uri)
    return None


@lru_cache
def _resolved(name: str) -> object:
    """Return what a dotted name stands for, or None."""
    parts = name.split(".") if DOTTED.fullmatch(name) else []
    for cut in range(len(parts) - 1, 0, -1):
        try:
            return reduce(getattr, parts[cut:], importlib.import_module(".".join(parts[:cut])))
        except (ImportError, AttributeError):
            continue
    return None


def _foreign(*event: Any) -> bool | None:
    """Leave out what a library puts into our classes, as matplotlib does."""
    home: str = getattr(event[3], "__module__", None) or "tacit"
    return True if inspect.isfunction(event[3]) and not home.startswith("tacit") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx expand the marks when it reads a page."""
    app.connect("source-read", _expand)
    app.connect("autodoc-process-docstring", _bars)
    app.connect("autodoc-process-docstring", _no_type, priority=400)  # before napoleon reads the lines
    app.connect("missing-reference", _elsewhere, priority=400)  # before names lead to their source
    app.connect("autodoc-skip-member", _foreign)
    app.connect("doctree-read", _names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
