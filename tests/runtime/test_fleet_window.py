"""A hub's session that stays open: agents visit it, leave with a receipt, and fetch the result days later."""

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest
from tests.doubles import known_session
from tests.runtime.fleets import Fleet, HandClock, following, refusals

from tacit.base.errors import InputError
from tacit.core.protocol.records import Spoke
from tacit.core.protocol.session import Session
from tacit.live.fleet import follower
from tacit.live.fleet.orders import SessionOrder
from tacit.live.fleet.policy import policy_text, read_policy
from tacit.live.ledger.ledger import Ledger

DAY = 86_400.0
QUESTION = {"loss": 1.0, "low": 0.0, "high": 10.0}
AGENTS = ("alice", "bob", "carol", "dave")


def order(**more):
    given = {"least": 2, "anyway": True, "open": DAY, "settings": {"quorum": 2}, "results": 7 * DAY} | more
    return SessionOrder(QUESTION, **given)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """No visit is given up because this machine is busy: time is moved fast here."""
    monkeypatch.setattr(follower, "_GIVEN_UP", 10**9)


async def made(folder, keepers, **limits):
    fleet = Fleet(folder, HandClock(time.time() + 60))
    async with fleet.serving():
        for name in keepers:
            await fleet.enrol(name)
            fleet.policy(name, role="keeper", longest="10d")
        for name in AGENTS:
            await fleet.enrol(name)
            fleet.policy(name, trust=keepers, **{"longest": "10d"} | limits)
    return fleet


@asynccontextmanager
async def hurrying(clock):
    """Let a minute pass in a second or less."""

    async def hurry():
        while True:
            await asyncio.sleep(0.002)
            clock.move_to(clock.time + 0.25)

    task = asyncio.ensure_future(hurry())
    try:
        yield
    finally:
        task.cancel()


def speaks(agent):
    """Whether an agent has its receipt."""
    return bool(agent._agents) and agent._rests


def comes(_agent):
    return True


def resumed(agent):
    """Whether it comes for a result: its visit ends when it has that."""
    return bool(agent._sessions)


async def visit(fleet, name, what):
    """One visit of an agent, as of a process that ends then; return the means that it has got.

    Time stands still until it has done what it came for.
    """
    async with fleet.follow(name, once=True) as agent:
        await fleet.until(lambda: (m := fleet.hub.gateway.members.get(name)) is not None and m.role)
        await fleet.until(lambda: what(agent))
        async with hurrying(fleet.clock):
            found = [mean async for mean in agent]
    await fleet.until(lambda: name not in fleet.hub.gateway.members)
    return found


def said(fleet, name):
    """Return the messages that an agent has ever made."""
    ledger = Ledger(fleet.folder / f"{name}.ledger")
    try:
        records = [one for session in ledger.sessions() for one in ledger.records(session)]
        return [one.frame for one in records if isinstance(one, Spoke)]
    finally:
        ledger.close()


async def closed(fleet):
    """Let the day pass, and return the result."""
    async with hurrying(fleet.clock):
        fleet.clock.move_to(fleet.clock.time + DAY)
        [(state, result)] = await fleet.over("ask")
    return state, result


@pytest.mark.parametrize("keepers", [("north",), ()])
def test_agents_come_one_after_another_leave_and_fetch_the_result_days_later(tmp_path, keepers):
    """Alice and Bob are offline for all but seconds of a day; Carol and Dave never come."""

    async def main():
        fleet = await made(tmp_path, keepers)
        async with fleet.serving() as hub, AsyncExitStack() as stack:
            if keepers:
                await stack.enter_async_context(following(fleet, *keepers))
            hub.store.add_task("ask", msgspec.to_builtins(order(keepers=keepers)), None, None)
            await fleet.until(hub.store.running_sessions)
            session = Session.decode(hub.store.running_sessions()[0]["data"])
            assert [member.name for member in session.roster] == sorted(AGENTS)  # enrolled, never connected
            assert session.closes - fleet.clock.time <= DAY + 1
            assert await visit(fleet, "alice", speaks) == []
            fleet.clock.move_to(fleet.clock.time + 3600)
            assert await visit(fleet, "bob", speaks) == []
            assert [len(said(fleet, name)) for name in AGENTS] == [1, 1, 0, 0]
            # An hour offline, and here once more: it says the same, and still no result is there.
            assert await visit(fleet, "alice", speaks) == []
            assert [len(said(fleet, name)) for name in AGENTS] == [1, 1, 0, 0]
            kept = [facts["member"] for _, _, facts in fleet.told.events("receipt")]
            assert kept == ["alice", "bob", "alice"]
            state, result = await closed(fleet)
            assert (state, result["used"], result["agents"]) == ("finished", [2], 4)
            assert set(result["missing"]) == {"carol", "dave"}
        fleet.clock.move_to(fleet.clock.time + 3 * DAY)
        async with fleet.serving():  # another hub process, and no keeper
            for name in ("alice", "bob"):
                [mean] = await visit(fleet, name, resumed)
                assert (mean.value, mean.session, mean.loss) == (result["mean"], "ask", 1.0)
            assert await visit(fleet, "alice", comes) == []  # it has its result
            assert await visit(fleet, "carol", comes) == []
            assert [len(said(fleet, name)) for name in AGENTS] == [1, 1, 0, 0]

    asyncio.run(main())


