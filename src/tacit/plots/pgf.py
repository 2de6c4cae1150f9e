"""Figures as PGF, which LaTeX draws in a paper's own fonts.

No LaTeX is needed to write them.
"""

from __future__ import annotations

from io import TextIOWrapper
from typing import IO, Any, cast

from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.backends.backend_pgf import RendererPgf
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

_HEAD = r"""% Needs \usepackage{pgf}, and XeLaTeX or LuaLaTeX for letters such as σ and ε.
\begingroup
\makeatletter
\providecommand{\mathdefault}[1]{#1}
\begin{pgfpicture}
"""
_FOOT = r"""\end{pgfpicture}
\makeatother
\endgroup
"""


class _Renderer(RendererPgf):
    """Matplotlib's PGF writer, without LaTeX to measure text."""

    def get_text_width_height_descent(
        self, s: str, prop: FontProperties, ismath: bool | str
    ) -> tuple[float, float, float]:
        """Measure text in the figure's own font, in the pixels of this writer."""
        size = text_to_path.get_text_width_height_descent(s, prop, cast(Any, ismath))
        width, height, descent = (length * self.dpi / 72 for length in size)
        return width, height, descent


def write_pgf(figure: Figure, file: IO[bytes]) -> None:
    """Write a figure as PGF."""
    text = TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
    canvas = figure.canvas
    try:
        FigureCanvasBase(figure)  # any other canvas would lay out the figure with a renderer of its own
        width, height = figure.get_size_inches()
        text.write(_HEAD)
        text.write(rf"\pgfpathrectangle{{\pgfpointorigin}}{{\pgfqpoint{{{width:f}in}}{{{height:f}in}}}}" "\n")
        text.write("\\pgfusepath{use as bounding box, clip}\n")
        figure.draw(_Renderer(figure, text))  # type: ignore[no-untyped-call]
        text.write(_FOOT)
    finally:
        figure.set_canvas(canvas)
        text.detach()
