"""A hub's database in PostgreSQL, for hubs on several hosts.

Whatever goes wrong (a lost connection, a statement that takes too long, a commit whose outcome is unknown)
ends with the connection closed and `StoreLost`. Nothing is tried twice. Whoever used it discards what it
made from the database, connects again, and reads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any, final

from tacit.base.arguments import plain
from tacit.base.errors import InputError, StoreLost
from tacit.base.extras import missing_extra
from tacit.base.files import write_whole
from tacit.live.fleet.database import DATABASE, Database, StoreRow, Taken

VERSION = 1
"""The version of the tables that this tacit makes and uses."""
PATIENCE = 4.0
"""Seconds that a statement may take. A leader must notice a database that hangs before its lease is over."""
_CONNECTING = 3
_SETTINGS = {
    # A commit is on the disk when it returns, whatever the server's own setting is.
    "synchronous_commit": "on",
    "client_encoding": "UTF8",
    "TimeZone": "UTC",
}
_NEEDED = ("fsync", "full_page_writes")
_TABLES = """
CREATE TABLE setting (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE invitation (
    number text PRIMARY KEY,
    digest bytea NOT NULL CHECK (length(digest) = 32),
    pattern text NOT NULL,
    expires bigint NOT NULL,
    days double precision NOT NULL,
    used double precision, name text, key text,
    CHECK ((used IS NULL) = (name IS NULL) AND (used IS NULL) = (key IS NULL))
);
CREATE TABLE member (
    name text COLLATE "C" PRIMARY KEY, key text NOT NULL, role text NOT NULL, seen double precision NOT NULL,
    refused text, connected bigint NOT NULL DEFAULT 0, version text, expires double precision
);
CREATE TABLE task (
    name text PRIMARY KEY,
    asked text NOT NULL,
    every double precision,
    times bigint,
    started bigint NOT NULL DEFAULT 0,
    next double precision NOT NULL,
    state text NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'done', 'stopped', 'failed')),
    note text,
    rowid bigint GENERATED ALWAYS AS IDENTITY
);
CREATE TABLE session (
    id bytea PRIMARY KEY CHECK (length(id) = 32),
    name text NOT NULL UNIQUE,
    task text NOT NULL,
    data bytea NOT NULL,
    made double precision NOT NULL,
    expires bigint NOT NULL,
    state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'finished', 'stopped', 'failed')),
    ended double precision,
    result text
);
CREATE INDEX session_state ON session (state);
CREATE INDEX session_task ON session (task);
CREATE TABLE mean (
    session bytea NOT NULL,
    slot bigint NOT NULL,
    mean double precision,
    used bigint NOT NULL,
    members bigint NOT NULL,
    vector text,
    PRIMARY KEY (session, slot)
);
CREATE TABLE mark (key bytea PRIMARY KEY, mark bytea NOT NULL);
-- What the authority has signed and revoked: the files of its register, as the last leader wrote them.
CREATE TABLE register (name text PRIMARY KEY, data bytea NOT NULL);
-- The coordinator's records. Two machines of one session cannot both add the record of one position.
CREATE TABLE log (
    session bytea NOT NULL CHECK (length(session) = 32),
    position bigint NOT NULL CHECK (position >= 0),
    kind text NOT NULL,
    number bigint NOT NULL CHECK (number >= 0),
    data bytea NOT NULL,
    PRIMARY KEY (session, position),
    UNIQUE (session, kind, number)
);
-- Who leads: one row. `written` counts the steps that were saved, ever.
CREATE TABLE lease (
    one bigint PRIMARY KEY CHECK (one = 1),
    epoch bigint NOT NULL,
    nonce bytea NOT NULL CHECK (length(nonce) = 16),
    holder text NOT NULL,
    until timestamptz NOT NULL,
    written bigint NOT NULL
);
-- All who ever led, and how many steps were saved before.
CREATE TABLE reign (
    epoch bigint PRIMARY KEY,
    nonce bytea NOT NULL UNIQUE CHECK (length(nonce) = 16),
    first bigint NOT NULL,
    voided boolean NOT NULL
);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE integrity_constraint_violation USING MESSAGE = 'append only'; END $$;
-- Used once, for ever: whatever a program does wrong, a second use is not written.
CREATE TRIGGER once BEFORE UPDATE ON invitation FOR EACH ROW WHEN (OLD.used IS NOT NULL)
    EXECUTE FUNCTION refuse();
