"""A hub and its members: sessions on demand and by schedule, restarts, refusals, nothing private told."""

import asyncio
import json
import shutil
import socket
import time
from dataclasses import replace

import msgspec
import pytest
from tests.runtime.fleets import ONE_SHOT, WAIT, Fleet, finished, following, refusals

import tacit
from tacit.base.errors import FileError, InputError, LedgerError
from tacit.core.protocol.records import Began, Closed
from tacit.core.protocol.session import Session
from tacit.core.series import Hides
from tacit.live.fleet import follower, hub_directory
from tacit.live.fleet import gateway as gateway_module
from tacit.live.fleet import hub as hub_module
from tacit.live.fleet.enrolment import enroll
from tacit.live.fleet.fleet_status import AgentPages, HubPages
from tacit.live.fleet.hub import DRAINING, SERVING, Hub
from tacit.live.fleet.hub_directory import KEYS, LEDGER, move_hub
from tacit.live.fleet.hub_report import SessionReport
from tacit.live.fleet.messages import (
    ChannelClosed,
    ChannelOpen,
    SessionOffer,
    SignedOffers,
    offered_session,
)
from tacit.live.fleet.orders import radius_for
from tacit.live.fleet.store import STORE
from tacit.live.identity.identity import Identity
from tacit.live.ledger import compaction
from tacit.live.ledger.budget import Hidden
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime.clock import SystemClock
from tacit.live.sessions.cancellation import cancel
from tacit.live.status.report import REASONS, StatusReport

NAMES = ("alice", "bob", "carol")
ROUNDS = {"loss": 2.0, "low": 0.0, "high": 10.0, "rounds": 60, "mixing": 0.5}


DESIGNS = {}


@pytest.fixture(autouse=True)
def quick_designs(monkeypatch):
    """Design once for all tests: a design takes a second, and is tested elsewhere."""
    real = hub_module.designed

    def known(order, members, keepers, hub):
        key = (json.dumps(order.question), len(keepers))
        if key not in DESIGNS:
            DESIGNS[key] = real(order, members, keepers, hub)
        return replace(DESIGNS[key], coordinator=hub, **order.fields(len(members)))

    monkeypatch.setattr(hub_module, "designed", known)
    monkeypatch.setattr(hub_module, "radius_for", lambda *_: 1.0)


async def fleet_of(folder, *names, **limits):
    fleet = Fleet(folder)
    async with fleet.serving():
        for name in names:
            await fleet.enrol(name)
            fleet.policy(name, **limits)
    return fleet


