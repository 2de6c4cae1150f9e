"""Simulated subjects follow the mechanism, except for what they are told to do otherwise."""

import numpy as np
import pytest
from tests.doubles import known_session

from tacit import ClientServer, Distributed, Fading, Graph
from tacit.lab.audit import Simulated

PARAMETERS = Fading(0.8, 10, 0.6)
SERVER = ClientServer(PARAMETERS, agents=3)
GRAPH = Distributed(PARAMETERS, Graph.from_edges([(0, 1), (1, 2)]))


def test_simulated_follows_the_mechanism_bit_for_bit_where_nothing_is_done_otherwise():
    """Feedback is the mean of what was said; on a graph of closed neighbourhoods."""
    for mechanism in (SERVER, GRAPH):
        seen = Simulated(mechanism)([1, 2, 4.0], 5, 3, 3)
        for run in range(3):
            for t in range(5):
                assert seen.y[run, t] == pytest.approx(mechanism.aggregate(seen.x[run, t]))


def test_feedback_of_a_round_that_someone_missed_is_the_mean_of_the_others():
    seen = Simulated(SERVER, misses=True)([1, 2, 4.0], 6, 3, 3)
    away = ~seen.said[0]
    assert away.any(axis=1).all()
    assert not away.all(axis=1).any()
    assert seen.y == pytest.approx(seen.x.mean(axis=2, where=seen.said))
    # who is away does not update
    assert np.array_equal(np.diff(seen.update[0], axis=0), (~away[:-1]).astype(int))


@pytest.mark.parametrize("weights", ["closed", "metropolis", "no own"])
def test_feedback_on_a_graph_where_someone_is_away_is_what_peers_compute(weights):
    """As a session's peers count messages, also where those who came have no weight."""
    counts = ((0, 1, 1), (1, 0, 1), (1, 2, 3), (2, 1, 1)) if weights == "no own" else None
    named = None if weights == "closed" else weights if counts is None else counts
    session = known_session(graph="path:3", rounds=6, weights=named)
    seen = Simulated(session.mechanism, misses=True)([1, 2, 4.0], 6, 2, 3)
    said = seen.said[0]
    assert not said.all()
    for t in range(6):
        for i in range(3):
            whose = [j for j in (i, *session.neighbours(i)) if said[t, j]]
            share = np.array(session.counts(i, whose) or [1] * len(whose), dtype=float)
            share = share if share.any() else np.ones(len(whose))
            assert seen.y[:, t, i] == pytest.approx(seen.x[:, t, whose] @ share / share.sum())
