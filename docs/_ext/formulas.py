"""Formulas as MathML, made while the site is built: a browser draws them without a script or a font of ours.

Pages write LaTeX between dollars, and in ```` ```math ```` blocks, which code hosts typeset as well. Greek
letters and signs may be Unicode, so that the source can be read in a terminal: ``$(1-σ)^t ≤ ε$``.
"""

from __future__ import annotations

import unicodedata
from xml.etree import ElementTree

from docutils import nodes  # type: ignore[import-untyped]
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

LETTERS = "∞∅∂"
"""Signs that stand for a thing, not for an operation."""
TIGHT = "|‖/"
"""Signs around which browsers leave more room than a printer does."""


def mathml(latex: str, *, display: bool) -> str:
    """Return the MathML of a formula; raises ValueError for what would not be typeset."""
    try:
        root = ElementTree.fromstring(convert(latex, display="block" if display else "inline"))
    except ElementTree.ParseError:
        raise ValueError(
            f"the signs & and \\\\ are not known to the converter, in the formula {latex!r}"
        ) from None
    for node in root.iter():
        name, text = node.tag.rpartition("}")[2], node.text or ""
        node.tag = name
        if "\\" in text:
            raise ValueError(f"{text} is not known to the converter, in the formula {latex!r}")
        if name == "mi" and len(text) == 1 and unicodedata.category(text)[0] in "SP" and text not in LETTERS:
            node.tag = "mo"  # the converter takes every sign that it does not know for a letter
            if unicodedata.category(text) in ("Ps", "Pe"):
                node.set("stretchy", "false")
        if name == "mo" and text in TIGHT:
            node.attrib.update(lspace="0", rspace="0")
        if name == "mo" and len(text) > 1 and text.isalpha():  # the name of a function
            node.attrib.update(lspace="0.12em", rspace="0.12em")
    for node in list(root.iter()):
        _lower_primes(node)
    root.set("alttext", " ".join(latex.split()))
    return ElementTree.tostring(root, encoding="unicode")


def _lower_primes(node: ElementTree.Element) -> None:
    """Put primes beside their letter instead of into its exponent.

    The sign itself is small and high already. As an exponent it would be so twice, and hard to see.
    """
    if node.tag not in ("msup", "msubsup") or set(node[-1].text or "") - set("′″‴") or not node[-1].text:
        return
    base, primes = node[0], node[-1]
    primes.attrib.update(lspace="0", rspace="0")
    if node.tag == "msup":
        node.tag = "mrow"
        return
    marked = ElementTree.Element("mrow")
    marked.extend([base, primes])
    node.tag, node[:] = "msub", [marked, node[1]]


def _write(self: HTML5Translator, node: nodes.Element, *, display: bool) -> None:
    """Put a formula into a page; one that cannot be typeset is an error of the page."""
    try:
        found = mathml(node.astext(), display=display)
    except Exception as error:  # the converter raises many kinds; the page and the line must be told
        logging.getLogger(__name__).warning("%s", error, location=node)
        raise nodes.SkipNode from error
    self.body.append(f'<div class="formula">{found}</div>' if display else found)
    raise nodes.SkipNode


def _inline(self: HTML5Translator, node: nodes.Element) -> None:
    _write(self, node, display=False)


def _block(self: HTML5Translator, node: nodes.Element) -> None:
    _write(self, node, display=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