def test_a_session_on_demand_takes_no_file_and_gives_a_mean(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        async with fleet.serving() as hub, following(fleet, *NAMES) as agents:
            [(state, result)] = await fleet.run(least=3)
            assert state == "finished"
            assert (result["agents"], result["used"], result["missing"]) == (3, [3, 3], [])
            (warning,) = SessionReport("run", state, result | {"radius": 6.0}).summary().notes
            assert "useless" in warning
            assert not SessionReport("run", state, result | {"radius": 0.1}).summary().notes
            async with asyncio.timeout(WAIT):
                mean = await anext(aiter(agents[0]))
            assert mean.value == result["mean"]
            assert (mean.session, mean.loss, mean.spent) == ("run", 1.0, 1.0)
            assert hub_directory.is_served(tmp_path / "hub")
            page = json.loads(HubPages(hub).json())
            assert page["numbers"]["outcomes"] == {"finished": 1}
            assert page["connected"] == dict.fromkeys(NAMES, "agent")
            metrics = HubPages(hub).metrics().decode()
            assert 'tacit_hub_sessions{state="finished"} 1.0' in metrics
            own = AgentPages(agents[0])
            assert json.loads(own.json())["loss"] == {"spent": 1.0, "cap": 100.0}
            assert 'tacit_agent_loss{what="spent"} 1.0' in own.metrics().decode()
        assert not hub_directory.is_served(tmp_path / "hub")

    asyncio.run(main())


def test_an_offer_counts_only_with_the_hubs_signature(tmp_path):
    fleet = Fleet(tmp_path)
    hub = Identity.load(tmp_path / "hub" / KEYS)
    from tests.doubles.sessions import known_key, known_session

    foreign = known_session()
    signature = known_key(-1).sign(b"tacit session offer 1\0" + foreign.id)
    with pytest.raises(InputError, match="not signed by the hub"):
        offered_session(SessionOffer(foreign.encode(), signature), hub.public_key)
    own = replace(foreign, coordinator=hub.public_key)
    right = SignedOffers(own, hub).to(0)
    assert offered_session(right, hub.public_key).coordinator == hub.public_key
    with pytest.raises(InputError, match="not signed by the hub"):
        offered_session(msgspec.structs.replace(right, signature=bytes(64)), hub.public_key)
    assert fleet.fingerprint


def test_an_agent_that_was_stopped_goes_on_and_says_the_same(tmp_path):
    """Stopped in mid-session and started again, it finishes, and its ledger has one message per round."""

    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        async with fleet.serving() as hub, following(fleet, "alice", "bob"):
            carol = fleet.follow("carol")
            await carol.__aenter__()
            await fleet.until(lambda: "carol" in {m.name for m in hub.gateway.members.values() if m.role})
            running = asyncio.ensure_future(fleet.run(question=ROUNDS, least=3))
            await fleet.until(lambda: carol.sessions and carol.ledger.sessions())
            session = carol.ledger.sessions()[0]
            await fleet.until(lambda: carol.ledger.said(session, 2) is not None)
            said = carol.ledger.said(session, 2)
            await carol.__aexit__(None, None, None)
            async with following(fleet, "carol") as again:
                [(state, _)] = await running
                assert state == "finished"
                await fleet.until(lambda: finished(again) == 1)
                assert again.ledger.said(session, 2) == said
                assert again.ledger.balance("value").spent <= 2.0
                assert not list(tmp_path.glob("carol.ledger.sessions/*"))

    asyncio.run(main())


def test_one_who_was_away_at_the_end_hears_of_it_later(tmp_path):
    """The session is over and its coordinator gone: the hub lets it go on from the ledger."""

    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        async with fleet.serving() as hub, following(fleet, "alice", "bob"):
            async with following(fleet, "carol") as carol:
                running = asyncio.ensure_future(
                    fleet.run(question=ROUNDS, least=3, round_deadline=0.2, start_deadline=0.2)
                )
                await fleet.until(lambda: carol.sessions and carol.ledger.sessions())
                session = carol.ledger.sessions()[0]
                await fleet.until(lambda: carol.ledger.said(session, 2) is not None)
            [(state, _)] = await running
            assert state == "finished"
            await fleet.until(lambda: not hub.running())
            async with following(fleet, "carol") as again:
                await fleet.until(lambda: finished(again) == 1)

    asyncio.run(main())


def test_a_hub_that_was_restarted_goes_on_from_its_directory(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        async with following_later(fleet) as agents:
            async with fleet.serving() as hub:
                await fleet.until(lambda: sum(bool(m.role) for m in hub.gateway.members.values()) == 3)
                asked = asyncio.ensure_future(fleet.run(question=ROUNDS, least=3))
                await fleet.until(lambda: agents[0].sessions and agents[0].ledger.sessions())
                session = agents[0].ledger.sessions()[0]
                await fleet.until(lambda: agents[0].ledger.said(session, 2) is not None)
                asked.cancel()
            async with fleet.serving():
                [(state, result)] = await fleet.over("run")
                assert state == "finished"
                assert result["rounds"] == 60
                await fleet.until(lambda: all(finished(agent) == 1 for agent in agents))

    asyncio.run(main())


def following_later(fleet):
    """Members that are there before the hub."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def made():
        agents = [fleet.follow(name) for name in NAMES]
        for agent in agents:
            await agent.__aenter__()
        try:
            yield agents
        finally:
            for agent in agents:
                await agent.__aexit__(None, None, None)

    return made()


def test_refusals_are_said_in_a_word_and_a_session_without_agents_ends(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, *NAMES, cap=1.5)
        async with fleet.serving() as hub, following(fleet, *NAMES) as agents:
            await fleet.run("first", least=3)
            [(state, result)] = await fleet.run("second", least=3, start_deadline=0.3)
            assert state == "stopped"
            assert result["rounds"] == 0
            assert refusals(hub) == {"cap": 3}
            assert {agent.ledger.balance("value").spent for agent in agents} == {1.0}
            wide = {**ONE_SHOT, "high": 20.0}
            [(state, _)] = await fleet.run("third", question=wide, least=3, start_deadline=0.3)
            assert state == "stopped"
            assert refusals(hub) == {"cap": 3, "range": 3}
            assert {row["refused"] for row in hub.store.members()} == {"range"}
            rows = StatusReport(HubPages(hub).document()).rows(time.time())
            (shown,) = [row.shown for row in rows if row.name == "refuse"]
            assert shown == f"alice, bob, carol: {REASONS['range']}"

    asyncio.run(main())


@pytest.mark.parametrize("restarted", [False, True])
def test_a_refusal_is_shown_until_the_member_takes_part_again(tmp_path, restarted):
    """Also if it takes part in a session of another task."""

    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob")

        def shown():
            return {row["refused"] for row in fleet.hub.store.members()}

        async with fleet.serving(), following(fleet, "alice", "bob"):
            await fleet.run("wide", question={**ONE_SHOT, "high": 20.0}, start_deadline=0.3)
            await fleet.until(lambda: shown() == {"range"})
            if not restarted:
                await fleet.run("right")
                await fleet.until(lambda: shown() == {None})
        if restarted:
            async with fleet.serving(), following(fleet, "alice", "bob"):
                await fleet.run("right")
                await fleet.until(lambda: shown() == {None})

    asyncio.run(main())


def test_an_agent_that_refuses_is_left_out_for_a_while(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        fleet.policy("carol", cap=0.5)
        async with fleet.serving() as hub, following(fleet, *NAMES):
            asked = asyncio.ensure_future(fleet.run(every=3600.0, times=3, least=2, start_deadline=0.3))
            for count in (1, 2, 3):
                await fleet.until(lambda count=count: len(hub.store.sessions("run")) == count)
                await fleet.until(lambda count=count: sum(refusals(hub).values()) == (1 if count < 3 else 2))
                hub.store.set_task("run", next=0.0)
            found = await asked
            assert [state for state, _ in found] == ["finished"] * 3
            assert [result["agents"] for _, result in found] == [3, 2, 3]

    asyncio.run(main())


@pytest.mark.parametrize("value", [5.0, -1e9, 1e300])
def test_taking_part_does_not_depend_on_the_value(tmp_path, value):
    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob")
        fleet.policy("alice", value)
        async with fleet.serving(), following(fleet, "alice", "bob"):
            [(state, result)] = await fleet.run()
            assert (state, result["used"]) == ("finished", [2, 2])
            said = [(event, text) for event, text, facts in fleet.told if facts.get("member") == "alice"]
            assert ("joined", "run is joined as agent") in said
            assert not any("clamp" in text or "range" in text for _, text in said)

    asyncio.run(main())


def test_a_source_that_fails_is_said_to_its_owner_and_costs_nothing(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        fleet.policy("carol", value_table={"command": ["sh", "-c", "echo 7.654321; exit 3"]})
        async with fleet.serving() as hub, following(fleet, *NAMES) as agents:
            [(state, result)] = await fleet.run(least=3, start_deadline=0.3)
            assert (state, result["missing"]) == ("finished", ["carol"])
            assert refusals(hub) == {"source": 1}
            [(_, text, _)] = [one for one in fleet.told.events("refused") if "member" in one[2]][:1]
            assert "ended with exit code 3" in text
            assert agents[2].ledger.spent("value") == 0.0
            assert "7.654321" not in repr(fleet.told)

    asyncio.run(main())


def test_a_record_that_cannot_be_read_counts_as_the_stand_in_and_only_its_owner_is_told(tmp_path):
    """Whether an agent takes part must not depend on its record."""

    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        fleet.policy("carol", value_table={"command": ["sh", "-c", "echo 7.654321 broken"]})
        async with fleet.serving() as hub, following(fleet, *NAMES) as agents:
            [(state, result)] = await fleet.run(least=3)
            assert (state, result["missing"], refusals(hub)) == ("finished", [], {})
            assert agents[2].ledger.spent("value") > 0.0
            told = [text for event, text, facts in fleet.told if event == "trouble" and "session" in facts]
            assert told == [
                "run: the question's stand-in counts in place of your record: the value must be one finite "
                "number; the input is not."
            ]
            assert "7.654321" not in repr(fleet.told)
            session = Session.decode(hub.store.sessions("run")[0]["data"])
            [began] = [one for one in agents[2].ledger.records(session.id) if isinstance(one, Began)]
            assert began.clamped

    asyncio.run(main())


def test_a_member_cannot_fill_the_memory_of_a_hub_with_channels(tmp_path, monkeypatch):
    monkeypatch.setattr(gateway_module, "_MOST_HEARD", 10)

    async def main():
        fleet = await fleet_of(tmp_path, "alice")
        async with fleet.serving() as hub, following(fleet, "alice") as alice:
            alice.connection.send(ChannelOpen(bytes(1000)))  # no session has such an id
            for number in range(50):
                alice.connection.send(ChannelOpen(number.to_bytes(32)))
            await fleet.until(lambda: fleet.told.events("trouble"))
            alice.connection.send(ChannelClosed((0).to_bytes(32)))
            member = hub.gateway.members["alice"]
            await fleet.until(lambda: len(member.hears) == 9)
            assert (0).to_bytes(32) not in member.hears

    asyncio.run(main())


def test_pause_drain_and_cancel(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        async with fleet.serving() as hub, following(fleet, *NAMES):
            hub.store.set_setting("state", "paused")
            asked = asyncio.ensure_future(fleet.run("waits", least=3))
            await asyncio.sleep(0.3)
            assert not hub.running()
            hub.store.set_setting("state", SERVING)
            assert [state for state, _ in await asked] == ["finished"]
            long = {**ROUNDS, "rounds": 1000}
            asked = asyncio.ensure_future(fleet.run("long", question=long, least=3, start_deadline=0.3))
            await fleet.until(hub.running)
            cancel(hub.running()[0], Identity.load(tmp_path / "hub" / KEYS))
            assert [state for state, _ in await asked] == ["stopped"]
            hub.store.set_setting("state", DRAINING)
            await fleet.until(lambda: fleet.told.events("drained"))

    asyncio.run(main())


def test_too_few_members_are_waited_for_and_then_it_fails(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, "alice")
        async with fleet.serving() as hub, following(fleet, "alice"):
            assert await fleet.run("few", least=2, wait=0.2) == []
            assert "1 of at least 2" in hub.store.task("few")["note"]
            assert await fleet.run("kept", least=1, wait=0.2, keepers=("north",)) == []
            assert "keeper north" in hub.store.task("kept")["note"]

    asyncio.run(main())


def test_a_ledger_that_fails_stops_the_agent(tmp_path, monkeypatch):
    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob")
        async with fleet.serving(), following(fleet, "alice", "bob") as (alice, _):
            asked = asyncio.ensure_future(fleet.run(start_deadline=0.2))

            def full(*_, **__):
                raise LedgerError("the disk is full")

            monkeypatch.setattr(alice.ledger, "reserve", full)
            with pytest.raises(LedgerError, match="full"):
                async with asyncio.timeout(WAIT):
                    await alice.run()
            asked.cancel()

    asyncio.run(main())


def test_a_lower_cap_in_the_policy_counts_from_the_start(tmp_path):
    """Not only from the next session on: /status and `ledger show` have it at once."""

    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving():
            await fleet.enrol("alice")
            with Ledger(tmp_path / "alice.ledger") as ledger:
                ledger.set_cap("value", 5.0, accepts=Hidden(Hides.parse("step:2"), 1e-5))
            for limits, expected in (
                ({"cap": 3.0}, (3.0, "step:2.0", 1e-5)),
                ({"cap": 3.0, "hides": "step:2", "delta": 1e-6}, (3.0, "step:2.0", 1e-6)),
                ({"cap": 2.0, "hides": "step:2", "delta": 1e-6}, (2.0, "step:2.0", 1e-6)),
            ):
                fleet.policy("alice", **limits)
                async with following(fleet, "alice") as alice:
                    known = alice.ledger.balance("value")
                    assert (known.cap, known.hides, known.delta_cap) == expected

    asyncio.run(main())


def test_a_cap_in_the_policy_does_not_rise_in_passing(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob", cap=3.0)
        async with fleet.serving():
            async with following(fleet, "alice", "bob"):
                await fleet.run()
            fleet.policy("alice", cap=4.0)
            with pytest.raises(InputError, match="ledger cap"):
                async with fleet.follow("alice"):
                    pass

    asyncio.run(main())


def test_a_policy_of_another_authority_is_refused(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, "alice")
        path = fleet.policy("alice")
        path.write_text(path.read_text().replace(fleet.fingerprint, "ab" * 32))
        with pytest.raises(InputError, match="find out why"):
            fleet.follow("alice")

    asyncio.run(main())


def test_a_fleet_with_keepers_killed_agents_and_a_restarted_hub(tmp_path):
    """The small version of benchmarks/fleet.py: means, losses and logs are what was promised."""
    values = {f"meter-{i}": 1.23456 + 1.34567 * i for i in range(6)}

    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving():
            for name in ("north", "south", *values):
                await fleet.enrol(name)
        for name in ("north", "south"):
            fleet.policy(name, role="keeper")
        for name, value in values.items():
            windows = [{"time": "1d", "cap": 5.0}]
            fleet.policy(name, value, trust=["south"], cap=20.0, windows=windows)
        agents = {name: fleet.follow(name) for name in ("north", "south", *values)}
        for agent in agents.values():
            await agent.__aenter__()
        order = {"keepers": ("north", "south"), "least": 4, "start_deadline": 0.5, "round_deadline": 0.5}
        async with fleet.serving() as hub:
            await fleet.until(lambda: sum(bool(m.role) for m in hub.gateway.members.values()) == 8)
            asked = asyncio.ensure_future(fleet.run("load", every=0.2, times=6, **order))
            await fleet.until(lambda: len(hub.store.sessions("load")) >= 2)
            await agents["meter-5"].__aexit__(None, None, None)
            await fleet.until(lambda: len(hub.store.sessions("load")) >= 4)
            asked.cancel()
        agents["meter-5"] = fleet.follow("meter-5")
        await agents["meter-5"].__aenter__()
        async with fleet.serving() as hub:
            found = await fleet.over("load", 6)
            await fleet.until(lambda: not any(agent.sessions for agent in agents.values()))
            rows = hub.store.sessions("load")
        for agent in agents.values():
            await agent.__aexit__(None, None, None)
        return fleet, found, rows

    fleet, found, rows = asyncio.run(main())
    # Each agent has given its 5 of a day after five sessions; the last may be refused by too many to begin.
    done = [(row, result) for row, (state, result) in zip(rows, found, strict=True) if state == "finished"]
    assert len(done) >= 5
    heard = set()
    for row, result in done:
        session = Session.decode(row["data"])
        used = [m.name for m in session.roster if m.name not in result["missing"]]
        heard.update(used)
        target = session.clamp(sum(values[name] for name in used) / len(used))
        # One alarm in 10^9 sessions.
        assert abs(result["mean"] - target) <= radius_for(session, len(used), 1e-9)
    for name in values:
        with Ledger(tmp_path / f"{name}.ledger") as ledger:
            assert ledger.spent("value") <= 5.0
            assert ledger.spent("value") > 0 or name not in heard  # on a busy machine one can come too late
    told = repr(fleet.told)
    assert not any(f"{value:.4f}"[:-1] in told for value in values.values())


def test_a_program_takes_part_with_a_function(tmp_path):
    """docs/how-to/embed.md: `tacit.FleetAgent` with a value from a function, read when a session begins."""
    asked = []

    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob")
        path = fleet.policy("alice", value_table={})
        async with fleet.serving() as hub, following(fleet, "bob"):
            async with tacit.FleetAgent(path, value=lambda: asked.append(1) or 5.0) as agent:
                await fleet.until(lambda: "alice" in {m.name for m in hub.gateway.members.values() if m.role})
                assert asked == []
                running = asyncio.ensure_future(fleet.run(every=0.1, times=2, least=2))
                means = []
                async for mean in agent:
                    means.append(mean)
                    if len(means) == 2:
                        break
                found = await running
            assert sorted(mean.value for mean in means) == sorted(result["mean"] for _, result in found)
            assert means[-1].spent == 2.0
        with pytest.raises(InputError, match="goes with the path"):
            tacit.FleetAgent(agent.policy, value=lambda: 1.0)

    asyncio.run(main())
    assert asked == [1, 1]


# ---- another machine ---------------------------------------------------------------------------------


def test_a_hub_moves_to_another_machine_in_the_middle_of_a_session(tmp_path):
    """The directory is copied and the ledger adopted; members come back by themselves and go on."""

    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        async with fleet.serving() as hub:
            members = [await fleet.follow(name).__aenter__() for name in NAMES]
            await fleet.until(lambda: len(hub.gateway.members) == 3)
            hub.store.add_task("long", {"question": ROUNDS, "least": 3}, None, None)
            await fleet.until(
                lambda: any(
                    one.coordinator and one.coordinator.machine.round >= 5 for one in hub._running.values()
                )
            )
        moved = tmp_path / "moved"
        shutil.copytree(tmp_path / "hub", moved)
        with pytest.raises(LedgerError, match="adopt"):
            Ledger(moved / LEDGER)
        Ledger(moved / LEDGER, copied=True).close()
        fleet.home = moved
        async with fleet.serving():
            [(state, result)] = await fleet.over("long")
            assert state == "finished"
            assert (result["rounds"], result["agents"]) == (60, 3)
            await fleet.until(lambda: all(finished(member) == 1 for member in members))
        for member in members:
            await member.__aexit__(None, None, None)
            assert member.tell.counted("agent_sessions", "joined") == 1
            with Ledger(member.policy.ledger) as ledger:  # each message was drawn once and paid once
                assert ledger.spent("value") <= 2.0
        assert not fleet.told.events("failed", "refused")

    asyncio.run(main())


def test_a_hub_gets_another_address_and_an_empty_store_where_that_was_lost(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        line = fleet.invite("dave")
        async with fleet.serving(), following(fleet, *NAMES):
            await fleet.run(least=3)
            with pytest.raises(InputError, match="stop it first"):
                move_hub(fleet.home, fleet.address)
        for ending in ("", "-wal", "-shm"):
            (fleet.home / f"{STORE}{ending}").unlink(missing_ok=True)
        with pytest.raises(FileError, match="directory"):
            Hub(fleet.home)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        address, listen = f"wss://127.0.0.1:{port}", f"wss://127.0.0.1:{port}"
        assert move_hub(fleet.home, address, listen=listen, new_store=True) == fleet.fingerprint
        with pytest.raises(FileError, match="exists already"):
            move_hub(fleet.home, address, listen=listen, new_store=True)
        for name in NAMES:  # owners change one line
            policy = tmp_path / f"{name}.toml"
            policy.write_text(policy.read_text().replace(fleet.address, address))
        async with fleet.serving(), following(fleet, *NAMES):
            [(state, result)] = await fleet.run(least=3)
            assert (state, result["used"]) == ("finished", [3, 3])
            with pytest.raises(InputError, match="does not know the invitation"):
                await asyncio.to_thread(
                    enroll, msgspec.structs.replace(line, address=address), tmp_path / "dave"
                )

    asyncio.run(main())


# ---- ledgers -----------------------------------------------------------------------------------------


def test_ledgers_are_compacted_while_they_are_in_use(tmp_path, monkeypatch):
    """Two hours after a session nothing of it is left but what it cost; the next one runs as ever."""
    monkeypatch.setattr(compaction, "_WORTH", 1)
    monkeypatch.setattr(follower, "_LOOK", 0.02)
    monkeypatch.setattr(hub_module, "_HOUSEKEEPING", 0.02)
    offset = [0.0]
    clock = SystemClock()
    clock.wall = lambda: time.time() + offset[0]

    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving():
            for name in (*NAMES, "north", "south"):
                await fleet.enrol(name)
        for name in NAMES:
            fleet.policy(name, trust=["north"], windows=[{"time": "1d", "cap": 50.0}])
        for name in ("north", "south"):
            fleet.policy(name, role="keeper")
        async with (
            fleet.serving() as hub,
            following(fleet, *NAMES, "north", "south", clock=clock) as members,
        ):
            hub._clock = clock
            kept = {"least": 3, "keepers": ("north", "south")}
            await fleet.run("one", **kept)
            await fleet.until(lambda: not any(member.sessions for member in members))
            ledgers = [hub._ledger, *(member.ledger for member in members)]
            assert all(ledger.sessions() or ledger._store.count for ledger in ledgers)
            offset[0] = 7200.0
            ended = "WHERE kind = 'ended'"

            def dropped(ledger):
                with ledger._lock:  # a worker may be compacting it
                    return not ledger._store.rows(ended, ())

            await fleet.until(lambda: all(map(dropped, ledgers)))
            assert not hub.store.sessions("one")[0]["data"]
            assert members[0].ledger.balance("value").spent == 1.0
            [(state, _)] = await fleet.run("two", **kept)
            assert state == "finished"
            await fleet.until(lambda: not any(member.sessions for member in members))
            balance = members[0].ledger.balance("value")
            assert (balance.spent, balance.sessions) == (2.0, 2)
            assert members[0].ledger.spent_since("value", clock.wall() - 3600) == 1.0
        assert not fleet.told.events("failed", "trouble")

    asyncio.run(main())


def test_a_hub_killed_before_it_saved_the_keepers_answers_gets_them_again(tmp_path):
    """Keepers end when the hub is gone; asked again, they repeat the same bytes."""

    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving():
            for name in (*NAMES, "north", "south"):
                await fleet.enrol(name)
        for name in NAMES:
            fleet.policy(name, trust=["north"])
        for name in ("north", "south"):
            fleet.policy(name, role="keeper")
        members = [await fleet.follow(name).__aenter__() for name in (*NAMES, "north", "south")]
        killed = tmp_path / "killed"
        async with fleet.serving() as hub:
            append = hub._ledger.append

            def kept(session, records, **more):
                if any(isinstance(record, Closed) for record in records) and not killed.exists():
                    shutil.copytree(fleet.home, killed)  # the disk as a kill would leave it here
                append(session, records, **more)

            hub._ledger.append = kept
            await fleet.until(lambda: len(hub.gateway.members) == 5)
            [(_, first)] = await fleet.run(least=3, keepers=("north", "south"))
            await fleet.until(lambda: not any(member.sessions for member in members))
        Ledger(killed / LEDGER, copied=True).close()
        fleet.home = killed
        async with fleet.serving() as hub:
            assert [row["state"] for row in hub.store.sessions("run")] == ["running"]
            [(state, result)] = await fleet.over("run")
            assert (state, result["mean"]) == ("finished", first["mean"])
            await fleet.until(lambda: not any(member.sessions for member in members))
        for member in members:
            await member.__aexit__(None, None, None)
            assert finished(member) == 1

    asyncio.run(main())
