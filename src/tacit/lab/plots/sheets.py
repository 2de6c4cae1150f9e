"""Where a figure is drawn: on given axes, or on a new figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

from tacit.base.arguments import shown
from tacit.base.errors import ParameterError
from tacit.lab.plots.style import GREY, canvas, lay_out, styled, text_size

Width = float | Literal["one-column", "two-columns"] | None
Where = Axes | Sequence[Axes] | None

COLUMNS = {"one-column": 3.5, "two-columns": 7.16}
"""Widths of a column and of a page of two columns, in inches, as in IEEE journals."""

_NARROW = 5.5  # inches, below which panels are put below each other
_LEAST = 2.0  # inches, below which no text would fit
_GAP = 10  # points between texts of neighbouring panels


@dataclass(frozen=True)
class Panels:
    """The axes to draw on; `own` if they are on a new figure."""

    figure: Figure
    axes: list[Axes]
    own: bool
    stacked: bool = False

    @property
    def ax(self) -> Axes:
        """The only axes."""
        return self.axes[0]

    def caption(self, text: str, size: float = 9) -> None:
        """Write a caption above all panels of a new figure.

        A figure of the user's own is left alone.
        """
        if self.own:
            self.figure.suptitle(text, x=0.01, ha="left", fontsize=text_size(size), color=GREY)


@contextmanager
def panels(
    width: float,
    height: float,
    count: int = 1,
    *,
    ax: Where = None,
    wanted: Width = None,
    below: bool = False,
    rows: bool = False,
    **layout: Any,
) -> Iterator[Panels]:
    """Give the panels to draw on: the user's axes, or a new figure.

    The user's axes keep the user's style; a new figure has that of tacit.

    Parameters
    ----------
    width, height : float
        Usual size of the figure in inches.
    count, below
        How many panels, and whether they are always below each other.
    rows : bool
        The height is that of rows of text, which do not shrink with the width.
    ax : Axes or sequence of Axes
        As given by the user: as many as there are panels.
    wanted : float or str
        As given by the user: inches, ``"one-column"`` or ``"two-columns"``.
    layout
        For `Figure.subplots`, if panels are side by side.
    """
    if ax is not None:
        if wanted is not None:
            raise ParameterError("give either ax or width, not both: axes have a width of their own.")
        axes = _axes(ax, count)
        yield Panels(_root(axes[0]), axes, own=False)
        return
    inches = width_in_inches(wanted)
    with styled(printed=inches is not None):
        size = _size(width, height, inches, rows)
        stacked = count > 1 and (below or size[0] < _NARROW)
        if stacked and not below and inches is not None:
            size = (size[0], (0.9 if rows else 0.8) * count * size[1])
        figure = canvas(*size)
        if stacked:
            made = figure.subplots(count, 1, **(layout if below else {}))
        else:
            made = figure.subplots(1, count, **layout)
        found = Panels(figure, list(np.atleast_1d(made)), own=True, stacked=stacked)
        yield found
        _wrap_texts(found)
        _thin_ticks(found)


def width_in_inches(width: Width) -> float | None:
    """Return a width in inches, or None if none is given."""
    if width is None:
        return None
    if isinstance(width, str) and width in COLUMNS:
        return COLUMNS[width]
    if isinstance(width, int | float) and not isinstance(width, bool) and _LEAST <= width < 100:
        return float(width)
    raise ParameterError(
        f"width must be {', '.join(COLUMNS)} or a number of inches of at least {_LEAST:g}, "
        f"got {shown(width)}."
    )


def _size(width: float, height: float, wanted: float | None, rows: bool) -> tuple[float, float]:
    """Return the size of a new figure: wanted, set by the user, or usual."""
    if wanted is not None:
        # Text does not shrink with the figure, so the height falls less than the width.
        return wanted, height if rows else height * min(1.0, 0.35 + 0.65 * wanted / width)
    if mpl.rcParams["figure.figsize"] != mpl.rcParamsDefault["figure.figsize"]:
        across, up = mpl.rcParams["figure.figsize"]
        return float(across), float(up)
    return width, height


def _axes(given: Where, count: int) -> list[Axes]:
    axes = [given] if isinstance(given, Axes) else list(np.ravel(np.asarray(given, dtype=object)))
    if len(axes) != count or not all(isinstance(one, Axes) for one in axes):
        need = "an Axes of matplotlib" if count == 1 else f"a list of {count} Axes of matplotlib"
        raise ParameterError(f"ax must be {need}, got {shown(given)}.")
    return axes


def _root(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure


def _wrap_texts(made: Panels) -> None:
    """Break titles and labels into lines that fit.

    The figure is laid out first, to see how much room they have.
    """
    figure = made.figure
    lay_out(figure)
    across, up = 72 * figure.get_size_inches()
    boxes = [ax.get_position() for ax in made.axes]
    for ax, box in zip(made.axes, boxes, strict=True):
        right = min((other.x0 for other in boxes if other.x0 > box.x1), default=1.0)
        room = across * (right - box.x0) - _GAP
        for title in (ax.title, ax._left_title, ax._right_title):  # type: ignore[attr-defined]
            _wrap(title, room)
        _wrap(ax.xaxis.label, room)
        _wrap(ax.yaxis.label, up * box.height + 2 * _GAP)
    if figure.get_suptitle():
        _wrap(figure._suptitle, across - _GAP)  # type: ignore[attr-defined]


def _thin_ticks(made: Panels) -> None:
    """Leave out numbers below an axis that would touch the one before."""
    lay_out(made.figure)
    for ax in made.axes:
        ax.get_xticklabels()  # brings the ticks up to date
        low, high = sorted(ax.get_xlim())
        places, names, end = [], [], -math.inf
        for tick in sorted(ax.xaxis.get_major_ticks(), key=lambda tick: tick.label1.get_window_extent().x0):
            box, name = tick.label1.get_window_extent(), tick.label1.get_text()
            if not (name and tick.label1.get_visible() and low <= tick.get_loc() <= high):
                continue
            places.append(tick.get_loc())
            names.append(name if box.x0 > end + 2 else "")
            end = box.x1 if names[-1] else end
        if "" in names:
            ax.set_xticks(places, names)
            ax.set_xlim(ax.get_xlim())


def _wrap(text: Text, room: float) -> None:
    """Break a text between words into lines of at most `room` points."""
    font = text.get_fontproperties()
    lines: list[str] = []
    for line in text.get_text().split("\n"):
        words = line.split(" ")
        lines.append(words[0])
        for word in words[1:]:
            longer = f"{lines[-1]} {word}"
            if _length(longer, font) <= room:
                lines[-1] = longer
            else:
                lines.append(word)
    text.set_text("\n".join(lines))


def _length(text: str, font: FontProperties) -> float:
    return text_to_path.get_text_width_height_descent(text, font, False)[0]
