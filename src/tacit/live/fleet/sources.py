"""Sources of an agent's private record; what they give is never logged.

A source that fails gives nothing (`SourceFailed`), and its agent does not take part. Whether a record can be
read (`Unreadable`) and is inside its domain depends on the record, and whether an agent takes part must not.
So the question's stand-in counts, or the record is clamped. Only the owner is told, and never what was read.

A series asks whether a reading is new (`read_marked`): it gets the value with a mark, which changes when
there is a new reading. A mark never depends on the value. None always counts as new.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import stat
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, final

from tacit.base.errors import InputError
from tacit.core.question import Question
from tacit.live.fleet.records import read_record

_MOST = 1 << 26


class SourceFailed(InputError):
    """The source gave no valid value; the message never contains what it gave."""


@final
class Unreadable(SourceFailed):
    """The source gave what is no record of the question."""


class ValueSource(ABC):
    """Gives a private record when a session begins.

    Attributes
    ----------
    names : mapping
        The fields of a JSON object, or the columns of CSV, that have the record of a question.
    """

    names: Mapping[Question, Sequence[str]] = MappingProxyType({})

    @abstractmethod
    async def content(self) -> tuple[Any, Hashable]:
        """Return what there is now, and a mark that changes with each new one.

        It raises `SourceFailed`.
        """

    async def read(self, question: Question) -> Any:
        """Return the record as it is now, or raise `SourceFailed`."""
        return (await self.read_marked(question))[0]

    async def read_marked(self, question: Question) -> tuple[Any, Hashable]:
        """Return the record, and a mark that changes with each new reading."""
        given, mark = await self.content()
        try:
            return read_record(given, question, self.names.get(question, ())), mark
        except InputError as error:
            raise Unreadable(str(error)) from None

    async def check(self, question: Question) -> None:
        """Raise `SourceFailed` if it is known now that a read would fail."""
        await self.read(question)


def open_value_file(path: Path) -> IO[bytes]:
    """Open a file with a private value; refuse one that others may read."""
    from tacit.base.files import require_private

    source = path.open("rb")
    try:
        status = os.fstat(source.fileno())
        if stat.S_ISREG(status.st_mode):  # a pipe has no mode to check, and cannot be read twice
            require_private(path, status)
    except BaseException:
        source.close()
        raise
    return source


@final
class FileSource(ValueSource):
    """A file of mode 600, read again for each session."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def check(self, question: Question) -> None:
        """Read the file, unless it is a pipe, which can be read only once."""
        if self._path.is_file() or not self._path.exists():
            await self.read(question)

    async def content(self) -> tuple[Any, Hashable]:
        """Read the file; the mark changes when it is written."""
        try:
            return await asyncio.to_thread(self._content)
        except OSError as error:
            raise SourceFailed(f"{self._path}: {error.strerror or type(error).__name__}.") from None
        except InputError as error:
            raise SourceFailed(str(error)) from None

    def _content(self) -> tuple[bytes, Hashable]:
        with open_value_file(self._path) as source:
            found = os.fstat(source.fileno())  # before reading: what is written meanwhile has a new mark
            mark = (found.st_ino, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None
            return source.read(_MOST), mark


@final
class CommandSource(ValueSource):
    """A command whose standard output is the value; its errors are dropped."""

    def __init__(self, words: Sequence[str], seconds: float = 10.0) -> None:
        self._words, self._seconds = tuple(words), seconds

    async def content(self) -> tuple[Any, Hashable]:
        """Run the command; each run gives a new reading."""
        quiet = asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words, stdin=quiet, stdout=asyncio.subprocess.PIPE, stderr=quiet
            )
        except OSError as error:
            raise SourceFailed(f"{self._words[0]} cannot be run: {error.strerror}.") from None
        try:
            async with asyncio.timeout(self._seconds):
                out, _ = await process.communicate()
        except TimeoutError:
            raise SourceFailed(f"{self._words[0]} gave no value within {self._seconds:g} s.") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode != 0:
            raise SourceFailed(f"{self._words[0]} ended with exit code {process.returncode}.")
        return out[:_MOST], None


@final
class EnvironmentSource(ValueSource):
    """A variable of this process's environment."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def content(self) -> tuple[Any, Hashable]:
        """Look at the variable, which is one reading for good.

        If a changed value counted as new, silence would tell that a reading equals the one before.
        """
        text = os.environ.get(self._name)
        if text is None:
            raise SourceFailed(f"the environment has no variable {self._name}.")
        return text, self._name


@final
class LinesSource(ValueSource):
    """Lines of standard input: the last one that has come is the value."""

    def __init__(self, stream: Any = None) -> None:
        self._stream = stream or sys.stdin
        self._last: tuple[str, int] | None = None  # the line, and how many have come
        self._thread: threading.Thread | None = None
        self._came = threading.Event()

    def start(self) -> None:
        """Begin to take lines."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="tacit-lines", daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        for number, line in enumerate(self._stream):
            if line.strip():
                self._last = line, number
                self._came.set()

    async def content(self) -> tuple[Any, Hashable]:
        """Return the last line; the mark is its number."""
        self.start()
        if self._last is None:
            await asyncio.to_thread(self._came.wait, 1.0)
        if self._last is None:
            raise SourceFailed("no line has come on standard input yet.")
        return self._last


@final
class CallableSource(ValueSource):
    """A function or coroutine function of the program that runs the agent.

    It returns a number, text, a list or tuple of fields, or a mapping.
    """

    def __init__(self, function: Callable[[], Any | Awaitable[Any]]) -> None:
        self._function = function

    async def check(self, question: Question) -> None:
        """Do nothing: only the program knows when its function may be called."""

    async def content(self) -> tuple[Any, Hashable]:
        """Call the function; each call gives a new reading.

        A plain function runs on another thread.
        """
        try:
            if inspect.iscoroutinefunction(self._function):
                return await self._function(), None
            return await asyncio.to_thread(self._function), None
        except Exception as error:  # its message may hold the value
            raise SourceFailed(f"the value's function failed with {type(error).__name__}.") from None
