"""Which host of a hub leads: a lease, by the database's clock.

Safety does not rest on it. Whoever believes to lead can send only what it has saved, and `PostgresLog` saves
one record for each position. The lease makes sure that one leads soon, and seldom two.

Each host also keeps a mark of the database (`HostMark`), as an agent keeps marks of its ledger. A database
that is behind a mark, or has another history, has lost what may have left. Then the sessions under way are
given up: a coordinator that went on from older records would say something else a second time.
"""

from __future__ import annotations

import secrets
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import NamedTuple, Self, final

from tacit.base.errors import StoreLost
from tacit.live.fleet.database import Database, StoreRow
from tacit.live.fleet.postgres import PostgresDatabase
from tacit.live.ledger.rollback_guard import Mark, Position

SECONDS, RENEWED = 8.0, 1.0
"""How long a lease is, and how often the leader renews it."""
CLOCKS_DIFFER = 1.0
"""A host whose clock differs by more from the database's does not lead a series."""
_MARK = "database.mark"
_HEAD = struct.Struct(">QIQ12s")
_GIVEN_UP = '{"why": "the database lost what had been saved, so the session was given up"}'
_STATE = """
SELECT lease.epoch, lease.nonce, lease.holder, lease.written,
    lease.until > clock_timestamp() AS led, extract(epoch FROM clock_timestamp())::float8 AS now,
    (SELECT system_identifier FROM pg_control_system()) AS system,
    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline,
    (SELECT nonce FROM reign WHERE voided ORDER BY epoch DESC LIMIT 1) AS voided
FROM lease
"""
_TAKE = """
WITH taken AS (
    UPDATE lease SET epoch = epoch + 1, nonce = ?, holder = ?,
        until = clock_timestamp() + make_interval(secs => ?)
    WHERE until < clock_timestamp() OR ?
    RETURNING epoch, nonce, written)
INSERT INTO reign SELECT epoch, nonce, written, ? FROM taken RETURNING epoch, first
"""
_RENEW = """
UPDATE lease SET until = clock_timestamp() + make_interval(secs => ?) WHERE epoch = ? AND nonce = ?
RETURNING extract(epoch FROM clock_timestamp())::float8 AS now
"""


def led(database: Database) -> bool:
    """Whether a host leads now."""
    return bool(database.all("SELECT until > clock_timestamp() AS led FROM lease")[0]["led"])


def clock_wrong(ahead: float) -> str:
    """Say why a host does not lead a series."""
    where = "ahead of" if ahead > 0 else "behind"
    return (
        f"this host's clock is {abs(ahead):.1f} s {where} the database's, so it leads no series: set it "
        f"right, within {CLOCKS_DIFFER:g} s."
    )


def since_boot() -> float:
    """Return seconds that also pass while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseState(NamedTuple):
    """What the database says, and where its history is."""

    led: bool
    holder: str
    position: Position
    voided: bytes
    """The first bytes of the last leader's nonce that gave up what was under way."""
    clock_ahead: float
    """Seconds that this host's clock is ahead of the database's."""


def _state(row: StoreRow, before: float) -> LeaseState:
    voided = bytes(row["voided"] or b"")[:12].ljust(12, b"\0")
    # The server's clock was read between two readings of ours.
    now = (before + time.time()) / 2
    head = _HEAD.pack(row["system"] % (1 << 64), int(row["timeline"], 16), row["epoch"], voided)
    place = Position(bytes(row["nonce"]), row["written"], head, inode=0, born=True)
    return LeaseState(row["led"], row["holder"], place, voided, now - row["now"])


@final
class HostMark:
    """The last position of the database that this host has seen, in a file.

    It also locks the hub's directory: one process of a host leads or stands by.
    """

    def __init__(self, home: Path) -> None:
        self._mark = Mark(home / _MARK, home, create=True)
        self._known, self._durable, self._lock = self._mark.read(), True, Lock()

    def missing(self, database: PostgresDatabase, found: LeaseState, *, synchronous: bool) -> str | None:
        """Return what the database has lost since the mark, or None.

        With `synchronous` a failover of the database to a standby loses nothing.
        """
        if self._known is None:
            return None
        system, timeline, epoch, voided = _HEAD.unpack(self._known.head)
        now_system, now_timeline, _, now_voided = _HEAD.unpack(found.position.head)
        if voided != now_voided and self._knows(database, voided):
            return None  # another host has seen it since, and has given up what was under way
        if system != now_system:
            return "it is a copy of the one that this host knew"
        rows = database.all(
            "SELECT reign.nonce, coalesce(later.first, lease.written) AS last FROM lease, reign "
            "LEFT JOIN reign AS later ON later.epoch = reign.epoch + 1 WHERE reign.epoch = ?",
            epoch,
        )
        if not rows or rows[0]["nonce"] != self._known.generation or rows[0]["last"] < self._known.count:
            return "it is older than this host has seen it"
        if timeline != now_timeline and not synchronous:
            return "a standby of it took over, which may lack what was saved last"
        return None

    @staticmethod
    def _knows(database: PostgresDatabase, voided: bytes) -> bool:
        """Whether the database knows the last loss that this host has seen."""
        if not any(voided):
            return True
        which = "SELECT 1 FROM reign WHERE voided AND substr(nonce, 1, 12) = ?"
        return bool(database.all(which, voided))

    def keep(self, position: Position, *, durable: bool = True) -> None:
        """Store a position, if it is another one."""
        with self._lock:
            if position != self._known or durable != self._durable:
                self._known, self._durable = position, durable
                self._mark.write(position, durable=durable)

    def close(self) -> None:
        """Release the directory."""
        self._mark.close()


