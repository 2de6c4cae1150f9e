"""The log of `tacit hub serve` and `tacit agent`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, final

import click

from tacit.cli.running import own_log
from tacit.errors import LedgerError


@final
class LineLog:
    """Writes a JSON line per event, and sentences to a terminal.

    JSON lines go to the file, or to standard error if there is none. Every line has `time`, `event` and
    `text`, and where they apply `member` and `session`.
    """

    def __init__(self, path: Path | None, **whose: str) -> None:
        self._path, self._whose = path, whose
        self._file: IO[str] | None = None if path is None else own_log(path, whose)

    def __call__(self, event: str, text: str, **facts: Any) -> None:
        """Log one event."""
        told = {"time": round(time.time(), 3), "event": event, **self._whose, **facts, "text": text}
        line = json.dumps(told, ensure_ascii=False)
        if self._file is not None:
            try:
                self._file.write(line + "\n")
            except OSError as error:
                raise LedgerError(f"{self._path} cannot be written ({error.strerror}).") from None
        elif not sys.stderr.isatty():
            with suppress(BrokenPipeError):
                click.echo(line, err=True)
        if sys.stderr.isatty():
            click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)

    def close(self) -> None:
        """End the file."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()


@contextmanager
def line_log(path: Path | None, **whose: str) -> Iterator[LineLog]:
    """Open a log for as long as a verb runs."""
    log = LineLog(path, **whose)
    try:
        yield log
    finally:
        log.close()
