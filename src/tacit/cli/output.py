"""What verbs print and write: tables for people, JSON for programs, whole files only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from tacit.errors import FileError
from tacit.report import Grid, Row, Shown, Summary, json_text, text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Line: TypeAlias = tuple[str, str, str] | Row
"""Name, value and meaning of one quantity."""

_PLAIN_WIDTH = 110  # of tables that go to a file or a pipe


def console(*, stderr: bool = False) -> Console:
    """Return a rich console with a fixed width in a pipe, and without markup."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made = Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=_PLAIN_WIDTH)
    return made


def emit(*parts: RenderableType) -> None:
    """Print for people; to a file or a pipe without colours and trailing blanks."""
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


def print_result(result: Shown, as_json: bool, **further: Any) -> None:
    """Print a result as it describes itself; `further` are facts about this call, in JSON only."""
    if as_json:
        print_json(result.as_dict() | further)
    else:
        print_summary(result.summary())


def print_report(title: str, sections: Mapping[str, Sequence[Line]], notes: Sequence[str] = ()) -> None:
    """Print a title, lines grouped in sections, and sentences below."""
    print_summary(
        Summary(title, {name: [Row(*row) for row in rows] for name, rows in sections.items()}, tuple(notes))
    )


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print numbers in right-aligned columns."""
    emit(text(Grid(title, columns, rows, right=tuple(range(len(columns)))), spaced=False))


def print_json(answer: Any) -> None:
    """Print valid JSON: infinite numbers and NaN become null."""
    click.echo(json_text(answer))


def require_writable(path: Path, force: bool) -> None:
    """Refuse a file that exists or whose directory is missing, before any work is done."""
    if path.exists() and not force:
        raise FileError(f"{path} exists already: choose another --out, or pass --force to overwrite it.")
    if not path.parent.is_dir():
        raise FileError(f"there is no directory {path.parent} to write {path.name} into: create it first.")
