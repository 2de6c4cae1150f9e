"""How Sphinx builds the site: offline, from Markdown and docstrings, every warning an error."""

from __future__ import annotations

import gc
import sys
from functools import cache
from pathlib import Path

from sphinx.search.en import SearchEnglish

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from tacit import __version__

gc.set_threshold(50_000, 50, 50)  # millions of nodes live to the end: to look at them often takes a tenth
SearchEnglish.stem = cache(SearchEnglish.stem)  # type: ignore[method-assign]  # pages share most words

project = "tacit"
author = "the tacit authors"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "api",
    "diagrams",
    "formulas",
    "notebook_pages",
    "references",
    "sources",
]
exclude_patterns = ["_ext"]

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_dmath_allow_space = False  # code hosts typeset $x$, not $ x $
myst_fence_as_directive = [
    "mermaid",
    "math",
]  # code hosts draw them; here _ext/diagrams.py and formulas.py do
html_math_renderer = "mathml"

autodoc_preserve_defaults = True  # one default is a tuple of thousands of seeds
autodoc_type_aliases = {name: name for name in ("BoolArray", "FloatArray", "IntArray", "PerAgent")}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
napoleon_google_docstring = False
napoleon_use_rtype = False
toc_object_entries = False  # modules are enough beside a page
default_role = "py:obj"  # a name in backquotes leads to it, where it is one of ours

html_theme = "furo"
html_title = "tacit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

if "plain" in tags:  # type: ignore[name-defined]  # noqa: F821  # Sphinx defines it
    html_theme = "basic"
    highlight_language = "none"
    smartquotes = False
