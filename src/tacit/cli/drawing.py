"""Drawing, for all verbs: check the file first, then draw into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.base.errors import FileError
from tacit.base.files import whole_file
from tacit.base.report import Grid, near, up
from tacit.cli import options, output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.lab.plots.sheets import Width


# The names of tacit.lab.plots.sheets, repeated because --help must not load matplotlib; a test compares them.
COLUMNS = ("one-column", "two-columns")
_PROMISES = ("radius", "one_shot", "epsilon", "promised")


class FigureWidth(click.ParamType[float | str]):
    """A width by name, or in inches."""

    name = "width"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Read the width; its range is checked where figures are drawn."""
        if value in COLUMNS:
            return str(value)
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither {', '.join(COLUMNS)} nor a number of inches.", param, ctx)


width_option = click.option(
    "--width", type=FigureWidth(), metavar=f"{'|'.join(COLUMNS)}|INCHES",
    help="Width for a paper, with text of 8 points: one column is 3.5 inches, two are 7.16.",
)  # fmt: skip


@dataclass(frozen=True)
class Drawing:
    """A figure as numbers, and a function that draws it.

    Attributes
    ----------
    facts : dict
        The parameters behind the numbers.
    table : dict of columns
    draw : function
        Loads matplotlib, and draws a figure of the given width.
    """

    facts: dict[str, Any]
    table: dict[str, Any]
    draw: Callable[[Width], Figure]


def delivered(made: Callable[..., Drawing]) -> Callable[..., None]:
    """Add the output options to a verb; draw and print what it returns."""
    name = made.__name__

    @wraps(made)
    def run(*, out: Path | None, width: Width, force: bool, table: bool, as_json: bool, **asked: Any) -> None:
        path = _target(name, out, force, width, numbers_only=table or as_json)
        drawing = made(**asked)
        if path is not None:
            write_figure(drawing.draw(width), path)
        if as_json:
            columns = {column: list(values) for column, values in drawing.table.items()}
            output.print_json({"figure": name, **drawing.facts, "file": path, "table": columns})
            return
        if table:
            _print_columns(drawing.table)
        if path is not None:
            click.echo(f"Drawn: {path}")

    return _out_options(run)


def _out_options(function: Callable[..., None]) -> Callable[..., None]:
    decorators: list[Callable[[Callable[..., None]], Callable[..., None]]] = [
        click.option(
            "--out",
            type=options.OUT_FILE,
            help="File to draw into: .svg, .png or .pdf.  [default: NAME.svg]",
        ),
        width_option,
        options.force_option,
        click.option("--table", is_flag=True, help="Print the numbers; draws only if --out is given."),
        options.json_option,
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def _target(name: str, out: Path | None, force: bool, width: Width, numbers_only: bool) -> Path | None:
    """Return the file to draw into, checked before anything is computed."""
    if out is None and numbers_only:
        return None
    path = out or Path(f"{name}.svg")
    require_drawable(path, force, width)
    return path


def require_drawable(path: Path, force: bool, width: Width = None) -> None:
    """Refuse a file or width that no figure can have.

    It also loads matplotlib, so that a missing one is reported before any work is done.
    """
    from tacit.lab.plots.sheets import width_in_inches
    from tacit.lab.plots.style import FORMATS

    width_in_inches(width)
    if path.suffix.lower() not in FORMATS:
        raise FileError(f"a figure is written as {', '.join(FORMATS)}, got {path.name!r}: change the name.")
    output.require_writable(path, force)


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure completely or not at all."""
    from tacit.lab.plots.style import save

    with whole_file(path) as part:
        save(figure, part)


def _print_columns(table: dict[str, Any]) -> None:
    """Print columns, with upper bounds rounded up."""

    def cell(name: str, value: Any) -> str:
        if isinstance(value, str):
            return value
        return up(float(value)) if name.startswith(_PROMISES) else near(float(value))

    rows = zip(*([cell(name, value) for value in column] for name, column in table.items()), strict=True)
    columns = [name.replace("_", " ") for name in table]
    output.print_tables(Grid("", columns, list(rows), right=tuple(range(len(columns)))))
