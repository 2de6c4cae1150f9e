"""Target, variance and radii against moments and sampling."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import ParameterError, RecordTooLarge
from tacit.core.theory import accuracy
from tacit.core.theory.promise import analyze

STAR = Graph.from_edges([(0, 1), (0, 2), (0, 3)])
SIGMAS = np.array([0.9, 0.5, 0.6, 0.7])
CASES = {
    "server": ClientServer(Fading(0.8, 10, 0.6), agents=4),
    "server, each its own": ClientServer(Fading(SIGMAS, [1, 2, 3, 4], [0.6, 0.7, 0.8, 0.5]), agents=4),
    "graph": Distributed(Fading(0.8, 10, 0.6), STAR),
    "graph, each its own": Distributed(Fading(SIGMAS, [1, 2, 3, 4], [0.6, 0.7, 0.8, 0.5]), STAR),
    "server, one-shot": ClientServer(OneShot(0.8, 10), agents=4),
    "graph, one-shot": Distributed(OneShot(SIGMAS, [1, 2, 3, 4]), STAR),
}


def coefficients(mechanism, rounds, read):
    """Return how `read` of the final state depends on each draw.

    One draw is tried at a time.
    """
    result = []
    for t in range(rounds if not mechanism.shadowed else 1):
        for i in range(mechanism.n):
            noise = np.zeros((rounds, mechanism.n))
            noise[t, i] = 1.0
            result.append(abs(read(mechanism.execute(np.zeros(mechanism.n), noise).theta[-1])))
    scales = mechanism.law.scales(rounds)[: 1 if mechanism.shadowed else rounds]
    return (
        np.array(result)
        * np.broadcast_to(scales.reshape(len(scales), -1), (len(scales), mechanism.n)).ravel()
    )


@pytest.mark.parametrize("name", CASES)
def test_the_target_is_where_the_mechanism_goes_without_noise(name):
    mechanism = CASES[name]
    values = np.array([3.0, -1.0, 4.0, 1.5])
    end = mechanism.execute(values, np.zeros((400, 4))).theta[-1]
    np.testing.assert_allclose(end, accuracy.target(mechanism, values), rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_before_the_first_round_nothing_is_known(name):
    assert accuracy.variance(CASES[name], 0) == 0
    assert accuracy.radius(CASES[name], 0.05, 0) == 0
    own = accuracy.radius(CASES[name], 0.05, 0, agent=1, spread=2.0)
    assert own == pytest.approx(2 * (1 - accuracy.weights(CASES[name])[1]))


@pytest.mark.parametrize("rounds", [1, 7])
@pytest.mark.parametrize("name", CASES)
def test_variance_after_some_rounds_is_the_sum_of_squared_coefficients(name, rounds):
    mechanism = CASES[name]
    weights = accuracy.weights(mechanism)
    scales = coefficients(mechanism, rounds, lambda theta: weights @ theta)
    assert accuracy.variance(mechanism, rounds) == pytest.approx(2 * np.sum(scales**2), rel=1e-12)


@pytest.mark.parametrize("rounds", [1, 7])
@pytest.mark.parametrize("agent", [0, 2])
@pytest.mark.parametrize("name", CASES)
def test_one_agents_own_noise_and_bias(name, agent, rounds):
    mechanism = CASES[name]
    law, bias = accuracy.agent_deviation(mechanism, agent, rounds)
    scales = coefficients(mechanism, rounds, lambda theta: theta[agent])
    assert law.variance == pytest.approx(2 * np.sum(scales**2), rel=1e-12)
    unit = np.array([mechanism.execute(row, np.zeros((rounds, 4))).theta[-1, agent] for row in np.eye(4)])
    assert bias == pytest.approx(0.5 * np.abs(unit - accuracy.weights(mechanism)).sum(), rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_an_agents_radius_covers_the_worst_start(name):
    mechanism, rounds, spread, b = CASES[name], 4, 2.0, 0.2
    law, bias = accuracy.agent_deviation(mechanism, 1, rounds)
    r = accuracy.radius(mechanism, b, rounds, agent=1, spread=spread)
    assert law.exceedance(r, bias * spread).low <= b
    assert law.exceedance(r * (1 - 1e-6), bias * spread).high > b


def test_after_many_rounds_an_agent_is_where_all_are():
    mechanism = CASES["graph, each its own"]
    own = accuracy.radius(mechanism, 0.05, 300, agent=3, spread=1.0)
    assert own == pytest.approx(accuracy.radius(mechanism, 0.05), rel=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_the_radius_is_below_chebyshev_and_grows_as_the_probability_falls(name):
    mechanism = CASES[name]
    radii = [accuracy.radius(mechanism, b) for b in (0.5, 0.1, 0.01, 0.001)]
    assert radii == sorted(radii)
    for b, r in zip((0.5, 0.1, 0.01, 0.001), radii, strict=True):
        assert r < accuracy.chebyshev_radius(mechanism, b)


def test_chebyshev_is_as_many_times_too_wide_as_the_theory_page_says():
    mechanism = ClientServer(Fading(0.8, 10, 0.6), agents=500)
    ratios = [
        accuracy.chebyshev_radius(mechanism, b) / accuracy.radius(mechanism, b)
        for b in (0.5, 0.05, 0.01, 0.001)
    ]
    assert ratios == pytest.approx([2.1, 2.3, 3.9, 9.7], abs=0.15)


def test_lemma_values_for_the_papers_figure():
    mechanism = ClientServer(Fading(0.8, 10, 0.6), agents=500)
    assert accuracy.d_tilde(mechanism) == pytest.approx(0.64 / 500)
    assert accuracy.variance(mechanism) == pytest.approx(0.4)
    assert accuracy.chebyshev_radius(mechanism, 0.5) == pytest.approx(math.sqrt(0.8))
    assert accuracy.radius(mechanism, 0.5) == pytest.approx(0.4264570888, rel=1e-9)


@given(st.floats(0.01, 100), st.floats(1e-4, 0.9))
@settings(max_examples=20, deadline=None)
def test_the_radius_is_proportional_to_the_noise(factor, b):
    one = accuracy.radius(Distributed(Fading(0.7, 1.0, 0.6), STAR), b)
    scaled = accuracy.radius(Distributed(Fading(0.7, factor, 0.6), STAR), b)
    assert scaled == pytest.approx(factor * one, rel=1e-9)


def test_all_components_at_once():
    mechanism = CASES["server"]
    b, k = 0.1, 5
    together = accuracy.radius(mechanism, b, components=k)
    single = accuracy.deviation(mechanism).exceedance(together).high
    assert 1 - (1 - single) ** k == pytest.approx(b, rel=1e-9)


def test_targets_of_vectors_are_vectors():
    values = np.arange(8.0).reshape(4, 2)
    np.testing.assert_allclose(accuracy.target(CASES["server"], values), [3.0, 4.0])


def test_a_billion_agents_cost_no_more_than_two():
    mechanism = ClientServer(Fading(0.8, 10, 0.6), agents=10**9)
    assert accuracy.variance(mechanism) == pytest.approx(2 * 0.64e-9 * 100 / 0.64)
    assert accuracy.radius(mechanism, 0.05) == pytest.approx(1.959964 * math.sqrt(2e-7), rel=1e-6)
    assert accuracy.reaches_average(mechanism)


def test_whether_the_target_is_the_average():
    assert not accuracy.reaches_average(CASES["graph"])
    assert not accuracy.reaches_average(CASES["server, each its own"])
    closed = STAR.degrees + 1
    assert accuracy.reaches_average(Distributed(Fading(0.9 * closed / 4, 1, 0.9), STAR))


def test_bad_requests_are_refused():
    mechanism = CASES["graph"]
    with pytest.raises(ParameterError, match=r"failure probability must be in \(0, 1\), got 0"):
        accuracy.radius(mechanism, 0)
    with pytest.raises(ParameterError, match=r"failure probability must be in \(0, 1\), got 1"):
        accuracy.chebyshev_radius(mechanism, 1)
    with pytest.raises(ParameterError, match="rounds must be at least 0"):
        accuracy.variance(mechanism, -1)
    with pytest.raises(ParameterError, match="agent must be a number from 0 to 3, got 9"):
        accuracy.radius(mechanism, 0.1, 5, agent=9, spread=1.0)
    with pytest.raises(ParameterError, match="spread must be a number of at least 0"):
        accuracy.radius(mechanism, 0.1, 5, agent=1)
    with pytest.raises(RecordTooLarge, match="agents × rounds of at most"):
        accuracy.radius(mechanism, 0.1, 10**8, agent=1, spread=1.0)


@pytest.mark.parametrize("c", [1e-300, 1e-200, 1e-155, 1e155, 1e300])
@pytest.mark.parametrize("law", [OneShot(0.5, 1.0), Fading(0.5, 1.0, 0.8)])
@pytest.mark.parametrize("rounds", [None, 3])
def test_accuracy_is_proportional_to_any_noise(law, c, rounds):
    """The square of the noise may be too small or too large for a number."""
    one = analyze(ClientServer(law, agents=10), rounds=rounds, spread=1.0)
    made = analyze(ClientServer(replace(law, c=c), agents=10), rounds=rounds, spread=c, adjacency=c)
    for name in ("radius", "average_radius", "chebyshev_radius"):
        assert getattr(made, name) / c == pytest.approx(getattr(one, name), rel=1e-9)
    assert made.variance > 0
    assert made.rounds == one.rounds


def test_noise_that_is_tiny_beside_the_spread():
    certain = analyze(ClientServer(OneShot(0.5, 1e-9), agents=10), rounds=3, spread=1.0).radius
    made = analyze(ClientServer(OneShot(0.5, 1e-200), agents=10), rounds=3, spread=1.0)
    assert 0.9 / 8 <= made.radius <= certain


def test_values_that_are_all_equal_agree_from_the_start():
    made = analyze(ClientServer(OneShot(0.5, 1.0), agents=10), spread=0)
    assert made.rounds == 0
    assert analyze(ClientServer(OneShot(0.5, 1.0), agents=10), spread=0, rounds=2).disagreement == 0
