"""Summaries as text, HTML and LaTeX, and results as JSON.

Text is for terminals, JSON for programs. Text from a file or a roster is escaped, so that a name cannot bring
its own markup.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tacit.base.extras import missing_extra
from tacit.base.report.rows import Grid, Summary

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, ConsoleOptions, Group, RenderableType
    from rich.table import Table

_WIDTH = 110  # of a printed result, where there is no terminal to fit
_LEFT = 'style="text-align:left"'
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_",
        "%": r"\%", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$",
        "\u00a0": "~", "ε": r"$\varepsilon$", "δ": r"$\delta$", "σ": r"$\sigma$", "λ": r"$\lambda$",
        "×": r"$\times$", "·": r"$\cdot$", "±": r"$\pm$", "²": r"$^2$", "θ": r"$\theta$", "’": "'",
    }
)  # fmt: skip


def _lines(
    summary: Summary | Grid, line: Callable[[Sequence[str]], str], heading: Callable[[str], str]
) -> tuple[list[str], list[str]]:
    """Return the columns, and each row, below the heading of its section.

    Rows of a summary have a name, a value and what it means. Rows of two sections may have the same name,
    like the radius of the design and of one-shot noise.
    """
    if isinstance(summary, Grid):
        return list(summary.columns), [line(row) for row in summary.rows]
    lines = []
    for name, rows in summary.sections.items():
        lines += [heading(name)] if name and rows else []
        lines += [line((row.name, row.shown, row.meaning)) for row in rows]
    return ["", "value", "meaning"], lines


def html(summary: Summary | Grid) -> str:
    """Return a table with a caption and sections, and notes below.

    Every row starts with a header cell.
    """
    from html import escape

    def line(cells: Sequence[str]) -> str:
        rest = "".join(f"<td {_LEFT}>{escape(cell)}</td>" for cell in cells[1:])
        return f'<tr><th scope="row" {_LEFT}>{escape(cells[0])}</th>{rest}</tr>'

    def heading(name: str) -> str:
        title = f'<th scope="rowgroup" colspan="3" {_LEFT}>{escape(name)}</th>'
        return f"</tbody><tbody><tr>{title}</tr>"

    columns, lines = _lines(summary, line, heading)
    head = "".join(f'<th scope="col" {_LEFT}>{escape(column)}</th>' for column in columns)
    body = f"<tbody>{''.join(lines)}</tbody>".removeprefix("<tbody></tbody>")
    below = "".join(f"<p>{escape(note)}</p>" for note in summary.notes)
    return (
        f'<table><caption style="text-align:left"><b>{escape(summary.title)}</b></caption>'
        f"<thead><tr>{head}</tr></thead>{body}</table>{below}"
    )


def latex(summary: Summary | Grid) -> str:
    """Return a tabular with the title above and the notes below.

    It needs no LaTeX package.
    """

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"

    def heading(name: str) -> str:
        return rf"\multicolumn{{3}}{{l}}{{\textit{{{name.translate(_LATEX)}}}}} \\"

    columns, lines = _lines(summary, line, heading)
    widths = "l" * (len(columns) - 1) + (r"p{0.5\linewidth}" if len(columns) == 3 else "l")
    table = [
        rf"\begin{{tabular}}{{{widths}}}", r"\hline", line(columns), r"\hline", *lines, r"\hline",
        r"\end{tabular}",
    ]  # fmt: skip
    paragraphs = [summary.title.translate(_LATEX), "\n".join(table)]
    return "\n\n".join([*paragraphs, *(note.translate(_LATEX) for note in summary.notes)])


def text(
    summary: Summary | Grid, *, spaced: bool = True, wrap: bool = True, marked: Collection[int] = ()
) -> Group:
    """Return a summary for a terminal.

    It has title, rows and notes, with space between. A table that is too wide is shown in parts, or with long
    cells cut off unless `wrap`. The rows `marked` are yellow.
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    def parts() -> Iterator[RenderableType]:
        if summary.title:
            yield Text(summary.title, style="bold")
        if isinstance(summary, Grid):
            room = (1, 0, 1 if summary.notes else 0, 0) if spaced else (0, 0, 0, 0)
            everything = range(len(summary.columns))
            shown = _FittingTable(summary, marked) if wrap else _table_of(summary, everything, marked, wrap)
            yield Padding(shown, room, expand=False)
        else:
            yield Padding(_sections(summary), (1, 0, 1, 1), expand=False)
        for note in summary.notes:
            yield Padding(Text(note), (0, 0, 0, 1), expand=False)

    return Group(*parts())


