"""How fast a ledger makes records durable, beside SQLite with no rules and beside the disk alone.

Run from the repository: ``python -m benchmarks.ledger [--quick] [--json FILE]``

All write the same bytes, one record at a time, and wait until it is on the disk.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

from benchmarks.harness import Contestant, Question, ask
from tacit.core.protocol.records import Closed
from tacit.live.ledger.ledger import Ledger

RECORDS = 50  # in a turn
SESSION = bytes([1]) * 32


@contextmanager
def commits() -> Iterator[Question]:
    """Open all three in one folder."""
    with tempfile.TemporaryDirectory(prefix="tacit-ledger-") as folder:
        here = Path(folder)
        file = os.open(here / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        bare = sqlite3.connect(here / "bare.db", isolation_level=None)
        with closing(bare), Ledger(here / "agent.ledger") as ledger:
            bare.executescript(
                "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                "CREATE TABLE record (data)"
            )
            frame, numbers = os.urandom(160), count()

            def fsync() -> None:
                for _ in range(RECORDS):
                    os.write(file, frame)
                    os.fdatasync(file)

            def insert() -> None:
                for _ in range(RECORDS):
                    bare.execute("INSERT INTO record VALUES (?)", (frame,))

            def append() -> None:
                for _ in range(RECORDS):
                    ledger.append(SESSION, [Closed(next(numbers), frame, (), ())])

            yield Question(
                "ledger commits, 160 bytes each",
                "record",
                [
                    Contestant("a file and fdatasync", fsync, RECORDS),
                    Contestant(f"SQLite {sqlite3.sqlite_version}, one table", insert, RECORDS),
                    Contestant("tacit", append, RECORDS),
                ],
            )
        os.close(file)


if __name__ == "__main__":
    with commits() as question:
        ask(__doc__, lambda _: [question], turns=9)