@final
class Lease:
    """The right to lead, renewed by a thread until it is lost or given back."""

    def __init__(self, database: PostgresDatabase, mark: HostMark, address: str) -> None:
        self._database, self._mark, self.address = database, mark, address
        self._until, self._stop = 0.0, Event()
        self.epoch, self.nonce, self.written = 0, b"", 0
        self.clock_ahead = 0.0
        self.gave_up: str | None = None
        """Why sessions under way were given up when this lease began."""
        self._head = b""
        self._thread = Thread(target=self._renew, name="tacit-lease", daemon=True)

    @classmethod
    def taken(
        cls,
        database: PostgresDatabase,
        mark: HostMark,
        address: str,
        *,
        willing: Callable[[LeaseState], bool] = lambda _: True,
        synchronous: bool = False,
        force: bool = False,
    ) -> tuple[Self | None, LeaseState]:
        """Take the lease if nobody has it; return also what the database says.

        A host that knows of what the database has lost takes it from whoever has it. `force` is for tests.
        """
        before = time.time()
        found = _state(database.all(_STATE)[0], before)
        missing = mark.missing(database, found, synchronous=synchronous)
        if missing is None:
            mark.keep(found.position)
        if (found.led and missing is None and not force) or not willing(found):
            return None, found
        lease, nonce, began = cls(database, mark, address), secrets.token_bytes(16), since_boot()
        with database.transaction():
            given = (nonce, address, SECONDS, force or missing is not None, missing is not None)
            rows = database.all(_TAKE, *given)
            if not rows:
                return None, found
            if missing is not None:
                # Their data go, too: no member can let one of them be resumed from older records.
                database.do(
                    "UPDATE session SET state = 'failed', ended = ?, result = ? WHERE state = 'running'",
                    time.time(), _GIVEN_UP,
                )  # fmt: skip
                database.do("UPDATE session SET data = ?", b"")
                database.do("DELETE FROM log")
                database.do("DELETE FROM invitation WHERE used IS NULL")
        lease._began(rows[0], nonce, found, began, missing)
        return lease, found

    def _began(
        self, row: StoreRow, nonce: bytes, found: LeaseState, began: float, missing: str | None
    ) -> None:
        self.epoch, self.nonce, self.written = row["epoch"], nonce, row["first"]
        self.clock_ahead, self.gave_up = found.clock_ahead, missing
        system, timeline, _, voided = _HEAD.unpack(found.position.head)
        self._head = _HEAD.pack(system, timeline, self.epoch, voided if missing is None else nonce[:12])
        self.keep_mark(durable=True)
        self._until = began + SECONDS
        self._thread.start()

    def holds(self) -> bool:
        """Whether this host leads for sure, by its own clock."""
        return since_boot() < self._until

    def require(self) -> None:
        """Refuse to go on without the lease."""
        if not self.holds():
            raise StoreLost("this host does not lead any more: its lease is over.")

    def keep_mark(self, *, durable: bool = False) -> None:
        """Store in this host's mark what was written."""
        position = Position(self.nonce, self.written, self._head, inode=0, born=True)
        self._mark.keep(position, durable=durable)

    def _renew(self) -> None:
        while not self._stop.wait(RENEWED):
            began, wall = since_boot(), time.time()
            try:
                rows = self._database.all(_RENEW, SECONDS, self.epoch, self.nonce)
            except Exception:
                # Not tried again: the others use the database, too, and see that it is away.
                return
            if not rows:
                self._until = 0.0  # another host has it
                return
            self.clock_ahead = (wall + time.time()) / 2 - rows[0]["now"]
            self._until = began + SECONDS
            self.keep_mark(durable=True)

    def give_back(self) -> None:
        """Let another host lead at once, and close the connection."""
        self._stop.set()
        self._thread.join()
        self._until = 0.0
        with suppress(StoreLost):
            self._database.do(
                "UPDATE lease SET until = clock_timestamp() WHERE epoch = ? AND nonce = ?",
                self.epoch, self.nonce,
            )  # fmt: skip
        self._database.close()
