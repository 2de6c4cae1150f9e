"""A hub's series: restarts of everyone, owners who refuse, caps shared with other sessions, its means."""

import asyncio
import time
from unittest import mock

import click
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from tests.doubles.sessions import known_series
from tests.runtime.fleets import Fleet, HandClock

from tacit.cli import hub as hub_commands
from tacit.cli import hub_series
from tacit.cli.running import UNFINISHED
from tacit.core.protocol.records import Closed, Ended, Keyed, Sampled, Spoke
from tacit.core.protocol.session import Session
from tacit.core.question import Histogram
from tacit.live.fleet import hub as hub_module
from tacit.live.fleet.fleet_status import AgentPages, HubPages
from tacit.live.fleet.hub_directory import LEDGER
from tacit.live.fleet.hub_report import SeriesMeans
from tacit.live.fleet.orders import SeriesOrder, SessionOrder
from tacit.live.fleet.series_progress import SeriesProgress
from tacit.live.fleet.store import HubStore
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime import coordinator as coordinator_module
from tacit.live.runtime import keeper as keeper_module
from tacit.live.runtime.noise import noise_of_series
from tacit.live.verification.verdict import verify

SLOTS, EVERY = 24, 900.0
AGENTS, KEEPERS = ("alice", "bob", "carol", "dave"), ("north", "south")
ACCEPTS = {"hides": "step:2", "delta": 1e-6, "longest": "2d", "cap": 31.5}


class Steady:
    """Noise that is the same in every slot: means can be computed again from the readings."""

    @staticmethod
    def draw(scale, size=None):
        drawn = int(scale) // 8
        return drawn if size is None else np.full(size, drawn)


@pytest.fixture(autouse=True)
def known_noise(monkeypatch):
    monkeypatch.setattr(keeper_module, "noise_of_series", lambda session: noise_of_series(session, Steady()))
    monkeypatch.setattr(hub_module, "radius_for", lambda *_: 1.0)


def reading(name, slot):
    return 1.234567 + 1.345678 * AGENTS.index(name) + 0.1234567 * (slot % 7)


def series_facts(hub):
    """Return what a hub will store of its series under way."""
    found = [one.progress for one in hub._running.values() if one.progress is not None]
    return found[0].facts() if found else {"joined": (), "refused": ()}


class Running:
    """A fleet that runs one series, slot by slot, by a clock that is moved."""

    def __init__(self, fleet):
        self.fleet, self.clock, self.there, self.slot = fleet, fleet.clock, {}, -1
        self._session = None

    @property
    def session(self):
        if self._session is None:
            self._session = Session.decode(self.fleet.hub.store.sessions("load")[0]["data"])
        return self._session

    def value(self, name):
        """What the meter of an agent shows now; bob's does not answer in slot 3."""
        slot = self.session.series.slot_at(self.clock.wall())
        if (name, slot) == ("bob", 3):
            raise ValueError(f"cannot read {reading(name, 3)}")
        return reading(name, slot)

    async def come(self, *names):
        for name in names:
            given = {"value": lambda name=name: self.value(name)} if name in AGENTS else {}
            self.there[name] = self.fleet.follow(name, **given)
            await self.there[name].__aenter__()
        hub = self.fleet.hub
        await self.fleet.until(lambda: set(names) <= {m.name for m in hub.gateway.members.values() if m.role})

    async def go(self, *names):
        for name in names:
            await self.there.pop(name).__aexit__(None, None, None)

    def ask(self, *, question=None, **series):
        self._session = None
        begins = int(self.clock.wall()) + 1000
        asked = SeriesOrder(
            **{"slots": SLOTS, "interval": EVERY, "hides": "step:2", "begins": begins, **series}
        )
        question = question or {"loss": 30.0, "low": 0.0, "high": 10.0}
        rules = {"keepers": KEEPERS, "least": 4, "wait": 1e9, "settings": {"round_deadline": EVERY / 2}}
        order = SessionOrder(question, series=asked, **rules)
        self.fleet.hub.store.add_task("load", msgspec.to_builtins(order), None, None)

    async def answered(self, count):
        def all_have():
            facts = series_facts(self.fleet.hub)
            return len(facts["joined"]) + len(facts["refused"]) == count

        await self.fleet.until(all_have)
        await self.fleet.until(lambda: all(self.has_keys(name) for name in set(AGENTS) & set(self.there)))

    def has_keys(self, name):
        """Whether an agent knows the keys of all keepers: it cannot speak before."""
        session, ledger = self.session, self.there[name].ledger
        known = {r.member for r in ledger.records(session.id) if isinstance(r, Keyed)}
        return set(session.keeper_numbers) <= known

    def spoken(self):
        """How many agents have read for this slot and spoken; None while one has not read."""
        count = 0
        for name in set(AGENTS) & set(self.there):
            records = self.there[name].ledger.records(self.session.id)
            if not any(isinstance(record, Sampled) and record.slot == self.slot for record in records):
                return None
            count += any(isinstance(record, Spoke) and record.update == self.slot for record in records)
        return count

    def machine(self):
        found = self.fleet.hub._running.get(self.session.id)
        return None if found is None or found.coordinator is None else found.coordinator.machine

    async def all_heard(self):
        def heard():
            count, machine = self.spoken(), self.machine()
            return count is not None and machine is not None and machine.heard == count

        await self.fleet.until(heard)

    async def begin_slot(self):
        self.slot += 1
        self.clock.move_to(self.session.series.begin_of(self.slot))
        await self.all_heard()

    async def end_slot(self):
        session, store = self.session, self.fleet.hub.store
        self.clock.move_to(session.series.begin_of(self.slot) + session.deadlines.round)
        await self.fleet.until(lambda: store.slots_written(session.id) == self.slot + 1)

    async def slots(self, until):
        while self.slot < until:
            await self.begin_slot()
            await self.end_slot()


