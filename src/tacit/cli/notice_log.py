"""The log of long-running verbs: JSON lines, and sentences on a terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

from tacit.cli.log_file import LogFile, say

if TYPE_CHECKING:
    from tacit.core.protocol.notices import Notice
    from tacit.core.protocol.session import Session


@final
class NoticeLog:
    """Writes a JSON line per notice, and sentences to a terminal.

    JSON lines go to the file, or to standard error if that is not a terminal. Every line has `time`, `event`
    and `text` where there is a sentence. Notices contain nothing private.

    Parameters
    ----------
    path : Path or None
        The file.
    whose : dict
        Facts of every line. Several processes may log to one place.
    session : Session, optional
        Of a member; on a terminal a bar shows its progress.
    """

    def __init__(self, path: Path | None, whose: dict[str, str], session: Session | None = None) -> None:
        self._whose, self._session = whose, session
        self._shown: dict[type[Notice], Hashable] = {}
        self._file = None if path is None else LogFile(path, whose)
        self._terminal = sys.stderr.isatty()
        self._bar: Any = None
        if self._terminal and session is not None:
            self._bar = _bar(session.rounds)
            self._bar.start()

    def __call__(self, notice: Notice, count: int = 0) -> None:
        """Log a notice; `count` says how often its like happened today."""
        text = notice.sentence(self._session)
        if text is not None and count > max(notice.often, 1):
            text = f"{text} ({count} times today)"
        self._write(notice.facts(self._session), text, count)
        if self._terminal:
            self._show(notice, text)

    def _write(self, facts: dict[str, Any], text: str | None, count: int) -> None:
        told = {"time": round(time.time(), 3)} | self._whose | facts
        told |= ({"count": count} if count else {}) | ({} if text is None else {"text": text})
        if self._file is not None:
            self._file.write(told)
        elif not self._terminal:
            say(json.dumps(told, ensure_ascii=False))

    def _show(self, notice: Notice, text: str | None) -> None:
        if self._bar is not None and (done := notice.progress(self._session)) is not None:
            self._bar.update(self._bar.task_ids[0], completed=done[0], description=done[1])
        key = notice.repeated()
        known, self._shown[type(notice)] = self._shown.get(type(notice)), key
        if text is None or (key is not None and key == known):
            return
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            say(f"{time.strftime('%H:%M:%S')} {text}")

    def reopen(self) -> None:
        """Write to a new file from now on, if the old one was moved away."""
        if self._file is not None:
            self._file.reopen()

    def trouble(self) -> str | None:
        """Return why lines are lost, or None."""
        lost = 0 if self._file is None else self._file.lost
        return f"the log cannot be written: {lost} lines are lost so far" if lost else None

    def close(self) -> None:
        """End the bar and the file."""
        if self._bar is not None:
            self._bar.stop()
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bar(rounds: int) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from tacit.cli.output import console

    columns = (TextColumn("round"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=console(stderr=True))
    bar.add_task("waiting for the others", total=rounds)
    return bar
