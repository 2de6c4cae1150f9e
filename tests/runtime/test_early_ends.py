"""A session that does not come to its end is over at its expiry or when it is cancelled.

What was not said can be spent again.
"""

import asyncio
import base64
from dataclasses import replace

import pytest
from tests.doubles import small_session
from tests.runtime.builders import limited, result_of

from tacit.base.errors import CapExceeded, FileError, InputError
from tacit.core.protocol.messages import Reason
from tacit.core.protocol.notices import RoundOpened, Spoken, Stopped, Waiting
from tacit.core.protocol.records import Ended, Spoke
from tacit.core.protocol.roster import COORDINATOR
from tacit.core.protocol.session import Deadlines
from tacit.live.identity.identity import provision
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.clock import SystemClock
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.sessions.cancellation import cancel, is_cancelled, require_cancelled
from tacit.live.transport.memory import MemoryNetwork

NAMES = ("alice", "bob", "carol")
EXPIRES = 2_000_000_000


class Wall(SystemClock):
    """The machine's clock, but with the date set by hand."""

    def __init__(self, date=EXPIRES - 3600.0):
        self.date = date

    def wall(self):
        return self.date


@pytest.fixture
def keys(tmp_path):
    return provision(tmp_path / "keys", ["coordinator", *NAMES])


@pytest.fixture
def session(keys):
    often = Deadlines(round=600.0, start=600.0, repeat=0.05)
    return small_session(keys, NAMES, noise=20.0, adjacency=10.0, quorum=3, expires=EXPIRES, deadlines=often)


@pytest.fixture
def agent(keys, tmp_path):
    def make(session, i, network, clock, **more):
        given = {"ledger": tmp_path / f"{i}.ledger", "identity": keys[NAMES[i]], "cap": 1000.0} | more
        return Agent(session, 5.0, transport=network.transport(i), clock=clock, **given)

    return make


@pytest.fixture
def coordinator(keys, tmp_path):
    def make(session, network, clock, **more):
        given = {"ledger": tmp_path / "c.ledger", "identity": keys["coordinator"]} | more
        return Coordinator(session, transport=network.transport(COORDINATOR), clock=clock, **given)

    return make


def cost(session):
    return session.promise().loss


def test_nobody_joins_a_session_that_has_expired(session, agent, tmp_path):
    with pytest.raises(InputError, match="session test expired on 2033-05-18 03:33:20 UTC"):
        limited(result_of(agent(session, 0, MemoryNetwork(session), Wall(EXPIRES))))
    with Ledger(tmp_path / "0.ledger", create=False) as ledger:
        assert ledger.sessions() == ()  # and nothing was set aside for it


@pytest.mark.parametrize("graph", [False, True])
def test_an_agent_that_does_not_come_stalls_the_others_until_the_expiry_and_costs_them_nothing(
    session, agent, coordinator, tmp_path, graph
):
    """Three must start and one does not come. The cap is enough for one session only."""
    if graph:
        session = replace(session, coordinator=None, edges=((0, 1), (0, 2), (1, 2)))
    cap, clock, told = 1.5 * cost(session), Wall(), []
    missing = Waiting(0, (2,), needed=1)

    async def main():
        network, waits = MemoryNetwork(session), asyncio.Event()

        def watch(notice):
            told.append(notice)
            if notice == missing:
                waits.set()

        members = [agent(session, i, network, clock, cap=cap, watch=watch) for i in (0, 1)]
        if not graph:
            members.append(coordinator(session, network, clock, watch=watch))
        running = asyncio.gather(*map(result_of, members))
        await waits.wait()
        clock.date = EXPIRES
        return await running

    assert not any(result.finished for result in limited(main()))
    assert Stopped(0, Reason.EXPIRED) in told
    with Ledger(tmp_path / "0.ledger", create=False) as ledger:
        assert ledger.spent("value") == 0.0
        assert ledger.records(session.id)[-1] == Ended(0, Reason.EXPIRED)

    async def next_one():
        other = replace(session, name="other", expires=EXPIRES + 10_000, start=2, quorum=2)
        network = MemoryNetwork(other)
        async with agent(other, 0, network, clock, cap=cap):  # not refused
            pass

    limited(next_one())


@pytest.fixture
def stranded(session, agent, coordinator, tmp_path):
    """Return how to leave a session in the middle, as a killed process does; says what was said."""

    def leave(clock, cap):
        async def main():
            network, spoken = MemoryNetwork(session), asyncio.Event()

            def watch(notice):
                if isinstance(notice, Spoken):
                    spoken.set()

            async with (
                coordinator(session, network, clock),
                agent(session, 1, network, clock),
                agent(session, 2, network, clock),
                agent(session, 0, network, clock, cap=cap, watch=watch),
            ):
                await spoken.wait()

        limited(main())
        return spoken_in(tmp_path / "0.ledger", session)

    return leave


def spoken_in(path, session):
    with Ledger(path, create=False) as ledger:
        return [record for record in ledger.records(session.id) if isinstance(record, Spoke)]


