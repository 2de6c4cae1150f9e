"""A file of rows: appended durably, and refused if it was rolled back.

It is an SQLite file with a write-ahead log and synchronous=FULL. Only its owner can read it, it is locked for
one process (`rollback_guard`), and it is checked completely when it is opened (`schema`). A new file has
another name until it is complete, so a crash leaves either nothing or an empty ledger.

Every append follows one order: the rows reach the disk, then the marks move, then the guards reach the disk,
then the caller sends. So a mark is never ahead of the file, and a guard is never behind a sent message. The
mark beside the file is flushed less often than the guards, because it need not detect everything: a restored
directory brings an old mark along with the old file, and then only the guards can tell.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, final
from urllib.parse import quote

from tacit.base.errors import DiskFull, FileError, LedgerError
from tacit.base.files import FULL, PRIVATE, refused, require_private, sync_directory
from tacit.live.ledger import compaction, schema
from tacit.live.ledger.flush import flush_file, flush_file_system
from tacit.live.ledger.log import MANY, Row
from tacit.live.ledger.rollback_guard import Mark, Position

Kept: TypeAlias = tuple[bytes, str, int, float | None, bytes | None]
"""A row as it is read; without data if that was removed."""

_FULL = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")
_SYNC_EVERY = 32
"""The mark is written at each append, and flushed to the disk after this many rows.

