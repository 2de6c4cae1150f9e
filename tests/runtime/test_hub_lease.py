"""Who leads a hub on several hosts, and what its database may not lose. These need a real PostgreSQL."""

import os
import shutil
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.doubles.postgres import Server, require_postgres, server
from tests.runtime.builders import ONE as S

from tacit.base.errors import InputError, LedgerError, LedgerInUse, StoreLost
from tacit.core.protocol.records import Closed, Ended, Opened
from tacit.live.fleet import lease as leases
from tacit.live.fleet import postgres
from tacit.live.fleet.lease import HostMark, Lease
from tacit.live.fleet.postgres import PostgresDatabase, require_address, use
from tacit.live.fleet.postgres_log import PostgresLog
from tacit.live.fleet.store import HubStore
from tacit.live.ledger.rollback_guard import Position
from tacit.live.runtime.workers import opened_ledger

OPENED = Opened(S, (0, 1))


def feedback(update, data=b"feedback"):
    return Closed(update, data, (0,), (b"report",))


class Host:
    """A host with its mark, which opens its connections as it needs them."""

    def __init__(self, folder, address):
        folder.mkdir(exist_ok=True)
        self.address, self.mark, self.lease, self.made = address, HostMark(folder), None, []

    def take(self, **given):
        database = PostgresDatabase(self.address)
        self.made.append(database)
        self.lease, found = Lease.taken(database, self.mark, "wss://h:1", **given)
        return self.lease, found

    def log(self):
        self.made.append(PostgresLog(PostgresDatabase(self.address), self.lease))
        return self.made[-1]

    def close(self):
        for one in self.made:
            one.close()
        self.mark.close()


@pytest.fixture
def hosts(tmp_path):
    require_postgres()
    made, address = [], server().new()

    def host(name, at=address):
        made.append(Host(tmp_path / name, at))
        return made[-1]

    yield host
    for one in made:
        one.close()


def test_one_host_leads_at_a_time(hosts):
    one, other = hosts("one"), hosts("other")
    assert one.take()[0].holds()
    nothing, found = other.take()
    assert nothing is None
    assert (found.led, found.holder) == (True, "wss://h:1")
    one.lease.give_back()
    assert not one.lease.holds()
    assert other.take()[0].epoch == 2


def test_a_lease_that_another_has_taken_is_over(hosts, monkeypatch):
    monkeypatch.setattr(leases, "RENEWED", 0.01)
    one, other = hosts("one"), hosts("other")
    one.take()
    other.take(force=True)
    one.lease._thread.join()
    assert not one.lease.holds()
    with pytest.raises(StoreLost):
        one.lease.require()
    assert other.lease.holds()


def test_a_lease_ends_by_the_clock_of_its_host(hosts, monkeypatch):
    """Also while the machine sleeps, and whatever its database says."""
    one = hosts("one")
    one.take()
    end = leases.since_boot() + leases.SECONDS + 1
    monkeypatch.setattr(leases, "since_boot", lambda: end)
    assert not one.lease.holds()
    with pytest.raises(StoreLost):
        one.log().append(S, [OPENED], after=0)


def test_of_two_leaders_one_can_save(hosts):
    """Both believe to lead, with the same records; the second to save is refused, and saves nothing."""
    one, other = hosts("one"), hosts("other")
    one.take()
    log = one.log()
    log.append(S, [OPENED], after=0)
    other.take(force=True)
    late = other.log()
    assert log.records(S) == late.records(S) == [OPENED]
    assert one.lease.holds()
    late.append(S, [feedback(0, b"other")], after=1)
    with pytest.raises(LedgerError):
        log.append(S, [feedback(0)], after=1)
    with pytest.raises(LedgerError):  # it is never used again
        log.append(S, [feedback(0)], after=2)
    assert late.records(S) == [OPENED, feedback(0, b"other")]


def test_a_leader_that_was_replaced_saves_nothing_more(hosts):
    """Also where the new one has written nothing yet, and the old one does not know of it."""
    one, other = hosts("one"), hosts("other")
    one.take()
    log = one.log()
    log.append(S, [OPENED], after=0)
    other.take(force=True)
    assert one.lease.holds()
    with pytest.raises(LedgerError):
        log.append(S, [feedback(0)], after=1)
    assert other.log().records(S) == [OPENED]


def test_without_the_fence_the_position_still_decides(hosts):
    """Two logs with one lease, as if it protected nothing: a position has one record, be it an end."""
    one = hosts("one")
    one.take()
    log, twin = one.log(), one.log()
    log.append(S, [OPENED], after=0)
    twin.append(S, [feedback(0)], after=1)
    with pytest.raises(LedgerError):
        log.append(S, [Ended(0, None)], after=1)
    assert twin.records(S) == [OPENED, feedback(0)]


