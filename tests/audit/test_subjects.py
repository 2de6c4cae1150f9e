"""Simulated subjects follow the mechanism, except for what they are told to do otherwise."""

import numpy as np
import pytest

from tacit import ClientServer, Distributed, Fading, Graph
from tacit.audit import Simulated

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
