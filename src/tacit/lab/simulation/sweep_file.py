"""The file of a sweep: its plan, then a line per finished cell.

The plan is the first line; every line is JSON. An incomplete last line, left by a crash, is ignored: its cell
is computed again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.base.errors import FileError
from tacit.base.files import LineJournal, read_lines

FORMAT = 1
_MARK = "tacit_sweep"


@dataclass
class SweepFile:
    """A plan, and the finished cells by their number."""

    name: str
    plan: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    finished: dict[int, dict[str, Any]] = field(default_factory=dict, repr=False)
    _journal: LineJournal | None = field(default=None, repr=False)

    @property
    def is_new(self) -> bool:
        """Whether there is no plan in it yet."""
        return not self.digest

    def start(self, plan: Mapping[str, Any], digest: str) -> None:
        """Write the first line."""
        assert self._journal is not None
        with self._writing():
            if not self._journal.begin(_line({_MARK: FORMAT, "digest": digest, "plan": plan})):
                raise _damaged(self.name, 1)
        self.plan, self.digest = dict(plan), digest

    def append(self, cell: int, record: dict[str, Any]) -> None:
        """Add a finished cell; when this returns, it is durable."""
        if cell in self.finished:
            return
        assert self._journal is not None
        with self._writing():
            self._journal.append([_line({"cell": cell, **record})])
        self.finished[cell] = record

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FileError(
                f"{self.name!r} cannot be written: {error.strerror}. Finished cells are kept: "
                "make room and repeat the same call to continue."
            ) from error


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[SweepFile]:
    """Open the file of a sweep for adding cells, as its only writer."""
    name = os.fspath(path)
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise FileError(f"{name!r} cannot be written: {error.strerror}.") from error
    try:
        journal = LineJournal(Path(path), descriptor)
        book = _read(name, journal)
        book._journal = journal
        yield book
    finally:
        os.close(descriptor)


def read(path: str | os.PathLike[str]) -> SweepFile:
    """Read the file of a sweep, even while the sweep is running."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            book = _read(name, read_lines(file))
    except OSError as error:
        raise FileError(f"{name!r} cannot be read: {error.strerror}.") from error
    if book.is_new:
        raise FileError(f"{name!r} is not a sweep's file: it has no plan in its first line.")
    return book


def _read(name: str, lines: Iterable[bytes]) -> SweepFile:
    book = SweepFile(name)
    for number, line in enumerate(lines, start=1):
        if line.endswith(b"\n") and not _take(book, number, line):
            raise _damaged(name, number)
    return book


def _damaged(name: str, number: int) -> FileError:
    if number == 1:
        return FileError(f"{name!r} is not a sweep's file. Give another path, or remove it.")
    return FileError(
        f"{name!r} is damaged in line {number}, and not by a crash, which damages only the last line. "
        "Remove that line to compute its cell again, or give another path."
    )


def _take(book: SweepFile, number: int, line: bytes) -> bool:
    """Read a line; False if it is not a complete record."""
    try:
        record = json.loads(line)
    except ValueError:
        return False
    if not isinstance(record, dict):
        return False
    if number == 1:
        return _take_plan(book, record)
    cell = record.pop("cell", None)
    if not isinstance(cell, int):
        return False
    if book.finished.setdefault(cell, record) != record:
        raise FileError(f"{book.name!r} has two different results for cell {cell}: it was changed by hand.")
    return True


def _take_plan(book: SweepFile, record: dict[str, Any]) -> bool:
    if not isinstance(record.get(_MARK), int):
        return False
    if record[_MARK] > FORMAT:
        raise FileError(
            f"{book.name!r} was written by tacit {record.get('plan', {}).get('tacit_version')}, "
            "which is newer than this one. Install a newer tacit."
        )
    book.plan, book.digest = record["plan"], record["digest"]
    return True


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"
