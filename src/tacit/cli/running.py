"""What the long-running verbs share: signals, what is shown while running, and exit codes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, final

import click

from tacit.errors import CapExceeded, LedgerError
from tacit.runtime.transport import NetworkError

if TYPE_CHECKING:
    from tacit.protocol.effects import Notice
    from tacit.protocol.session import Session

FINISHED, UNUSABLE, REFUSED, DISK, UNFINISHED, STOPPED = 0, 2, 3, 4, 5, 130
EXIT_CODES = (
    "Exit codes: 0 finished, 2 the input cannot be used, 3 refused because of the cap, 4 the ledger or its "
    "disk failed, 5 the session ended early, 130 stopped: run the same command again to resume."
)
T = TypeVar("T")
_MEMBERS = {"who", "sender"}
_MEMBER_LISTS = {"used", "missing"}


@final
class Log:
    """Tells what happens: a line for people on a terminal, JSON lines elsewhere and in the log file.

    Nothing private is in notices, so nothing private is here.
    """

    def __init__(self, session: Session, path: Path | None, people: Callable[[Notice], str | None]) -> None:
        self._session, self._people = session, people
        self._file: IO[str] | None = None
        if path is not None:
            self._file = path.open("a", encoding="utf-8", buffering=1)
        self._terminal = sys.stderr.isatty()
        self._bar: Any = None

    def notice(self, notice: Notice) -> None:
        """Tell of a notice."""
        self._tell(as_dict(notice, self._session), self._people(notice))

    def say(self, event: str, sentence: str) -> None:
        """Tell of something else in one sentence."""
        self._tell({"event": event, "text": sentence}, sentence)

    def _tell(self, what: dict[str, Any], line: str | None) -> None:
        text = json.dumps({"time": round(time.time(), 3)} | what, ensure_ascii=False)
        if self._file is not None:
            self._file.write(text + "\n")
        with suppress(BrokenPipeError):
            if not self._terminal:
                if self._file is None:
                    click.echo(text, err=True)
            elif line is not None:
                click.echo(line, err=True)

    def close(self) -> None:
        """Close the log file."""
        if self._file is not None:
            self._file.close()


def as_dict(notice: Notice, session: Session) -> dict[str, Any]:
    """Return a notice as JSON has it, members by name."""
    what: dict[str, Any] = {"event": _dashed(type(notice).__name__)}
    for field in dataclasses.fields(notice):
        value = getattr(notice, field.name)
        if field.name in _MEMBERS and value is not None:
            value = session.member_name(value)
        elif field.name in _MEMBER_LISTS:
            value = [session.member_name(i) for i in value]
        elif isinstance(value, Enum):
            value = _dashed(value.name)
        what[field.name] = value
    return what


def _dashed(name: str) -> str:
    if name.isupper():
        return name.lower().replace("_", "-")
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


@contextmanager
def exits() -> Iterator[None]:
    """Turn what ends a run into its sentence and exit code."""
    try:
        yield
    except CapExceeded as error:
        _leave(f"Refused: {error}", REFUSED)
    except LedgerError as error:
        _leave(f"Error: {error}", DISK)
    except NetworkError as error:
        _leave(f"Error: {error}", UNUSABLE)
    except StoppedBySignal:
        _leave("Stopped; run the same command again to resume.", STOPPED)


def _leave(sentence: str, code: int) -> None:
    click.echo(" ".join(sentence.split()), err=True)
    raise click.exceptions.Exit(code)


class StoppedBySignal(Exception):
    """SIGTERM, SIGINT or SIGHUP came."""


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run until done, or until a signal says to stop; what was begun is put in order then."""

    async def guarded() -> T:
        task = asyncio.ensure_future(main())
        loop, stopped = asyncio.get_running_loop(), False

        def stop() -> None:
            nonlocal stopped
            stopped = True
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, stop)
        try:
            return await task
        except asyncio.CancelledError:
            if stopped:
                raise StoppedBySignal from None
            raise

    return asyncio.run(guarded())