CREATE TRIGGER never_changed BEFORE UPDATE ON log FOR EACH ROW EXECUTE FUNCTION refuse();
INSERT INTO lease VALUES (1, 0, '\\x00000000000000000000000000000000', '', '-infinity', 0);
INSERT INTO reign VALUES (0, '\\x00000000000000000000000000000000', 0, false);
"""
_STEPS = (_TABLES,)
"""What makes each version of the tables out of the one before.

A step only adds, so that hosts of the version before go on. What they need is dropped a version later, and
`least` says then which versions can still use the tables.
"""


@final
class PostgresDatabase(Database):
    """A connection to the database of a hub, checked when it is made."""

    def __init__(self, address: str) -> None:
        self.address, self._lock, self._warned = address, RLock(), ""
        self._open = _connected(address)
        try:
            with self._explained():
                self._open.add_notice_handler(self._notice)
                # A process that is paused within a transaction must lose its locks before others that wait
                # for them give up.
                waits = {"idle_in_transaction_session_timeout": f"{500 * PATIENCE:.0f}ms"}
                for name, value in {**_SETTINGS, **waits}.items():
                    self._open.execute("SELECT set_config(%s, %s, false)", (name, value))
                self._require_sound()
                self._make_tables()
        except BaseException:
            self._open.close()
            raise

    def _require_sound(self) -> None:
        """Refuse a server that loses commits when the power fails."""
        for setting in _NEEDED:
            (value,) = self._open.execute("SELECT current_setting(%s)", (setting,)).fetchone().values()
            if value != "on":
                raise InputError(
                    f"the database must have {setting} = on, and has {setting} = {value}: a power cut could "
                    "take back what was sent. Change it in postgresql.conf."
                )
        (recovering,) = self._open.execute("SELECT pg_is_in_recovery()").fetchone().values()
        if recovering:
            raise StoreLost("the database takes no changes: it is a standby of another one.")

    def _make_tables(self) -> None:
        with self._open.transaction():
            # Hosts that start together make the tables once.
            self._open.execute("SELECT pg_advisory_xact_lock(7447, 1)")
            self._open.execute("CREATE SCHEMA IF NOT EXISTS tacit")
            self._open.execute("CREATE TABLE IF NOT EXISTS tacit.version (version bigint, least bigint)")
            found = self._open.execute("SELECT version, least FROM tacit.version").fetchone()
            version, least = (0, 0) if found is None else (found["version"], found["least"])
            if least > VERSION:
                raise InputError(
                    f"the database has tables of version {version}, which need a tacit that knows version "
                    f"{least} or later, and this one knows {VERSION}: update it."
                )
            self._open.execute("SELECT set_config('search_path', 'tacit', false)")
            for step in _STEPS[version:]:
                self._open.execute(step.encode())
            if version < VERSION:
                self._open.execute("DELETE FROM tacit.version")
                self._open.execute("INSERT INTO tacit.version VALUES (%s, %s)", (VERSION, 1))

    def all(self, question: str, *given: Any) -> list[StoreRow]:
        """Return the rows that a statement finds."""
        with self._lock, self._explained():
            found: list[StoreRow] = self._open.execute(_asked(question), given or None).fetchall()
        return found

    def do(self, command: str, *given: Any) -> int:
        """Carry out a statement; return how many rows it changed."""
        with self._lock, self._explained():
            return int(self._open.execute(_asked(command), given or None).rowcount)

    def many(self, command: str, rows: Sequence[Sequence[Any]]) -> None:
        """Carry out a statement for each of these rows."""
        with self._lock, self._explained(), self._open.cursor() as cursor:
            cursor.executemany(_asked(command), rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all statements within it one."""
        with self._lock, self._explained(), self._open.transaction():
            yield

    def size(self) -> int:
        """Return how many bytes the database has."""
        return int(self.all("SELECT pg_database_size(current_database()) AS size")[0]["size"])

    @property
    def usable(self) -> bool:
        """Whether it can still be used."""
        return not self._open.closed

    def close(self) -> None:
        """Close the connection."""
        # Without the lock: a thread may wait for a server that does not answer.
        with suppress(Exception):
            self._open.close()

    def _notice(self, diagnosis: Any) -> None:
        if diagnosis.severity_nonlocalized == "WARNING":
            self._warned = self._warned or plain(str(diagnosis.message_primary))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Close the connection after any trouble, and say so in one sentence."""
        import psycopg

        try:
            yield
        except psycopg.errors.IntegrityError as error:
            raise Taken(_said(error)) from None
        except psycopg.Error as error:
            self.close()
            raise StoreLost(f"the database cannot be used: {_said(error)}") from None
        # A commit that gave up waiting for a standby server returns with a warning, and as if it were safe.
        if self._warned:
            self.close()
            raise StoreLost(f"the database warns, so nothing counts as saved: {self._warned}.")


def _asked(statement: str) -> str:
    return statement.replace("?", "%s")


def _said(error: Exception) -> str:
    """Return the reason in one sentence, without values and passwords."""
    diagnosis = getattr(error, "diag", None)
    said = getattr(diagnosis, "message_primary", None) or str(error)
    return plain(said.strip().partition("\n")[0])[:200] or type(error).__name__


def _connected(address: str) -> Any:
    import_psycopg()
    import psycopg

    require_address(address)
    try:
        return _patient().connect(address, autocommit=True, row_factory=psycopg.rows.dict_row, **_NETWORK)
    except psycopg.Error as error:
        raise StoreLost(f"the database cannot be reached: {_said(error)}") from None


_NETWORK: dict[str, Any] = {
    "connect_timeout": _CONNECTING,
    "application_name": "tacit",
    "prepare_threshold": None,  # a pooler may give each transaction another connection
    "target_session_attrs": "read-write",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}


def import_psycopg() -> None:
    """Say which extra to install where psycopg is missing."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise missing_extra(error, "a hub on PostgreSQL") or error from None


