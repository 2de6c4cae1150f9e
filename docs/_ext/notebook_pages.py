"""Notebooks as pages: text, code, and the outputs that are stored in the file.

A notebook becomes Markdown while the site is built, and goes the way of all other pages. Nothing is run
here, and pictures are part of the page: it loads nothing.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx

FENCE = "`" * 8


def markdown(source: str) -> str:
    """Return a notebook as Markdown: its cells in order, each with what it printed, drew or returned."""
    return "\n\n".join(part for cell in json.loads(source)["cells"] for part in _cell(cell)) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] != "code":
        yield text
        return
    yield f"{FENCE}python\n{text}\n{FENCE}"
    for output in cell["outputs"]:
        yield _output(output, cell["metadata"].get("alt", ""))


def _output(output: dict[str, Any], alt: str) -> str:
    if output["output_type"] == "stream":
        return _block("code-block", "text", "".join(output["text"]))
    data = {kind: "".join(value) for kind, value in output["data"].items()}
    if "image/svg+xml" in data:
        picture = b64encode(data["image/svg+xml"].encode()).decode()
        return _block("raw", "html", f'<img alt="{escape(alt)}" src="data:image/svg+xml;base64,{picture}">')
    if "text/html" in data:
        return _block("raw", "html", f'<div class="table-wrapper result">{data["text/html"]}</div>')
    return _block("code-block", "text", data["text/plain"])


def _block(directive: str, argument: str, text: str) -> str:
    options = ":class: printed\n" if directive == "code-block" else ""
    return f"{FENCE}{{{directive}}} {argument}\n{options}\n{text.rstrip()}\n{FENCE}"


class NotebookParser(MystParser):
    """Reads a notebook as the Markdown of its cells."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the notebook's text into the document."""
        super().parse(markdown(inputstring), document)


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx read ``.ipynb`` files."""
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
