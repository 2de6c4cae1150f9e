"""A round of each mechanism, states of all shapes, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import GraphError, ParameterError, StateError

PATH = Graph.from_edges([(0, 1), (1, 2)])
COMPLETE = Graph.from_edges([(0, 1), (0, 2), (1, 2)])


def laplace(mechanism, rounds, seed=0, components=()):
    rng = np.random.default_rng(seed)
    scales = mechanism.law.scales(rounds).reshape(rounds, -1, *(1,) * len(components))
    return rng.laplace(size=(rounds, mechanism.n, *components)) * scales


def test_one_round_with_a_server():
    execution = ClientServer(Fading(0.25, 1, 0.9), agents=3).execute([0, 3, 6], [[1, 2, -3]])
    np.testing.assert_allclose(execution.x, [[1, 5, 3]])
    np.testing.assert_allclose(execution.y, [3])
    np.testing.assert_allclose(execution.theta[1], [0.75, 3, 5.25])


def test_one_round_on_a_path():
    execution = Distributed(Fading([0.25, 0.5, 0.75], 1, 0.9), PATH).execute([0, 3, 6], [[1, 2, -3]])
    np.testing.assert_allclose(execution.x, [[1, 5, 3]])
    np.testing.assert_allclose(execution.y, [[3, 3, 4]])
    np.testing.assert_allclose(execution.theta[1], [0.75, 3, 4.5])


@given(st.integers(0, 2**32), st.booleans())
def test_a_server_is_a_complete_graph(seed, one_shot):
    parameters = OneShot([0.3, 0.6, 0.9], 2) if one_shot else Fading([0.3, 0.6, 0.9], 2, 0.8)
    server, graph = ClientServer(parameters, agents=3), Distributed(parameters, COMPLETE)
    noise = laplace(server, 8, seed)
    a, b = server.execute([1, 2, 4], noise), graph.execute([1, 2, 4], noise)
    np.testing.assert_allclose(a.theta, b.theta, atol=1e-12)
    np.testing.assert_allclose(np.broadcast_to(a.y[:, None], b.y.shape), b.y, atol=1e-12)


@pytest.mark.parametrize("parameters", [Fading(0.4, 1, 0.8), OneShot(0.4, 1)])
@pytest.mark.parametrize("graph", [None, PATH])
def test_vectors_are_their_components_side_by_side(parameters, graph):
    mechanism = ClientServer(parameters, agents=3) if graph is None else Distributed(parameters, graph)
    values = np.array([[1.0, -2.0], [3.0, 0.5], [0.0, 7.0]])
    noise = laplace(mechanism, 5, components=(2,))
    together = mechanism.execute(values, noise)
    for k in range(2):
        alone = mechanism.execute(values[:, k], noise[:, :, k])
        for name in ("theta", "eta", "x", "y"):
            np.testing.assert_allclose(getattr(together, name)[..., k], getattr(alone, name))


def test_one_shot_messages_follow_from_the_first_alone():
    mechanism = ClientServer(OneShot(0.3, 1), agents=3)
    noise = np.zeros((6, 3))
    noise[0] = [0.5, -1.0, 2.0]
    execution = mechanism.execute([1, 2, 4], noise)
    # whoever knows x(0) can compute all that follows: it is the noise-free run of the shadows
    shadow = ClientServer(Fading(0.3, 1, 0.9), agents=3).execute(execution.x[0], np.zeros((6, 3)))
    np.testing.assert_allclose(execution.x, shadow.x)
    # the agents' own states follow the feedback smoothly: no jump by the noise
    np.testing.assert_allclose(execution.theta[1], 0.7 * np.array([1, 2, 4]) + 0.3 * execution.y[0])
    np.testing.assert_allclose(
        execution.theta[-1] - shadow.theta[-1], 0.7**6 * (np.array([1, 2, 4]) - execution.x[0])
    )


def test_no_rounds_is_a_start():
    for mechanism in (ClientServer(Fading(0.4, 1, 0.8), agents=3), Distributed(OneShot(0.4, 1), PATH)):
        execution = mechanism.execute([1, 2, 3], np.zeros((0, 3)))
        assert execution.rounds == 0
        np.testing.assert_array_equal(execution.theta, [[1, 2, 3]])
        assert execution.x.shape == (0, 3)


def test_a_single_agent_agrees_with_itself():
    lone = Distributed(Fading(0.4, 1, 0.8), Graph.from_edges([], n=1))
    assert lone.execute([5.0], [[1.0]]).theta[-1] == pytest.approx(0.6 * 5 + 0.4 * 6)


@pytest.mark.parametrize("agents", [0, -1, 2.5, "three", None])
def test_a_server_needs_agents(agents):
    with pytest.raises(ParameterError, match="agents must be a whole number of at least 1"):
        ClientServer(Fading(0.4, 1, 0.8), agents=agents)


def test_more_agents_than_floats_count_are_refused():
    ClientServer(Fading(0.4, 1, 0.8), agents=2**53)
    with pytest.raises(ParameterError, match=r"agents must be at most 2\^53"):
        ClientServer(Fading(0.4, 1, 0.8), agents=2**53 + 1)


def test_two_agents_that_cannot_reach_each_other_are_named():
    with pytest.raises(GraphError, match="agents 0 and 2 cannot reach each other"):
        Distributed(Fading(0.4, 1, 0.8), Graph.from_edges([(0, 1), (2, 3)]))


def test_per_agent_parameters_must_fit():
    with pytest.raises(ParameterError, match="each of the 3 agents, got 2"):
        Distributed(Fading([0.4, 0.5], 1, 0.8), PATH)


@pytest.mark.parametrize(
    "values", [[1, 2], [[1, 2, 3]], [[[1]], [[2]], [[3]]], [[], [], []], "abc", [1, None, {}]]
)
def test_values_of_a_wrong_shape(values):
    with pytest.raises(StateError, match="values must"):
        ClientServer(Fading(0.4, 1, 0.8), agents=3).execute(values, np.zeros((1, 3)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_and_noise_must_be_finite_and_are_never_shown(bad):
    mechanism = ClientServer(Fading(0.4, 1, 0.8), agents=2)
    with pytest.raises(
        StateError, match=r"values must be finite numbers, got NaN or infinity at index \(1,\)"
    ) as e:
        mechanism.execute([123.456, bad], np.zeros((1, 2)))
    assert "123" not in str(e.value)
    with pytest.raises(
        StateError, match=r"noise must be finite numbers, got NaN or infinity at index \(0, 1\)"
    ):
        mechanism.execute([0, 0], [[0, bad]])


def test_noise_of_a_wrong_shape():
    mechanism = ClientServer(Fading(0.4, 1, 0.8), agents=2)
    with pytest.raises(StateError, match=r"noise must have shape \(rounds, 2\), got \(1, 3\)"):
        mechanism.execute([0, 0], [[0, 0, 0]])
    with pytest.raises(StateError, match=r"noise must have shape \(rounds, 2, 3\), got \(1, 2\)"):
        mechanism.execute(np.zeros((2, 3)), np.zeros((1, 2)))


def test_one_shot_noise_comes_once():
    with pytest.raises(ParameterError, match="noise after round 0 must be zero"):
        ClientServer(OneShot(0.4, 1), agents=2).execute([0, 0], [[1, 1], [0, 1]])


def test_the_callers_noise_is_not_touched():
    noise = np.ones((2, 2))
    ClientServer(Fading(0.4, 1, 0.8), agents=2).execute([0, 0], noise)
    noise[0, 0] = 7.0
