"""Keep a ledger small: drop rows of finished sessions, keep their losses.

An agent that takes part once a minute makes about five million rows a year. The rows of a session are needed
until it is over and has expired. After that three things must be kept:

- **Their loss**, exactly, for the cap and for caps per window. Sums replace the sessions, one for each kind
  of session and period of time. The length of a period is at most 1/64 of its age, so the number of sums
  grows with the logarithm of time. A sum counts at the time of its latest session: it never leaves a window
  too early, and at most 1/64 of the window too late.
- **Their existence**: noise must never be drawn a second time for a session. So a session that expires at or
  before the horizon can no longer begin, whatever the clock says. The keys store the horizon, too
  (`key_guard`).
- **The ledger's position**: row numbers continue, and the chain continues from the digest of the last row. So
  an older copy of the ledger that is restored is still detected by its marks.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Iterable

import msgspec

from tacit.live.ledger import schema

_PARTS = 64
_SHORTEST = 1.0
"""Seconds; the shortest period of time that has its own sum."""
_WORTH = 2000
"""Minimum number of rows that must be added before a ledger is compacted again."""


def due(rows: int, after: int) -> bool:
    """Whether to compact a ledger of `rows` rows now.

    It had `after` rows after the last compaction. The ledger doubles in between, so all compactions together
    take a constant time per row.
    """
    return rows >= 2 * after + _WORTH


def merged(sums: Iterable[schema.SpentSum], now: float) -> tuple[schema.SpentSum, ...]:
    """Merge sums of one kind whose times are close, relative to their age."""
    together: dict[tuple[str, float, float, float, float], schema.SpentSum] = {}
    # Earliest first, so that `_added` keeps the latest time: a merged sum must not leave a window too early.
    for one in sorted(sums, key=lambda one: one.at):
        width = _width(now - one.at)
        place = (one.value, one.adjacency, one.diameter, width, one.at // width)
        together[place] = _added(together.get(place), one)
    return tuple(together.values())


def _added(before: schema.SpentSum | None, one: schema.SpentSum) -> schema.SpentSum:
    if before is None:
        return one
    said, shift = schema.in_digits(before.units + one.units)
    return msgspec.structs.replace(one, sessions=before.sessions + one.sessions, said=said, shift=shift)


def _width(age: float) -> float:
    """Return the largest power of two seconds up to a 64th of an age."""
    # Powers of two, so that a longer period consists of whole shorter ones as sums grow older.
    return 2.0 ** math.floor(math.log2(max(age / _PARTS, _SHORTEST)))


def rewrite(
    database: sqlite3.Connection,
    over: Collection[bytes],
    position: tuple[int, bytes],
    data: bytes,
) -> tuple[int, bytes]:
    """Replace the rows of these sessions by sums; return the new position.

    This is one transaction: after a crash either all of these rows are there, or none. The other rows follow
    the sums, in their order, with the chain's next numbers. `position` is the chain's old position.
    """
    # The kept rows get new numbers, after the old last one. So the position of a ledger only rises, and every
    # copy from before the compaction is older than its marks.
    count, head = position
    kept = list[tuple[object, ...]]()
    place, digest = count + 1, schema.carried_digest(head, data)
    columns = "session, kind, number, loss, salt, data"
    for session, kind, number, loss, salt, found in database.execute(
        f"SELECT {columns} FROM record ORDER BY sequence"
    ):
        if session in over:
            continue
        place += 1
        leaf = found if salt is None else schema.leaf(salt, found)
        digest = schema.digest(digest, (place, session, kind, number, loss, leaf))
        kept.append((place, session, kind, number, loss, salt, found, digest))
    with database:  # rolls back what fails
        database.execute("BEGIN IMMEDIATE")
        # The triggers forbid to remove a row. They are dropped with the table and created again below, in the
        # same transaction, so no other change can come in between.
        database.execute("DROP TABLE record")
        for statement in (schema.CARRIED, schema.RECORD):
            database.execute(statement)
        database.execute("INSERT OR REPLACE INTO carried VALUES (1, ?, ?, ?)", (count, head, data))
        # Insert before the rules are there: they would refuse rows whose data was removed by `forget`.
        database.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?)", kept)
        for rule in schema.RULES:
            database.execute(rule)
        database.execute(f"PRAGMA user_version = {schema.VERSION}")
    return place, digest