async def made(folder, *more, **limits):
    (folder / "transcripts").mkdir()
    fleet = Fleet(folder, HandClock(time.time() + 60), folder / "transcripts")
    async with fleet.serving():
        for name in (*KEEPERS, *AGENTS, *more):
            await fleet.enrol(name)
    for name in KEEPERS:
        fleet.policy(name, role="keeper")
    for name in AGENTS:
        fleet.policy(name, value_table={}, trust=["south"], **{**ACCEPTS, **limits})
    for name in more:
        fleet.policy(name, trust=["south"], cap=100.0)
    return fleet


def expected(session, used, read):
    """The means of pure functions, from who was used in each slot and which slots each agent has read."""
    filters = {name: session.series.agent() for name in AGENTS}
    decoder, members, means = session.series.decoder(2), set(), []
    noise = len(KEEPERS) * (int(session.series.steps) // 8)
    for slot, names in enumerate(used):
        said = {}
        for name in AGENTS:
            if slot in read[name]:
                filters[name].pass_until(slot)  # bob's meter did not answer in slot 3: the one before is held
                (said[name],) = filters[name].read(
                    None if (name, slot) == ("bob", 3) else reading(name, slot)
                )
        members |= names
        # Whoever sums subtracts what keepers answer: masks and noise.
        decoder.add(sum(said[name] for name in names) - noise, len(names), len(members))
        means.append(session.clamp(decoder.mean()))
    return means


def test_a_series_with_everyone_restarted_and_a_session_beside_it(tmp_path):
    async def main():
        fleet = await made(tmp_path, "eve")
        run, heard = Running(fleet), []

        async def listen(agent):
            async for mean in agent:
                heard.append(mean)  # noqa: PERF401 - it is looked at before the end

        async with fleet.clock.creeping():
            async with fleet.serving() as hub:
                await run.come(*KEEPERS, *AGENTS, "eve")
                listening = asyncio.ensure_future(listen(run.there["carol"]))
                run.ask()
                await run.answered(7)
                assert series_facts(hub)["refused"] == {"eve": "series"}  # her policy says nothing of series
                await run.slots(5)
                await run.go("alice")
                await run.slots(7)
                await run.come("alice")
                # Beside the series, from the same caps: one more session, and no second.
                order = {"agents": "[a-d]*", "least": 4, "round_deadline": 300.0, "start_deadline": 300.0}
                assert [state for state, _ in await fleet.run("beside", **order)] == ["finished"]
                assert [state for state, _ in await fleet.run("refused", **order)] == ["stopped"]
                assert hub.tell.counted("hub_refusals", "cap") >= 3
                await run.slots(10)
                await run.go("north")
                await run.begin_slot()
                session = run.session
                fleet.clock.move_to(session.series.begin_of(run.slot) + session.deadlines.round)
                await fleet.until(
                    lambda: run.machine().course.closing is not None
                )  # only the keeper is missing
                await run.come("north")
                await run.end_slot()
                await run.slots(14)
                await run.begin_slot()
            async with fleet.serving() as hub:  # restarted in the middle of slot 15
                await run.all_heard()
                await run.end_slot()
                [page] = HubPages(hub).document().under_way()
                own = AgentPages(run.there["carol"])
                assert (page.name, page.round, page.agents, page.series) == ("load", run.slot + 1, 5, True)
                assert 'tacit_hub_series_slots_over{series="load"} 16.0' in HubPages(hub).metrics().decode()
                assert 'tacit_agent_slots_total{what="sent"}' in own.metrics().decode()
                await run.slots(SLOTS - 1)
                [(state, result)] = await fleet.over("load")
                await fleet.until(lambda: not any(agent.sessions for agent in run.there.values()))
                means = [row["mean"] for row in hub.store.means(session.id)]
                listening.cancel()
                await run.go(*run.there)
        return fleet, session, state, result, means, heard

    fleet, session, state, result, means, heard = asyncio.run(main())
    assert (state, result["over"]) == ("finished", SLOTS)
    read = {}
    for name in AGENTS:
        with Ledger(tmp_path / f"{name}.ledger") as ledger:
            records = ledger.records(session.id)
            read[name] = [record.slot for record in records if isinstance(record, Sampled)]
            spoke = [record.update for record in records if isinstance(record, Spoke)]
            assert spoke == sorted(set(spoke))
            assert ledger.spent("value") == session.series.loss + 1.0
    assert read["alice"] == [
        slot for slot in range(SLOTS) if slot != 6
    ]  # too late for slot 7, but it was read
    assert all(read[name] == list(range(SLOTS)) for name in AGENTS[1:])
    with Ledger(tmp_path / "hub" / LEDGER) as ledger:
        closed = [record.used for record in ledger.records(session.id) if isinstance(record, Closed)]
    used = [{session.member_name(i) for i in who} for who in closed]
    assert used == [set(AGENTS) - ({"alice"} if slot in (6, 7) else set()) for slot in range(SLOTS)]
    assert means == expected(session, used, read)
    of_series = [mean for mean in heard if mean.session == "load"]
    assert {mean.slot: mean.value for mean in of_series} == dict(enumerate(means))
    # Eve is on the roster and refused; alice was missing in two slots, and later means lack what she said.
    assert [mean.used for mean in of_series] == list(map(len, used))
    assert {mean.incomplete_before for mean in of_series if mean.slot < 7} == {0}
    assert {mean.incomplete_before for mean in of_series if mean.slot > 7} == {2}
    assert (result["incomplete"], result["incomplete_before"]) == (SLOTS, 2)
    assert result["deviation"] == of_series[-1].deviation
    store = HubStore(tmp_path / "hub")
    shown = SeriesMeans.read(tmp_path / "hub", store, "load")
    store.close()
    assert [one["deviation"] for one in shown.means] == [mean.deviation for mean in of_series]
    marks = [row[-1] for row in shown.summary().rows]
    assert set(marks[:7]) == {"1 of 5 agents missing", "2 of 5 agents missing"}
    assert set(marks[8:]) == {"1 of 5 agents missing; agents missing in 2 earlier slots"}
    verdict = verify(tmp_path / "transcripts" / "load.jsonl", session=session)
    assert verdict.sound, verdict.findings
    assert verdict.series.used == tuple(map(len, used))
    assert verdict.series.deviations[-1] == result["deviation"]
    assert [session.clamp(mean) for mean in verdict.series.means] == means
    words = repr(fleet.told)
    assert "no reading, so the last one counts again" in words
    assert not any(f"{reading(name, slot):.5f}" in words for name in AGENTS for slot in range(7))


def test_a_series_that_too_many_refuse_ends(tmp_path):
    async def main():
        fleet = await made(tmp_path, cap=20.0)
        run = Running(fleet)
        async with fleet.clock.creeping(), fleet.serving():
            await run.come(*KEEPERS, *AGENTS)
            run.ask()
            [(state, result)] = await fleet.over("load")
            assert (state, result["over"], set(result["refused"].values())) == ("stopped", 0, {"cap"})
            assert not any(run.there[name].ledger.values() for name in AGENTS)  # nothing was set aside
            await run.go(*run.there)

    asyncio.run(main())


def test_a_policy_that_allows_less_counts_before_the_first_message(tmp_path):
    """Accepted, begun, and not spoken in yet: a lower cap, a smaller delta, no series at all."""

    async def main():
        fleet = await made(tmp_path)
        run = Running(fleet)
        async with fleet.clock.creeping(), fleet.serving():
            await run.come(*KEEPERS, *AGENTS)
            run.ask()
            await run.answered(6)
            changed = {
                "alice": {"cap": 0.5},
                "bob": {"delta": 1e-12},
                "carol": {"hides": None, "delta": None},
            }
            await run.go(*changed)
            for name, limits in changed.items():
                allowed = {k: v for k, v in {**ACCEPTS, **limits}.items() if v is not None}
                fleet.policy(name, value_table={}, trust=["south"], **allowed)
            await run.come(*changed)
            await fleet.until(lambda: not any(run.there[name].sessions for name in changed))
            session = run.session
            fleet.clock.move_to(session.series.begin_of(0))
            dave = run.there["dave"].ledger
            await fleet.until(lambda: any(isinstance(r, Spoke) for r in dave.records(session.id)))
            await run.go(*run.there)
        return session

    session = asyncio.run(main())
    for name in AGENTS[:3]:
        with Ledger(tmp_path / f"{name}.ledger") as ledger:
            assert ledger.is_over(session.id), name
            assert not any(isinstance(record, Spoke) for record in ledger.records(session.id)), name
            assert ledger.spent("value") == 0.0
        assert not list(tmp_path.glob(f"{name}.ledger.*.ephemeral")), name
        assert not list((tmp_path / f"{name}.ledger.sessions").iterdir()), name


def test_a_cancelled_series_ends_for_agents_and_keepers(tmp_path, monkeypatch):
    """`tacit hub cancel` reaches everyone who is connected, and a hub that is restarted begins nothing."""
    monkeypatch.setattr(coordinator_module, "_LOOK", 0.01)

    async def main():
        fleet = await made(tmp_path)
        run = Running(fleet)
        async with fleet.clock.creeping():
            async with fleet.serving() as hub:
                await run.come(*KEEPERS, *AGENTS)
                run.ask()
                await run.answered(6)
                session = run.session
                for run.slot in range(2):  # all are there, so a slot is over as soon as all have spoken
                    fleet.clock.move_to(session.series.begin_of(run.slot))
                    await fleet.until(lambda: run.spoken() == len(AGENTS))
                    await run.end_slot()
                done = await asyncio.to_thread(
                    CliRunner().invoke, hub_commands.command, ["cancel", str(fleet.home), "load"]
                )
                assert done.exit_code == 0, done.output
                [(state, result)] = await fleet.over("load")
                assert state == "stopped"
                assert 2 <= result["over"] < SLOTS
                await fleet.until(lambda: not any(member.sessions for member in run.there.values()))
                over = {facts["member"] for _, _, facts in fleet.told.events("stopped") if "member" in facts}
                assert over == {*KEEPERS, *AGENTS}
                assert hub.running() == []
                await run.go(*run.there)
            async with fleet.serving() as hub:
                assert hub.running() == []
        return session

    session = asyncio.run(main())
    for name in (*KEEPERS, *AGENTS):
        with Ledger(tmp_path / f"{name}.ledger") as ledger:
            assert any(isinstance(record, Ended) for record in ledger.records(session.id)), name
        assert not list(tmp_path.glob(f"{name}.ledger.*.ephemeral")), name
        assert not list((tmp_path / f"{name}.ledger.sessions").iterdir()), name


def test_a_file_that_nobody_writes_is_one_reading_for_a_follower_too(tmp_path):
    """The same reading in two slots would have two draws of noise, and its loss is counted once."""

    async def main():
        fleet = await made(tmp_path, hides="reading")
        fleet.policy("alice", 1.5, trust=["south"], **{**ACCEPTS, "hides": "reading"})
        run = Running(fleet)
        async with fleet.clock.creeping(), fleet.serving():
            await run.come(*KEEPERS, "bob", "carol", "dave")
            alice = run.there["alice"] = fleet.follow("alice")
            await alice.__aenter__()
            run.ask(hides="reading")
            await run.answered(6)

            def sent():
                records = alice.ledger.records(run.session.id)
                return [record.update for record in records if isinstance(record, Spoke)]

            for slot in range(3):
                fleet.clock.move_to(run.session.series.begin_of(slot))
                await fleet.until(
                    lambda slot=slot: len(sent()) + alice.tell.counted("agent_readings_failed") == slot + 1
                )
            found = sent()
            await run.go(*run.there)
            return found

    # The file that the policy names was written once, before the first slot.
    assert asyncio.run(main()) == [0]


@pytest.mark.parametrize(
    ("agents", "keepers", "runs"), [(0, 0, True), (1, 0, True), (2, 0, False), (0, 1, False)]
)
def test_a_series_that_cannot_begin_is_not_said_to_run(agents, keepers, runs, capsys):
    """All have answered, but the hub has not yet stored that the series is over."""
    session = known_series()
    gone = [*session.roster[:agents], *session.keepers[:keepers]]
    joined = [one.name for one in (*session.roster, *session.keepers) if one not in gone]
    facts = {"agents": 3, "keepers": 2, "joined": joined, "refused": {one.name: "cap" for one in gone}}
    row = {"data": session.encode(), "state": "running", "result": facts}
    store = mock.Mock(sessions=lambda _: [row])
    if runs:
        hub_series.tell_begun(store, "load", as_json=False)
    else:
        with pytest.raises(click.exceptions.Exit) as left:
            hub_series.tell_begun(store, "load", as_json=False)
        assert left.value.exit_code == UNFINISHED
    said = "load is running" if runs else "load is stopped"
    assert said in capsys.readouterr().out


def test_answers_that_come_while_a_mean_is_written_do_no_harm(tmp_path):
    """Means are written on another thread than the one that hears answers."""

    class Late(str):
        """An answer during whose reading another one comes."""

        def __bool__(self):
            progress._answers[f"late-{len(progress._answers)}"] = ""
            return True

    progress = SeriesProgress(known_series(), mock.Mock(last_mean=lambda _: None, slots_written=lambda _: 0))
    progress._answers["a"] = Late("cap")
    assert progress.facts()["refused"] == {"a": "cap"}


def test_a_series_whose_time_has_passed_is_not_begun(tmp_path):
    async def main():
        fleet = await made(tmp_path)
        run = Running(fleet)
        async with fleet.serving() as hub:
            run.ask(begins=int(fleet.clock.wall()) - 1)
            await run.come(*KEEPERS, *AGENTS)
            await fleet.until(lambda: hub.store.task("load")["state"] == "failed")
            assert "first slot" in hub.store.task("load")["note"]
            await run.go(*run.there)

    asyncio.run(main())


# ---- a question in every slot ------------------------------------------------------------------------


def accept(fleet, name, accepted, **limits):
    """Let the policy of an agent name a question, in place of a range."""
    source = {} if name in AGENTS else None
    path = fleet.policy(name, value_table=source, trust=["south"], **{**ACCEPTS, "hides": "step", **limits})
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("low =", "high ="))]
    kept.insert(kept.index("[value]") + 1, f'accept = ["{accepted}"]')
    path.write_text("\n".join(kept) + "\n")


