"""Numbers from simulated sessions: near what is exact, and never more than is proved."""

import numpy as np
import pytest

from tacit import ClientServer, Distributed, Fading, Graph
from tacit.base.errors import ParameterError, StateError
from tacit.core.theory import convergence
from tacit.lab.audit import Simulated, broken
from tacit.lab.plots.runs import converge, convergence_table, loss_curves

KARATE = Distributed(Fading(0.5, 1.0, 0.8), Graph.from_name("karate"))
SERVER = ClientServer(Fading(0.8, 10, 0.6), agents=3)


def test_measured_disagreement_is_near_the_exact_one():
    found = converge("karate", KARATE, np.arange(34.0), 60, runs=2000, seed=5)
    assert found.exact[0] == found.measured[0] == 33
    assert found.measured == pytest.approx(found.exact, rel=0.1)  # of 2,000 runs: four deviations, at least
    assert found.rate == convergence.rate(KARATE)
    assert found.exact[-1] / found.exact[-2] == pytest.approx(found.rate, rel=1e-3)


def test_disagreement_is_that_of_the_two_agents_farthest_apart():
    """Two agents, by hand: the difference of states shrinks by 1 − σ without any noise."""
    pair = ClientServer(Fading(0.75, 1.0, 0.8), agents=2)
    found = converge("pair", pair, [0.0, 8.0], 3, runs=2)
    assert found.measured == pytest.approx([8, 2, 0.5, 0.125])
    assert found.exact == pytest.approx([8, 2, 0.5, 0.125])
    table = convergence_table([found, found])
    assert table["graph"] == ["pair"] * 8
    assert table["round"].tolist() == [0, 1, 2, 3] * 2
    assert {len(column) for column in table.values()} == {8}


def test_what_cannot_be_shown_is_refused_before_anything_is_run():
    with pytest.raises(ParameterError, match="at most 200 agents, got 201"):
        converge("ring", Distributed(Fading(0.5, 1, 0.8), Graph.from_name("ring:201")), np.zeros(201), 5)
    with pytest.raises(StateError, match="must disagree"):
        converge("pair", ClientServer(Fading(0.5, 1, 0.8), agents=2), [3.0, 3.0], 5)


def test_the_promise_is_kept_by_the_mechanism_and_broken_by_a_bug():
    subjects = {"as declared": Simulated(SERVER), "redraw": broken("redraw", SERVER)}
    found = loss_curves(subjects, [16, 8, 16], rounds=8, sessions=4000, seed=2)
    assert found.distance.tolist() == [8, 16]
    assert found.promised == pytest.approx(found.epsilon * found.distance)
    assert (found.promised >= found.epsilon * found.distance).all()
    assert (found.measured["as declared"] <= found.promised).all()
    assert (found.measured["as declared"] > 0.6 * found.promised).all()
    assert (found.measured["redraw"] > found.promised).any()
    assert list(found.table()) == ["distance", "promised", "at_least_as_declared", "at_least_redraw"]


def test_all_points_hold_together():
    """More points, each less sure of itself: what is measured at one distance can only fall."""
    subjects = {"as declared": Simulated(SERVER)}
    alone = loss_curves(subjects, [16], rounds=8, sessions=2000).measured["as declared"][0]
    among = loss_curves(subjects, [4, 8, 12, 16], rounds=8, sessions=2000).measured["as declared"][-1]
    assert among < alone
