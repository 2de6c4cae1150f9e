"""The hub's durable data: invitations, members, tasks and sessions.

It is one SQLite file in the hub's directory, or a database of PostgreSQL for several hosts. The running hub
and the operator's commands both open it: a command writes a row, and the hub sees it at once. So access is
controlled only by the directory's mode, and commands need no other interface. The store contains nothing
private, and only hashes of invitation secrets.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

from tacit.base.errors import FileError, InputError, StoreLost
from tacit.base.files import read_private, read_public
from tacit.live.fleet.database import (
    Database,
    SqliteDatabase,
    StoreRow,
    Taken,
    address_of,
    new_file,
    opened_file,
)
from tacit.live.identity.register import REVOKED, SIGNED

if TYPE_CHECKING:
    from tacit.live.fleet.postgres import PostgresDatabase

STORE = "hub.sqlite"
_VERSION = 1
_APPLICATION = 0x7AC17002
_TABLES = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
PRAGMA journal_mode = WAL;
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE invitation (
    number TEXT PRIMARY KEY,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    pattern TEXT NOT NULL,
    expires INTEGER NOT NULL,
    days REAL NOT NULL,
    used REAL, name TEXT, key TEXT,
    CHECK ((used IS NULL) = (name IS NULL) AND (used IS NULL) = (key IS NULL))
) STRICT;
-- Used once, for ever: whatever a program does wrong, a second use is not written.
CREATE TRIGGER once BEFORE UPDATE ON invitation WHEN OLD.used IS NOT NULL
    BEGIN SELECT RAISE(ABORT, 'used before'); END;
CREATE TABLE member (
    name TEXT PRIMARY KEY, key TEXT NOT NULL, role TEXT NOT NULL, seen REAL NOT NULL, refused TEXT
) STRICT;
CREATE TABLE task (
    name TEXT PRIMARY KEY,
    asked TEXT NOT NULL,
    every REAL,
    times INTEGER,
    started INTEGER NOT NULL DEFAULT 0,
    next REAL NOT NULL,
    state TEXT NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'done', 'stopped', 'failed')),
    note TEXT
) STRICT;
CREATE TABLE session (
    id BLOB PRIMARY KEY CHECK (length(id) = 32),
    name TEXT NOT NULL UNIQUE,
    task TEXT NOT NULL,
    data BLOB NOT NULL,
    made REAL NOT NULL,
    expires INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'finished', 'stopped', 'failed')),
    ended REAL,
    result TEXT
) STRICT;
CREATE INDEX session_state ON session (state);
CREATE INDEX session_task ON session (task);
"""
_ADDED = {"connected": "INTEGER NOT NULL DEFAULT 0", "version": "TEXT", "expires": "REAL"}
"""Columns of `member` that stores of earlier hubs get when they are opened."""
_MEANS = """
CREATE TABLE IF NOT EXISTS mean (
    session BLOB NOT NULL,
    slot INTEGER NOT NULL,
    mean REAL,
    used INTEGER NOT NULL,
    members INTEGER NOT NULL,
    PRIMARY KEY (session, slot)
) STRICT, WITHOUT ROWID;
"""
"""The means of series; stores of hubs from before there were series get it when they are opened.

`vector` has the mean of a question as JSON, and `mean` is then 0."""


SlotMean: TypeAlias = float | list[float] | None
"""The mean of a slot; None if it is lost."""


REGISTER = (SIGNED, REVOKED)
_OF_HOST = ("address", "listen")
"""Settings that each host has of its own."""


class SeenMember(NamedTuple):
    """A member as it connected; `expires` is the end of its certificate."""

    key: str
    role: str
    seen: float
    expires: float | None = None
    version: str = ""