@cache
def _patient() -> Any:
    import psycopg

    class Patient(psycopg.Connection[StoreRow]):
        """A connection that gives up a server that does not answer."""

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            """Wait for the server, but not for ever."""
            return super().wait(gen, interval, PATIENCE if timeout is None else timeout)

    return Patient


def require_address(address: str) -> None:
    """Refuse what is no address of a database, or holds a password."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        found = conninfo_to_dict(address) if address.startswith(("postgresql://", "postgres://")) else None
    except ProgrammingError:
        found = None
    if found is None:
        raise InputError(
            "--store must be the address of a database, like postgresql://tacit@db.example.org/tacit or "
            "postgresql://?service=tacit."
        )
    if found.get("password"):
        raise InputError(
            "--store must have no password: others see it in the list of processes. Put it into a file "
            "(PGPASSFILE, or a service file) that only you can read."
        )


def require_usable(address: str) -> None:
    """Refuse a database that a hub cannot use."""
    import_psycopg()
    PostgresDatabase(address).close()


def use(home: Path, address: str) -> None:
    """Let a hub's directory use this database from now on.

    What is in the store of its own is not moved, so a hub that has run before is refused.
    """
    from tacit.live.fleet.database import address_of
    from tacit.live.fleet.store import HubStore

    import_psycopg()
    require_address(address)
    known = address_of(home)
    if known == address:
        return  # it may be away now
    if known is None:
        store = HubStore(home)
        try:
            used = store.members() or store.tasks() or store.open_invitations(time.time())
        finally:
            store.close()
        if used:
            raise InputError(
                f"{home} has members, tasks or invitations in a store of its own, which are not moved to a "
                "database: use --store from the first start on, or make another hub."
            )
    require_usable(address)  # before the directory changes
    write_whole(home / DATABASE, address.encode() + b"\n", force=True)
