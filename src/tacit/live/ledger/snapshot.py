"""Read a ledger that another process uses, from a copy in memory.

That process has locked the file for SQLite, and must not be disturbed. So file and log are read as bytes, and
put together here. The copy has the states of the value, as the ledger does. It is never a file, not even in a
file system in memory: a command that is killed would leave it there, and `forget` would not reach it.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from pathlib import Path

from tacit.base.errors import LedgerError
from tacit.base.files import require_private
from tacit.live.ledger.ledger import Ledger

_TRIES = 10
_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_ORDERS = {0x377F0682: "<2I", 0x377F0683: ">2I"}
"""Byte order of the checksums, by the first number of the log (sqlite.org/fileformat2.html, section 4)."""
_NO_LOG = slice(18, 20), b"\1\1"
"""Where a file says that it has a write-ahead log, and what it says if it has none."""


def open_snapshot(path: Path) -> Ledger:
    """Open a copy of a ledger in memory, only to read it."""
    path = path.resolve()
    log = path.with_name(f"{path.name}-wal")
    # The two files are read one after the other, while they change. What is of two different moments has
    # broken checksums or digests, and is refused: then it is read again.
    for left in reversed(range(_TRIES)):
        data = bytearray(_content(path))
        _apply(data, _content(log) if log.exists() else b"")
        data[_NO_LOG[0]] = _NO_LOG[1]
        database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        try:
            database.deserialize(bytes(data))
            database.execute("PRAGMA query_only = ON")
            return Ledger.in_memory(path, database)
        except (LedgerError, sqlite3.Error):
            database.close()
            if not left:
                raise LedgerError(f"{path} changes too fast to be read: try again.") from None
    raise AssertionError  # the last try has raised


def _content(path: Path) -> bytes:
    """Read a private file of any length."""
    with path.open("rb") as file:
        require_private(path, os.fstat(file.fileno()))
        return file.read()


def _apply(data: bytearray, log: bytes) -> None:
    """Write the pages of all transactions in the log that are complete."""
    if len(log) < _HEADER.size:
        return
    magic, _, size, _, *salts, first, second = _HEADER.unpack_from(log)
    order = _ORDERS.get(magic, "<2I")
    sums, pages = (first, second), dict[int, int]()
    for start in range(_HEADER.size, len(log) - _FRAME.size - size + 1, _FRAME.size + size):
        page, pages_after, *found, first, second = _FRAME.unpack_from(log, start)
        body = start + _FRAME.size
        sums = _summed(log[start : start + 8] + log[body : body + size], sums, order)
        if found != salts or (first, second) != sums:
            return  # what follows is from before the log was begun anew, or is being written
        pages[page] = body
        if pages_after:  # the transaction is complete
            data.extend(bytes(max(0, pages_after * size - len(data))))
            del data[pages_after * size :]
            for number, place in pages.items():
                data[(number - 1) * size : number * size] = log[place : place + size]
            pages.clear()


def _summed(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = sums
    for one, two in struct.iter_unpack(order, data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