def test_a_hub_that_is_killed_in_between_keeps_what_it_has_receipts_for(tmp_path):
    async def main():
        fleet = await made(tmp_path, ())
        async with fleet.serving() as hub:
            hub.store.add_task("ask", msgspec.to_builtins(order()), None, None)
            await fleet.until(hub.store.running_sessions)
            await visit(fleet, "alice", speaks)
        async with fleet.serving():
            await visit(fleet, "bob", speaks)
        async with fleet.serving():
            state, result = await closed(fleet)
            assert (state, result["used"]) == ("finished", [2])

    asyncio.run(main())


def test_a_policy_must_allow_a_session_as_long(tmp_path):
    async def main():
        fleet = await made(tmp_path, (), longest="1d")
        async with fleet.serving() as hub:
            hub.store.add_task("ask", msgspec.to_builtins(order()), None, None)
            await fleet.until(hub.store.running_sessions)
            await visit(fleet, "alice", lambda _: refusals(hub))
            assert refusals(hub) == {"long": 1}
            assert said(fleet, "alice") == []

    asyncio.run(main())


def test_who_comes_when_it_has_closed_is_not_asked_for_a_message(tmp_path):
    policy_of = Fleet(tmp_path)
    design = known_session(3, 1, law="one-shot", quorum=2, closes=1000, expires=2000)
    text = policy_text(
        hub=[policy_of.address], authority=policy_of.fingerprint, keys="a", ledger="l", role="agent",
        value={"low": 0.0, "high": 1.0, "file": "v"}, limits={"cap": 1.0},
    )  # fmt: skip
    (tmp_path / "p.toml").write_text(text)
    policy = read_policy(tmp_path / "p.toml")
    me = design.roster[0].name, design.roster[0].key

    class Nothing:
        last_begun = staticmethod(lambda _: 0.0)

    assert policy.judge(design, me, Nothing, 999.0) is None
    assert policy.judge(design, me, Nothing, 1000.0).why == "expired"


def test_visits_are_at_random_moments_one_in_every_period(tmp_path, monkeypatch):
    async def main():
        clock, at, period = HandClock(0.0), [], 3600.0

        class Connection:
            connected, frames = True, 0

            def rest(self):
                pass

            def wake(self):
                at.append(clock.time)

        agent = object.__new__(follower.FleetAgent)
        agent._period, agent._clock, agent.connection = period, clock, Connection()
        agent._sessions, agent._heard, agent._considering = {}, [], False
        task = asyncio.ensure_future(agent._visit())
        while len(at) < 20:
            await asyncio.sleep(0)
            clock.move_to(clock.time + 30)
        task.cancel()
        return at, period

    at, period = asyncio.run(main())
    # Waiting for the hub to fall silent takes a few looks, which come once in 30 s here.
    starts = [k * (period + 200) for k in range(20)]
    assert all(0 <= moment - k * period <= period + 230 * (k + 1) for k, moment in enumerate(at))
    assert len({round((moment - start) / 300) for moment, start in zip(at, starts, strict=True)}) > 5


def test_what_cannot_visit_says_so(tmp_path):
    async def main():
        fleet = await made(tmp_path, ("north",))
        with pytest.raises(InputError, match="a keeper must stay connected"):
            fleet.follow("north", once=True)
        with pytest.raises(InputError, match="at least 60 s, got 5 s"):
            fleet.follow("alice", visit=5.0)

    asyncio.run(main())
