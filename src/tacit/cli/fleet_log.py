"""The log of `tacit hub serve` and `tacit agent`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from tacit.cli.log_file import LogFile, say


@final
class LineLog:
    """Writes a JSON line per event, and sentences to a terminal.

    JSON lines go to the file, or to standard error if there is none. Every line has `time`, `event` and
    `text`, and where they apply `member` and `session`.
    """

    def __init__(self, path: Path | None, **whose: str) -> None:
        self._whose = whose
        self._file = None if path is None else LogFile(path, whose)

    def __call__(self, event: str, text: str, **facts: Any) -> None:
        """Log one event."""
        told = {"time": round(time.time(), 3), "event": event, **self._whose, **facts, "text": text}
        if self._file is not None:
            self._file.write(told)
        if sys.stderr.isatty():
            say(f"{time.strftime('%H:%M:%S')} {text}")
        elif self._file is None:
            say(json.dumps(told, ensure_ascii=False))

    def reopen(self) -> None:
        """Write to a new file from now on, if the old one was moved away."""
        if self._file is not None:
            self._file.reopen()

    def trouble(self) -> str | None:
        """Return why lines are lost, or None."""
        lost = 0 if self._file is None else self._file.lost
        return f"the log cannot be written: {lost} lines are lost so far" if lost else None

    def close(self) -> None:
        """End the file."""
        if self._file is not None:
            self._file.close()


@contextmanager
def line_log(path: Path | None, **whose: str) -> Iterator[LineLog]:
    """Open a log for as long as a verb runs."""
    log = LineLog(path, **whose)
    try:
        yield log
    finally:
        log.close()
