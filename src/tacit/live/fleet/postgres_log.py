"""The coordinator's records in PostgreSQL: a log without a purse."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, final

from tacit.base.errors import LedgerError
from tacit.core.protocol.records import Record, decode_record, encode_record
from tacit.live.fleet.database import Taken
from tacit.live.fleet.lease import Lease
from tacit.live.fleet.postgres import PostgresDatabase
from tacit.live.ledger.log import MANY, PLACES, Log, another_session, not_continued, require_id

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session

# One statement is one transaction, which begins and ends at the server. So a process that is paused holds no
# lock. `led` is empty if another host leads, or has written, or knows more records of the session; then
# nothing is written.
_APPEND = """
WITH led AS (
    UPDATE lease SET written = written + 1
    WHERE epoch = ? AND nonce = ? AND written = ?
        AND (SELECT coalesce(max(position) + 1, 0) FROM log WHERE session = ?) = ?
    RETURNING written)
INSERT INTO log (session, position, kind, number, data)
SELECT ?, new.position, new.kind, new.number, new.data
FROM led, unnest(?::bigint[], ?::text[], ?::bigint[], ?::bytea[]) AS new (position, kind, number, data)
RETURNING current_setting('synchronous_commit') AS durable
"""
_DURABLE = ("on", "remote_apply")


@final
class PostgresLog(Log):
    """Records of sessions in the database of a hub that leads."""

    def __init__(self, database: PostgresDatabase, lease: Lease) -> None:
        self._database, self._lease, self._lock, self._failed = database, lease, Lock(), ""

    def append(
        self,
        session: bytes,
        records: Sequence[Record],
        *,
        after: int | None = None,
        flush: bool = True,  # noqa: ARG002 - each append is on the disk when it returns
    ) -> None:
        """Save records, all or none; they are on the disk when this returns.

        After any failure the log is closed: it may be unknown whether the records were saved.
        """
        require_id(session)
        kinds, numbers, data = list[str](), list[int](), list[bytes]()
        for record in records:
            if getattr(record, "session", session) != session:
                raise another_session()
            kind, place = PLACES[type(record)]
            kinds.append(kind)
            numbers.append(getattr(record, place) if place else 0)
            data.append(encode_record(record))
        with self._lock:
            if self._failed:
                raise LedgerError(f"the hub's log {self._failed}")
            if not records:
                return
            self._failed = "has failed before, or is being written: open it again."
            self._lease.require()
            first = self._size(session) if after is None else after
            positions = list(range(first, first + len(records)))
            numbers = [p if k in MANY else n for p, k, n in zip(positions, kinds, numbers, strict=True)]
            lease = self._lease
            given = (lease.epoch, lease.nonce, lease.written, session, first)
            try:
                rows = self._database.all(_APPEND, *given, session, positions, kinds, numbers, data)
            except Taken:
                raise not_continued("the hub's database") from None
            if not rows:
                raise not_continued("the hub's database")
            if rows[0]["durable"] not in _DURABLE:
                raise LedgerError("the database must have synchronous_commit = on, and has not.")
            lease.written += 1
            lease.keep_mark()
            self._failed = ""

    def records(self, session: bytes) -> list[Record]:
        """Return the records of a session in their order, for `resume`."""
        rows = self._database.all("SELECT data FROM log WHERE session = ? ORDER BY position", session)
        return [decode_record(row["data"]) for row in rows]

    def _size(self, session: bytes) -> int:
        return int(self._database.all("SELECT count(*) AS n FROM log WHERE session = ?", session)[0]["n"])

    def require_room(self, session: Session) -> None:
        """Every session fits."""

    def close(self) -> None:
        """Close the connection."""
        self._failed = self._failed or "is closed."
        self._database.close()