def _sections(summary: Summary) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column(no_wrap=True)
    grid.add_column()
    for section, rows in summary.sections.items():
        heading = section
        for row in rows:
            shown = Text(row.shown, style="bold cyan")
            grid.add_row(Text(heading, style="bold"), Text(row.name), shown, Text(row.meaning, style="dim"))
            heading = ""
    return grid


@final
class _FittingTable:
    """A table that is shown in parts where it is too wide.

    Rich would cut numbers off. Every part begins with the first column.
    """

    def __init__(self, table: Grid, marked: Collection[int]) -> None:
        self._table, self._marked = table, marked

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        part, room = [0], options.max_width - _least_width(self._table, 0)
        for place in range(1, len(self._table.columns)):
            width = _least_width(self._table, place)
            if width > room and len(part) > 1:
                yield _table_of(self._table, part, self._marked)
                yield ""
                part, room = [0], options.max_width - _least_width(self._table, 0)
            part.append(place)
            room -= width
        yield _table_of(self._table, part, self._marked)


def _is_whole(table: Grid, place: int) -> bool:
    """Whether a column is never wrapped: the first two, and numbers."""
    return place <= 1 or place in table.right


def _least_width(table: Grid, place: int) -> int:
    """Return the least width of a column, with a blank on each side."""
    cells = "\n".join([table.columns[place], *(row[place] for row in table.rows)])
    return 2 + max(map(len, cells.splitlines() if _is_whole(table, place) else cells.split()), default=0)


def _table_of(table: Grid, part: Sequence[int], marked: Collection[int], wrap: bool = True) -> Table:
    """Return some columns of a table; unless `wrap`, long cells are cut."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, padding=(0, 1), header_style="bold")
    for place in part:
        grid.add_column(
            Text(table.columns[place]),
            justify="right" if place in table.right else "left",
            no_wrap=_is_whole(table, place) or not wrap,
            min_width=_least_width(table, place) - 2 if wrap else None,
        )
    for place, row in enumerate(table.rows):
        grid.add_row(*(Text(row[k]) for k in part), style="yellow" if place in marked else None)
    return grid


def json_text(answer: Any) -> str:
    """Return valid JSON of what ``as_dict`` returned.

    Infinite numbers and NaN become null.
    """
    return json.dumps(jsonable(answer), indent=2, ensure_ascii=False, allow_nan=False)


def jsonable(value: Any) -> Any:
    """Return the value in the types that JSON has."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        return jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def dataframe(records: Any) -> pd.DataFrame:
    """Return records, or columns by name, as a pandas table.

    A nested name becomes one with a dot.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise missing_extra(error, "to_dataframe") or error from None
    return pd.DataFrame(records) if isinstance(records, dict) else pd.json_normalize(records)


class Shown(ABC):
    """A result that makes its own rows, and a table in a notebook."""

    @abstractmethod
    def summary(self) -> Summary | Grid:
        """Return the result for people."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return the exact numbers for programs, ready for `json_text`."""

    def to_latex(self) -> str:
        """Return the table for a paper; it needs no LaTeX package."""
        return latex(self.summary())

    def __str__(self) -> str:
        """Return the table as text, as ``print`` shows it."""
        from rich.console import Console

        out = Console(width=_WIDTH, markup=False, highlight=False, emoji=False, color_system=None)
        with out.capture() as captured:
            out.print(text(self.summary()))
        return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n"))

    def _repr_html_(self) -> str:
        return html(self.summary())

    def _repr_latex_(self) -> str:
        return self.to_latex()
