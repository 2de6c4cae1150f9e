"""One look for every figure: readable in black and white and by colour-blind readers.

Colours are those of Okabe and Ito; curves of different colour also have different line styles. The
same numbers always give the same bytes, so that pictures in the documentation change only for a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import IO, Any, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from tacit.errors import FileError

INK, GREY, PALE = "#1a1a1a", "#6b6b6b", "#d9d9d9"
BLUE, RED, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#a3397c", "#b87700", "#56b4e9"
CYCLE = (BLUE, RED, GREEN, PURPLE, ORANGE, INK)
DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (2, 1.5)),
    (0, (6, 1.5, 1.5, 1.5)),
    (0, (1, 1)),
    (0, (9, 2, 2, 2)),
)

MARKERS = ("o", "s", "^", "D", "v", "P")

FORMATS = (".svg", ".png", ".pdf")

_RC: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.unicode_minus": True,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": PALE,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.7,
    "mathtext.fontset": "dejavusans",
    "savefig.dpi": 200,
    "svg.fonttype": "path",
    "svg.hashsalt": "tacit",
    "text.color": INK,
    "xtick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.color": GREY,
    "ytick.labelcolor": INK,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw with tacit's style, independent of the user's settings."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast(Any, _RC))
        yield


class Sheet(Figure):
    """A figure that displays itself in a notebook with every backend."""

    def _repr_svg_(self) -> str:
        file = BytesIO()
        save(self, file, ".svg")
        return file.getvalue().decode()


def canvas(width: float, height: float) -> Sheet:
    """Return an empty figure of this size in inches, laid out without overlaps."""
    return Sheet(figsize=(width, height), layout="constrained")


def plain_log(axis: Axis, subs: tuple[float, ...] = (1, 2, 5)) -> None:
    """Label a logarithmic axis with plain numbers instead of powers of ten."""
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def counted(number: int, word: str) -> str:
    """Write a number of things: 1 round, 2 rounds."""
    return f"{number:,} {word}{'s' * (number != 1)}"


def label_line(ax: Axes, x: float, y: float, text: str, colour: str, **where: Any) -> None:
    """Name a curve where it is, so that no legend is needed."""
    ax.annotate(
        text,
        (x, y),
        xytext=where.pop("offset", (4, 0)),
        textcoords="offset points",
        color=colour,
        fontsize=8.5,
        annotation_clip=False,
        **({"va": "center", "ha": "left"} | where),
    )


def spread_labels(values: Sequence[float], room: float) -> list[float]:
    """Move values apart, in their order, until any two are at least `room` from each other."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    placed: list[list[float]] = []  # groups of names that touch: their values, to be centred together
    for value in (values[i] for i in order):
        placed.append([value])
        while len(placed) > 1 and _low(placed[-1], room) < _low(placed[-2], room) + room * len(placed[-2]):
            placed[-2:] = [placed[-2] + placed[-1]]
    moved = [_low(run, room) + room * k for run in placed for k in range(len(run))]
    return [moved[order.index(i)] for i in range(len(values))]


def _low(run: list[float], room: float) -> float:
    return sum(run) / len(run) - room * (len(run) - 1) / 2


def save(figure: Figure, file: str | PathLike[str] | IO[bytes], suffix: str | None = None) -> None:
    """Write a figure as SVG, PNG or PDF, by its suffix, without date or version in it."""
    kind = (suffix or Path(str(file)).suffix).lower()
    if kind not in FORMATS:
        raise FileError(
            f"a figure is written as {', '.join(FORMATS)}, got {kind or 'no suffix'}: change the name."
        )
    blank: dict[str, dict[str, Any]] = {
        ".svg": {"Date": None, "Creator": "tacit"},
        ".png": {"Software": "tacit"},
        ".pdf": {"CreationDate": None, "Creator": "tacit", "Producer": None},
    }
    with styled():
        figure.savefig(file, format=kind[1:], metadata=blank[kind])
