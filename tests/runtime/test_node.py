"""Nodes: saved before sent, silent when the disk fails, resumed where they were, exact."""

import asyncio
import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.doubles import small_session
from tests.runtime.builders import Script, limited, result_of

from tacit.base.errors import CapExceeded, InputError, LedgerError, SessionOver
from tacit.core.mechanism.on_lattice import OnLattice
from tacit.core.noise.ahead import refill_together
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import Send, Step
from tacit.core.protocol.messages import Feedback, Message, Report
from tacit.core.protocol.notices import Finished, Updated
from tacit.core.protocol.peer import PeerMachine
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import Closed, Moved, Spoke
from tacit.core.protocol.roster import COORDINATOR
from tacit.core.protocol.session import Deadlines
from tacit.core.protocol.tables import AgentPhase
from tacit.live.identity.identity import provision
from tacit.live.ledger import group_commit
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.runtime.node import Node
from tacit.live.runtime.noise import noise_ahead
from tacit.live.transport.memory import MemoryNetwork

NAMES = ["a0", "a1", "a2", "a3"]
VALUES = [1.0, 2.0, 4.0, 9.0]


@pytest.fixture
def keys(tmp_path):
    return provision(tmp_path / "keys", ["coordinator", *NAMES])


@pytest.fixture
def session(keys):
    return small_session(keys, NAMES, rounds=6, deadlines=Deadlines(round=5.0, start=20.0, repeat=0.05))


@pytest.fixture
def ring(session):
    return replace(session, coordinator=None, edges=((0, 1), (1, 2), (2, 3), (0, 3)), quorum=2)


def member(kind, session, i, keys, folder, network, **more):  # noqa: PLR0917
    return kind(
        session,
        VALUES[i],
        ledger=folder / f"{NAMES[i]}.ledger",
        identity=keys[NAMES[i]],
        cap=100.0,
        transport=network.transport(i),
        **more,
    )


def coordinator(session, keys, folder, network, **more):
    ledger, transport = folder / "c.ledger", network.transport(COORDINATOR)
    return Coordinator(session, ledger=ledger, identity=keys["coordinator"], transport=transport, **more)


async def all_results(session, keys, folder, network, **more):
    made = [result_of(member(Agent, session, i, keys, folder, network, **more)) for i in range(session.n)]
    return await asyncio.gather(result_of(coordinator(session, keys, folder, network)), *made)


def records_of(folder, name, session):
    with Ledger(folder / f"{name}.ledger", create=False) as ledger:
        return ledger.records(session.id)


def test_a_session_comes_to_its_end_and_says_what_it_cost(session, keys, tmp_path):
    server, *agents = limited(all_results(session, keys, tmp_path, MemoryNetwork(session)))
    assert server.finished
    assert server.used == (tuple(NAMES),) * session.rounds
    assert all(agent.finished and agent.rounds == session.rounds for agent in agents)
    spread = [agent.value for agent in agents]
    assert max(spread) - min(spread) == pytest.approx(8 / 2**6, rel=1e-6)
    for i, agent in enumerate(agents):
        assert agent.loss == pytest.approx(session.account(i).total)
        assert agent.loss <= agent.spent <= agent.cap
        assert "value" not in repr(agent)


def test_peers_come_to_their_end(ring, keys, tmp_path):
    async def main():
        network = MemoryNetwork(ring)
        return await asyncio.gather(
            *(result_of(member(Agent, ring, i, keys, tmp_path, network)) for i in range(4))
        )

    assert all(found.finished for found in limited(main()))


def test_what_is_sent_was_saved_before(session, keys, tmp_path, monkeypatch):
    """When a report or feedback is on the wire, its very bytes are saved and flushed to the disk."""
    codec, network, seen, saved, written = Codec(session), MemoryNetwork(session), [], set(), {}
    append, flush = Ledger.append, group_commit.flush_together

    def noted(self, which, records, *, flush=True, **more):
        append(self, which, records, flush=flush, **more)
        frames = {record.frame for record in records if isinstance(record, Spoke | Closed)}
        (saved if flush else written.setdefault(self, set())).update(frames)

    def flushed(ledgers):
        failed = flush(ledgers)
        assert not failed
        for ledger in ledgers:
            saved.update(written.pop(ledger, ()))
        return failed

    def tap(_sender, _to, frame):
        message = codec.open(frame)
        if isinstance(message, Message) and isinstance(message.body, Report | Feedback):
            assert frame in saved
            seen.append(frame)

    monkeypatch.setattr(Ledger, "append", noted)
    monkeypatch.setattr(group_commit, "flush_together", flushed)
    network.taps.append(tap)
    limited(all_results(session, keys, tmp_path, network))
    assert len(set(seen)) == session.rounds * (session.n + 1)


