"""Marks of members' ledgers at a hub, to detect a restored one.

A member whose disk was put back has an old ledger, and everything on that disk agrees with it. It would spend
its cap a second time, and draw new noise for messages that it has sent. Only someone elsewhere can tell, and
the hub has received the messages. So every message brings the position of the ledger that it is recorded in
(`Position.told`), and the hub tells a member the last one when it connects.

The hub need not be trusted for this: it can only cause a refusal. It keeps one mark for each key, and never
replaces it by an older one, or by that of another ledger. A hub that was itself restored has older marks,
which accept every newer ledger.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, final

from tacit.base.errors import FileError, InputError
from tacit.base.files import PRIVATE, refused, require_private
from tacit.live.fleet.channel import WAITING_FRAMES
from tacit.live.fleet.database import Database, SqliteDatabase
from tacit.live.ledger.rollback_guard import Position
from tacit.live.runtime.workers import in_worker

if TYPE_CHECKING:
    from tacit.live.fleet.gateway import FleetMember

MARKS = "marks.sqlite"
_TABLE = "CREATE TABLE IF NOT EXISTS mark (key BLOB PRIMARY KEY, mark BLOB NOT NULL) STRICT, WITHOUT ROWID"
_KEEP = "INSERT INTO mark VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET mark = excluded.mark"


@final
class MarkStore:
    """The last mark of each member's ledger, by its signing key.

    It is a file of its own, or has a connection of its own: one write for each round of a session must not
    wait for the hub's other data.
    """

    def __init__(self, home: Path, database: Database | None = None) -> None:
        self.path, self._lock = home / MARKS, Lock()
        if database is not None:
            self._database, rows = database, database.all("SELECT key, mark FROM mark")
            self._known = {row["key"]: Position.heard(row["mark"]) for row in rows}
            return
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE))
        except OSError as error:
            raise refused(self.path, error) from None
        require_private(self.path, self.path.stat())
        try:
            self._database = SqliteDatabase(self.path)
            self._database.do("PRAGMA journal_mode = WAL")
            self._database.do(_TABLE)
            rows = self._database.all("SELECT key, mark FROM mark")
            self._known = {bytes(row["key"]): Position.heard(bytes(row["mark"])) for row in rows}
        except (sqlite3.Error, FileError, InputError, TypeError) as error:
            raise FileError(
                f"{self.path} cannot be used ({type(error).__name__}): put it back, or remove it. Without it "
                "the hub does not notice that a member's disk was put back, until that member speaks again."
            ) from None

    def known(self, key: bytes) -> Position | None:
        """Return the last mark of a member."""
        return self._known.get(key)

    def is_news(self, key: bytes, mark: Position) -> bool:
        """Whether a mark is newer than the known one, of the same ledger."""
        known = self._known.get(key)
        return known is None or (known.generation == mark.generation and known.count < mark.count)

    def keep(self, marks: Mapping[bytes, Position]) -> None:
        """Store marks that are news; they are on the disk when this returns."""
        with self._lock:
            with self._database.transaction():
                self._database.many(_KEEP, [(key, mark.told()) for key, mark in marks.items()])
            self._known.update(marks)

    @property
    def usable(self) -> bool:
        """Whether marks can still be stored."""
        return self._database.usable

    def close(self) -> None:
        """Close the file, or the connection."""
        self._database.close()


@final
class MarkedFrames:
    """Hands on frames of members once the marks with them are stored.

    Whoever acts on a message has saved it, and the mark that it came with was saved before. Many members
    share one write. What a member sends meanwhile waits behind, so that nothing overtakes.

    Parameters
    ----------
    hand_on : callable
        Takes a member and a frame of it.
    refuse : callable
        Called with a member and the reason if its mark cannot be stored. Its frames are dropped.
    """

    def __init__(
        self,
        store: MarkStore,
        hand_on: Callable[[FleetMember, bytes], None],
        refuse: Callable[[FleetMember, Exception], None],
    ) -> None:
        self._store, self._hand_on, self._refuse = store, hand_on, refuse
        self._news: dict[FleetMember, None] = {}  # in their order
        self._noted: dict[bytes, Position] = {}  # by key: the newest that is not stored yet
        self._waiting: dict[FleetMember, deque[tuple[Position | None, bytes]]] = {}
        self._storing: asyncio.Future[None] | None = None

    def take(self, member: FleetMember, frame: bytes, mark: Position | None) -> None:
        """Hand a frame on, now or when its mark and those before are stored.

        An empty frame is a mark alone, which what comes later waits for.
        """
        waits = mark is not None and self._is_noted(member, mark)
        if not waits and member not in self._waiting:
            if frame:
                self._hand_on(member, frame)
            return
        self._waiting.setdefault(member, deque()).append((mark, frame))
        member.link.waiting += 1
        if member.link.waiting >= WAITING_FRAMES:
            member.link.hold()

    def _is_noted(self, member: FleetMember, mark: Position) -> bool:
        """Store a mark soon, if it is news; return whether it is."""
        if not self._store.is_news(key := member.public_key, mark):
            return False
        # By key, not by connection: a member that connects again may come before its last mark is stored.
        noted = self._noted.get(key)
        if noted is None or (noted.generation == mark.generation and noted.count < mark.count):
            self._noted[key] = mark
        self._news[member] = None
        if self._storing is None:
            self._storing = asyncio.ensure_future(self._keep())
        return True

    def known(self, key: bytes) -> Position | None:
        """Return the last mark of a member, stored or not."""
        return self._noted.get(key) or self._store.known(key)

    def forget(self, member: FleetMember) -> None:
        """Drop frames of a connection that is closed; its mark is still stored."""
        self._waiting.pop(member, None)

    async def close(self) -> None:
        """Wait until all marks are stored."""
        if self._storing is not None:
            await asyncio.wait([self._storing])

    async def _keep(self) -> None:
        try:
            while self._news:
                news, self._news = self._news, {}
                keys = {member.public_key for member in news}
                marks = {key: self._noted[key] for key in keys if key in self._noted}
                try:
                    await in_worker(lambda: self._store.keep(marks))  # noqa: B023 - it is awaited
                except Exception as error:
                    self._forget_noted(marks)
                    for member in news:
                        self._waiting.pop(member, None)
                        self._refuse(member, error)
                else:
                    self._forget_noted(marks)
                    for member in news:
                        self._release(member)
        finally:
            self._storing = None

    def _forget_noted(self, marks: Mapping[bytes, Position]) -> None:
        for key, mark in marks.items():
            if self._noted.get(key) == mark:  # else a newer one has come
                del self._noted[key]

    def _release(self, member: FleetMember) -> None:
        queue = self._waiting.get(member)
        while queue:
            mark, frame = queue[0]
            if mark is not None and self._store.is_news(member.public_key, mark):
                return  # it came while the one before was being stored
            queue.popleft()
            member.link.waiting -= 1
            try:
                if frame:
                    self._hand_on(member, frame)
            except Exception as error:
                self._refuse(member, error)
            if member not in self._waiting:  # the frame made its connection close
                return
        self._waiting.pop(member, None)
        if member.link.waiting < WAITING_FRAMES:
            member.link.go_on()
