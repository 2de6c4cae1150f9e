"""The ledger: an agent's messages, durable before they are sent.

So an agent never sends two different messages for one update, not even after a crash. There is one file per
agent. When `append` returns, the records survive a power cut. The rules that must never break (one message
per update, no message before its loss is reserved, none after the session is settled) are constraints of the
file itself.

An agent that resumed from an older ledger would draw new noise for messages it has already sent. Two messages
of one state with different noise cost twice the loss that is accounted for. The mark beside the file and the
mark with the keys (`key_guard`) detect an older ledger. They cannot detect ledger, mark and keys that are all
restored from the same time, or a copied machine. So never restore a ledger from a backup. An agent that lost
its ledger cannot resume its sessions, and nothing shows how much of its value's cap is spent.

States are kept until the owner removes them (`forget`), or until a member of a fleet drops finished, expired
sessions (`compact`). Private ephemeral keys are in files of their own (`ephemeral_key`). They are erased when
their session is over for this ledger, whatever ended it, and again whenever the ledger is opened.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast, final

import msgspec

from tacit.base.errors import CapExceeded, InputError, LedgerError, SessionOver
from tacit.base.rounding import fraction_up
from tacit.core.protocol.records import Record, Spoke, decode_record, encode_record
from tacit.core.series import Hides, written
from tacit.core.theory.privacy import require_adjacency
from tacit.live.ledger import compaction, schema
from tacit.live.ledger.budget import (
    Balance,
    Hidden,
    Purse,
    Reservation,
    Window,
    require_amount,
    require_label,
    require_probability,
)
from tacit.live.ledger.ephemeral_key import EphemeralKeys
from tacit.live.ledger.log import EVERYONE, PLACES, Log, Row, another_session, not_continued, require_id
from tacit.live.ledger.rollback_guard import Position
from tacit.live.ledger.store import Kept, Store, flush_stores

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session

_OWN_KINDS = ("capped", "reserved", "settled")
_LAST_WORDS = ("silenced", "ended", "settled")
_KEYLESS = ("erasing", "ended", "settled")
"""After a record of these kinds a session needs no ephemeral key."""


@final
class Ledger(Log):
    """A log in a file with its purse, locked for this process.

    Any thread may call it; calls wait for each other and for the disk. After a failed write nothing more is
    written: discard the machine, and open the ledger again when the problem is solved.

    Parameters
    ----------
    path : path
        The file; its mark is beside it.
    create : bool
        Create a ledger if there is none; `created` says whether that happened.
    copied : bool
        The owner confirms that this file was moved here by copying, and that nothing was sent since then.
        A ledger that is older than its mark is still refused.
    """

    def __init__(self, path: str | Path, *, create: bool = True, copied: bool = False) -> None:
        self._use(lambda: Store.open(Path(path), self._learn, create=create, copied=copied))
        try:
            # The ledger is locked, so no session runs now.
            self._keys.sweep(self._needs_key)
        except BaseException:
            self._store.close()
            raise

    @classmethod
    def in_memory(cls, path: Path, database: sqlite3.Connection) -> Self:
        """Return a copy of the ledger at `path`, to be read only (`snapshot`)."""
        ledger = cls.__new__(cls)
        ledger._use(lambda: Store.in_memory(path, database, ledger._learn))
        return ledger

    def _use(self, opened: Callable[[], Store]) -> None:
        self._purse, self._lock, self._process = Purse(), RLock(), os.getpid()
        self._horizon = 0
        self._positions: Counter[bytes] = Counter()  # how many records of each session there are
        self._store = opened()
        if self._store.carried is not None:
            self._purse.carry(self._store.carried.sums)
            self._horizon = self._store.carried.horizon
        self._keys = EphemeralKeys(self._store.path)
        self._keyless: set[bytes] = set()  # their keys are erased once the record of it is on the disk

    def __repr__(self) -> str:
        return f"<Ledger {self.path}, {self._store.count} records>"

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._store.path

    @property
    def identity(self) -> bytes:
        """A random identifier of this ledger; copies of it have the same one."""
        return self._store.generation

    @property
    def created(self) -> bool:
        """Whether the ledger was created by this call."""
        return self._store.created

    @property
    def horizon(self) -> int:
        """No session that expires by then can begin: see `compaction`."""
        return self._horizon

    def require_room(self, session: Session) -> None:
        """Refuse an old ledger that cannot hold a session of this kind."""
        needed = {
            "disclosed": "sessions with keepers" if session.keepers else "",
            "sampled": "series" if session.series is not None else "",
        }
        for kind, what in needed.items():
            if what:
                self._require_kind(kind, what)

    def require_reports(self) -> None:
        """Refuse an old ledger that cannot hold reports as they come."""
        self._require_kind("reported", "sessions that stay open")

    def _require_kind(self, kind: str, what: str) -> None:
        with self._using():
            takes = self._store.takes(kind)
        if not takes:
            raise LedgerError(
                f"{self.path} was made by an older version of tacit and cannot hold {what}: give "
                "another --ledger for this session, and keep this one for others."
            )

    # ---- what is said and heard ------------------------------------------------------------------

    def append(
        self, session: bytes, records: Sequence[Record], *, after: int | None = None, flush: bool = True
    ) -> None:
        """Save records, all or none; they are on the disk when this returns.

        Without `flush` they are on the disk only after `flush_together`; do not send messages before that.
        """
        require_id(session)
        rows, losses = list[Row](), list[float]()
        for record in records:
            if getattr(record, "session", session) != session:
                raise another_session()
            kind, place = PLACES[type(record)]
            loss = None
            if isinstance(record, Spoke):
                loss = require_amount(record.loss, "a loss")
                losses.append(loss)
            number = getattr(record, place) if place else 0
            rows.append((session, kind, number, loss, encode_record(record)))
        with self._using():
            if after not in (None, self._positions[session]):
                raise not_continued(str(self.path))
            # Check before writing: a message that is in the ledger may be sent, whatever happens next.
            if losses:
                self._purse.require_reserved(session, losses, str(self.path))
            for _, kind, member, *_ in rows:
                if kind == "keyed":
                    self._keys.save(session, member)
            if rows:
                self._store.append(rows, flush=flush)
            self._positions[session] += len(rows)
            # The sums follow the file. If the write fails they stay as they were, and a reopened ledger
            # rebuilds them from the rows that are really there.
            for loss in losses:
                self._purse.said(session, loss)
            if any(kind in _LAST_WORDS for _, kind, *_ in rows):
                self._purse.settled(session)
            if any(kind in _KEYLESS for _, kind, *_ in rows):
                self._keyless.add(session)
            if flush:
                self._erase_keys()

    def records(self, session: bytes) -> list[Record]:
        """Return the records of a session in their order, for `resume`.

        Raises SessionOver if they were removed by `forget`.
        """
        with self._using():
            rows = self._store.rows("WHERE session = ?", (session,))
        # Do not just skip these rows: the session would look as if it had never begun.
        if any(row[4] is None for row in rows):
            raise SessionOver(
                "this session is over, and its states and messages were removed from the ledger: ask for a "
                "new session."
            )
        return [_decoded(row) for row in rows if row[1] not in _OWN_KINDS]

    def size(self, session: bytes) -> int:
        """Return the number of records of a session, including forgotten ones."""
        with self._using():
            rows = self._store.rows("WHERE session = ?", (session,))
        return sum(row[1] not in _OWN_KINDS for row in rows)

    def forgotten(self, session: bytes) -> bool:
        """Whether the states and messages of a session were removed by `forget`."""
        with self._using():
            rows = self._store.rows("WHERE session = ? AND salt IS NULL", (session,))
        return bool(rows)

    def has(self, session: bytes) -> bool:
        """Whether there are rows of a session, its reservation included."""
        with self._using():
            first = "WHERE sequence = (SELECT min(sequence) FROM record WHERE session = ?)"
            return bool(self._store.rows(first, (session,)))

    def is_over(self, session: bytes) -> bool:
        """Whether an agent of this ledger has ended or given up a session."""
        with self._using():
            return bool(self._store.rows("WHERE session = ? AND kind IN ('ended', 'settled')", (session,)))

    def forget(self, session: bytes) -> int:
        """Remove states and messages of a finished session; return how many.

        The losses stay, and the chain of digests stays valid. The bytes are overwritten in the file and
        removed from its log. Copies that a disk keeps in unused blocks cannot be removed this way.
        """
        with self._using():
            if not self.is_over(session):
                raise InputError(
                    "only a session that is over can be forgotten, and this one is not: without its records "
                    "the agent would draw new noise for messages that it has sent. Give it up first (`tacit "
                    "ledger settle`)."
                )
            self._keys.erase((session,))
            return self._store.forget(session)

    # ---- ephemeral keys --------------------------------------------------------------------------

    def ephemeral_key(self, session: bytes, member: int, expires: int) -> bytes | None:
        """Return the private key of a member in a session with keepers.

        It is a new one if the ledger has no record of one; `append` brings it to the disk before its record.
        None if the key is erased or lost.
        """
        with self._using():
            rows = self._store.rows("WHERE session = ? AND kind = 'keyed' AND number = ?", (session, member))
            if rows:
                return self._keys.read(session) if self._needs_key(session) else None
            return self._keys.make(session, member, expires)

    def _needs_key(self, session: bytes) -> bool:
        """Whether a session has begun with a key, and can go on."""
        kinds = ", ".join(f"'{kind}'" for kind in ("keyed", *_KEYLESS))
        rows = self._store.rows(f"WHERE session = ? AND kind IN ({kinds})", (session,))
        return {row[1] for row in rows} == {"keyed"}

    def _erase_keys(self) -> None:
        """Erase the keys that are not needed, by what is on the disk."""
        if self._keyless:
            self._keys.erase(self._keyless)
            self._keyless.clear()

    def guard(self, path: Path, who: str, *, create: bool) -> None:
        """Store this ledger's position in another file, too, from now on.

        Refuse this ledger if it is older than that file says, or has another history; `who` names the file in
        the error. When `append` returns, the new position is on the disk in that file, too.
        """
        with self._using():
            self._store.guard(path, who, create=create)

    @property
    def position(self) -> Position:
        """The last position of this ledger that is on the disk.

        It includes every record whose `append` has returned. Reading it waits for nothing.
        """
        return self._store.durable

    def require_not_behind(self, known: Position, who: str) -> None:
        """Refuse a ledger that is older than `who` says, or another history.

        Nothing is changed: whoever lies can only cause a refusal.
        """
        with self._using():
            self._store.require_not_behind(known, who)

    def said(self, session: bytes, update: int) -> bytes | None:
        """Return the bytes of message `update`, if it was made."""
        with self._using():
            rows = self._store.rows("WHERE session = ? AND kind = 'spoke' AND number = ?", (session, update))
        return cast(Spoke, _decoded(rows[0])).frame if rows and rows[0][4] is not None else None

    def sessions(self) -> tuple[bytes, ...]:
        """Return the ids of all sessions, in the order of their first records."""
        with self._using():
            rows = self._store.rows("WHERE kind IN ('reserved', 'opened', 'keyed')", ())
        return tuple(dict.fromkeys(row[0] for row in rows))

    # ---- keeping it small ------------------------------------------------------------------------

    @property
    def worth_compacting(self) -> bool:
        """Whether many records have been added since the last compaction."""
        with self._using():
            return self._store.worth_compacting

    def droppable(self, now: float, known: Mapping[bytes, int] | None = None) -> dict[bytes, int]:
        """Return the sessions that are over and have expired, with their expiry.

        `known` has the expiry of sessions without a reservation: those of keepers and coordinators.
        """
        with self._using():
            rows = self._store.rows("WHERE kind IN ('silenced', 'ended', 'settled')", ())
            over = {row[0] for row in rows if self._purse.summable(row[0])}
            expiries = self._purse.expiries(known or {})
            return {s: expiries[s] for s in over if s in expiries and expiries[s] <= now}

    def compact(self, over: Collection[bytes], horizon: int, now: float) -> None:
        """Drop the records of finished sessions, and keep their losses.

        All of them expired by `horizon`. From then on no session that expires by `horizon` can be begun in
        this ledger: see `compaction`.
        """
        with self._using():
            # An open session reserves more than its messages cost so far. A sum of what was said would
            # release the rest, although the agent may still send.
            if not all(self._purse.summable(session) for session in over):
                raise InputError(
                    "only sessions that are over can be dropped from a ledger, and no series that has sent "
                    "messages."
                )
            sums = compaction.merged(self._purse.sums(over), now)
            # The horizon never falls: a session that was dropped earlier must stay refused.
            carried = schema.Carried(max(horizon, self._horizon), sums)
            self._keys.erase(over)
            self._store.compact(frozenset(over), carried)
            self._purse.carry(sums, over)
            self._horizon = carried.horizon
            for session in over:
                self._positions.pop(session, None)

    # ---- what it costs ---------------------------------------------------------------------------

    def reserve(
        self,
        session: bytes,
        value: str,
        *,
        planned: float,
        adjacency: float,
        diameter: float,
        expires: int | None = None,
        now: float | None = None,
        cap: float | None = None,
        partial: bool = False,
        cap_adjacency: float | None = None,
        windows: Sequence[Window] = (),
        hidden: Hidden | None = None,
        accepts: Hidden | None = None,
    ) -> Reservation:
        """Reserve a session's loss before its first message, or refuse it.

        Raises CapExceeded if the loss does not fit under the owner's cap. The loss is recorded before
        anything is sent, so a crash cannot hide it. A second call for the same session reserves nothing more.
        It stores a lower cap. A series that has sent nothing yet must fit under the cap as it is now, and
        is given up if it does not; other sessions go on, and stop before they would exceed it.

        Parameters
        ----------
        value : str
            The owner's label for the value; never the value.
        planned, adjacency : float
            The largest loss of the whole session, and its adjacency.
        diameter : float
            How far apart two values of the session's range can be, all components together.
        expires : int, optional
            When the session ends, in seconds since 1970 (UTC). If not given, it ends only when it is settled.
        now : float, optional
            The current time; the system's unless given. Sessions that have expired are settled first.
        cap : float, optional
            The owner's cap for this value over all sessions; needed once. Later a lower cap replaces it, and
            a higher one is refused; see `set_cap`.
        partial : bool
            If less than `planned` is left, reserve the rest; the agent stops sending before it is exceeded.
        cap_adjacency : float, optional
            A first cap is for values that differ by at most this; for any two values if not given.
        windows : sequence of Window
            Caps on the loss of sessions begun within some time, in addition to the cap for all time.
        hidden : Hidden, optional
            For a series: which change it hides, and its failure probability. Its loss counts once.
        accepts : Hidden, optional
            What the owner accepts for series on this value; needed once, before the first. Later it must be
            the same, or have a smaller failure probability; see `set_cap`.
        """
        require_id(session)
        now = time.time() if now is None else now
        wanted = schema.Reserved(
            require_label(value),
            require_adjacency(adjacency),
            require_adjacency(diameter),
            require_amount(planned, "the planned loss"),
            expires,
            now if hidden is None else None,
            "" if hidden is None else written(hidden.hides),
            0.0 if hidden is None else hidden.delta,
        )
        with self._using():
            before, known = self._purse.reservation(session), self._purse.cap(value)
            if before is None:
                # Its records may have been dropped, and then this session would be begun a second time. The
                # horizon is compared with the session's expiry, not with the clock, which can be set back.
                if expires is not None and expires <= self._horizon:
                    raise SessionOver(
                        "this session expired before the ledger dropped the records of expired sessions, so "
                        "its records may be among them: ask for a new session."
                    )
                self.settle_expired(now)
                limit = self._accepted(self._cap(wanted, cap, cap_adjacency), accepts)
                _require_wide(limit)
                self._purse.require_hidden(wanted, limit, session)
                for window in windows:
                    self._purse.require_window(wanted, limit, window, now)
                granted = self._purse.room(wanted, limit, session, partial=partial, ledger=str(self.path))
                # Cap and reservation are one transaction: a crash leaves no reservation without a cap. When
                # this returns, both are on the disk, and the caller opens the network only after that.
                rows = [] if limit == known else [_cap_row(limit)]
                self._write([*rows, (session, "reserved", 0, None, msgspec.msgpack.encode(granted))])
            elif before.value != value or before.adjacency != wanted.adjacency:
                raise InputError(
                    f"this session was reserved for the value {before.value!r} at adjacency "
                    f"{before.adjacency:g}: resume it with the same."
                )
            else:
                self._lower(wanted, cap, cap_adjacency, accepts)
                try:
                    self._purse.require_begun_in_time(session, str(self.path))
                except CapExceeded:
                    self._settle((session,))  # for good, and with its key: the owner has decided
                    raise
            return cast(Reservation, self._purse.reservation(session))

    def reservation(self, session: bytes) -> Reservation | None:
        """Return the reservation of a session, if there is one."""
        with self._using():
            return self._purse.reservation(session)

    def _cap(self, wanted: schema.Reserved, cap: float | None, adjacency: float | None) -> schema.Capped:
        """Return the cap for a session: the stored one, or a lower given one."""
        known = self._purse.cap(wanted.value)
        at = None if adjacency is None else require_adjacency(adjacency)
        given = None if cap is None else require_amount(cap, "a cap", endless=True)
        if known is None:
            if given is None:
                raise InputError(
                    f"the value {wanted.value!r} needs a cap, the largest loss in all sessions together: "
                    "give one (--cap)."
                )
            # For any two values unless the owner says otherwise. If the first session's adjacency were taken,
            # the maker of that session would decide what the cap protects.
            return schema.Capped(wanted.value, math.inf if at is None else at, given)
        if at not in (None, known.adjacency):
            raise InputError(
                f"the cap of {wanted.value!r} is for {_about(known.adjacency)}, and joining a session cannot "
                f"make it one for values up to {at:g} apart: change it first (`tacit ledger cap "
                "--adjacency`)."
            )
        if given is not None and given > known.cap:
            raise InputError(
                f"the cap of {wanted.value!r} is {known.cap:g}, and joining a session cannot raise it to "
                f"{given:g}: raise it first (`tacit ledger cap`)."
            )
        return known if given is None else msgspec.structs.replace(known, cap=given)

    def _lower(
        self, wanted: schema.Reserved, cap: float | None, adjacency: float | None, accepts: Hidden | None
    ) -> None:
        """Store the lower of the given and the known cap, for what was reserved."""
        known = cast(schema.Capped, self._purse.cap(wanted.value))
        limit = known
        if cap is not None and require_amount(cap, "a cap", endless=True) < known.cap:
            limit = self._cap(wanted, cap, adjacency)
        if accepts is not None:
            limit = self._accepted(limit, accepts._replace(delta=min(accepts.delta, known.delta)))
        if limit != known:
            self._write([_cap_row(limit)])

    @staticmethod
    def _accepted(cap: schema.Capped, accepts: Hidden | None) -> schema.Capped:
        """Add to a cap what its owner accepts for series.

        A change that accepts more needs `set_cap`.
        """
        if accepts is None:
            return cap
        hides, delta = written(accepts.hides), require_probability(accepts.delta)
        if cap.hides and (hides != cap.hides or delta > cap.delta):
            raise InputError(
                f"series on {cap.value!r} must hide {Hides.parse(cap.hides)} with a failure probability of "
                f"at most {cap.delta:g} in all, and joining a session cannot change that: change it first "
                "(`tacit ledger cap --hides --delta`)."
            )
        return msgspec.structs.replace(cap, hides=hides, delta=delta)

    def set_cap(
        self, value: str, cap: float, *, adjacency: float | None = None, accepts: Hidden | None = None
    ) -> Balance:
        """Change the owner's cap for a value, and what it covers.

        That is its adjacency, and what is accepted for series. The last cap counts. A first cap without an
        adjacency, and a cap with an infinite one, is for any two values. A cap for a change that an earlier
        series does not hide is refused.
        """
        require_label(value)
        with self._using():
            known = self._purse.cap(value)
            at = math.inf if known is None else known.adjacency
            if adjacency is not None:
                at = adjacency if adjacency == math.inf else require_adjacency(adjacency)
            made = schema.Capped(value, at, require_amount(cap, "a cap", endless=True))
            if accepts is not None:
                made = self._accepted(made, accepts)
            elif known is not None:
                made = msgspec.structs.replace(made, hides=known.hides, delta=known.delta)
            _require_wide(made)
            if made.hides:
                self._purse.require_covered(made)
            self._write([_cap_row(made)])
            return self._purse.balance(value)

    def settle(self, session: bytes) -> None:
        """Give a session up: from now on only the loss of sent messages counts.

        Once this is on the disk, the file itself refuses further messages of the session (`schema.RULES`). So
        the rest of its loss can be released. Its ephemeral key is erased.
        """
        with self._using():
            if self._purse.reservation(session) is None and session not in self._keys:
                raise InputError("nothing is reserved for this session in this ledger, nor is there a key.")
            self._settle((session,))

    def settle_expired(self, now: float | None = None, *, but: bytes | None = None) -> tuple[bytes, ...]:
        """Settle all sessions that have expired, and return their ids.

        This releases the loss of messages that were not sent, and erases the keys. It is safe because it is
        recorded first: even if the clock is set back later, nothing can be sent in these sessions again. The
        session `but` is left to the machine that resumes it, which records why it ended.
        """
        now = time.time() if now is None else now
        with self._using():
            found = dict.fromkeys([*self._purse.expired(now), *self._keys.expired(now)])
            expired = tuple(session for session in found if session != but)
            self._settle(expired)
        return expired

    def _settle(self, sessions: Collection[bytes]) -> None:
        """Record that these sessions are over, then erase their keys.

        If a crash comes in between, the keys are erased when the ledger is opened. The other way round, a
        session that is not over would lack its key.
        """
        self._write([(one, "settled", 0, None, b"") for one in sessions if not self.is_over(one)])
        self._keys.erase(sessions)

    def given_up(self, session: bytes) -> bool:
        """Whether the session was settled by its owner, or because it had expired."""
        with self._using():
            return bool(self._store.rows("WHERE session = ? AND kind = 'settled'", (session,)))

    def spent(self, value: str) -> float:
        """The loss of all sessions on a value, reservations included; rounded up."""
        with self._using():
            return fraction_up(self._purse.spent(value))

    def remaining(self, value: str) -> float:
        """The largest loss of a further session on a value; rounded down."""
        return self.balance(value).remaining

    def balance(self, value: str) -> Balance:
        """Return the balance of a value against its cap."""
        with self._using():
            return self._purse.balance(value)

    def spent_since(self, value: str, when: float) -> float:
        """What sessions begun after `when` count against the cap; rounded up."""
        with self._using():
            return fraction_up(self._purse.spent_since(value, when))

    def last_begun(self, value: str) -> float:
        """When the last session on a value began, in seconds since 1970.

        Minus infinity if there was none.
        """
        with self._using():
            return self._purse.last_begun(value)

    def values(self) -> tuple[str, ...]:
        """Return the labels of all values."""
        with self._using():
            return self._purse.values()

    # ---- the file --------------------------------------------------------------------------------

    def close(self) -> None:
        """Write everything to the file, and release it."""
        with self._lock:
            if self._process == os.getpid():  # else the lock and the file are the parent's
                self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _using(self) -> RLock:
        """Return the lock to hold while the ledger is used."""
        # A child shares the parent's lock on the mark after a fork, so the lock does not keep the two apart.
        if self._process != os.getpid():
            raise LedgerError(
                f"{self.path} was opened before a fork: only the process that opened it may use it."
            )
        self._store.require_working()
        return self._lock

    def _write(self, rows: Sequence[Row]) -> None:
        """Save rows of the ledger's own kinds."""
        if rows:
            self._store.append(rows)
            for row in rows:
                self._learn(row)

    def _learn(self, row: Kept) -> None:
        """Update the sums with what a row says about losses."""
        session, kind, _, loss, data = row
        self._positions[session] += kind not in _OWN_KINDS
        if kind == "capped":
            self._purse.capped(schema.decode_capped(cast(bytes, data)))
        elif kind == "reserved":
            self._purse.reserved(session, schema.decode_reserved(cast(bytes, data)))
        elif loss is not None:
            self._purse.said(session, loss)
        elif kind in _LAST_WORDS:
            self._purse.settled(session)


