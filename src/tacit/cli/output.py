"""What verbs print: tables for people, JSON for programs, progress."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.base.errors import FileError
from tacit.base.report import Grid, Shown, Summary, json_text, text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_PLAIN_WIDTH = 110  # of tables that go to a file or a pipe


def console(*, stderr: bool = False) -> Console:
    """Return a rich console with a fixed width in a pipe, and without markup."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made = Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=_PLAIN_WIDTH)
    return made


def emit(*parts: RenderableType) -> None:
    """Print for people; in a pipe without colours and trailing blanks."""
    out = console()
    if out.is_terminal:
        out.print(*parts, sep="\n")
        return
    with out.capture() as captured:
        out.print(*parts, sep="\n")
    click.echo("\n".join(line.rstrip() for line in captured.get().split("\n")), nl=False)


def print_summary(summary: Summary | Grid, *further: Summary | Grid) -> None:
    """Print summaries and tables for people."""
    emit(*(text(part) for part in (summary, *further)))


def print_result(result: Shown, as_json: bool, **further: Any) -> None:
    """Print a result; `further` are facts of this call, in JSON only."""
    if as_json:
        print_json(result.as_dict() | further)
    else:
        print_summary(result.summary())


def print_tables(*tables: Grid) -> None:
    """Print tables below each other, without space between them."""
    for table in tables:
        emit(text(table, spaced=False))


def print_json(answer: Any) -> None:
    """Print valid JSON: infinite numbers and NaN become null."""
    click.echo(json_text(answer))


def require_writable(path: Path, force: bool) -> None:
    """Refuse a file that exists, or whose directory does not."""
    if path.exists() and not force:
        raise FileError(f"{path} exists already: choose another --out, or pass --force to overwrite it.")
    if not path.parent.is_dir():
        raise FileError(f"there is no directory {path.parent} to write {path.name} into: create it first.")


_PATIENCE = 1.0  # seconds before a bar appears


@contextmanager
def progress(what: str, unit: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function of (done, total); None without a terminal."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    bar = Progress(*columns, console=out, transient=True)
    started, task = time.monotonic(), bar.add_task(what, total=None)

    def tell(done: int, total: int) -> None:
        if not bar.live.is_started and done < total and time.monotonic() - started > _PATIENCE:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield tell
    finally:
        bar.stop()
