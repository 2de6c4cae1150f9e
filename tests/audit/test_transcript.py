"""Transcripts hold together, hold nothing private, and refuse what cannot have been heard."""

import numpy as np
import pytest

from tacit import ClientServer, Distributed, Fading, Graph
from tacit.audit import Deployed, Simulated, Transcripts
from tacit.audit.views import channels, compromised, server, together
from tacit.errors import StateError
from tacit.noise import SimulatedNoise

PARAMETERS = Fading(0.8, 10, 0.6)
SERVER = ClientServer(PARAMETERS, agents=3)
GRAPH = Distributed(PARAMETERS, Graph.from_edges([(0, 1), (1, 2)]))


def executions(mechanism, runs=4):
    noise = SimulatedNoise(2)
    return [mechanism.execute([1, 2, 4.0], noise.draw(PARAMETERS, 5, 3, run=r)) for r in range(runs)]


@pytest.mark.parametrize("mechanism", [SERVER, GRAPH], ids=["server", "graph"])
def test_from_executions_keeps_what_was_heard_and_nothing_else(mechanism):
    ran = executions(mechanism)
    seen = Transcripts.from_executions(ran)
    for run, execution in enumerate(ran):
        assert np.array_equal(seen.x[run], execution.x)
        assert np.array_equal(seen.y[run], execution.y)
    assert not hasattr(seen, "theta")
    assert not hasattr(seen, "eta")
    assert "4 sessions, 5 rounds, 3 agents" in repr(seen)
    with pytest.raises(ValueError, match="read-only"):
        seen.x[0] = 0


@pytest.mark.parametrize("make", [Simulated(SERVER, misses=True, retries="repeat"), Deployed(GRAPH, 0, 5)])
def test_parts_joined_are_the_whole(make):
    seen = make([1, 2, 4.0], 6, 10, 3)
    again = Transcripts.join([seen[:3], seen[np.arange(3, 10)]])
    assert np.array_equal(again.x, seen.x, equal_nan=True)
    assert np.array_equal(again.y, seen.y)
    assert np.array_equal(again.update, seen.update)
    if seen.wholes is not None:
        assert np.array_equal(again.wholes.x, seen.wholes.x)
        assert np.array_equal(again.wholes.y, seen.wholes.y)
    assert again.prefix(4).rounds == 4
    assert again.prefix(4).rounds_of[-1] == 3


def test_sessions_with_different_schedules_join():
    plain, missed = (Simulated(SERVER, misses=m)([1, 2, 4.0], 6, 2, 3) for m in (False, True))
    both = Transcripts.join([plain, missed])
    assert both.update.shape == (4, 6, 3)
    assert np.array_equal(both.update[0], plain.update[0])
    assert np.array_equal(both.update[3], missed.update[0])
    with pytest.raises(StateError, match="separate folders"):
        Transcripts.join([plain, Simulated(SERVER)([1, 2, 4.0], 5, 2, 3)])


def test_what_cannot_have_been_heard_is_refused():
    x, y = np.zeros((2, 4, 3)), np.zeros((2, 4))
    slots, update = np.arange(4), np.arange(4)[None, :, None].repeat(3, axis=2)
    Transcripts(SERVER, x, y, slots, update)
    bad = [
        (np.zeros((2, 4, 2)), y, slots, update),
        (x, np.zeros((2, 4, 3)), slots, update),
        (x, y, np.array([0, 2, 1, 3]), update),
        (x, y, np.array([0, 1, 2, 2]), update),
        (x, y, slots, update[:, ::-1].copy()),
        (x, y, slots, 2 * update),
        (x, y, slots, update[:, :3]),
        (np.full((2, 4, 3), np.inf), y, slots, update),
        (x, np.full((2, 4), np.nan), slots, update),
    ]
    for parts in bad:
        with pytest.raises(StateError):
            Transcripts(SERVER, *parts)
    with pytest.raises(StateError, match="0 to 2"):
        Transcripts(SERVER, x, y, slots, update).of(3)
    with pytest.raises(StateError):
        Transcripts.from_executions([])


@pytest.mark.parametrize("mechanism", [SERVER, GRAPH], ids=["server", "graph"])
def test_views_of_a_transcript_are_those_of_its_execution(mechanism):
    ran = executions(mechanism)
    seen = Transcripts.from_executions(ran)
    assert channels(seen, 2).matches(channels(ran[2]))
    assert server(seen, 2).matches(server(ran[2]))
    bad = compromised(seen, [2, 0], [1, 4.0], run=2)
    true = compromised(ran[2], [0, 2])
    assert bad.agents == true.agents == (0, 2)
    assert bad.theta == pytest.approx(true.theta[:-1])  # the last state is not yet in any message


def test_pooled_views_are_everything_that_any_of_them_saw():
    execution = executions(SERVER)[0]
    pooled = together(server(execution), compromised(execution, [2]), compromised(execution, [0]))
    assert pooled.matches(compromised(execution, [0, 2]))
    assert together(server(execution)).x is None
    with pytest.raises(StateError):
        compromised(Transcripts.from_executions([execution]), [0])
    with pytest.raises(StateError):
        compromised(Transcripts.from_executions([execution]), [3], [1.0])


def test_simulated_follows_the_mechanism_bit_for_bit_where_nothing_is_done_otherwise():
    """Feedback is the mean of what was said; on a graph of closed neighbourhoods."""
    for mechanism in (SERVER, GRAPH):
        seen = Simulated(mechanism)([1, 2, 4.0], 5, 3, 3)
        for run in range(3):
            for t in range(5):
                assert seen.y[run, t] == pytest.approx(mechanism.aggregate(seen.x[run, t]))


def test_feedback_of_a_round_that_someone_missed_is_the_mean_of_the_others():
    seen = Simulated(SERVER, misses=True)([1, 2, 4.0], 6, 3, 3)
    away = np.isnan(seen.x[0])
    assert away.any(axis=1).all()
    assert not away.all(axis=1).any()
    assert seen.y == pytest.approx(np.nanmean(seen.x, axis=2))
    # who is away does not update
    assert np.array_equal(np.diff(seen.update[0], axis=0), (~away[:-1]).astype(int))
