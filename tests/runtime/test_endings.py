"""How sessions end: all heard, halted, out of time, out of budget; and what a restart makes of it."""

import asyncio
from dataclasses import replace

import click
import pytest
from tests.doubles import small_session
from tests.runtime.builders import limited, result_of

from tacit.base.errors import CapExceeded, SessionOver
from tacit.cli import running
from tacit.cli.status_place import StatusPlace
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import Report
from tacit.core.protocol.notices import FellSilent, Finished, RoundClosed, Updated
from tacit.core.protocol.records import Spoke
from tacit.core.protocol.roster import COORDINATOR
from tacit.live.identity.identity import provision
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.clock import SystemClock
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.runtime.transcript import TranscriptWriter
from tacit.live.runtime.workers import opened_ledger
from tacit.live.transport.base import Network
from tacit.live.transport.memory import MemoryNetwork
from tacit.live.verification.verdict import verify

NAMES = ["a0", "a1", "a2"]


@pytest.fixture
def keys(tmp_path):
    return provision(tmp_path / "keys", ["coordinator", *NAMES])


@pytest.fixture
def session(keys):
    return small_session(keys, NAMES)


def agent(session, i, keys, folder, network, **more):
    given = {
        "ledger": folder / f"{i}.ledger",
        "identity": keys[NAMES[i]],
        "cap": 100.0,
        "adjacency": 1.0,
    } | more
    return Agent(session, 5.0, transport=network.transport(i), **given)


def coordinator(session, keys, folder, network, **more):
    given = {"ledger": folder / "c.ledger", "identity": keys["coordinator"]} | more
    return Coordinator(session, transport=network.transport(COORDINATOR), **given)


async def play(session, keys, folder, **more):
    network = MemoryNetwork(session)
    agents = [result_of(agent(session, i, keys, folder, network)) for i in range(session.n)]
    return await asyncio.gather(result_of(coordinator(session, keys, folder, network, **more)), *agents)


def test_a_coordinator_started_again_after_all_have_left_is_over_at_once(session, keys, tmp_path):
    """Its start deadline is ten minutes; it must not wait for agents that are gone."""
    first, *_ = limited(play(session, keys, tmp_path))
    again = limited(result_of(coordinator(session, keys, tmp_path, MemoryNetwork(session))))
    assert again == replace(first, refused=again.refused)
    assert again.finished


class Unconnected:
    """A network in which nobody is reached."""

    dropped, network = 0, Network()

    async def open(self, _arrived):
        pass

    def send(self, *_):
        pass

    def take(self):
        return []

    async def close(self):
        pass


def test_an_agent_started_again_after_the_end_needs_no_network(session, keys, tmp_path):
    _, first, *_ = limited(play(session, keys, tmp_path))
    made = Agent(
        session,
        None,
        ledger=tmp_path / "0.ledger",
        identity=keys["a0"],
        cap=None,
        transport=Unconnected(),
    )
    with pytest.raises(SessionOver, match="was over for a0 before, after 4 of 4 rounds") as over:
        limited(result_of(made))
    again = over.value.result
    assert again.finished
    assert (again.value, again.loss, again.rounds) == (first.value, first.loss, first.rounds)


def halted_after(session, keys, folder, rounds, writer):
    """Run a session that its coordinator ends after so many rounds."""

    async def main():
        network = MemoryNetwork(session)

        def watch(notice):
            if isinstance(notice, RoundClosed) and notice.round + 1 == rounds:
                server.halt()

        server = coordinator(session, keys, folder, network, takers=[writer], watch=watch)
        agents = [result_of(agent(session, i, keys, folder, network)) for i in range(session.n)]
        return await asyncio.gather(result_of(server), *agents)

    return limited(main())


@pytest.mark.parametrize("signs", [True, False])
def test_a_session_that_its_coordinator_ended_verifies_as_ended_if_that_is_signed(
    session, keys, tmp_path, signs
):
    sign = keys["coordinator"].sign if signs else None
    with TranscriptWriter(tmp_path / "t.jsonl", session, COORDINATOR, sign=sign) as writer:
        server, *agents = halted_after(session, keys, tmp_path, 2, writer)
    assert not server.finished
    assert not any(found.finished for found in agents)
    assert 2 <= server.rounds < session.rounds
    verdict = verify([tmp_path / "t.jsonl"])
    assert [finding.name for finding in verdict.findings] == ([] if signs else ["unfinished"])


def test_the_command_signs_the_end_of_a_session(session, keys, tmp_path, monkeypatch):
    given = running.Options(
        tmp_path / "c.ledger", tmp_path / "t.jsonl", tmp_path / "log", StatusPlace(), timeout=None
    )

    with running.prepared(session, COORDINATOR, given, keys["coordinator"]) as run:
        server = coordinator(session, keys, tmp_path, MemoryNetwork(session), takers=run.takers)
        ended = server.result

        async def halted():
            asyncio.get_running_loop().call_later(0.1, server.halt)
            return await ended()

        monkeypatch.setattr(server, "result", halted)
        result = run.drive(server)
    assert not result.finished
    # Signed: so nothing is missing at the end, though nothing was averaged either.
    assert [finding.name for finding in verify([tmp_path / "t.jsonl"]).findings] == ["no-rounds"]


