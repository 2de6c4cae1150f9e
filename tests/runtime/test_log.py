"""What every log of records promises, whatever keeps it."""

import pytest
from tests.doubles import small_session
from tests.doubles.postgres import require_postgres, server
from tests.runtime.builders import ONE as S

from tacit.base.errors import InputError, LedgerError
from tacit.core.protocol.messages import Reason
from tacit.core.protocol.records import Closed, Ended, Evidence, Opened
from tacit.core.protocol.roster import Member
from tacit.live.fleet.lease import HostMark, Lease
from tacit.live.fleet.postgres import PostgresDatabase
from tacit.live.fleet.postgres_log import PostgresLog
from tacit.live.identity.identity import provision
from tacit.live.ledger.ledger import Ledger
from tacit.live.ledger.log import Log
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.runtime.keeper import Keeper
from tacit.live.transport.memory import MemoryNetwork

T = b"t" * 32
OPENED = Opened(S, (0, 1))


def feedback(update, data=b"feedback"):
    return Closed(update, data, (0,), (b"report",))


@pytest.fixture(params=["file", "postgres"])
def opened(request, path, tmp_path):
    """Return a function that opens the same log again, after whoever had it before."""
    made, address = [], None
    if request.param == "postgres":
        require_postgres()
        address = server().new()

    def on_postgres():
        database = PostgresDatabase(address)
        mark = HostMark(tmp_path)
        lease, _ = Lease.taken(database, mark, "wss://h:1", force=True)
        made.extend((mark, _Given(lease), PostgresLog(PostgresDatabase(address), lease)))
        return made[-1]

    def again():
        close()
        if address is not None:
            return on_postgres()
        made.append(Ledger(path))
        return made[0]

    def close():
        while made:
            made.pop().close()

    yield again
    close()


class _Given:
    """A lease that is given back, with its connection."""

    def __init__(self, lease):
        self.lease = lease

    def close(self):
        self.lease.give_back()


def test_records_come_back_in_order(opened):
    log = opened()
    records = [OPENED, feedback(0), Evidence(1, 0, b"d" * 32, b"one", b"two"), feedback(1)]
    log.append(S, records[:1], after=0)
    log.append(T, [Opened(T, ()), feedback(0, b"other")], after=0)
    log.append(S, records[1:], after=1)
    assert log.records(S) == records
    again = opened()
    assert again.records(S) == records
    assert again.records(T) == [Opened(T, ()), feedback(0, b"other")]
    assert again.records(b"u" * 32) == []
    again.append(S, [Ended(2, None)], after=4)
    assert again.records(S) == [*records, Ended(2, None)]


@pytest.mark.parametrize(
    "stale", [feedback(1, b"another"), Ended(1, Reason.OPERATOR), Evidence(1, 0, b"d" * 32, b"", b"")]
)
@pytest.mark.parametrize("after", [0, 1, 3])
def test_only_who_knows_all_records_can_add_one(opened, stale, after):
    """A machine that was made from fewer, or from others that are gone, does not continue the session."""
    log = opened()
    log.append(S, [OPENED, feedback(0)], after=0)
    with pytest.raises(LedgerError):
        log.append(S, [stale], after=after)
    log = opened()
    assert log.records(S) == [OPENED, feedback(0)]
    log.append(S, [stale], after=2)
    assert log.records(S) == [OPENED, feedback(0), stale]


@pytest.mark.parametrize("twice", [feedback(0, b"another"), OPENED])
def test_what_exists_once_cannot_exist_twice(opened, twice):
    log = opened()
    log.append(S, [OPENED, feedback(0)], after=0)
    with pytest.raises(LedgerError):
        log.append(S, [feedback(1), twice], after=2)
    assert opened().records(S) == [OPENED, feedback(0)]  # all or none


def test_of_many_there_can_be_many(opened):
    log, one = opened(), Evidence(1, 0, b"d" * 32, b"one", b"two")
    log.append(S, [OPENED, one, one], after=0)
    log.append(S, [one], after=3)
    assert log.records(S) == [OPENED, one, one, one]


def test_a_record_of_another_session_is_refused(opened):
    log = opened()
    with pytest.raises(InputError):
        log.append(S, [Opened(T, ())], after=0)
    with pytest.raises(InputError):
        log.append(b"short", [feedback(0)], after=0)
    assert log.records(S) == []


def test_a_closed_log_saves_nothing(opened):
    log = opened()
    log.append(S, [OPENED], after=0)
    log.close()
    with pytest.raises(LedgerError):
        log.append(S, [feedback(0)], after=1)
    assert opened().records(S) == [OPENED]


class Elsewhere(Log):
    """A log that is not a ledger, and keeps nothing."""

    append = records = require_room = close = lambda *_, **__: None


def test_agents_and_keepers_need_a_ledger(tmp_path):
    """The loss of a value and an ephemeral key are in a file of their owner; a coordinator has neither."""
    keys = provision(tmp_path / "keys", ["coordinator", "a0", "a1", "north"])
    keepers = (Member("north", keys["north"].public_key),)
    session = small_session(keys, ["a0", "a1"], keepers=keepers)
    given = {"ledger": Elsewhere(), "transport": MemoryNetwork(session).transport(0)}
    trust = {"north": keys["north"].public_key}
    with pytest.raises(InputError, match="ledger"):
        Agent(session, 1.0, identity=keys["a0"], cap=10.0, trust=trust, **given)
    with pytest.raises(InputError, match="ledger"):
        Keeper(session, identity=keys["north"], **given)
    Coordinator(session, identity=keys["coordinator"], **given)
