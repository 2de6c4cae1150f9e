"""What verbs print and write: tables for people, JSON for programs, whole files only."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.errors import FileError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from tacit.protocol.session import Session

Row = tuple[str, str, str]
"""Name, value and meaning of one quantity."""

_PLAIN_WIDTH = 110  # of tables that go to a file or a pipe


def up(value: float) -> str:
    """Show a number with six digits, never smaller than it is."""
    from tacit.rounding import shown_up

    return shown_up(value)


def near(value: float, digits: int = 6) -> str:
    """Show a number that is no promise, rounded to nearest; whole numbers whole."""
    if math.isnan(value):
        return "-"
    if abs(value) < 10**15 and value == int(value):
        return f"{int(value):,}"
    return f"{value:.{digits}g}"


def each(value: Any, show: Callable[[float], str] = near) -> str:
    """Show one number, or the range of one number per agent."""
    if isinstance(value, float | int):
        return show(float(value))
    low, high = show(min(value)), show(max(value))
    return low if low == high else f"{low} to {high}"


def in_range(session: Session, values: float | Sequence[float], meaning: str) -> tuple[str, str]:
    """Show a result, clamped to the session's range, and say so where it was outside."""
    listed = [values] if isinstance(values, float) else list(values)
    inside = [session.clamp(value) for value in listed]
    shown = ", ".join(near(value) for value in inside[:4]) + (", …" if len(inside) > 4 else "")
    return shown, meaning + ("; clamped to the range" if inside != listed else "")


def console(*, stderr: bool = False) -> Console:
    """Return a rich console that keeps to its width in a pipe and interprets nothing."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made = Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=_PLAIN_WIDTH)
    return made


def emit(*parts: RenderableType) -> None:
    """Print for people; into a file or a pipe without colours and trailing blanks."""
    out = console()
    if out.is_terminal:
        out.print(*parts, sep="\n")
        return
    with out.capture() as captured:
        out.print(*parts, sep="\n")
    click.echo("\n".join(line.rstrip() for line in captured.get().split("\n")), nl=False)


def print_report(title: str, sections: dict[str, list[Row]], notes: Sequence[str] = ()) -> None:
    """Print a title, rows grouped in sections, and sentences below."""
    from rich.padding import Padding
    from rich.text import Text

    said = [Padding(Text(note), (0, 0, 0, 1), expand=False) for note in notes]
    emit(Text(title, style="bold"), Padding(_report(sections), (1, 0, 1, 1), expand=False), *said)


def _report(sections: dict[str, list[Row]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for section, rows in sections.items():
        heading = section
        for name, value, meaning in rows:
            table.add_row(
                Text(heading, style="bold"),
                Text(name),
                Text(value, style="bold cyan"),
                Text(meaning, style="dim"),
            )
            heading = ""
    return table


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print numbers in right-aligned columns."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1), header_style="bold")
    for column in columns:
        table.add_column(Text(column), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    emit(*([Text(title, style="bold")] if title else []), table)


def print_bars(columns: tuple[str, str], rows: Sequence[tuple[str, str, str]]) -> None:
    """Print two columns and a bar for each row."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1), header_style="bold")
    for column in columns:
        table.add_column(Text(column), justify="right", no_wrap=True)
    table.add_column()
    for name, value, bar in rows:
        table.add_row(Text(name), Text(value), Text(bar, style="cyan"))
    emit(Padding(table, (1, 0, 0, 0), expand=False))


def print_json(answer: Any) -> None:
    """Print valid JSON: what is not a finite number becomes null."""
    click.echo(json.dumps(jsonable(answer), indent=2, ensure_ascii=False, allow_nan=False))


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


def require_writable(path: Path, force: bool) -> None:
    """Refuse, before any work is done, a file that exists or has nowhere to be."""
    if path.exists() and not force:
        raise FileError(f"{path} exists already: choose another --out, or pass --force to overwrite it.")
    if not path.parent.is_dir():
        raise FileError(f"there is no directory {path.parent} to write {path.name} into: create it first.")