def flush_together(ledgers: Iterable[Ledger]) -> dict[Log, LedgerError]:
    """Flush records appended without flush; return ledgers that failed."""
    by_store = {ledger._store: ledger for ledger in ledgers}
    failed: dict[Log, LedgerError] = {
        by_store[store]: error for store, error in flush_stores(by_store).items()
    }
    for ledger in by_store.values():
        if ledger not in failed and ledger._keyless:
            try:
                with ledger._using():
                    ledger._erase_keys()
            except LedgerError as error:
                failed[ledger] = error
    return failed


def _require_wide(cap: schema.Capped) -> None:
    """Refuse a cap that does not cover the change that its series hide.

    Losses of sessions and of series are added up. The sum is about that change only if sessions are counted
    for values that far apart.
    """
    if cap.hides and cap.adjacency < (hides := Hides.parse(cap.hides)).change:
        raise InputError(
            f"the cap of {cap.value!r} is for {_about(cap.adjacency)}, but series on it hide {hides}: it "
            "must cover that change as well. Make it a cap for any two values (`tacit ledger cap --adjacency "
            "inf`)."
        )


def _about(adjacency: float) -> str:
    """Say which values a cap is for."""
    return "any two values" if adjacency == math.inf else f"values up to {adjacency:g} apart"


def _decoded(row: Kept) -> Record:
    return decode_record(cast(bytes, row[4]))


def _cap_row(cap: schema.Capped) -> Row:
    return EVERYONE, "capped", 0, None, msgspec.msgpack.encode(cap)