def test_what_a_stranded_session_holds_is_named_and_free_after_its_expiry_for_ever(
    session, agent, coordinator, stranded, tmp_path
):
    clock, cap = Wall(), 1.5 * cost(session)
    said = stranded(clock, cap)
    assert said
    other = replace(session, name="other", expires=EXPIRES + 10_000)

    async def join(which):
        async with agent(which, 0, MemoryNetwork(which), clock, cap=None):
            pass

    with pytest.raises(CapExceeded) as refusal:
        limited(join(other))
    assert f"`tacit ledger settle {tmp_path / '0.ledger'} {session.id.hex()[:16]}`" in str(refusal.value)
    assert "until it expires (2033-05-18 03:33 UTC)" in str(refusal.value)

    clock.date = EXPIRES + 1.0
    limited(join(other))  # what was not said in the first one is free again
    with Ledger(tmp_path / "0.ledger", create=False) as ledger:
        first, second = ledger.reservation(session.id), ledger.reservation(other.id)
        assert first.settled
        assert first.said > 0
        assert not second.settled
        assert ledger.spent("value") <= cap

    clock.date = EXPIRES - 3600.0  # set back: the session seems to go on
    with pytest.raises(InputError, match="has given up session test, or it had expired"):
        limited(join(session))
    assert spoken_in(tmp_path / "0.ledger", session) == said


def test_an_agent_that_was_away_at_the_expiry_ends_its_session_without_the_network(
    session, agent, stranded, tmp_path
):
    clock, cap = Wall(), 1.5 * cost(session)
    said = stranded(clock, cap)
    clock.date = EXPIRES + 1.0

    class Nowhere:
        async def open(self, _arrived):
            raise AssertionError("the network must not be opened")

        def send(self, _to, _frame):
            raise AssertionError("nothing must be sent")

        async def close(self):
            pass

    made = agent(session, 0, MemoryNetwork(session), clock, cap=None)
    made._transport = Nowhere()
    assert not limited(result_of(made)).finished
    assert spoken_in(tmp_path / "0.ledger", session) == said
    with Ledger(tmp_path / "0.ledger", create=False) as ledger:
        assert ledger.records(session.id)[-1].reason is Reason.EXPIRED


# ---- cancelled ----------------------------------------------------------------------------------------


def test_a_running_coordinator_ends_a_session_that_waits_for_one_who_does_not_come(
    session, keys, agent, coordinator, tmp_path
):
    async def main():
        network, waits = MemoryNetwork(session), asyncio.Event()

        def watch(notice):
            if isinstance(notice, Waiting):
                waits.set()

        members = [agent(session, i, network, Wall()) for i in (0, 1)]
        running = asyncio.gather(
            *map(result_of, (*members, coordinator(session, network, Wall(), watch=watch)))
        )
        await waits.wait()
        cancel(session, keys["coordinator"])
        return await running

    assert not any(result.finished for result in limited(main()))
    for i in (0, 1):
        with Ledger(tmp_path / f"{i}.ledger", create=False) as ledger:
            assert ledger.records(session.id)[-1] == Ended(0, Reason.OPERATOR)
            assert ledger.spent("value") == 0.0


def test_a_coordinator_started_later_opens_nothing_and_tells_who_comes(
    session, keys, agent, coordinator, tmp_path
):
    cancel(session, keys["coordinator"])

    async def main():
        network, told = MemoryNetwork(session), []
        members = [agent(session, i, network, Wall()) for i in range(3)]
        server = coordinator(session, network, Wall(), watch=told.append)
        results = await asyncio.gather(*map(result_of, (server, *members)))
        assert not [notice for notice in told if isinstance(notice, RoundOpened)]
        return results

    assert not any(result.finished for result in limited(main()))


def test_only_the_coordinator_cancels_and_only_a_session_that_has_one(session, keys):
    with pytest.raises(InputError, match="must be the coordinator's of session test"):
        cancel(session, keys["alice"])
    ring = replace(session, coordinator=None, edges=((0, 1), (1, 2)))
    with pytest.raises(InputError, match="no coordinator"):
        cancel(ring, keys["alice"])
    assert not is_cancelled(session, keys["coordinator"])


def test_a_cancellation_is_of_one_session_and_signed_by_its_coordinator(session, keys, tmp_path):
    path, data = tmp_path / "c", cancel(session, keys["coordinator"])
    path.write_bytes(data)
    require_cancelled(session, path)
    other = replace(session, name="other")
    with pytest.raises(FileError, match="must be the cancellation of session other"):
        require_cancelled(other, path)
    forged = keys["bob"].sign(b"tacit session cancelled 1\0" + session.id)
    for wrong in (data.replace(_text(data), _text(_armoured(forged))), b"", data[:80], b"x" * 4000):
        path.write_bytes(wrong)
        with pytest.raises(FileError, match="signed by its coordinator, and is not"):
            require_cancelled(session, path)


def _text(data):
    return b"".join(data.splitlines(keepends=True)[1:-1])


def _armoured(frame):
    return b"begin\n" + base64.encodebytes(frame) + b"end\n"
