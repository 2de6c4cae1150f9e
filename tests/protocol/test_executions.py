"""What runs over a network is the mechanism itself, bit for bit."""

import pytest
from tests.doubles import Faults, Harness, known_session

from tacit.core.graph import Graph
from tacit.core.protocol.notices import RoundClosed
from tacit.core.protocol.session import Deadlines, Session

TOPOLOGIES = [None, "ring:5", "star:4", "path:3"]
KINDS = ["fading", "one-shot"]
LOSSY = Faults(loss=0.2, duplication=0.2, delay=(0.0, 0.8))


@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("law", KINDS)
@pytest.mark.parametrize("graph", TOPOLOGIES)
def test_a_run_is_the_mechanisms_own_execution(play, equals_the_mechanism, graph, law, components):
    session = known_session(4, 5, graph=graph, law=law, components=components)
    harness = play(session)
    harness.start()
    assert harness.run(Harness.finished)
    equals_the_mechanism(harness)
    harness.watch.check()


@pytest.mark.parametrize("weights", ["metropolis", ((0, 0, 1), (0, 1, 2), (1, 0, 5), (1, 2, 1), (2, 1, 3))])
@pytest.mark.parametrize("law", KINDS)
def test_peers_count_messages_as_the_weights_say(play, equals_the_mechanism, weights, law):
    session = known_session(rounds=5, graph="path:3", law=law, weights=weights)
    harness = play(session)
    harness.start()
    assert harness.run(Harness.finished)
    equals_the_mechanism(harness)
    assert Session.decode(session.encode()) == session
    assert known_session(rounds=5, graph="path:3").id != session.id


@pytest.mark.parametrize("graph", [None, "ring:4"])
@pytest.mark.parametrize("law", KINDS)
def test_each_agent_may_have_its_own_parameters(play, equals_the_mechanism, graph, law):
    session = known_session(
        4, 5, graph=graph, law=law,
        mixing=(0.3, 0.4, 0.5, 0.9), noise=(1.0, 2.0, 30.0, 0.1), decay=(0.9, 0.8, 0.95, 0.5),
    )  # fmt: skip
    harness = play(session)
    harness.start()
    assert harness.run(Harness.finished)
    equals_the_mechanism(harness)


@pytest.mark.parametrize("liveliness", [True, False])
@pytest.mark.parametrize("graph", [None, "ring:4"])
@pytest.mark.parametrize("seed", range(3))
def test_loss_duplication_delay_and_reordering_change_nothing(
    play, equals_the_mechanism, graph, seed, liveliness
):
    """Lost messages are repeated with the same bytes while no deadline passes."""
    session = known_session(4, 5, graph=graph, deadlines=Deadlines(round=1e6, start=1e6, repeat=1))
    harness = play(session, seed=seed, faults=LOSSY, liveliness=liveliness)
    harness.start()
    assert harness.run()
    equals_the_mechanism(harness)
    harness.watch.check()
    assert harness.run(Harness.finished)


@pytest.mark.parametrize("graph", [None, "ring:4"])
@pytest.mark.parametrize("law", KINDS)
def test_restarts_change_nothing_if_nobody_is_given_up(play, equals_the_mechanism, graph, law):
    """Everyone is killed again and again, and goes on from its ledger."""
    deadlines = Deadlines(round=1e6, start=1e6, repeat=1)
    session = known_session(4, 5, graph=graph, law=law, deadlines=deadlines)
    harness = play(session, faults=LOSSY, liveliness=False, fresh=False)
    harness.start()
    for turn in range(60):
        harness.run(lambda _: False, most=7)
        number = harness.numbers[turn % len(harness.numbers)]
        harness.stop(number)
        harness.start(number)
    assert harness.run()
    equals_the_mechanism(harness)
    harness.watch.check()


def test_a_larger_session_in_one_thread(play, equals_the_mechanism):
    session = known_session(graph=Graph.from_name("regular:20:4:seed=1"), rounds=6)
    harness = play(session)
    harness.start()
    assert harness.run(Harness.finished)
    equals_the_mechanism(harness)


def test_who_was_used_is_told(play):
    harness = play(known_session(3, 2))
    harness.start()
    assert harness.run()
    closed = [n for n in harness.notices[-1] if isinstance(n, RoundClosed)]
    assert closed == [RoundClosed(0, (0, 1, 2), ()), RoundClosed(1, (0, 1, 2), ())]