def fails_after(ledger, count):
    """Let a ledger's disk be full after so many writes."""
    append, left = ledger.append, iter(range(count))

    def failing(session, records, **more):
        if next(left, None) is None:
            raise LedgerError("the disk is full.")
        append(session, records, **more)

    ledger.append = failing


def test_when_the_disk_fails_nothing_more_is_said(session, keys, tmp_path):
    async def main():
        network, codec = MemoryNetwork(session), Codec(session)
        said = []

        def tap(sender, _to, frame):
            message = codec.open(frame)
            if sender == 0 and isinstance(message.body, Report):
                said.append(message.body.update)

        network.taps.append(tap)
        failing = member(Agent, session, 0, keys, tmp_path, network)
        others = [member(Agent, session, i, keys, tmp_path, network) for i in range(1, 4)]
        tasks = [asyncio.ensure_future(result_of(other)) for other in others]
        tasks.append(asyncio.ensure_future(result_of(coordinator(session, keys, tmp_path, network))))
        async with failing:
            fails_after(failing._ledger, 3)
            with pytest.raises(LedgerError, match="full"):
                await failing.result()
        before = len(said)
        again = await result_of(member(Agent, session, 0, keys, tmp_path, network))
        await asyncio.gather(*tasks)
        return said, before, again

    said, before, again = limited(main())
    assert before < session.rounds
    assert again.finished
    spoken = [record.update for record in records_of(tmp_path, "a0", session) if isinstance(record, Spoke)]
    assert set(said) == set(spoken)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 40))]
)
def test_stopped_at_any_moment_the_same_bytes_are_repeated(session, keys, tmp_path, seed):
    """Agents and the coordinator are stopped and started again at random; one message per update, ever."""
    chance, codec, heard = random.Random(seed), Codec(session), {}

    async def main():
        network = MemoryNetwork(session)

        def tap(_sender, _to, frame):
            message = codec.open(frame)
            if isinstance(message.body, Report | Feedback):
                number = getattr(message.body, "update", None), getattr(message.body, "round", None)
                heard.setdefault((message.sender, number), set()).add(frame)

        network.taps.append(tap)

        async def restless(make, times):
            while True:
                try:
                    async with make() as one, asyncio.timeout(chance.uniform(0.0, 0.15) if times else None):
                        return await one.result()
                except TimeoutError:
                    times -= 1
                except SessionOver as over:  # stopped after its end, and started again
                    return over.result

        servers = restless(lambda: coordinator(session, keys, tmp_path, network, pace=0.02), 3)
        agents = [
            restless(lambda i=i: member(Agent, session, i, keys, tmp_path, network), 3) for i in range(4)
        ]
        return await asyncio.gather(servers, *agents)

    server, *agents = limited(main())
    assert server.finished
    assert all(agent.finished for agent in agents)
    assert all(len(frames) == 1 for frames in heard.values())
    for name in NAMES:
        spoken = [r.update for r in records_of(tmp_path, name, session) if isinstance(r, Spoke)]
        assert len(spoken) == len(set(spoken))


def test_above_the_cap_not_even_the_network_is_opened(session, keys, tmp_path):
    class Closed:
        async def open(self, _arrived):
            raise AssertionError("the network was opened")

    async def main():
        made = Agent(session, 1.0, ledger=tmp_path / "l", identity=keys["a0"], cap=0.5, transport=Closed())
        with pytest.raises(CapExceeded, match=r"cap of 0\.5"):
            async with made:
                pass

    limited(main())


def test_mistakes_are_named(session, keys, tmp_path):
    network = MemoryNetwork(session)
    how = {"ledger": tmp_path / "l", "cap": 1.0, "transport": network.transport(0)}
    with pytest.raises(InputError, match="roster"):
        Agent(session, 1.0, identity=keys["coordinator"], **how)
    with pytest.raises(InputError, match="coordinator's"):
        Coordinator(session, ledger=tmp_path / "c", identity=keys["a0"], transport=network.transport(-1))

    async def without_value():
        with pytest.raises(InputError, match="needs its value"):
            async with Agent(session, None, identity=keys["a0"], **{**how, "cap": 100.0}):
                pass

    limited(without_value())


def test_a_coordinator_without_its_witness_is_refused(session, keys, tmp_path):
    async def main():
        about = {"ledger": tmp_path / "c", "identity": keys["coordinator"], "witness": tmp_path / "gone"}
        async with Coordinator(session, transport=MemoryNetwork(session).transport(-1), **about):
            pass

    with pytest.raises(LedgerError, match="no witness"):
        limited(main())


