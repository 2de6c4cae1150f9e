"""Names of code, tests and files on a page lead to their source, which is a page of the site.

A page writes ```` `tests/theory/test_privacy.py::test_name` ````, ```` `examples/platoon.py` ```` or
```` `tacit.core.theory.privacy.epsilon` ```` as plain code. On the site the name is a link: to the API
reference where that describes it, otherwise to the line where it is defined.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import lru_cache, partial, reduce
from pathlib import Path
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import PythonLexer, TextLexer  # type: ignore[import-untyped]
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"((?:tests|src|examples|benchmarks|docs)/[\w/.-]+\.py)(?:::(\w+))?")
NAME = re.compile(r"tacit(?:\.\w+)+")
FOLDER = "code"
"""Sources are pages of this folder of the site."""


def place(name: str) -> tuple[str, int] | None:
    """Return the file and line where a name is defined; line 0 is the whole file, None is no such name."""
    if file := FILE.fullmatch(name):
        if not (ROOT / file[1]).is_file():
            return None
        return file[1], _definitions(file[1]).get(file[2], 0) if file[2] else 0
    return _defined(name) if NAME.fullmatch(name) else None


@lru_cache
def _definitions(file: str) -> dict[str, int]:
    """Line of each function and class of a file."""
    body = ast.parse((ROOT / file).read_text()).body
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name: node.lineno for node in body if isinstance(node, kinds)}


@lru_cache
def _defined(name: str) -> tuple[str, int] | None:
    """Return where a module, function, class or constant of the package is defined."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        try:
            thing: Any = reduce(getattr, parts[cut:], module)
            thing = getattr(thing, "fget", thing)
            file = inspect.getsourcefile(thing) or ""
            line = 0 if cut == len(parts) else inspect.getsourcelines(thing)[1]
        except (AttributeError, TypeError, OSError):
            return None
        inside = Path(file).is_relative_to(ROOT)
        return (Path(file).relative_to(ROOT).as_posix(), line) if inside else None
    return None


def page(file: str) -> str:
    """Return the name of a source's page."""
    return f"{FOLDER}/{file.removesuffix('.py')}"


def _link(app: Sphinx, doctree: nodes.document) -> None:
    """Make links of the names on a page, and remember the files that they lead to."""
    docname, files = app.env.docname, []
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext()
        found = place(name)
        if found is None or isinstance(literal.parent, nodes.reference | pending_xref):
            continue
        files.append(found[0])
        if FILE.fullmatch(name):
            link: nodes.Element = nodes.reference(internal=True, refuri=_address(docname, *found))
        else:
            link = pending_xref(
                refdomain="py", reftype="obj", reftarget=name, refexplicit=True, refdoc=docname
            )
            link["tacit-place"] = found
        literal.replace_self(link)
        link += literal
    for paragraph in doctree.findall(nodes.paragraph):
        if paragraph.astext().startswith("Code: ") and isinstance(paragraph[0], nodes.emphasis):
            paragraph["classes"].append("held")
    app.env.metadata[docname]["sources"] = sorted(set(files))


def _address(docname: str, file: str, line: int) -> str:
    up = "../" * docname.count("/")
    return f"{up}{page(file)}.html" + (f"#line-{line}" if line else "")


def _source(app: Sphinx, env: Any, node: pending_xref, contents: nodes.Element) -> nodes.reference | None:  # noqa: ARG001
    """Lead to the source where the API reference does not describe a name."""
    if "tacit-place" not in node:
        return None
    link = nodes.reference(internal=True, refuri=_address(node["refdoc"], *node["tacit-place"]))
    link += contents
    return link


def _pages(app: Sphinx) -> Iterator[tuple[str, dict[str, str], str]]:
    """Give the site a page for each file that some page names."""
    files = {file for told in app.env.metadata.values() for file in told.get("sources", [])}
    how = HtmlFormatter(linenos="inline", anchorlinenos=True, lineanchors="line", cssclass="highlight")
    for file in sorted(files):
        lexer = TextLexer() if "plain" in app.tags else PythonLexer()
        shown = highlight((ROOT / file).read_text(), lexer, how)
        yield page(file), {"title": file, "body": f"<h1>{file}</h1>{shown}"}, "page.html"


def _share_navigation(
    made: dict[Any, str], _app: Sphinx, name: str, _: str, context: dict[str, Any], *__: Any
) -> None:
    """Make the tree of pages once for all sources that are equally deep in the site.

    No table of contents has a source, so the tree is the same for all of them but for its relative links.
    Sphinx would make it for each of them, which took a fifth of the build.
    """
    if not name.startswith(f"{FOLDER}/"):
        return
    make = context["toctree"]

    def tree(**how: Any) -> str:
        key = (name.count("/"), *sorted(how.items()))
        if key not in made:
            made[key] = make(**how)
        return made[key]

    context["toctree"] = tree


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx make the links and the pages."""
    app.connect("doctree-read", _link)
    app.connect("missing-reference", _source)
    app.connect("html-collect-pages", _pages)
    app.connect("html-page-context", partial(_share_navigation, {}), priority=400)  # the theme's is 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