def test_a_hub_asks_a_histogram_in_every_slot_and_goes_on_after_a_restart(tmp_path):
    asked = Histogram([0, 2, 4, 10])

    async def main():
        fleet = await made(tmp_path, "eve", "mallory")
        for name in AGENTS:
            accept(fleet, name, "histogram:0,2,4,10")
        accept(fleet, "eve", "histogram:0,2,4,11")  # another domain
        accept(fleet, "mallory", "histogram:0,2,4,10", hides="step:2")  # not what the series hides
        run, heard = Running(fleet), []

        async def listen(agent):
            async for mean in agent:
                heard.append(mean)  # noqa: PERF401 - it is looked at before the end

        async with fleet.clock.creeping():
            async with fleet.serving() as hub:
                await run.come(*KEEPERS, *AGENTS, "eve", "mallory")
                listening = asyncio.ensure_future(listen(run.there["carol"]))
                run.ask(hides="step", slots=5, question={"loss": 30.0, "question": "histogram:0,2,4,10"})
                await run.answered(8)
                assert series_facts(hub)["refused"] == {"eve": "question", "mallory": "hides"}
                await run.slots(2)
                session = run.session
                [page] = HubPages(hub).document().under_way()
                assert (page.feedback, [part.name for part in page.answer]) == (None, list(asked.names))
            async with fleet.serving() as hub:
                await run.slots(4)
                [(state, result)] = await fleet.over("load")
                await fleet.until(lambda: not any(agent.sessions for agent in run.there.values()))
                found = SeriesMeans.read(tmp_path / "hub", hub.store, "load")
                vectors = [row["mean"] for row in hub.store.means(session.id)]
                listening.cancel()
                await run.go(*run.there)
        return session, state, result, found, vectors, heard

    session, state, result, found, vectors, heard = asyncio.run(main())
    assert (state, session.question, session.components) == ("finished", asked, 3)
    verdict = verify(tmp_path / "transcripts" / "load.jsonl", session=session)
    assert verdict.sound
    assert [tuple(vector) for vector in vectors] == list(verdict.series.means)
    told = [one["answer"] for one in found.as_dict()["means"]]
    assert told == [answer.as_dict() for answer in verdict.series.answers]  # as anyone recomputes it
    assert result["answer"] == told[-1]
    assert result["mean"] is None
    assert result["series"]["hides"] == "step"
    assert "0 to 2: " in str(found.summary())
    answers = {one.slot: one.answer.as_dict() for one in heard}
    assert answers == {slot: told[slot] for slot in answers}
    assert answers
