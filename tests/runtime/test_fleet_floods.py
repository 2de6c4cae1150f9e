"""What one member or stranger can cause at a hub, and a hub at a member: bounded, however much it sends."""

import asyncio
import errno
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.runtime.fleets import ONE_SHOT, Fleet, Told, finished, following

from tacit.base.errors import FileError, LedgerError
from tacit.core.protocol.roster import Member
from tacit.core.protocol.session import Session
from tacit.live.fleet import follower
from tacit.live.fleet import hub as hub_module
from tacit.live.fleet.fleet_status import HubPages
from tacit.live.fleet.hub_connection import HubConnection
from tacit.live.fleet.hub_directory import KEYS
from tacit.live.fleet.hub_notices import Drained, EnrolmentRefused
from tacit.live.fleet.messages import (
    REFUSALS,
    SESSION,
    ChannelClosed,
    ChannelOpen,
    EnrolmentRequest,
    OfferReply,
    SessionOffer,
    SignedOffers,
    encode_control,
    read_offer,
)
from tacit.live.fleet.orders import SessionOrder, instance
from tacit.live.identity.identity import Identity
from tacit.live.runtime.participant import loaded
from tacit.live.runtime.telling import Throttled
from tacit.live.transport.allowance import Allowance

FLOOD = 4000


@pytest.fixture(autouse=True)
def quick_designs(monkeypatch):
    """Design once: a design takes a second, and is tested elsewhere."""
    made = []
    real = hub_module.designed

    def known(order, members, keepers, hub):
        if not made:
            made.append(real(order, members, keepers, hub))
        return replace(made[0], coordinator=hub, **order.fields(len(members)))

    monkeypatch.setattr(hub_module, "designed", known)
    monkeypatch.setattr(hub_module, "radius_for", lambda *_: 1.0)


@asynccontextmanager
async def hostile(fleet, name):
    """A member that connects and sends what it likes; yields the connection and the offers it got."""
    offers = asyncio.Queue()

    def said(message):
        if isinstance(message, SessionOffer):
            offers.put_nowait(read_offer(message))

    connection = HubConnection([fleet.address], loaded(fleet.folder / name), "agent", said=said)
    running = asyncio.ensure_future(connection.run())
    await fleet.until(lambda: name in {m.name for m in fleet.hub.gateway.members.values() if m.role})
    try:
        yield connection, offers
    finally:
        running.cancel()
        await asyncio.wait([running])


async def attacked(folder, flood):
    """Run a session of two agents while a third member floods; return the fleet, its result and writes."""
    fleet, writes = Fleet(folder), []
    async with fleet.serving() as hub:
        for name in ("alice", "bob", "mallory"):
            await fleet.enrol(name)
            fleet.policy(name)
        database = hub.store.database._open

        def note(statement):
            alone = not database.in_transaction and statement.startswith(("INSERT", "UPDATE", "DELETE"))
            if alone or statement.startswith("COMMIT"):
                writes.append(statement)

        database.set_trace_callback(note)
        async with following(fleet, "alice", "bob"), hostile(fleet, "mallory") as (connection, offers):
            over = asyncio.ensure_future(fleet.run(least=3, start_deadline=0.3))
            session = await offers.get()
            started = len(writes)
            for frame in flood(session):
                connection._link.send(frame)
                if connection._link is None:
                    break
            [(state, result)] = await over
            assert (state, result["used"]) == ("finished", [2, 2])
            metrics = HubPages(hub).metrics().decode()
    return fleet, len(writes) - started, metrics