@final
class HubStore:
    """An open store; any thread may call.

    Parameters
    ----------
    home : Path
        The hub's directory.
    create : bool
        Make a new store; one that is there is refused.
    """

    def __init__(self, home: Path, *, create: bool = False) -> None:
        if create:
            new_file(home / STORE, _TABLES)
        self._own = _opened(home)
        self._own.do(_MEANS)
        known = {row["name"] for row in self._own.all("PRAGMA table_info(member)")}
        for column in _ADDED.keys() - known:
            self._own.do(f"ALTER TABLE member ADD COLUMN {column} {_ADDED[column]}")
        if "vector" not in {row["name"] for row in self._own.all("PRAGMA table_info(mean)")}:
            self._own.do("ALTER TABLE mean ADD COLUMN vector TEXT")
        self.database: Database = self._own
        if (address := address_of(home)) is not None:
            from tacit.live.fleet.postgres import PostgresDatabase

            try:
                self.database = PostgresDatabase(address)
            except BaseException:
                self._own.close()
                raise
        self._all, self._do, self._many = self.database.all, self.database.do, self.database.many

    def keep_register(self, folder: Path) -> None:
        """Give the other hosts what an authority has signed and revoked.

        Call it before a certificate leaves, while the register is locked.
        """
        if self.database is not self._own:
            for name in REGISTER:
                if (folder / name).exists():
                    data = read_public(folder / name) if name == REVOKED else read_private(folder / name)
                    self._do(
                        "INSERT INTO register VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET data = "
                        "excluded.data", name, data,
                    )  # fmt: skip

    def register(self) -> dict[str, bytes]:
        """Return what the other hosts have given, by the names of files."""
        if self.database is self._own:
            return {}
        return {row["name"]: row["data"] for row in self._all("SELECT name, data FROM register")}

    def another(self) -> PostgresDatabase:
        """Return a further connection to the same PostgreSQL."""
        from tacit.live.fleet.postgres import PostgresDatabase

        assert isinstance(self.database, PostgresDatabase)
        return PostgresDatabase(self.database.address)

    def close(self) -> None:
        """Close the store."""
        self.database.close()
        self._own.close()

    @contextmanager
    def _leading(self) -> Iterator[None]:
        """Make what only a leader writes one transaction."""
        try:
            with self.database.transaction():
                yield
        except Taken as error:
            raise StoreLost(f"another host has written the same ({error}): it leads, or has led.") from None

    def _one(self, question: str, *given: Any) -> StoreRow | None:
        return next(iter(self._all(question, *given)), None)

    # ---- settings ------------------------------------------------------------------------------------

    def setting(self, name: str, default: str = "") -> str:
        """Return a setting of the hub, or of this host."""
        database = self._own if name in _OF_HOST else self.database
        found = database.all("SELECT value FROM setting WHERE name = ?", name)
        return str(found[0]["value"]) if found else default

    def set_setting(self, name: str, value: str) -> None:
        """Change a setting of the hub, or of this host."""
        database = self._own if name in _OF_HOST else self.database
        database.do(
            "INSERT INTO setting VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            name, value,
        )  # fmt: skip

    # ---- invitations ---------------------------------------------------------------------------------

    def invite(self, number: str, digest: bytes, pattern: str, expires: int, days: float) -> None:
        """Keep an invitation."""
        self._do(
            "INSERT INTO invitation (number, digest, pattern, expires, days) VALUES (?, ?, ?, ?, ?)",
            number, digest, pattern, expires, days,
        )  # fmt: skip

    def invitation(self, number: str) -> StoreRow | None:
        """Return an invitation by its number."""
        return self._one("SELECT * FROM invitation WHERE number = ?", number)

    def use_invitation(self, number: str, name: str, key: str, now: float) -> bool:
        """Record durably that an invitation was used; False if it was before.

        The condition is part of the statement. A check before it would let two clients pass that come at the
        same moment.
        """
        return 1 == self._do(
            "UPDATE invitation SET used = ?, name = ?, key = ? WHERE number = ? AND used IS NULL",
            now, name, key, number,
        )  # fmt: skip

    def withdraw(self, pattern: str) -> int:
        """Remove unused invitations for names that match; return how many."""
        unused = self._all("SELECT number, pattern FROM invitation WHERE used IS NULL")
        found = [row["number"] for row in unused if fnmatchcase(row["pattern"], pattern)]
        return sum(self._do("DELETE FROM invitation WHERE used IS NULL AND number = ?", one) for one in found)

    def open_invitations(self, now: float) -> int:
        """Return how many invitations can still be used."""
        found = self._one("SELECT count(*) AS n FROM invitation WHERE used IS NULL AND expires > ?", now)
        return 0 if found is None else int(found["n"])

    # ---- members -------------------------------------------------------------------------------------

    def note(
        self,
        seen: Mapping[str, SeenMember],
        refused: Mapping[str, str | None],
        progress: Mapping[bytes, dict[str, Any]],
        left: Collection[str] = (),
    ) -> None:
        """Record what members did since the last call, in one transaction.

        `seen` are those that connected, and `left` those that are gone; `refused` has why members did not
        take part last time, None if they did; `progress` is for `set_progress`. Members cause all of it, so
        it must not be one write for each.
        """
        with self.database.transaction():
            self._many(
                "INSERT INTO member (name, key, role, seen, expires, version, connected) "
                "VALUES (?, ?, ?, ?, ?, ?, 1) ON CONFLICT (name) DO UPDATE SET key = excluded.key, "
                "role = excluded.role, seen = excluded.seen, expires = excluded.expires, "
                "version = excluded.version, connected = 1",
                [(name, *one) for name, one in seen.items()],
            )
            self._many(
                "UPDATE member SET refused = ? WHERE name = ?", [(why, name) for name, why in refused.items()]
            )
            self._many("UPDATE member SET connected = 0 WHERE name = ?", [(name,) for name in left])
            for identity, facts in progress.items():
                self.set_progress(identity, facts)

    def nobody_connected(self) -> None:
        """Record that no member is connected: the hub begins."""
        self._do("UPDATE member SET connected = 0 WHERE connected != 0")

    def count_members(self) -> int:
        """Return how many members have ever connected."""
        found = self._one("SELECT count(*) AS n FROM member")
        return 0 if found is None else int(found["n"])

    def members(self) -> list[StoreRow]:
        """Return all members that have ever connected."""
        return self._all("SELECT * FROM member ORDER BY name")

    # ---- what to run ---------------------------------------------------------------------------------

    def add_task(self, name: str, asked: dict[str, Any], every: float | None, times: int | None) -> None:
        """Ask the hub to run a session, once or every `every` seconds."""
        try:
            self._do(
                "INSERT INTO task (name, asked, every, times, next) VALUES (?, ?, ?, ?, ?)",
                name, json.dumps(asked), every, times, time.time(),
            )  # fmt: skip
        except Taken:
            raise InputError(
                f"this hub has run something called {name} before: choose another --name."
            ) from None

    def due_tasks(self) -> list[StoreRow]:
        """Return what is still to be run, whether its time has come or not."""
        return self._all("SELECT * FROM task WHERE state = 'due' ORDER BY next")

    def task(self, name: str) -> StoreRow | None:
        """Return a task by its name."""
        return self._one("SELECT * FROM task WHERE name = ?", name)

    def tasks(self) -> list[StoreRow]:
        """Return all tasks."""
        return self._all("SELECT * FROM task ORDER BY rowid")

    def set_task(self, name: str, **fields: Any) -> None:
        """Change columns of a task that is still due.

        The state is part of the condition: what the hub writes must not undo a command that has just stopped
        the task.
        """
        columns = ", ".join(f"{column} = ?" for column in fields)
        self._do(f"UPDATE task SET {columns} WHERE name = ? AND state = 'due'", *fields.values(), name)

    # ---- sessions ------------------------------------------------------------------------------------

    def start_session(
        self, task: str, identity: bytes, name: str, data: bytes, expires: int, *, next_run: float, last: bool
    ) -> None:
        """Record a session and its start by a task, both or neither.

        If a crash left only the session, its task would begin the same number again. If it left only the
        task's count, the session would be missing. A task that was stopped meanwhile, by a command in another
        process, stays stopped.
        """
        with self._leading():
            self._do(
                "INSERT INTO session (id, name, task, data, made, expires) VALUES (?, ?, ?, ?, ?, ?)",
                identity, name, task, data, time.time(), expires,
            )  # fmt: skip
            self._do(
                "UPDATE task SET started = started + 1, next = ?, note = NULL, "
                "state = CASE WHEN ? AND state = 'due' THEN 'done' ELSE state END WHERE name = ?",
                next_run, last, task,
            )  # fmt: skip

    def set_progress(self, identity: bytes, facts: dict[str, Any]) -> None:
        """Record how a session under way stands."""
        self._do(
            "UPDATE session SET result = ? WHERE id = ? AND state = 'running'", json.dumps(facts), identity
        )

    def publish_mean(
        self, identity: bytes, row: tuple[int, SlotMean, int, int], facts: dict[str, Any]
    ) -> None:
        """Record a slot, and how its series stands, both or neither.

        `row` is the slot, its mean, and how many messages and members it is of.
        """
        slot, mean, *counts = row
        vector = json.dumps(mean) if isinstance(mean, list) else None
        values = (identity, slot, mean if vector is None else 0.0, *counts, vector)
        with self._leading():
            self._do("INSERT INTO mean VALUES (?, ?, ?, ?, ?, ?)", *values)
            self.set_progress(identity, facts)

    def slots_written(self, identity: bytes) -> int:
        """Return how many slots of a series are recorded."""
        found = self._one("SELECT count(*) AS n FROM mean WHERE session = ?", identity)
        return 0 if found is None else int(found["n"])

    def last_mean(self, identity: bytes) -> dict[str, Any] | None:
        """Return slot, mean, messages and members of the last slot with a mean."""
        asked = "SELECT slot, mean, used, members, vector FROM mean WHERE session = ? AND mean IS NOT NULL"
        found = self._one(f"{asked} ORDER BY slot DESC LIMIT 1", identity)
        return None if found is None else _with_vector(found)

    def means(self, identity: bytes) -> list[dict[str, Any]]:
        """Return what is recorded of all slots of a series, the first slot first."""
        asked = "SELECT slot, mean, used, members, vector FROM mean WHERE session = ? ORDER BY slot"
        return [_with_vector(row) for row in self._all(asked, identity)]

    def end_session(self, identity: bytes, state: str, result: dict[str, Any]) -> None:
        """Record the result of a session."""
        self._do(
            "UPDATE session SET state = ?, ended = ?, result = ? WHERE id = ? AND state = 'running'",
            state, time.time(), json.dumps(result), identity,
        )  # fmt: skip

    def session(self, identity: bytes) -> StoreRow | None:
        """Return a session by its id."""
        return self._one("SELECT * FROM session WHERE id = ?", identity)

    def running_sessions(self) -> list[StoreRow]:
        """Return the sessions that are not over."""
        return self._all("SELECT * FROM session WHERE state = 'running' ORDER BY made")

    def sessions(self, task: str | None = None, most: int = 1_000_000) -> list[StoreRow]:
        """Return sessions of one task, or the last of all, the oldest first."""
        if task is not None:
            return self._all("SELECT * FROM session WHERE task = ? ORDER BY made", task)
        return self._all("SELECT * FROM session ORDER BY made DESC LIMIT ?", most)[::-1]

    def find_sessions(self, word: str) -> list[StoreRow]:
        """Return running sessions by name, task, or the beginning of their id."""
        rows = self.running_sessions()
        return [row for row in rows if word in (row["name"], row["task"]) or row["id"].hex().startswith(word)]

    def cancel(self, identity: bytes) -> None:
        """Let the host that leads cancel a session.

        A hub on one host sees the signed file.
        """
        if self.database is not self._own:
            self.set_setting(f"cancel {identity.hex()}", "")

    def cancelled(self) -> set[bytes]:
        """Return the sessions that a command on any host has cancelled."""
        if self.database is self._own:
            return set()
        rows = self._all("SELECT name FROM setting WHERE substr(name, 1, 7) = 'cancel '")
        return {bytes.fromhex(row["name"].removeprefix("cancel ")) for row in rows}

    def outcomes(self) -> dict[str, int]:
        """Return how many sessions there are in each state."""
        return {
            row["state"]: row["n"]
            for row in self._all("SELECT state, count(*) AS n FROM session GROUP BY state")
        }

    def forget(self, now: float, seconds: float, most: int) -> None:
        """Drop what is no longer needed of sessions that are over and expired.

        Results are kept for some seconds, and of at most `most` sessions. The session itself (`data`) is
        dropped at its expiry: until then a member that was away may ask how it ended.
        """
        over = "state != 'running' AND expires <"
        dropped = self._do(f"UPDATE session SET data = ? WHERE {over} ? AND data != ?", b"", now, b"")
        self._do(f"DELETE FROM session WHERE {over} ?", now - seconds)
        oldest = "SELECT made FROM session ORDER BY made DESC LIMIT 1 OFFSET ?"
        self._do(f"DELETE FROM session WHERE {over} ? AND made <= ({oldest})", now, most)
        self._do("DELETE FROM mean WHERE session NOT IN (SELECT id FROM session)")
        if dropped and self.database is not self._own:
            # Last: a session that has its data could be resumed, and would begin again without records.
            self._do("DELETE FROM log WHERE session NOT IN (SELECT id FROM session WHERE data != ?)", b"")
            for identity in self.cancelled():
                if (row := self.session(identity)) is None or row["state"] != "running":
                    self._do("DELETE FROM setting WHERE name = ?", f"cancel {identity.hex()}")


def host_setting(home: Path, name: str) -> str:
    """Return a setting of this host, also while no database is there."""
    own = _opened(home)
    try:
        return str(own.all("SELECT value FROM setting WHERE name = ?", name)[0]["value"])
    finally:
        own.close()


def _opened(home: Path) -> SqliteDatabase:
    path = home / STORE
    if not path.exists():
        raise FileError(f"{home} is not a hub's directory: make one with `tacit hub new`.")
    return opened_file(path, _APPLICATION, _VERSION)


def _with_vector(row: StoreRow) -> dict[str, Any]:
    """Return a slot, with the vector as its mean if it has one."""
    found = dict(row)
    vector = found.pop("vector")
    return found if vector is None else found | {"mean": json.loads(vector)}


def as_facts(rows: Sequence[StoreRow]) -> list[dict[str, Any]]:
    """Return rows ready for JSON: ids as text, results parsed."""
    found = []
    for row in rows:
        facts = {key: row[key] for key in row if key not in ("data", "digest", "rowid")}
        for key in ("result", "asked"):
            if isinstance(facts.get(key), str):
                facts[key] = json.loads(facts[key])
        found.append(
            {key: value.hex() if isinstance(value, bytes) else value for key, value in facts.items()}
        )
    return found