If the process is killed, the mark survives in the system's cache. Only a power cut sets it back, by about
this many rows; a mark that is behind accepts the file.
"""
_SETTINGS = (
    "PRAGMA locking_mode = EXCLUSIVE",  # and with it no -shm file
    "PRAGMA synchronous = FULL",  # in WAL mode NORMAL would not flush the log at a commit
    "PRAGMA fullfsync = ON",  # macOS: fsync alone does not reach the disk there
    # The file may be damaged or forged: run no unsafe function that its schema names, and check each page.
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA secure_delete = ON",  # removed data is overwritten
    "PRAGMA temp_store = MEMORY",
)
_COLUMNS = 8
_ROW = f"({', '.join('?' * _COLUMNS)})"
_MOST_ROWS = 32  # maximum number of rows in one statement
_INSERT = [f"INSERT INTO record VALUES {', '.join([_ROW] * rows)}" for rows in range(_MOST_ROWS + 1)]
_MOST_VALUES = _MOST_ROWS * _COLUMNS
_SALT = 16
_STOP = "the agent stops sending, and nothing is lost"
_ADVICE = "Never restore a ledger: noise would be drawn again for messages that were sent"


@final
class Store:
    """An open file of rows; after a failed write it refuses everything."""

    def __init__(self, path: Path, mark: Mark | None, database: sqlite3.Connection, *, created: bool) -> None:
        self.path, self.created = path, created
        self._mark = mark  # None: a copy in memory
        self._database = database
        self._failed: str | None = None
        self._kind: type[LedgerError] = LedgerError
        self.generation = b""
        """A random identifier of this file."""
        self._inode = path.stat().st_ino
        self.count, self._head, self._synced = 0, b"", 0
        self.durable: Position = self._position
        """The last position that is on the disk; any thread may read it, without waiting."""
        self.carried: schema.Carried | None = None
        """What is kept of sessions whose rows were dropped, if any were."""
        self._base = (0, b"")  # the chain's position before the first row of this file
        self._compacted = 0
        self._flushes = True
        self._guards: dict[Path, Mark] = {}
        # A message was appended, and the guards' position on the disk does not include it yet. Rows of other
        # kinds need no flush of the guards: a rollback that loses only those loses nothing that was sent.
        self._owed = False

    @classmethod
    def open(cls, path: Path, learn: Callable[[Kept], None], *, create: bool, copied: bool) -> Store:
        """Open and check a file, or make it; call `learn` with each row."""
        path = path.resolve()  # two names of one file must not have two locks
        try:
            mark = _take_mark(path, create=create, copied=copied)
            try:
                return cls._open(path, mark, learn, copied=copied)
            except BaseException:
                mark.close()
                raise
        except FileError:
            raise
        except sqlite3.Error as error:
            raise _kind(error)(f"{path} {complaint(error)}") from None
        except (UnicodeError, TypeError, ValueError):  # what was read is not of the kind it must be
            raise LedgerError(f"{path} {_DAMAGED}") from None
        except OSError as error:
            raise _kind(error)(f"{refused(path, error)} Without its ledger an agent cannot send.") from None

    @classmethod
    def _open(cls, path: Path, mark: Mark, learn: Callable[[Kept], None], *, copied: bool) -> Store:
        position, created = mark.read(), not path.exists()
        if created:
            # `born` distinguishes a lost ledger from one whose creation was interrupted. Only the second may
            # be created again: it was never opened, so nothing was sent from it.
            if position is not None and position.born:
                raise LedgerError(
                    f"{path} is missing, but {mark.path.name} says that it had {position.count:,} records: "
                    "put the file itself back. A new ledger would not know what was sent and spent."
                )
            position = _create(path, mark)
        _require_usable(path)
        store = cls(path, mark, _connect(path), created=created)
        try:
            store._require_ours()
            store._require_log()
            store._verify(learn, position)
            # Compare before writing: the mark's position is the only evidence of a rollback, and the next
            # line replaces it. It also sets `born`, before anything can be sent.
            store._require_newest(position, copied=copied)
            store._keep_mark(durable=True)
            store.durable = store._position
        except BaseException:
            store._database.close()
            raise
        return store

    @classmethod
    def in_memory(cls, path: Path, database: sqlite3.Connection, learn: Callable[[Kept], None]) -> Store:
        """Check a copy in memory of the file at `path`; it cannot be written."""
        store = cls(path, None, database, created=False)
        store._require_ours()
        store._verify(learn, None)
        return store

    def _require_ours(self) -> None:
        """Refuse another program's or version's file before changing it."""
        application = self._ask("PRAGMA application_id")
        if application != schema.APPLICATION_ID:
            raise LedgerError(f"{self.path} is not a ledger of tacit: give another file.")
        version = self._ask("PRAGMA user_version")
        if version < min(schema.READABLE):
            raise LedgerError(
                f"{self.path} is a ledger of tacit 0.1, which this version cannot use: use the tacit that "
                "wrote it, or start a new ledger and set its cap to what remains."
            )
        if version not in schema.READABLE:
            raise LedgerError(
                f"{self.path} has version {version}, and this tacit knows version {schema.VERSION}: use the "
                "tacit that wrote it, or a newer one."
            )

    def _require_log(self) -> None:
        if self._ask("PRAGMA journal_mode = WAL") != "wal":
            raise LedgerError(f"{self.path} is on a disk that allows no write-ahead log: use a local disk.")

    def _verify(self, learn: Callable[[Kept], None], position: Position | None) -> None:
        """Read everything once: each row must follow from the one before."""
        # Not quick_check: it skips the index that keeps messages unique. With a damaged index a second
        # message for the same update could be inserted.
        if self._ask("PRAGMA integrity_check(1)") != "ok":
            raise self._damaged()
        self.generation = self._ask("SELECT generation FROM ledger")
        head, count = self._begin_chain()
        marked = None if position is None else position.count
        # A mark can be at a position that no row has: at 0 in a new ledger, just before a compaction
        # (`_base`) if the power failed before the mark was moved, or at the carried sums if no row was kept.
        at_mark = {self._base[0]: self._base[1], count: head}.get(-1 if marked is None else marked)
        for sequence, *about, salt, data, digest in self._each():
            count += 1
            leaf = data if salt is None else schema.leaf(salt, data)
            head = schema.digest(head, (count, *about, leaf))
            if sequence != count or digest != head:
                raise self._damaged()
            learn(_row(about, salt, data))
            at_mark = head if count == marked else at_mark
        self.count, self._head, self._at_mark = count, head, at_mark

    def _begin_chain(self) -> tuple[bytes, int]:
        """Return the digest and the number that the first row follows."""
        first = schema.first_digest(self.generation)
        self._base = (0, first)
        if self._ask("SELECT name FROM sqlite_master WHERE name = 'carried'") is None:
            return first, 0
        found = self._database.execute("SELECT count, head, data FROM carried").fetchone()
        if found is None:
            return first, 0
        count, head, data = found
        self._base, self.carried = (count, head), schema.decode_carried(data)
        return schema.carried_digest(head, data), count + 1

    def _require_newest(self, position: Position | None, *, copied: bool) -> None:
        """Compare with the mark: its file's identity, and its position."""
        # A mark that is older than the file is accepted: rows are flushed before the mark moves, so a power
        # cut leaves such a pair. A mark that is newer than the file is not.
        if position is None or position.generation != self.generation:
            if not copied:
                raise LedgerError(
                    f"{self.path} has no mark of its own beside it, so it was copied here. {_COPIED}"
                )
            return
        if self.count < position.count:
            raise LedgerError(
                f"{self.path} has {self.count:,} records, but its mark says that there were "
                f"{position.count:,}: it is an old copy. {_ADVICE}. Put the newest file back, or "
                "give its sessions up."
            )
        # The count alone is not enough: a restored copy that was used since then can be just as long.
        if self._at_mark != position.head:
            raise LedgerError(
                f"{self.path} has another history than its mark: it is a copy that was used on its own. "
                f"{_ADVICE}."
            )
        # Two copies of file and mark together would pass all checks above, and both could send. A copy has
        # another inode; the original and a renamed file do not.
        if self._inode != position.inode and not copied:
            raise LedgerError(
                f"{self.path} is not the file that its mark was made for: it was copied. {_COPIED}"
            )

    def append(self, rows: Sequence[Row], *, flush: bool = True) -> None:
        """Append rows, all or none; on the disk when this returns.

        Without `flush` they are on the disk only after `flush_stores`.
        """
        self.require_working()
        count, head = self.count, self._head
        values: list[Any] = []
        salts = os.urandom(_SALT * len(rows))
        for i, (session, kind, number, loss, data) in enumerate(rows):
            count += 1
            salt = salts[_SALT * i : _SALT * (i + 1)]
            about = (session, kind, count if kind in MANY else number, loss)
            head = schema.digest(head, (count, *about, schema.leaf(salt, data)))
            values += (count, *about, salt, data, head)
        try:
            if flush != self._flushes:
                self._set_flush(flush)
            # With synchronous=FULL the commit waits for the disk. A crash in here leaves none of the rows, or
            # all of them. Either is right: nothing was sent yet, and a restart sends only what is saved.
            with self._database:  # rolls back what fails
                if len(rows) > _MOST_ROWS:  # fewer are one statement, a transaction of its own
                    self._database.execute("BEGIN IMMEDIATE")
                for start in range(0, len(values), _MOST_VALUES):
                    some = values[start : start + _MOST_VALUES]
                    self._database.execute(_INSERT[len(some) // _COLUMNS], some)
        except sqlite3.IntegrityError as error:
            # Nothing was written, and the disk is fine. So the store keeps working.
            raise LedgerError(f"{self.path} refuses a record: {_broken_rule(error)}.") from None
        except sqlite3.Error as error:
            # It is unknown what is on the disk now. So nothing more is written until the file is reopened:
            # a retry could draw new noise for a message that is on the disk already.
            raise self._fail(error) from None
        self.count, self._head = count, head
        self._owed |= any(row[1] in schema.SAID for row in rows)
        if flush:
            self._move_marks(durable=count - self._synced >= _SYNC_EVERY)
            self._pay()

    def _set_flush(self, flush: bool) -> None:
        """Choose whether commits wait for the disk: FULL does, NORMAL not."""
        # Not OFF: with NORMAL, SQLite still flushes the log before a checkpoint copies it into the file, so a
        # power cut can lose the last rows but cannot damage the file.
        self._database.execute(f"PRAGMA synchronous = {'FULL' if flush else 'NORMAL'}")
        self._flushes = flush

    def _move_marks(self, *, durable: bool) -> None:
        """Write the position to the mark and the guards.

        Call it only after the rows are on the disk: after a power cut, a mark ahead of the file would make
        the file look rolled back, and the owner could not use it any more.
        """
        try:
            self._keep_mark(durable=durable)
            for guard in self._guards.values():
                guard.write(self._position, durable=False)
        except OSError as error:
            raise self.unguarded(error) from None
        self.durable = self._position

    def _pay(self) -> None:
        """Flush the guards; only then may the last message be sent.

        A guard that lags behind would accept a rolled-back ledger that lacks a message that was sent. Then
        the agent would draw new noise for that message.
        """
        try:
            for descriptor in self.owed:
                flush_file(descriptor)
        except OSError as error:
            raise self.unguarded(error) from None
        self.paid()

    @property
    def owed(self) -> list[int]:
        """Descriptors of the guards that must be flushed before anything is sent."""
        return [guard.descriptor for guard in self._guards.values()] if self._owed else []

    def paid(self) -> None:
        """Note that the guards are on the disk."""
        self._owed = False

    def unguarded(self, error: OSError) -> LedgerError:
        """Refuse everything from now on: a guard could not be flushed."""
        return self._fail(error, f"cannot be guarded any more ({error.strerror}): {_STOP}.")

    def guard(self, path: Path, who: str, *, create: bool) -> None:
        """Store the position in another file, too, from now on.

        Refuse this ledger if that file has a later position, or one of another history.
        """
        if path in self._guards:
            return
        self.require_working()
        try:
            mark = Mark(path, self.path, create=create)
        except OSError as error:
            raise _kind(error)(f"{refused(path, error)} Without it an agent cannot send.") from None
        try:
            # Compare before writing, as in `_open`: the write replaces the evidence of a rollback.
            self._require_at_least(mark.read(), who)
            mark.write(self._position, durable=True)
        except BaseException:
            mark.close()
            raise
        self._guards[path] = mark

    def require_not_behind(self, known: Position, who: str) -> None:
        """Refuse this file if it is older than someone says, or differs.

        Unlike a guard, that one may lag behind: a position from before the last compaction is accepted.
        """
        self.require_working()
        if known.generation != self.generation or known.count >= self._base[0]:
            self._require_at_least(known, who)

    def _require_at_least(self, known: Position | None, who: str) -> None:
        """Refuse this file if it is older than a position, or differs from it."""
        if known is None:
            return  # the guard was created, but never written: nothing was sent under it
        if known.generation != self.generation:
            raise LedgerError(f"{self.path} is another ledger than the one that {who} knows. {_ADVICE}.")
        if self.count < known.count:
            raise LedgerError(
                f"{self.path} has {self.count:,} records, but {who} says that there were {known.count:,}: it "
                f"is an old copy. {_ADVICE}. Put the newest file back, or give its sessions up."
            )
        if known.count < self._base[0]:
            raise LedgerError(
                f"{self.path} has dropped the records that {who} could be compared with, because {who} was "
                "not in use then: make a new witness, or use another ledger with these keys."
            )
        if self._digest_at(known.count) != known.head:
            raise LedgerError(
                f"{self.path} has another history than {who}: it is a copy that was used on its own. "
                f"{_ADVICE}."
            )

    def _digest_at(self, count: int) -> bytes:
        """Return the digest at this position; empty if its row was dropped."""
        base, head = self._base
        if count <= base:
            return head if count == base else b""
        if self.carried is not None and count == base + 1:
            return schema.carried_digest(head, schema.encode_carried(self.carried))
        found = self._database.execute("SELECT digest FROM record WHERE sequence = ?", (count,)).fetchone()
        return bytes(found[0])

    def forget(self, session: bytes) -> int:
        """Remove states and messages of a finished session; return how many.

        The rows stay, with their losses. Their data is overwritten in the file and in its log.
        """
        self.require_working()
        kinds = ", ".join(f"'{kind}'" for kind in schema.FORGETTABLE)
        which = f"WHERE session = ? AND salt IS NOT NULL AND kind IN ({kinds})"
        try:
            found = [(row[0], row[5], row[6]) for row in self._each(which, (session,))]
            with self._database:  # rolls back what fails
                self._database.execute("BEGIN IMMEDIATE")
                for sequence, salt, data in found:
                    self._database.execute(
                        "UPDATE record SET salt = NULL, data = ? WHERE sequence = ?",
                        (schema.leaf(salt, data), sequence),
                    )
            # `secure_delete` clears what the update replaced. VACUUM also drops copies in unused parts of
            # other pages, and the checkpoint empties the log, which still has old pages. After a crash before
            # these two lines the data may still be there; a second `forget` then finds no rows to change, but
            # completes these two steps.
            self._database.execute("VACUUM")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.IntegrityError as error:
            raise LedgerError(f"{self.path} refuses to forget: {_broken_rule(error)}.") from None
        except sqlite3.Error as error:
            raise self._fail(error) from None
        return len(found)

    @property
    def worth_compacting(self) -> bool:
        """Whether many rows have been added since the last compaction."""
        return compaction.due(self.count - self._base[0], self._compacted)

    def compact(self, over: Collection[bytes], carried: schema.Carried) -> None:
        """Drop all rows of these sessions; `carried` replaces them."""
        self.require_working()
        before = (self.count, self._head)
        try:
            # The order matters. First the rows that were appended without flush reach the disk, so that no
            # mark gets ahead of the file. Then all marks move to `before`, the one earlier position that the
            # rewritten file still has: a mark that lagged behind the dropped rows could not be compared any
            # more, and the owner could not use the ledger again.
            self._set_flush(True)
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._flush_marks()
            # After a crash here or in the transaction nothing has changed. After a crash behind it the marks
            # are still at `before`, which the new file accepts (`_verify`, `_digest_at`).
            data = schema.encode_carried(carried)
            self.count, self._head = compaction.rewrite(self._database, over, before, data)
            self._database.execute("VACUUM")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise self._fail(error) from None
        self.carried, self._base, self._compacted = carried, before, self.count - before[0]
        self._flush_marks()

    def _flush_marks(self) -> None:
        """Flush the mark and the guards to the disk."""
        self._move_marks(durable=True)
        self._owed = True
        self._pay()

    def _fail(self, error: sqlite3.Error | OSError, why: str = "") -> LedgerError:
        self._failed, self._kind = why or complaint(error), _kind(error)
        return self._kind(f"{self.path} {self._failed}")

    def flushed(self, error: OSError | None) -> None:
        """Move the marks after the rows reached the disk; raise if not."""
        if error is not None:
            why = f"could not be flushed to the disk ({error.strerror}): {_STOP}."
            raise self._fail(error, why) from None
        # The next flush of the file system takes the mark along, so it counts as flushed here: a flush of its
        # own would double the cost of a batch. The guards are flushed before anything is sent
        # (`flush_stores`).
        self._synced = self.count
        self._move_marks(durable=False)

    @property
    def descriptor(self) -> int:
        """A descriptor on the file system that the file is on: the mark's."""
        assert self._mark is not None
        return self._mark.descriptor

    def rows(self, where: str, arguments: tuple[Any, ...]) -> list[Kept]:
        """Return the rows that match a condition, in their order."""
        self.require_working()
        try:
            return [_row(row[1:5], row[5], row[6]) for row in self._each(where, arguments)]
        except sqlite3.Error as error:
            raise _kind(error)(f"{self.path} {complaint(error)}") from None

    def require_working(self) -> None:
        """Refuse after a failed write, or when closed."""
        if self._failed is not None:
            raise self._kind(f"{self.path} {self._failed}")

    def close(self) -> None:
        """Write everything to the file, and release it."""
        # Close the database first: it brings its log to the disk, and only then may the marks move. After a
        # failed write they stay where they are, because it is unknown which rows are on the disk.
        with suppress(sqlite3.Error):
            self._database.close()
        with suppress(OSError):
            if self._failed is None and self._mark is not None:
                self._keep_mark(durable=True)
                for guard in self._guards.values():
                    guard.write(self._position, durable=True)
        for mark in (self._mark, *self._guards.values()):
            if mark is not None:
                mark.close()
        self._guards.clear()
        self._failed = self._failed or "is closed."

    def _keep_mark(self, *, durable: bool) -> None:
        assert self._mark is not None
        self._mark.write(self._position, durable=durable)
        if durable:
            self._synced = self.count

    @property
    def _position(self) -> Position:
        return Position(self.generation, self.count, self._head, self._inode, born=True)

    def _each(self, where: str = "", arguments: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        columns = "sequence, session, kind, number, loss, salt, data, digest"
        yield from self._database.execute(
            f"SELECT {columns} FROM record {where} ORDER BY sequence", arguments
        )

    def takes(self, kind: str) -> bool:
        """Whether the constraints of this file's version allow this kind."""
        rules = self._ask("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'record'")
        return f"'{kind}'" in str(rules)

    def _ask(self, question: str) -> Any:
        answer = self._database.execute(question).fetchone()
        return None if answer is None else answer[0]

    def _damaged(self) -> LedgerError:
        return LedgerError(f"{self.path} {_DAMAGED}")


def flush_stores(stores: Collection[Store]) -> dict[Store, LedgerError]:
    """Flush rows appended without flush; return stores that failed, and why.

    There is one call for each file system, which is far cheaper than one for each file. It is done twice:
    first for the stores, then for the guards, which may move only after the stores are on the disk. A crash
    between the two leaves guards that are behind. That is safe: none of these messages was sent yet.
    """
    failed = {}
    for together, error in _flushed((store.descriptor, store) for store in stores):
        for store in together:
            try:
                store.flushed(error)
            except LedgerError as why:
                failed[store] = why
    owing = [store for store in stores if store not in failed and store.owed]
    for together, error in _flushed((owed, store) for store in owing for owed in store.owed):
        if error is not None:
            failed |= {store: store.unguarded(error) for store in together}
    # A store can have guards on several file systems. It has paid only if none of these calls failed.
    for store in owing:
        if store not in failed:
            store.paid()
    return failed


def _flushed(files: Iterable[tuple[int, Store]]) -> list[tuple[list[Store], OSError | None]]:
    """Flush each file system once; return its stores, and its error."""
    places: dict[int, list[tuple[int, Store]]] = {}
    for descriptor, store in files:
        places.setdefault(os.fstat(descriptor).st_dev, []).append((descriptor, store))
    done = []
    for there in places.values():
        error = None
        try:
            flush_file_system(there[0][0])
        except OSError as caught:
            error = caught
        done.append(([store for _, store in there], error))
    return done


def _row(about: Sequence[Any], salt: bytes | None, data: bytes) -> Kept:
    """Return a row for callers, without data if that was removed."""
    session, kind, number, loss = about
    return session, kind, number, loss, None if salt is None else data


_COPIED = (
    "If nothing was sent since the copy was made, and the other file is never used again, "
    f"`tacit ledger adopt` it. {_ADVICE}."
)
_DAMAGED = (
    "is damaged, so it does not show for sure what was sent, and the agent sends nothing. Keep the file, and "
    "count the caps of all values in it as spent."
)


def _take_mark(path: Path, *, create: bool, copied: bool) -> Mark:
    """Lock the mark; create one only for a new ledger or an adopted copy.

    If a missing mark were always created, an old ledger could be used again by deleting its mark.
    """
    _require_kept(path.parent)
    beside = path.with_name(f"{path.name}.mark")
    exists, marked = path.exists(), beside.exists()
    if not exists and not marked and not create:
        raise LedgerError(f"there is no ledger {path}: check the name, or let one be made.")
    if exists and not marked and not copied:
        _require_usable(path)
        raise LedgerError(f"{path} has no mark ({beside.name}) beside it, so it was copied here. {_COPIED}")
    if exists and not marked:
        _require_ledger(path)  # a mark beside another file would stay there for ever
    return Mark(beside, path, create=not marked)


def _require_ledger(path: Path) -> None:
    """Refuse another program's file, without a change to it."""
    _require_usable(path)
    database = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=0)
    try:
        application = database.execute("PRAGMA application_id").fetchone()[0]
    finally:
        database.close()
    if application != schema.APPLICATION_ID:
        raise LedgerError(f"{path} is not a ledger of tacit: give another file.")


def _require_kept(folder: Path) -> None:
    """Refuse a directory where others may replace files.

    They could roll back the ledger, and the agent would draw new noise for messages already sent.
    """
    status = folder.stat()
    if status.st_uid not in (os.geteuid(), 0):
        raise LedgerError(f"{folder} must belong to you or to root, and belongs to user {status.st_uid}.")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX:
        raise LedgerError(
            f"{folder} must be writable for you alone, but has mode {stat.S_IMODE(status.st_mode):o}: others "
            "may replace a ledger in it. chmod go-w it, or choose another directory."
        )


def _create(path: Path, mark: Mark) -> Position:
    """Make an empty file of rows; it gets its name when it is complete.

    A crash before the mark is written leaves a temporary file, which the next call removes. A crash between
    mark and rename leaves a mark that is not `born`, so the next call starts again. After the rename the file
    and its mark agree.
    """
    part = path.with_name(f".{path.name}.part")
    for rest in ("", "-wal", "-shm", "-journal"):  # of a process that was killed here
        part.with_name(part.name + rest).unlink(missing_ok=True)
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    try:
        os.fchmod(descriptor, PRIVATE)
        inode = os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)
    generation = secrets.token_bytes(16)
    database = _connect(part)
    try:
        database.executescript(schema.TABLES)
        database.execute("INSERT INTO ledger VALUES (1, ?)", (generation,))
        database.execute("COMMIT")
    finally:
        database.close()
    position = Position(generation, 0, schema.first_digest(generation), inode, born=False)
    # The mark comes first: a file without a mark of its own looks like a copy, and would be refused.
    mark.write(position, durable=True)
    os.rename(part, path)
    sync_directory(path.parent)
    return position


def _require_usable(path: Path) -> None:
    """Refuse a file that is read-only, open to others, or has two names.

    Under a second name it would have a second mark, so two processes could use it at once.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    require_private(path, status)
    if status.st_nlink != 1:
        raise LedgerError(
            f"{path} must have one name only, but has {status.st_nlink} (hard links): remove the others."
        )


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw", uri=True, isolation_level=None, check_same_thread=False, timeout=0
    )
    try:
        for setting in _SETTINGS:
            database.execute(setting)
    except BaseException:
        database.close()
        raise
    return database


def _kind(error: sqlite3.Error | OSError) -> type[LedgerError]:
    """Return `DiskFull` if the disk takes no more data for now."""
    name = getattr(error, "sqlite_errorname", "")
    return DiskFull if name.startswith(_FULL) or getattr(error, "errno", None) in FULL else LedgerError


def complaint(error: sqlite3.Error | OSError) -> str:
    """Return the problem of the disk or the file as the end of a sentence."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_FULL"):
        return f"cannot be written, because the disk is full: {_STOP}. Make room and start again."
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return f"cannot be written, because its disk or directory is read-only: {_STOP}. Change that."
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return _DAMAGED
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "is in use by another program: close that, and start again."
    return f"cannot be written ({name or type(error).__name__}): {_STOP}. Check the disk and start again."


def _broken_rule(error: sqlite3.IntegrityError) -> str:
    text = str(error)
    return next(
        (rule for sign, rule in schema.COMPLAINTS.items() if sign in text), "it breaks a rule of the ledger"
    )
