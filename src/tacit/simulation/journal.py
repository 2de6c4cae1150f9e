"""A file that grows by whole lines and survives being stopped at any moment.

The first line is a plan, every later line one finished cell, as JSON. A line counts once it is on disk
with its end; what a crash left of a last line is cut off before the next is written. One process
writes at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.errors import FileError
from tacit.files import sync_directory

FORMAT = 1
_MARK = "tacit_sweep"


@dataclass
class Journal:
    """The lines of a file: its plan, and what is finished, by number of cell."""

    name: str
    plan: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    finished: dict[int, dict[str, Any]] = field(default_factory=dict, repr=False)
    length: int = 0  # bytes of whole lines
    torn: bytes = b""  # what follows them
    descriptor: int = -1

    @property
    def is_new(self) -> bool:
        """Whether there is no plan in it yet."""
        return not self.digest

    def start(self, plan: Mapping[str, Any], digest: str) -> None:
        """Write the first line."""
        line = _line({_MARK: FORMAT, "digest": digest, "plan": plan})
        if not line.startswith(self.torn):
            raise _damaged(self.name, 1)
        self._write(line)
        self.plan, self.digest = dict(plan), digest
        try:
            sync_directory(Path(self.name).absolute().parent)
        except OSError as error:
            raise FileError(f"{self.name!r} cannot be written: {error.strerror}.") from error

    def append(self, cell: int, record: dict[str, Any]) -> None:
        """Add a finished cell; once this returns, no crash can take it back."""
        if cell in self.finished:
            return
        self._write(_line({"cell": cell, **record}))
        self.finished[cell] = record

    def _write(self, line: bytes) -> None:
        try:
            os.ftruncate(self.descriptor, self.length)  # away with a torn line
            rest = memoryview(line)
            while rest:
                rest = rest[os.pwrite(self.descriptor, rest, self.length + len(line) - len(rest)) :]
            os.fsync(self.descriptor)
        except OSError as error:
            raise FileError(
                f"{self.name!r} cannot be written: {error.strerror}. What is finished is kept: "
                "make room and repeat the same call to go on."
            ) from error
        self.length, self.torn = self.length + len(line), b""


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[Journal]:
    """Open a journal to add to it, as the only one who does."""
    name = os.fspath(path)
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise FileError(f"{name!r} cannot be written: {error.strerror}.") from error
    try:
        _lock(name, descriptor)
        journal = _read(name, descriptor)
        journal.descriptor = descriptor
        yield journal
    finally:
        os.close(descriptor)


def read(path: str | os.PathLike[str]) -> Journal:
    """Read a journal as it is now, also while a sweep adds to it."""
    name = os.fspath(path)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise FileError(f"{name!r} cannot be read: {error.strerror}.") from error
    try:
        journal = _read(name, descriptor)
    finally:
        os.close(descriptor)
    if journal.is_new:
        raise FileError(f"{name!r} is not a sweep's file: it has no plan in its first line.")
    return journal


def _lock(name: str, descriptor: int) -> None:
    try:
        # flock, not lockf: that one lets go when anything in this process closes the file
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise FileError(
            f"{name!r} is being written by another sweep. Wait until it is done, or give another path."
        ) from error


def _read(name: str, descriptor: int) -> Journal:
    journal = Journal(name)
    try:
        with open(descriptor, "rb", closefd=False) as file:
            lines = enumerate(file, start=1)
            for number, line in lines:
                if not (line.endswith(b"\n") and _take(journal, number, line)):
                    journal.torn = line
                    break
                journal.length += len(line)
            if next(lines, None) is not None:
                raise _damaged(name, number)
    except OSError as error:
        raise FileError(f"{name!r} cannot be read: {error.strerror}.") from error
    return journal


def _damaged(name: str, number: int) -> FileError:
    if number == 1:
        return FileError(f"{name!r} is not a sweep's file. Give another path, or remove it.")
    return FileError(
        f"{name!r} is damaged in line {number}, and not by a crash, which tears only a last line. "
        "Remove that line to have its cell computed again, or give another path."
    )


def _take(journal: Journal, number: int, line: bytes) -> bool:
    """Add a line to the journal; False if it is not a whole record."""
    try:
        record = json.loads(line)
    except ValueError:
        return False
    if not isinstance(record, dict):
        return False
    if number == 1:
        return _take_plan(journal, record)
    cell = record.pop("cell", None)
    if not isinstance(cell, int):
        return False
    if journal.finished.setdefault(cell, record) != record:
        raise FileError(
            f"{journal.name!r} has two different results for cell {cell}: it was changed by hand."
        )
    return True


def _take_plan(journal: Journal, record: dict[str, Any]) -> bool:
    if not isinstance(record.get(_MARK), int):
        return False
    if record[_MARK] > FORMAT:
        raise FileError(
            f"{journal.name!r} was written by tacit {record.get('plan', {}).get('tacit_version')}, "
            "which is newer than this one. Install a newer tacit."
        )
    journal.plan, journal.digest = record["plan"], record["digest"]
    return True


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"
