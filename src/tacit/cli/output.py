"""What verbs print and write: tables for people, JSON for programs, whole files only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from tacit.errors import FileError
from tacit.report import Grid, Row, Summary, json_text, near, text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from tacit.protocol.session import Session

Line: TypeAlias = tuple[str, str, str] | Row
"""Name, value and meaning of one quantity."""

_PLAIN_WIDTH = 110  # of tables that go to a file or a pipe


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


def print_summary(summary: Summary | Grid, *further: Summary | Grid) -> None:
    """Print what a result says to people."""
    emit(*(text(part) for part in (summary, *further)))


def print_report(title: str, sections: Mapping[str, Sequence[Line]], notes: Sequence[str] = ()) -> None:
    """Print a title, lines grouped in sections, and sentences below."""
    print_summary(
        Summary(title, {name: [Row(*row) for row in rows] for name, rows in sections.items()}, tuple(notes))
    )


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print numbers in right-aligned columns."""
    emit(text(Grid(title, columns, rows, right=tuple(range(len(columns)))), spaced=False))


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
    click.echo(json_text(answer))


def require_writable(path: Path, force: bool) -> None:
    """Refuse, before any work is done, a file that exists or has nowhere to be."""
    if path.exists() and not force:
        raise FileError(f"{path} exists already: choose another --out, or pass --force to overwrite it.")
    if not path.parent.is_dir():
        raise FileError(f"there is no directory {path.parent} to write {path.name} into: create it first.")
