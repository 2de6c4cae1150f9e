"""After the expiry no report is made, even if the clock is set back."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doubles import Faults, Harness, ScriptedNoise, known_key, known_session

from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import Expired, Start, Step
from tacit.core.protocol.messages import Reason, Report
from tacit.core.protocol.notices import Finished, Stopped
from tacit.core.protocol.peer import PeerMachine
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import Ended, Spoke
from tacit.core.protocol.roster import COORDINATOR
from tacit.core.protocol.session import Deadlines

DEADLINES = Deadlines(round=5, start=10, repeat=1)
SESSIONS = {
    "server": known_session(3, 5, deadlines=DEADLINES),
    "one-shot": known_session(3, 5, deadlines=DEADLINES, law="one-shot"),
    "graph": known_session(graph="path:3", rounds=5, deadlines=DEADLINES),
}


def harness(kind, **more):
    session = SESSIONS[kind]
    return Harness(session, [0.5] * session.n, ScriptedNoise(np.ones((5, session.n), dtype=int)), **more)


def said(play, who):
    return [record for record in play.ledgers[who].records() if isinstance(record, Spoke)]


@pytest.mark.parametrize("kind", SESSIONS)
@settings(max_examples=25, deadline=None)
@given(at=st.integers(0, 40), who=st.integers(0, 2), seed=st.integers(0, 2**16), restart=st.booleans())
def test_nothing_is_said_after_the_expiry_even_if_the_clock_is_set_back(kind, at, who, seed, restart):
    """After `at` packets one agent's time is up. It may then be started again with its clock set back."""
    play = harness(kind, seed=seed, faults=Faults(loss=0.1, duplication=0.1, delay=(0.0, 0.5)))
    play.start()
    play.run(lambda _: len(play.network.tap) > at)
    play.process(who, Expired())
    before, sent = said(play, who), len(play.network.tap)
    assert play.machine(who).ended
    if restart:
        play.stop(who)
        play.start(who)  # it is told to start, not that its time is up
    play.run(most=400)
    assert said(play, who) == before
    codec, known = play.machine(who).codec, {record.frame for record in before}
    frames = {frame for source, _, frame in play.network.tap[sent:] if source == who}
    assert {frame for frame in frames if isinstance(codec.open(frame).body, Report)} <= known


@pytest.mark.parametrize("kind", ["server", "graph"])
def test_one_that_has_not_begun_records_nothing_and_says_nothing(kind):
    session = SESSIONS[kind]
    machine = (AgentMachine if kind == "server" else PeerMachine)(
        session, 0, 0.5, sign=known_key(0).sign, budget=Budget(math.inf)
    )
    step = machine.handle(Expired())
    assert step == Step(notices=(Stopped(0, Reason.EXPIRED),))
    assert machine.phase.value == "stopped"
    assert machine.wake is None
    assert machine.handle(Start()).messages == ()


def test_a_coordinator_ends_the_session_for_all_and_stays_so():
    play = harness("server")
    play.start()
    play.run(lambda _: play.machine(COORDINATOR).round == 2)
    play.process(COORDINATOR, Expired())
    assert Ended(2, Reason.EXPIRED) in play.ledgers[COORDINATOR].records()
    play.stop(COORDINATOR)
    play.start(COORDINATOR)
    assert play.machine(COORDINATOR).phase.value == "stopped"
    play.run(lambda _: all(play.machine(i).phase.value == "stopped" for i in range(3)))
    for i in range(3):
        assert play.ledgers[i].records()[-1] == Ended(play.private_machine(i).update, Reason.EXPIRED)


def test_a_session_that_was_complete_is_finished_and_not_expired():
    play = harness("server")
    play.start()
    assert play.run()
    for number in play.numbers:
        before = play.ledgers[number].records()
        play.process(number, Expired())
        assert play.machine(number).phase.value == "finished"
        assert [r for r in play.ledgers[number].records() if r not in before] in ([], [Ended(5, None)])
    records = [r for r in play.ledgers[COORDINATOR].records() if not isinstance(r, Ended)]
    again = CoordinatorMachine.resume(play.session, records, sign=known_key(COORDINATOR).sign)
    step = again.handle(Expired())
    assert step.records == ()
    assert step.notices == (Finished(5),)
    assert again.phase.value == "finished"


def test_a_neighbour_whose_time_is_up_is_not_waited_for():
    play = harness("graph")
    play.start()
    play.run(lambda _: play.private_machine(0).update == 1)
    play.process(0, Expired())
    assert play.run(lambda _: all(play.private_machine(i).update == 5 for i in (1, 2)))
