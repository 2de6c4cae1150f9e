"""One look for every figure, also for colour-blind readers.

It is readable in black and white too.

The look applies to settings of matplotlib that the user has not changed, and only while a figure is drawn.
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
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import Bbox

from tacit.base.errors import FileError

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

_LAYOUT_DPI = 1200

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


_PRINTED: dict[str, Any] = {"axes.titlesize": 8.5, "font.size": 8, "lines.linewidth": 1.3}
"""For a given width: the figure is printed at that size, beside text of 9 or 10 points."""


@contextmanager
def styled(printed: bool = False) -> Iterator[None]:
    """Use tacit's style where the user has not set one, for a while.

    The settings are restored afterwards.
    """
    house = _RC | (_PRINTED if printed else {})
    with mpl.rc_context(cast(Any, {key: value for key, value in house.items() if not _given(key)})):
        yield


def _given(key: str) -> bool:
    """Whether the user has changed a setting of matplotlib."""
    now: dict[str, Any] = cast(Any, mpl.rcParams)
    usual: dict[str, Any] = cast(Any, mpl.rcParamsDefault)
    return bool(now[key] != usual[key])


def text_size(points: float) -> float:
    """Return a text size in proportion to the user's normal text.

    `points` is the size beside tacit's normal text of 9 points.
    """
    return points * float(mpl.rcParams["font.size"]) / float(_RC["font.size"])


def colours() -> tuple[str, ...]:
    """Return the colours of curves: the user's, if the user has chosen some."""
    if _given("axes.prop_cycle"):
        return tuple(mpl.rcParams["axes.prop_cycle"].by_key().get("color", CYCLE))
    return CYCLE


class Sheet(Figure):
    """A figure that displays itself in a notebook with every backend."""

    def _repr_svg_(self) -> str:
        file = BytesIO()
        save(self, file, ".svg")
        return file.getvalue().decode()


def canvas(width: float, height: float) -> Sheet:
    """Return an empty figure of this size in inches; texts do not overlap."""
    return Sheet(figsize=(width, height), layout="constrained")


def plain_log(axis: Axis, subs: tuple[float, ...] = (1, 2, 5)) -> None:
    """Label a logarithmic axis with plain numbers instead of powers of ten."""
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def label_line(ax: Axes, x: float, y: float, text: str, colour: str, **where: Any) -> None:
    """Name a curve where it is, so that no legend is needed."""
    ax.annotate(
        text,
        (x, y),
        xytext=where.pop("offset", (4, 0)),
        textcoords="offset points",
        color=colour,
        fontsize=text_size(8.5),
        annotation_clip=False,
        **({"va": "center", "ha": "left"} | where),
    )


def spread_labels(values: Sequence[float], room: float) -> list[float]:
    """Move values apart until any two are at least `room` apart.

    Their order is kept.
    """
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


def label_room(ax: Axes, lines: float = 1) -> float:
    """Return which part of an axis' height a name of some lines takes."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    height = 72 * figure.get_figheight() * ax.get_position().height
    return 1.25 * lines * text_size(8.5) / height


def lay_out(figure: Figure) -> None:
    """Give axes their places without drawing, which would take as long again."""
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
    for ax in figure.axes:
        ax.apply_aspect()


@contextmanager
def _settled(figure: Figure) -> Iterator[None]:
    """Lay a figure out and round the places of its axes.

    The last bits of the layout differ from run to run, and ids in an SVG are made from them.
    """
    engine = figure.get_layout_engine()
    if engine is None:
        yield
        return
    # At screen resolution hinting makes small text up to a tenth narrower than it is drawn in an SVG or PDF,
    # so long names would be cut off. At a high resolution the text has its true width.
    dpi = figure.dpi
    figure.dpi = _LAYOUT_DPI
    lay_out(figure)
    figure.dpi = dpi
    figure.set_layout_engine("none")
    for ax in figure.axes:
        ax.set_position(Bbox(np.round(ax.get_position().get_points(), 6)))
    try:
        yield
    finally:
        for ax in figure.axes:
            ax.set_in_layout(True)  # `set_position` takes it out
        figure.set_layout_engine(engine)


def save(figure: Figure, file: str | PathLike[str] | IO[bytes], suffix: str | None = None) -> None:
    """Write a figure as SVG, PNG or PDF, by its suffix.

    No date or version is written, so the same figure gives the same bytes.
    """
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
    with styled(), _settled(figure):
        figure.savefig(file, format=kind[1:], metadata=blank[kind])
