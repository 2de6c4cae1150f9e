"""Prefixes and what adversaries see; private numbers never show."""

import numpy as np
import pytest

from tacit import ClientServer, Distributed, Fading, Graph
from tacit.errors import StateError
from tacit.mechanism import Observation

SECRET = 31415.9265
SERVER = ClientServer(Fading(0.5, 1, 0.9), agents=3)
GRAPH = Distributed(Fading(0.5, 1, 0.9), Graph.from_edges([(0, 1), (1, 2)]))


def execution(mechanism=SERVER):
    return mechanism.execute([SECRET, 2, 3], np.random.default_rng(1).laplace(size=(5, 3)))


def test_a_prefix_is_the_execution_stopped_early():
    whole = execution()
    part = whole.prefix(2)
    again = SERVER.execute(whole.theta[0], whole.eta[:2])
    for name in ("theta", "eta", "x", "y"):
        np.testing.assert_array_equal(getattr(part, name), getattr(again, name))
    assert whole.prefix(0).rounds == 0
    with pytest.raises(StateError, match="a prefix must have 0 to 5 rounds, got 6"):
        whole.prefix(6)


def test_views():
    whole = execution(GRAPH)
    assert whole.channels().theta is None
    np.testing.assert_array_equal(whole.channels().x, whole.x)
    assert whole.server().x is None
    np.testing.assert_array_equal(whole.server().y, whole.y)
    seen = whole.compromised([2, 0, 2])
    assert seen.agents == (0, 2)
    np.testing.assert_array_equal(seen.theta, whole.theta[:, [0, 2]])
    with pytest.raises(StateError, match=r"numbers from 0 to 2, got \[0, 3\]"):
        whole.compromised([0, 3])


def test_observations_match_only_when_all_parts_do():
    one = execution().channels()
    assert one.matches(one)
    assert not one.matches(Observation(x=one.x, y=one.y + 1e-3))
    assert not one.matches(Observation(x=one.x))
    assert not one.matches(execution(GRAPH).channels())
    both = execution().compromised([1])
    assert not both.matches(execution().compromised([2]))


@pytest.mark.parametrize("mechanism", [SERVER, GRAPH])
def test_nothing_private_in_any_repr(mechanism):
    whole = execution(mechanism)
    state, said = mechanism.step(mechanism.start([SECRET, 2, 3]), np.zeros(3))
    for thing in (
        whole,
        whole.prefix(1),
        state,
        said,
        mechanism.start([SECRET, 2, 3]),
        whole.compromised([0]),
    ):
        text = repr(thing) + str(thing)
        assert "31415" not in text
        assert str(whole.eta[0, 0])[:7] not in text


def test_an_execution_is_frozen():
    with pytest.raises(ValueError, match="read-only"):
        execution().theta[0, 0] = 1.0