def test_notices_come_by_iteration_and_by_callback(session, keys, tmp_path):
    async def main():
        network, called = MemoryNetwork(session), []
        others = [result_of(member(Agent, session, i, keys, tmp_path, network)) for i in range(1, 4)]
        tasks = [asyncio.ensure_future(one) for one in others]
        tasks.append(asyncio.ensure_future(result_of(coordinator(session, keys, tmp_path, network))))
        async with member(Agent, session, 0, keys, tmp_path, network, watch=called.append) as agent:
            iterated = [notice async for notice in agent]
        await asyncio.gather(*tasks)
        return iterated, called

    iterated, called = limited(main())
    assert iterated == called
    assert [n.round for n in iterated if isinstance(n, Updated)] == list(range(session.rounds))
    assert Finished(session.rounds) in iterated


def script(session, seed):
    numbers = np.random.default_rng(seed).integers(-(2**39), 2**39, (session.rounds, session.n))
    return [[int(v) for v in row] for row in numbers]


@pytest.mark.parametrize("graph", [False, True])
def test_networked_and_simulated_are_the_same_to_the_last_bit(session, ring, keys, tmp_path, graph):
    session = ring if graph else session
    draws = script(session, 1)

    async def main():
        network, nodes, machines = MemoryNetwork(session), [], []
        ledgers = [Ledger(tmp_path / f"{name}.ledger") for name in [*NAMES, "c"]]
        for i in range(session.n):
            sign, budget = keys[NAMES[i]].sign, Budget(cap=100.0)
            kind = PeerMachine if graph else AgentMachine
            machines.append(kind(session, i, VALUES[i], sign=sign, budget=budget))
            ledgers[i].reserve(session.id, "v", planned=50.0, adjacency=1.0, diameter=1.0, cap=100.0)
            noise = noise_ahead(session, i, Script(row[i] for row in draws))
            nodes.append(Node(session.id, machines[i], network.transport(i), ledgers[i], noise=noise))
        if not graph:
            server = CoordinatorMachine(session, sign=keys["coordinator"].sign)
            nodes.append(Node(session.id, server, network.transport(COORDINATOR), ledgers[-1]))
        await asyncio.gather(*(node.run() for node in nodes))
        found = [ledger.records(session.id) for ledger in ledgers]
        for ledger in ledgers:
            ledger.close()
        return found

    records = limited(main())
    run = OnLattice(session.mechanism, session.lattice).execute(VALUES, draws)
    codec = Codec(session)
    for i in range(session.n):
        states = [codec.unpack(r.state)[0] for r in records[i] if isinstance(r, Moved)]
        assert states == run.private.states[1:, i].tolist()
        said = [codec.open(r.frame).numbers[0] for r in records[i] if isinstance(r, Spoke)]
        assert said == run.wholes.x[:, i].tolist()
    if not graph:
        answers = [codec.open(r.frame).numbers[0] for r in records[-1] if isinstance(r, Closed)]
        assert answers == run.wholes.y.tolist()


def test_no_draw_is_made_between_hearing_and_speaking(session):
    """When message u is asked for, its draw and the next are there; draws are made after it has left."""
    source = Script([7] * 100)
    noise = noise_ahead(session, 0, source)
    refill_together([noise])
    for u in range(session.rounds):
        left = len(source._draws)
        assert 100 - left > min(u + 1, session.rounds - 1)
        assert noise.ready(u)
        noise.take(u)
        assert len(source._draws) == left
        if noise.low():
            refill_together([noise])
    noise.close()


def test_rounds_keep_their_pace(session, keys, tmp_path):
    """A machine whose rounds end at once: between two of them the clock's whole pace must pass."""

    known = session

    class Stepped:
        time = 0.0

        def now(self):
            return self.time

        wall = now

        async def sleep(self, seconds):
            self.time += seconds

    class Hasty:
        ended, codec = False, Codec(known)
        session = known
        phase, wake, done = AgentPhase.WAITING, 0.0, 0

        def handle(self, _event):
            self.done += 1
            if self.done > 10:
                self.phase = AgentPhase.FINISHED
            return Step((), (Send(None, b""),), (Updated(self.done, 1),))

    async def main():
        clock, seen = Stepped(), []
        machine = Hasty()
        node = Node(
            session.id,
            machine,
            MemoryNetwork(session).transport(0),
            None,
            clock=clock,
            pace=2.0,
            linger=0.0,
            watch=lambda _: seen.append(clock.time),
        )
        await node.run()
        return seen

    seen = sorted(set(limited(main())))
    assert all(later - earlier >= 2.0 for earlier, later in pairwise(seen[1:]))