def replies(session):
    """Refuse again and again, each time with another word."""
    for number in range(FLOOD):
        word = "".join(chr(97 + number // 26**k % 26) for k in range(4))
        yield encode_control(OfferReply(session.id, False, word))


def changes(session):
    """Take part, then not, then again."""
    for number in range(FLOOD):
        yield encode_control(OfferReply(session.id, number % 2 == 0, ("cap", "range")[number // 2 % 2]))


@pytest.mark.parametrize("flood", [replies, changes])
def test_a_flood_of_replies_is_not_written_logged_or_counted(tmp_path, flood):
    fleet, writes, metrics = asyncio.run(attacked(tmp_path, flood))
    assert writes < 100
    assert len(fleet.told.events("refused")) <= 8
    labels = [line for line in metrics.splitlines() if line.startswith("tacit_hub_refusals_total{")]
    assert 1 <= len(labels) <= len(REFUSALS)
    assert not any(fleet.told.events("failed"))


def channels(session):
    """Open and close channels, of a session under way and of none."""
    for number in range(FLOOD // 4):
        for one in (session.id, number.to_bytes(32)):
            yield encode_control(ChannelOpen(one))
            yield encode_control(ChannelClosed(one))


def frames(_):
    """Send frames of a session that nobody has."""
    yield from [SESSION + bytes(33)] * FLOOD


@pytest.mark.parametrize("flood", [channels, frames])
def test_a_member_that_sends_too_much_is_read_slowly(tmp_path, monkeypatch, flood):
    """However much it sends, a hub handles what the allowance covers, and one piece of what it read."""
    handled = []
    real = Allowance.take
    monkeypatch.setattr(Allowance, "take", lambda self, cost=1.0: handled.append(cost) or real(self, cost))
    monkeypatch.setattr("tacit.live.transport.allowance._PER_SECOND", 1e-3)  # no refill in this test
    fleet, _, _ = asyncio.run(attacked(tmp_path, flood))
    assert sum(handled) < 2000
    assert sum("read slowly" in text for _, text, _ in fleet.told.events("trouble")) == 1


def test_pings_are_counted_too(tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.live.transport.allowance._PER_SECOND", 1e-3)

    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving() as hub:
            await fleet.enrol("mallory")
            async with hostile(fleet, "mallory") as (connection, _):
                link = connection._link
                for _ in range(FLOOD):
                    link._websocket.send_ping(b"")
                link._flush()
                other = hub.gateway.members["mallory"].link
                await fleet.until(lambda: other.allowance.wait > 0)
                assert other._resting
            again = HubConnection([fleet.address], loaded(fleet.folder / "mallory"), "agent", said=print)
            running = asyncio.ensure_future(again.run())  # a new connection does not refill the allowance
            await fleet.until(lambda: again.why is not None)
            assert "too often" in again.why
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(main())


def test_a_flooding_member_that_is_gone_does_not_stay_connected(tmp_path, monkeypatch):
    """While it is read slowly, its end is not seen behind all that it has sent."""
    monkeypatch.setattr("tacit.live.transport.allowance._PER_SECOND", 1e-3)

    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving() as hub:
            await fleet.enrol("mallory")
            async with hostile(fleet, "mallory") as (connection, _):
                for _ in range(FLOOD):
                    connection._link.send(encode_control(ChannelClosed(bytes(32))))
                link = hub.gateway.members["mallory"].link
                await fleet.until(lambda: link._resting)
                connection._link.abort()
                for _ in range(60):  # an honest member that comes back with many sessions
                    link.tick(5, 10)
                assert "mallory" in hub.gateway.members
                for _ in range(120):
                    link.tick(5, 10)
                assert "mallory" not in hub.gateway.members

    asyncio.run(main())


def test_an_allowance_fills_up_again():
    now = [0.0]
    allowance = Allowance(lambda: now[0])
    assert allowance.unused
    assert allowance.take(1000.0) == 0.0
    assert allowance.take(50.0) == 1.0
    now[0] = 1.0
    assert allowance.wait == 0.0
    assert not allowance.unused
    now[0] = 100.0
    assert allowance.unused


def test_what_others_cause_is_logged_seldom():
    now, told = [0.0], []
    log = Throttled(lambda notice, count: told.append((notice.cause(), count)), lambda: now[0])
    for _ in range(1000):
        log(EnrolmentRefused("192.0.2.1", "1", "no"))
    assert len(told) == 100 + 3
    assert told[-1] == ("192.0.2.1", 512)
    for number in range(1, 100):
        log(EnrolmentRefused(f"192.0.3.{number}", "1", "no"))
    for number in range(1000):  # more than are counted apart
        log(EnrolmentRefused(f"198.51.{number // 250}.{number % 250}", "1", "no"))
    assert len(told) == 2 * 103 + 99
    log(Drained())
    assert told[-1] == (None, 0)
    now[0] = 90_000.0
    log(EnrolmentRefused("192.0.2.1", "1", "no"))
    assert told[-1] == ("192.0.2.1", 1)


def test_refused_invitations_are_logged_seldom(tmp_path):
    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving() as hub:
            wrong = EnrolmentRequest("nothing", b"", b"")
            for number in range(3000):
                address = f"192.0.2.{number % 250}" if number % 2 else "192.0.2.1"
                assert "does not know" in (await hub.enrol(wrong, address)).why
        refused = fleet.told.events("enrolment-refused")
        assert len(refused) < 1800
        assert sum(facts["address"] == "192.0.2.1" for _, _, facts in refused) < 120

    asyncio.run(main())


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), LedgerError("full")])
def test_a_log_that_cannot_be_written_ends_no_session(tmp_path, error):
    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving():
            for name in ("alice", "bob"):
                await fleet.enrol(name)
                fleet.policy(name)

        class Full(Told):
            def __call__(self, notice, count=0):
                super().__call__(notice, count)
                raise error

        fleet.told = Full()
        async with fleet.serving(), following(fleet, "alice", "bob") as agents:
            [(state, result)] = await fleet.run()
            assert (state, result["used"]) == ("finished", [2, 2])
            await fleet.until(lambda: all(finished(agent) == 1 for agent in agents))

    asyncio.run(main())


def test_a_result_is_stored_before_it_is_told_and_as_soon_as_the_disk_takes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(hub_module, "_STORE_AGAIN", 0.01)

    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving() as hub:
            for name in ("alice", "bob"):
                await fleet.enrol(name)
                fleet.policy(name)
            real, failures = hub.store.end_session, [FileError("the disk is full")] * 5
            told = []  # by the hub, before the result was stored

            def end(*given):
                told.extend(one for one in fleet.told.events("finished") if "member" not in one[2])
                if failures:
                    raise failures.pop()
                real(*given)

            monkeypatch.setattr(hub.store, "end_session", end)
            async with following(fleet, "alice", "bob"):
                [(state, _)] = await fleet.run()
                assert state == "finished"
            assert not failures
            assert not told

    asyncio.run(main())


def test_a_bug_does_not_leave_a_session_running(tmp_path, monkeypatch):
    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving() as hub:
            for name in ("alice", "bob"):
                await fleet.enrol(name)
                fleet.policy(name)

            def broken(*_):
                raise ZeroDivisionError

            monkeypatch.setattr(hub, "_record", broken)
            async with following(fleet, "alice", "bob"):
                [(state, result)] = await fleet.run()
                assert (state, result) == ("failed", {"why": "a bug here (ZeroDivisionError)"})

    asyncio.run(main())


@asynccontextmanager
async def offered(folder, **limits):
    """An agent, and a function that offers it a session as its hub."""
    fleet = Fleet(folder)
    async with fleet.serving() as hub:
        await fleet.enrol("alice")
        fleet.policy("alice", **limits)
        async with following(fleet, "alice") as alice:
            member, mine = hub.gateway.members["alice"], Identity.load(fleet.home / KEYS)
            both = [Member("alice", member.public_key), Member("bob", bytes(range(32)))]
            order = SessionOrder(ONE_SHOT)
            design = hub_module.designed(order, both, [], mine.public_key)

            def offer(name, **changes):
                session = instance(order, replace(design, **changes), name, both, [], now=time.time())
                member.send(SignedOffers(session, mine).to(0))

            yield fleet, alice, offer


def test_an_agent_takes_part_in_so_many_sessions_at_once(tmp_path):
    async def main():
        async with offered(tmp_path, sessions=3) as (fleet, alice, offer):
            for number in range(8):
                offer(f"run-{number}")
            await fleet.until(lambda: alice.tell.counted("agent_refusals", "busy") == 5)
            assert alice.sessions == 3
            assert len(alice.ledger.sessions()) <= 3

    asyncio.run(main())


def test_a_session_of_many_rounds_is_refused_before_anything_is_computed(tmp_path, monkeypatch):
    async def main():
        async with offered(tmp_path, longest="400d") as (fleet, alice, offer):

            def never(*_):
                raise AssertionError("computed")

            monkeypatch.setattr(Session, "planned", never)
            offer("long", rounds=100_000)
            await fleet.until(lambda: alice.tell.counts.get("agent_refusals"))
            assert alice.tell.counts.get("agent_refusals") == {"rounds": 1}

    asyncio.run(main())


def test_an_offer_is_judged_on_a_worker(tmp_path, monkeypatch):
    where = []
    planned = Session.planned
    note = threading.current_thread
    monkeypatch.setattr(Session, "planned", lambda *given: where.append(note()) or planned(*given))
    monkeypatch.setattr(follower, "offered_session", lambda *o: where.append(note()) or read_offer(o[0]))

    async def main():
        async with offered(tmp_path) as (fleet, alice, offer):
            offer("run")
            await fleet.until(lambda: alice.sessions)

    asyncio.run(main())
    assert len(where) >= 2
    assert threading.main_thread() not in where[:2]


def test_offers_that_are_refused_again_and_again_are_logged_seldom(tmp_path):
    async def main():
        async with offered(tmp_path, rounds=1) as (fleet, alice, offer):
            for number in range(400):
                offer(f"run-{number}")
            await fleet.until(lambda: alice.tell.counted("agent_refusals", "rounds") == 400)
            told = [one for one in fleet.told.events("refused") if one[2].get("member") == "alice"]
            assert len(told) < 110

    asyncio.run(main())
