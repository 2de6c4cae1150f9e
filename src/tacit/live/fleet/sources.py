"""Sources of an agent's private value; what they give is never logged.

If a source fails, the owner gets an error that does not contain what was read. A value outside the session's
range is not an error: it is clamped, because whether an agent takes part must not depend on its value.

A series asks whether a reading is new (`read_marked`): it gets the value with a mark, which changes when
there is a new reading. A mark never depends on the value. None always counts as new.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import re
import stat
import sys
import threading
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias, final

from tacit.base.errors import InputError

Value: TypeAlias = float | list[float]
_MOST = 1 << 26


class SourceFailed(InputError):
    """The source gave no valid value; the message never contains what it gave."""


class ValueSource(Protocol):
    """Gives a value when a session begins."""

    async def read(self, components: int) -> Value:
        """Return the value as it is now, or raise `SourceFailed`."""
        ...

    async def read_marked(self, components: int) -> tuple[Value, Hashable]:
        """Return the value, and a mark that changes with each new reading."""
        ...

    async def check(self, components: int) -> None:
        """Raise `SourceFailed` if it is known now that a read would fail."""
        ...


def parse_value(given: str | bytes | list[float], components: int) -> Value:
    """Read one finite number, or one per component; no error shows them."""
    text = given.decode("utf-8-sig", errors="replace") if isinstance(given, bytes) else given
    words = re.split(r"[\s,;\[\]]+", text) if isinstance(text, str) else text
    try:
        numbers = [float(word) for word in words if word != ""]
    except ValueError:
        numbers = []
    if len(numbers) != components or not all(map(math.isfinite, numbers)):
        many = f"{components} finite numbers, separated by blanks or commas"
        what = "one finite number" if components == 1 else many
        raise InputError(f"the value must be {what}; the input is not.")
    return numbers[0] if components == 1 else numbers


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
class FileSource:
    """A file of mode 600, read again for each session."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def check(self, components: int) -> None:
        """Read the file, unless it is a pipe, which can be read only once."""
        if self._path.exists() and not self._path.is_file():
            return
        await self.read(components)

    async def read(self, components: int) -> Value:
        """Read the file."""
        return (await self.read_marked(components))[0]

    async def read_marked(self, components: int) -> tuple[Value, Hashable]:
        """Read the file; the mark changes when it is written."""
        try:
            text, mark = await asyncio.to_thread(self._content)
        except OSError as error:
            raise SourceFailed(f"{self._path}: {error.strerror or type(error).__name__}.") from None
        except InputError as error:
            raise SourceFailed(str(error)) from None
        return _parsed(text, components), mark

    def _content(self) -> tuple[bytes, Hashable]:
        with open_value_file(self._path) as source:
            found = os.fstat(source.fileno())  # before reading: what is written meanwhile has a new mark
            mark = (found.st_ino, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None
            return source.read(_MOST), mark


@final
class CommandSource:
    """A command whose standard output is the value; its errors are dropped."""

    def __init__(self, words: Sequence[str], seconds: float = 10.0) -> None:
        self._words, self._seconds = tuple(words), seconds

    async def check(self, components: int) -> None:
        """Read it once."""
        await self.read(components)

    async def read(self, components: int) -> Value:
        """Run the command."""
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
        return _parsed(out[:_MOST], components)

    async def read_marked(self, components: int) -> tuple[Value, Hashable]:
        """Run the command; each run gives a new reading."""
        return await self.read(components), None


@final
class EnvironmentSource:
    """A variable of this process's environment."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def check(self, components: int) -> None:
        """Read it once."""
        await self.read(components)

    async def read(self, components: int) -> Value:
        """Look at the variable."""
        text = os.environ.get(self._name)
        if text is None:
            raise SourceFailed(f"the environment has no variable {self._name}.")
        return _parsed(text, components)

    async def read_marked(self, components: int) -> tuple[Value, Hashable]:
        """Look at the variable, which is one reading for good.

        If a changed value counted as new, silence would tell that a reading equals the one before.
        """
        return await self.read(components), self._name


@final
class LinesSource:
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

    async def check(self, components: int) -> None:
        """Read it once."""
        await self.read(components)

    async def read(self, components: int) -> Value:
        """Return the last line."""
        return (await self.read_marked(components))[0]

    async def read_marked(self, components: int) -> tuple[Value, Hashable]:
        """Return the last line; the mark is its number."""
        self.start()
        if self._last is None:
            await asyncio.to_thread(self._came.wait, 1.0)
        if self._last is None:
            raise SourceFailed("no line has come on standard input yet.")
        line, number = self._last
        return _parsed(line, components), number


@final
class CallableSource:
    """A function or coroutine function of the program that runs the agent."""

    def __init__(self, function: Callable[[], Any | Awaitable[Any]]) -> None:
        self._function = function

    async def check(self, components: int) -> None:
        """Do nothing: only the program knows when its function may be called."""

    async def read(self, components: int) -> Value:
        """Call the function; a plain one runs on another thread."""
        try:
            if inspect.iscoroutinefunction(self._function):
                found = await self._function()
            else:
                found = await asyncio.to_thread(self._function)
            numbers = (
                [float(found)]
                if components == 1 and not hasattr(found, "__len__")
                else list(map(float, found))
            )
        except Exception as error:  # its message may hold the value
            raise SourceFailed(f"the value's function failed with {type(error).__name__}.") from None
        return _parsed(numbers, components)

    async def read_marked(self, components: int) -> tuple[Value, Hashable]:
        """Call the function; each call gives a new reading."""
        return await self.read(components), None


def _parsed(given: str | bytes | list[float], components: int) -> Value:
    try:
        return parse_value(given, components)
    except InputError as error:
        raise SourceFailed(str(error)) from None
