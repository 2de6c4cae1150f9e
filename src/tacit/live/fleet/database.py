"""The two databases that a hub's data can be in: SQLite, and PostgreSQL.

A hub on one host has files of SQLite in its directory. On several hosts it has one database of PostgreSQL,
and the file `database` in each of its directories says where that is. Both understand the statements of
`store`, in which a question mark is a value.
"""

from __future__ import annotations

import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, TypeAlias, final

from tacit.base.errors import DiskFull, FileError
from tacit.base.files import PRIVATE, read_private, require_private

StoreRow: TypeAlias = dict[str, Any]
"""A row, by the names of its columns."""
DATABASE = "database"
"""The file of a hub's directory that says where its PostgreSQL is."""


class Taken(Exception):
    """A row breaks a rule, such as that a name is used once.

    Only the caller knows which one, and what to tell.
    """


class Database(ABC):
    """An open database; any thread may call.

    A statement alone is a transaction of its own, and is on the disk when its method returns. Within
    `transaction` it becomes durable with the others.
    """

    @abstractmethod
    def all(self, question: str, *given: Any) -> list[StoreRow]:
        """Return the rows that a statement finds."""

    @abstractmethod
    def do(self, command: str, *given: Any) -> int:
        """Carry out a statement; return how many rows it changed."""

    @abstractmethod
    def many(self, command: str, rows: Sequence[Sequence[Any]]) -> None:
        """Carry out a statement for each of these rows."""

    @abstractmethod
    def transaction(self) -> Any:
        """Return a context in which all statements are one."""

    @abstractmethod
    def size(self) -> int:
        """Return how many bytes it has."""

    @property
    def usable(self) -> bool:
        """Whether it can still be used."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Release it."""


@final
class SqliteDatabase(Database):
    """One file of SQLite."""

    def __init__(self, path: Path) -> None:
        # The event loop and worker threads share one connection. The lock may be taken twice by the same
        # thread: a transaction calls methods that take it, too.
        self.path, self._lock = path, RLock()
        self._open = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        self._open.row_factory = _row
        for setting in ("synchronous = FULL", "fullfsync = ON", "trusted_schema = OFF"):
            self._open.execute(f"PRAGMA {setting}")

    def all(self, question: str, *given: Any) -> list[StoreRow]:
        """Return the rows that a statement finds."""
        with self._lock, self._explained():
            return self._open.execute(question, given).fetchall()

    def do(self, command: str, *given: Any) -> int:
        """Carry out a statement; return how many rows it changed."""
        with self._lock, self._explained():
            return self._open.execute(command, given).rowcount

    def many(self, command: str, rows: Sequence[Sequence[Any]]) -> None:
        """Carry out a statement for each of these rows."""
        with self._lock, self._explained():
            self._open.executemany(command, rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all statements within it one."""
        with self._lock, self._explained(), self._open:
            self._open.execute("BEGIN IMMEDIATE")
            yield

    def size(self) -> int:
        """Return how many bytes the file and its log have."""
        paths = (Path(f"{self.path}{rest}") for rest in ("", "-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._open.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of the disk into one sentence."""
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise Taken(str(error)) from None
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            full = name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY"))
            raise (DiskFull if full else FileError)(
                f"{self.path} cannot be used ({name}): check the disk."
            ) from None


def _row(cursor: sqlite3.Cursor, cells: tuple[Any, ...]) -> StoreRow:
    return {column[0]: cell for column, cell in zip(cursor.description, cells, strict=True)}


def new_file(path: Path, tables: str) -> None:
    """Make a file of SQLite with these tables; one that is there is refused."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
    except FileExistsError:
        raise FileError(f"{path} exists already: this is a hub's directory. Choose another.") from None
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.executescript(tables)
    finally:
        database.close()


def opened_file(path: Path, application: int, version: int) -> SqliteDatabase:
    """Open a file of SQLite; refuse another program's, or another version."""
    require_private(path, path.stat())
    database = SqliteDatabase(path)
    found = [
        next(iter(database.all(f"PRAGMA {word}")[0].values())) for word in ("application_id", "user_version")
    ]
    if found == [application, version]:
        return database
    database.close()
    if found[0] != application:
        raise FileError(f"{path} is not a hub's store of tacit.")
    raise FileError(f"{path} has version {found[1]}, and this tacit knows {version}.")


def address_of(home: Path) -> str | None:
    """Return where the PostgreSQL of a hub's directory is; None for SQLite."""
    path = home / DATABASE
    return read_private(path).decode().strip() if path.exists() else None