def test_out_of_time_is_one_sentence_and_the_same_command_goes_on(session, keys, tmp_path, capsys):
    given = running.Options(tmp_path / "c.ledger", None, tmp_path / "log", StatusPlace(), timeout=0.2)

    server = coordinator(session, keys, tmp_path, MemoryNetwork(session))
    with pytest.raises(click.exceptions.Exit) as left, running.prepared(session, COORDINATOR, given) as run:
        run.drive(server)
    assert left.value.exit_code == running.UNFINISHED
    assert capsys.readouterr().err.startswith("The session did not end in time; run the same command")
    server, *agents = limited(play(session, keys, tmp_path))
    assert server.finished
    assert all(found.finished for found in agents)


def test_an_agent_that_leaves_says_so_and_the_others_go_on(session, keys, tmp_path):
    session = replace(session, quorum=2, start=3)

    async def main():
        network, updates = MemoryNetwork(session), []

        def watch(notice):
            if isinstance(notice, Updated) and notice.round == 0:
                leaving.halt()
            updates.append(notice)

        leaving = agent(session, 0, keys, tmp_path, network, watch=watch)
        others = [agent(session, i, keys, tmp_path, network) for i in (1, 2)]
        server = coordinator(session, keys, tmp_path, network)
        return await asyncio.gather(*map(result_of, (server, leaving, *others)))

    server, left, *others = limited(main())
    assert server.finished
    assert not left.finished
    assert all(found.finished for found in others)
    assert "a0" not in server.used[-1]
    with Ledger(tmp_path / "0.ledger", create=False) as ledger:
        assert ledger.balance("value").spent == left.loss  # what was not said is not lost


# ---- the cap ------------------------------------------------------------------------------------------


def test_a_session_that_would_pass_the_cap_is_refused_before_a_byte_leaves(session, keys, tmp_path):
    sent = []

    async def main():
        network = MemoryNetwork(session)
        network.taps.append(lambda *frame: sent.append(frame))
        made = agent(session, 0, keys, tmp_path, network, cap=0.9 * session.account(0).total)
        with pytest.raises(CapExceeded):
            await result_of(made)

    limited(main())
    assert not sent


class Leaping(SystemClock):
    """The machine's clock, which can be put forward: no test waits for a deadline."""

    def __init__(self, by):
        self._by, self._ahead = by, 0.0

    def now(self):
        return super().now() + self._ahead

    def leap(self):
        self._ahead += self._by


@pytest.mark.parametrize("turn", [True, False], ids=["in time for its turn", "after the last round"])
def test_it_never_passes_a_cap_that_was_lowered_meanwhile(session, keys, tmp_path, turn):
    """What is left is spent and no more; it listens to the end, and the others go on.

    It falls silent when it is its turn to speak. Whoever returns after the last round has no turn.
    """
    losses = session.account(0).per_message
    notices, said = [], set()

    async def main():
        network, moved, over = MemoryNetwork(session), asyncio.Event(), asyncio.Event()
        codec = Codec(session)  # of its own: agents may speak before the coordinator is there
        open_until = 1  # the coordinator hears no report of a1 from here on, so that round stays open

        def reported(frame):
            message = codec.open(frame)
            return message.sender, message.body.update if isinstance(message.body, Report) else -1

        def hold(_sender, _to, frame):
            sender, update = reported(frame)
            return [] if sender == 1 and update >= open_until else [frame]

        def tap(_sender, _to, frame):
            sender, update = reported(frame)
            if sender == 0 and update >= 0:
                said.add(update)

        def moves(notice):
            if isinstance(notice, Updated):
                moved.set()

        def closes(notice):
            if isinstance(notice, RoundClosed) and notice.round + 1 == session.rounds:
                over.set()
            elif isinstance(notice, RoundClosed) and open_until == session.rounds:
                clock.leap()  # while the agent is away, every round ends by its deadline

        def falls_silent(notice):
            nonlocal open_until
            notices.append(notice)
            if isinstance(notice, FellSilent):
                open_until = session.rounds + 1

        network.taps.append(tap)
        network.fault = hold
        clock = Leaping(session.deadlines.round + 1)
        server = coordinator(session, keys, tmp_path, network, watch=closes, clock=clock)
        others = [agent(session, i, keys, tmp_path, network) for i in (1, 2)]
        playing = [asyncio.ensure_future(result_of(one)) for one in (server, *others)]
        async with agent(session, 0, keys, tmp_path, network, watch=moves):
            await moved.wait()
        with Ledger(tmp_path / "0.ledger", create=False) as ledger:
            spoken = sum(isinstance(record, Spoke) for record in ledger.records(session.id))
        open_until = spoken if turn else session.rounds
        if not turn:
            clock.leap()
            await over.wait()
        cap = float(losses[:spoken].sum() + 0.5 * losses[spoken])
        again = agent(session, 0, keys, tmp_path, network, cap=cap, watch=falls_silent)
        return cap, spoken, await result_of(again), await asyncio.gather(*playing)

    cap, spoken, found, (server, *_) = limited(main())
    assert said == set(range(spoken))
    assert 1 <= spoken < session.rounds
    assert found.loss <= found.spent <= cap
    assert found.finished
    assert found.rounds == session.rounds
    assert server.finished
    kinds = [type(notice) for notice in notices if isinstance(notice, FellSilent | Finished)]
    assert kinds == ([FellSilent, Finished] if turn else [Finished])


def test_a_start_that_is_cancelled_leaves_no_ledger_open(tmp_path):
    """The thread that opens it goes on for a moment; then somebody must close it."""

    async def check():
        opening = asyncio.ensure_future(opened_ledger(tmp_path / "a.ledger"))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(check())
    with Ledger(tmp_path / "a.ledger"):  # would be in use
        pass
