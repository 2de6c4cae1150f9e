"""The session behind the demo and the trajectories."""

import numpy as np
import pytest

from tacit import Graph
from tacit.cli.simulated_run import play, settled
from tacit.core.theory import accuracy


def test_it_runs_until_the_noise_has_faded_and_agents_agree():
    short = play(20, epsilon=1.0, mixing=0.5, source="uniform:0:1", seed=0)
    q = short.mechanism.law.q
    assert q**short.rounds <= 0.01 < q ** (short.rounds - 1)
    assert short.rounds > short.design.promise.rounds
    ring = play(Graph.load("path:8"), epsilon=1.0, mixing=0.9, source="uniform:0:1", seed=0)
    assert ring.rounds == settled(ring.design) == ring.design.promise.rounds
    assert np.ptp(ring.history.theta[-1]) <= ring.design.promise.tolerance


def test_the_number_of_rounds_may_be_given():
    assert play(3, epsilon=1.0, mixing=0.5, source="uniform:0:1", seed=0, rounds=4).rounds == 4


def test_the_spread_of_made_up_values_is_known():
    assert play(3, epsilon=1.0, mixing=0.5, source="uniform:15:25", seed=0).design.promise.spread == 10


def test_the_table_follows_the_average():
    session = play(4, epsilon=1.0, mixing=0.5, source="uniform:0:1", seed=3, rounds=5)
    table, theta = session.table(), session.history.theta
    assert table["deviation"] == pytest.approx(theta.mean(axis=1) - theta[0].mean())
    assert table["spread"] == pytest.approx(np.ptp(theta, axis=1))
    assert table["radius_0.05"][-1] == pytest.approx(accuracy.radius(session.mechanism, 0.05, 5), rel=1e-6)
    assert session.target == pytest.approx(theta[0].mean())