def test_a_leader_that_is_paused_within_a_transaction_keeps_nobody_waiting(hosts, monkeypatch):
    monkeypatch.setattr(postgres, "PATIENCE", 1.0)
    one = hosts("one")
    paused, other = PostgresDatabase(one.address), PostgresDatabase(one.address)
    within = paused.transaction()
    within.__enter__()
    paused.do("UPDATE lease SET holder = 'paused'")
    monkeypatch.setattr(postgres, "PATIENCE", 60.0)
    assert other.do("UPDATE lease SET holder = 'other'") == 1
    with pytest.raises(StoreLost):
        within.__exit__(None, None, None)
    assert other.all("SELECT holder FROM lease")[0]["holder"] == "other"
    other.close()


def test_a_server_that_hangs_is_given_up(hosts, monkeypatch):
    database = PostgresDatabase(hosts("one").address)
    monkeypatch.setattr(postgres, "PATIENCE", 0.3)
    server().send(signal.SIGSTOP)
    try:
        with pytest.raises(StoreLost):
            database.all("SELECT 1")
    finally:
        server().send(signal.SIGCONT)
    with pytest.raises(StoreLost):  # the answer to the first statement may still come
        database.all("SELECT 2")
    assert not database.usable


@contextmanager
def set_to(address, **settings):
    """Change settings of the server while the block lasts."""
    import psycopg

    def change(words):
        with psycopg.connect(address, autocommit=True) as made:
            for name in settings:
                made.execute(f"ALTER SYSTEM {words(name)}")
            made.execute("SELECT pg_reload_conf()")
            for name, value in settings.items():
                while (made.execute(f"SHOW {name}").fetchone()[0] == value) is not (words(name)[0] == "S"):
                    time.sleep(0.01)

    change(lambda name: f"SET {name} = '{settings[name]}'")
    try:
        yield
    finally:
        change(lambda name: f"RESET {name}")


def test_a_commit_that_does_not_wait_for_a_standby_is_a_failed_save(hosts, monkeypatch):
    """The server says that all is well, and warns."""
    monkeypatch.setattr(postgres, "PATIENCE", 60.0)
    one = hosts("one")
    one.take()
    log, killer = one.log(), PostgresDatabase(one.address)
    log.append(S, [OPENED], after=0)

    def cancel():
        waits = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%INSERT INTO log%'"
        while not killer.all(f"SELECT pg_cancel_backend(pid) {waits}"):
            time.sleep(0.01)

    with set_to(one.address, synchronous_standby_names="nobody"):
        cancelling = threading.Thread(target=cancel)
        cancelling.start()
        with pytest.raises(StoreLost, match="warns"):
            log.append(S, [feedback(0)], after=1)
        cancelling.join()
    killer.close()


def test_each_append_is_synchronous_whatever_the_server_does_by_default(hosts):
    one = hosts("one")
    undo(one, f"ALTER DATABASE {one.address.split('/')[3].partition('?')[0]} SET synchronous_commit = off")
    one.take()
    log = one.log()
    log.append(S, [OPENED], after=0)
    log._database.do("SET synchronous_commit = off")  # as a pooler's other clients may
    with pytest.raises(LedgerError, match="synchronous_commit"):
        log.append(S, [feedback(0)], after=1)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_loses_commits_is_refused(hosts, setting):
    address = hosts("one").address
    with set_to(address, **{setting: "off"}), pytest.raises(InputError, match=setting):
        PostgresDatabase(address)


def given_up(host):
    database = PostgresDatabase(host.address)
    rows = database.all("SELECT state, data FROM session")
    database.close()
    return [(row["state"], row["data"]) for row in rows]


def begin(host):
    database = PostgresDatabase(host.address)
    database.do(
        "INSERT INTO session (id, name, task, data, made, expires) VALUES (?, ?, ?, ?, ?, ?)",
        S, "load", "load", b"data", 0.0, 2**31,
    )  # fmt: skip
    database.do("INSERT INTO invitation VALUES (?, ?, ?, ?, ?)", "ab" * 6, b"d" * 32, "x", 2**31, 1.0)
    database.close()


def undo(host, sql):
    database = PostgresDatabase(host.address)
    database.do(sql)
    database.close()


def test_a_database_behind_the_mark_of_a_host_gives_up_what_was_under_way(hosts):
    """A standby has seen more than there is now, so it leads, whoever did; the next hosts go on."""
    one, other, third = hosts("one"), hosts("other"), hosts("third")
    begin(one)
    one.take()
    log = one.log()
    log.append(S, [OPENED], after=0)
    log.append(S, [feedback(0)], after=1)
    for host in (other, third):
        assert host.take()[0] is None  # they have seen two steps
    undo(one, "DELETE FROM log WHERE position = 1")
    undo(one, "UPDATE lease SET written = 1")
    lease, _ = other.take()
    assert lease.gave_up
    assert given_up(one) == [("failed", b"")]
    assert not one.log().records(b"x" * 32)
    with pytest.raises(LedgerError):
        log.append(S, [feedback(1)], after=2)
    begin_again = PostgresDatabase(one.address)
    assert not begin_again.all("SELECT 1 FROM invitation")
    begin_again.do("UPDATE session SET state = 'running', data = ?", b"next")
    begin_again.close()
    assert third.take()[0] is None  # it knows that this was seen to
    lease.give_back()
    assert third.take()[0].gave_up is None
    assert given_up(one) == [("running", b"next")]


