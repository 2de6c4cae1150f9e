"""Keep a ledger small: drop the rows of sessions that are over and expired, and carry their cost forward.

An agent that takes part once a minute makes some five million rows a year. They are needed while a session
can go on, and until it expires. After that three things must outlive them:

- **What they cost**, exactly, for the cap and for caps per window. Sums take the place of sessions, one for
  each kind of session and stretch of time. The stretch is at most 1/64 of how long ago it was, so the number
  of sums grows with the logarithm of time. A sum counts by its latest session: never too early out of a
  window, at most 1/64 of the window too late.
- **That they were**: no noise may be drawn a second time for a session. A session that expires at the horizon
  or before cannot begin any more, whatever the clock says. The keys know the horizon too (`key_guard`).
- **How far the ledger had come**: rows keep counting from where they were, and the chain goes on from the
  digest of the last row. So a ledger from before that is put back is older than its marks, as ever.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Iterable

import msgspec

from tacit.runtime.ledger import schema

_PARTS = 64
_SHORTEST = 1.0
"""Seconds; sessions begun within one second are never told apart."""
_WORTH = 2000
"""So many rows must have been added before a ledger is compacted again."""


def due(rows: int, after: int) -> bool:
    """Whether a ledger of this many rows, which had `after` when it was compacted last, is worth it again.

    It doubles in between, so all compactions together cost a constant time for each row.
    """
    return rows >= 2 * after + _WORTH


def merged(sums: Iterable[schema.Sum], now: float) -> tuple[schema.Sum, ...]:
    """Add up sums of one kind that were begun at about the same time, seen from `now`."""
    together: dict[tuple[str, float, float, float, float], schema.Sum] = {}
    for one in sorted(sums, key=lambda one: one.at):
        width = _width(now - one.at)
        place = (one.value, one.adjacency, one.diameter, width, one.at // width)
        together[place] = _added(together.get(place), one)
    return tuple(together.values())


def _added(before: schema.Sum | None, one: schema.Sum) -> schema.Sum:
    if before is None:
        return one
    said, shift = schema.in_digits(before.units + one.units)
    return msgspec.structs.replace(one, sessions=before.sessions + one.sessions, said=said, shift=shift)


def _width(age: float) -> float:
    """Return the largest power of two seconds that is at most a 64th of an age."""
    return 2.0 ** math.floor(math.log2(max(age / _PARTS, _SHORTEST)))


def rewrite(
    database: sqlite3.Connection,
    over: Collection[bytes],
    position: tuple[int, bytes],
    data: bytes,
) -> tuple[int, bytes]:
    """Put carried sums in the place of the rows of these sessions; return how far the chain comes then.

    One transaction: a crash leaves all rows or none of those. The other rows follow the sums, in their order,
    with the chain's next numbers. `position` is how far the chain had come.
    """
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
        database.execute("DROP TABLE record")  # and the rules with it, which forbid to remove a row
        for statement in (schema.CARRIED, schema.RECORD):
            database.execute(statement)
        database.execute("INSERT OR REPLACE INTO carried VALUES (1, ?, ?, ?)", (count, head, data))
        database.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?)", kept)
        for rule in schema.RULES:
            database.execute(rule)
        database.execute(f"PRAGMA user_version = {schema.VERSION}")
    return place, digest
