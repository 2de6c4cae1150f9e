"""A progress bar on stderr, for work that takes longer than a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tacit.cli import output

_PATIENCE = 1.0  # seconds before a bar appears


@contextmanager
def progress(what: str, unit: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function to call with (done, total); None if stderr is not a terminal."""
    out = output.console(stderr=True)
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