def test_a_database_older_than_an_earlier_loss_is_found_out_again(hosts):
    """The host has seen sessions given up once; the database does not know of that any more."""
    one = hosts("one")
    begin(one)
    one.take()
    undo(
        one,
        "UPDATE lease SET epoch = 0, nonce = decode(repeat('00', 16), 'hex'), written = 0, until = 'epoch'",
    )
    undo(one, "DELETE FROM reign WHERE epoch > 0")
    for _ in range(2):
        assert one.take()[0].gave_up
        one.lease.give_back()
        assert one.take()[0].gave_up is None
        one.lease.give_back()
        undo(one, "UPDATE lease SET epoch = 0, nonce = decode(repeat('00', 16), 'hex'), written = 0")
        undo(one, "DELETE FROM reign WHERE epoch > 0")


def test_a_database_that_goes_on_is_no_trouble(hosts):
    one, other = hosts("one"), hosts("other")
    begin(one)
    for host in (one, other, one, other):
        lease, _ = host.take()
        assert lease.gave_up is None
        host.log().append(bytes([lease.epoch]) * 32, [Opened(bytes([lease.epoch]) * 32, ())], after=0)
        lease.give_back()
    assert given_up(one) == [("running", b"data")]


@pytest.mark.parametrize(
    ("changed", "synchronous", "lost"),
    [
        ({"timeline": 1}, False, True),
        ({"timeline": 1}, True, False),
        ({"system": 1}, True, True),
        ({"epoch": 1}, True, True),
    ],
)
def test_what_a_failover_of_the_database_may_lose(hosts, changed, synchronous, lost):
    """A standby of the database has another timeline, and a copy another identity."""
    one = hosts("one")
    begin(one)
    one.take()
    one.lease.give_back()
    known = one.mark._known
    system, timeline, epoch, voided = leases._HEAD.unpack(known.head)
    system, timeline = system + changed.get("system", 0), timeline + changed.get("timeline", 0)
    head = leases._HEAD.pack(system, timeline, epoch + changed.get("epoch", 0), voided)
    one.mark.keep(Position(known.generation, known.count, head, inode=0, born=True))
    lease, _ = one.take(synchronous=synchronous)
    assert (lease.gave_up is not None) is lost
    assert given_up(one) == [("failed", b"") if lost else ("running", b"data")]


@pytest.mark.long
def test_an_older_base_backup_is_found_out(tmp_path):
    require_postgres()
    own = Server()
    one = Host(tmp_path / "one", own.address("postgres"))
    try:
        begin(one)
        one.take()
        log = one.log()
        log.append(S, [OPENED], after=0)
        backup = own.backup()
        log.append(S, [feedback(0)], after=1)
        one.lease.give_back()
        log.close()
        own.stop()
        shutil.move(own.data, own.folder / "lost")
        shutil.move(backup, own.data)
        own.start()
        lease, _ = one.take()
        assert lease.gave_up
        assert given_up(one) == [("failed", b"")]
    finally:
        one.close()
        own.drop()


def test_one_process_of_a_host_leads_or_stands_by(tmp_path):
    mark = HostMark(tmp_path)
    with pytest.raises(LedgerInUse):
        HostMark(tmp_path)
    mark.close()


def test_tables_of_a_newer_tacit_are_refused(hosts):
    one = hosts("one")
    database = PostgresDatabase(one.address)
    database.do("UPDATE version SET version = 9, least = 1")  # it was only added to
    PostgresDatabase(one.address).close()
    database.do("UPDATE version SET least = 9")
    database.close()
    with pytest.raises(InputError, match="update"):
        PostgresDatabase(one.address)


@pytest.mark.parametrize(
    "address",
    [
        "hub.sqlite",
        "mysql://x/y",
        "postgresql://u:secret@h/d",
        "postgresql://h/d?password=secret",
        "postgresql://[/",
    ],
)
def test_an_address_that_holds_a_password_is_refused(address):
    pytest.importorskip("psycopg")
    with pytest.raises(InputError) as caught:
        require_address(address)
    assert "secret" not in str(caught.value)


def test_no_error_of_the_database_shows_a_password(monkeypatch):
    pytest.importorskip("psycopg")
    monkeypatch.setenv("PGPASSWORD", "secret")
    with pytest.raises(StoreLost) as caught:
        PostgresDatabase("postgresql://tacit@127.0.0.1:1/tacit")
    assert "secret" not in str(caught.value)


def test_a_hub_that_has_run_before_keeps_its_store(tmp_path):
    """Nothing is moved to a database, and nothing is lost without a word."""
    pytest.importorskip("psycopg")
    store = HubStore(tmp_path, create=True)
    store.add_task("load", {}, None, None)
    store.close()
    with pytest.raises(InputError, match="not moved"):
        use(tmp_path, "postgresql://tacit@127.0.0.1:1/tacit")
    assert not (tmp_path / "database").exists()


async def ledger_at(address):
    await opened_ledger(Path(address))


def test_agents_and_keepers_never_use_a_database(tmp_path, monkeypatch):
    import asyncio

    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="file"):
        asyncio.run(ledger_at("postgresql://tacit@h/tacit"))
    assert os.listdir(tmp_path) == []
