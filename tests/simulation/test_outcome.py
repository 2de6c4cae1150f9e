"""Sampling the outcome equals running the agents, in distribution.

Statistical tests have fixed seeds; a correct sampler would fail each with probability 1e-6 over seeds.
"""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import ParameterError
from tacit.core.theory import accuracy
from tacit.lab.simulation import outcome
from tacit.lab.simulation.outcome import sample_agent, sample_average, sample_outcome

FALSE_ALARM = 1e-6
RUNS = 10_000
ROUNDS = 6

# agent 1 is a hub, agents 0 and 3 share degree, noise and decay where these are per agent
GRAPH = Graph.from_edges([(0, 1), (1, 2), (1, 3), (2, 4)])
MIXING, NOISE, DECAY = [0.2, 0.5, 0.7, 0.2, 0.4], [1.0, 2.0, 0.5, 1.0, 3.0], [0.3, 0.8, 0.9, 0.3, 0.8]

MECHANISMS = {
    "server, fading": ClientServer(Fading(0.8, 10, 0.6), agents=7),
    "server, one agent": ClientServer(Fading(0.3, 2, 0.8), agents=1),
    "server, per agent": ClientServer(Fading(MIXING, NOISE, DECAY), agents=5),
    "server, per-agent noise": ClientServer(Fading(0.4, NOISE, 0.7), agents=5),
    "server, one-shot": ClientServer(OneShot(0.3, 2), agents=7),
    "server, one-shot, per agent": ClientServer(OneShot(MIXING, NOISE), agents=5),
    "graph, fading": Distributed(Fading(0.5, 1, 0.6), GRAPH),
    "graph, per agent": Distributed(Fading(MIXING, NOISE, DECAY), GRAPH),
    "graph, one-shot": Distributed(OneShot(0.5, 2), GRAPH),
    "graph, one-shot, per agent": Distributed(OneShot(MIXING, NOISE), GRAPH),
}
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS.keys())


def weights(mechanism):
    gamma = mechanism.closed_degrees / np.broadcast_to(mechanism.law.sigma, mechanism.n)
    return gamma / gamma.sum()


def brute_force(mechanism, rounds, values=0.0, runs=RUNS):
    """Return weighted averages of runs, and the states.

    Noise is numpy's Laplace noise, and runs are components.
    """
    rng = np.random.default_rng(20240229)
    shape = (rounds, mechanism.n, runs)
    scales = np.asarray(mechanism.law.scales(rounds)).reshape(rounds, -1, 1)
    theta0 = np.broadcast_to(np.reshape(values, (-1, 1)), shape[1:])
    theta = mechanism.execute(theta0, rng.laplace(size=shape) * scales).theta
    return np.einsum("i,tir->rt", weights(mechanism), theta), theta


def same_distribution(a, b):
    return stats.ks_2samp(a, b).pvalue > FALSE_ALARM


def has_variance(sample, variance):
    """Compare a sample variance with the true one, by its standard error."""
    squares = (sample - sample.mean()) ** 2
    error = squares.std() / math.sqrt(sample.size)
    return abs(squares.mean() - variance) < stats.norm.isf(FALSE_ALARM / 2) * error


def true_variance(mechanism, rounds):
    """Var V from the definition: every noise variable and its weight."""
    p = mechanism.law
    sigma, c = (np.broadcast_to(v, mechanism.n) for v in (p.sigma, p.c))
    if isinstance(p, OneShot):
        arrived = 1 if rounds is None else 1 - (1 - sigma) ** rounds
        return float(np.sum(2 * (c * arrived * weights(mechanism)) ** 2))
    a = weights(mechanism) * sigma  # (|N(i)| + 1) / Σγ
    q = np.broadcast_to(p.q, mechanism.n)
    faded = 1 if rounds is None else 1 - q ** (2 * rounds)
    return float(np.sum(2 * (a * c) ** 2 * faded / (1 - q**2)))


@each_mechanism
def test_outcome_after_some_rounds_is_that_of_the_agents(mechanism):
    average, _ = brute_force(mechanism, ROUNDS)
    assert same_distribution(sample_outcome(mechanism, RUNS, rounds=ROUNDS, seed=1), average[:, -1])


@each_mechanism
def test_outcome_of_an_endless_run_is_that_of_the_agents(mechanism):
    average, _ = brute_force(mechanism, 120, runs=RUNS // 4)
    assert same_distribution(sample_outcome(mechanism, RUNS, seed=2), average[:, -1])


@each_mechanism
@pytest.mark.parametrize("rounds", [None, 1, ROUNDS])
def test_variance_is_the_closed_form(mechanism, rounds):
    sample = sample_outcome(mechanism, 30_000, rounds=rounds, seed=3)
    assert has_variance(sample, true_variance(mechanism, rounds))


def test_variance_of_lemmas_3_and_8():
    """Var = 2 d̃ c²/(1 − q²) with d̃ = σ²/N for a server.

    N = 500, σ = .8, c = 10, q = .6.
    """
    server = ClientServer(Fading(0.8, 10, 0.6), agents=500)
    assert has_variance(sample_outcome(server, 100_000), 2 * (0.64 / 500) * 100 / (1 - 0.36))
    degrees = GRAPH.degrees + 1
    spread = np.sum(degrees**2) / np.sum(degrees / 0.5) ** 2
    graph = Distributed(Fading(0.5, 1, 0.6), GRAPH)
    assert has_variance(sample_outcome(graph, 100_000), 2 * spread / (1 - 0.36))


@each_mechanism
def test_the_exact_radius_is_passed_as_often_as_it_says(mechanism):
    """Theory and sampling come from different formulas."""
    for rounds in (None, ROUNDS):
        radius = accuracy.radius(mechanism, 0.05, rounds)
        beyond = int(np.sum(np.abs(sample_outcome(mechanism, 50_000, rounds=rounds, seed=6)) > radius))
        assert stats.binomtest(beyond, 50_000, 0.05).pvalue > FALSE_ALARM


def test_one_agent_after_one_round_has_moved_by_one_laplace_draw():
    sample = sample_outcome(ClientServer(Fading(0.25, 4, 0.9), agents=1), RUNS, rounds=1)
    assert stats.kstest(sample, stats.laplace(scale=0.25 * 4).cdf).pvalue > FALSE_ALARM


@each_mechanism
def test_path_of_the_average_is_that_of_the_agents(mechanism):
    path = sample_average(mechanism, ROUNDS, RUNS, start=3.0, seed=4)
    average, _ = brute_force(mechanism, ROUNDS, values=3.0)
    assert path.shape == (RUNS, ROUNDS + 1)
    assert (path[:, 0] == 3).all()
    for t in (1, 2, ROUNDS):
        assert same_distribution(path[:, t], average[:, t])
    # jointly, not only round by round
    assert same_distribution(path[:, 5] - path[:, 2], average[:, 5] - average[:, 2])
    assert same_distribution(path[:, 1] + path[:, ROUNDS], average[:, 1] + average[:, ROUNDS])


@pytest.mark.parametrize("parameters", [Fading(0.3, 2, 0.8), OneShot(0.3, 2), Fading(0.3, NOISE, DECAY)])
def test_path_of_one_agent_is_that_among_the_others(parameters):
    values = [5.0, -1.0, 0.0, 2.0, 4.0]
    mechanism = ClientServer(parameters, agents=5)
    own = sample_agent(mechanism, values[0], 2.0, ROUNDS, RUNS, seed=5)
    _, theta = brute_force(mechanism, ROUNDS, values)
    for t in (1, 3, ROUNDS):
        assert same_distribution(own[:, t], theta[t, 0])
    average = sample_average(mechanism, ROUNDS, RUNS, start=2.0, seed=5)
    np.testing.assert_allclose(own - average, np.tile(3 * 0.7 ** np.arange(7), (RUNS, 1)), atol=1e-12)


@pytest.mark.parametrize("parameters", [Fading(0.8, 10, 0.6), OneShot(0.8, 10)])
def test_a_thousand_million_agents_cost_no_more_than_one(parameters):
    mechanism = ClientServer(parameters, agents=10**9)
    tracemalloc.start()
    try:
        sample = sample_outcome(mechanism, 50_000)
        path = sample_average(mechanism, 5, 1000)
        own = sample_agent(mechanism, 1.0, 0.0, 5, 1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100e6  # N numbers would be 8 GB
    factor = 0.64 / (1 - 0.36) if isinstance(parameters, Fading) else 1.0
    assert has_variance(sample, 2 * factor * 100 / 1e9)
    assert path.shape == own.shape == (1000, 6)


@each_mechanism
def test_results_do_not_depend_on_how_much_memory_is_used(mechanism, monkeypatch):
    def samples():
        return [
            sample_outcome(mechanism, 50),
            sample_outcome(mechanism, 50, rounds=ROUNDS),
            sample_average(mechanism, ROUNDS, 50),
        ]

    expected = samples()
    monkeypatch.setattr(outcome, "_DRAWS", 13)
    for got, want in zip(samples(), expected, strict=True):
        np.testing.assert_array_equal(got, want)


@each_mechanism
def test_segments_change_no_draw(mechanism, monkeypatch):
    """A run that is drawn in parts has the same draws.

    With many groups or slow decay only the order of additions changes.
    """
    expected = [sample_outcome(mechanism, 50), sample_average(mechanism, ROUNDS, 50)]
    monkeypatch.setattr(outcome, "_SEGMENT", 9)
    got = [sample_outcome(mechanism, 50), sample_average(mechanism, ROUNDS, 50)]
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_seeds_and_prefixes():
    mechanism = MECHANISMS["graph, per agent"]
    first = sample_outcome(mechanism, 100, seed=7)
    np.testing.assert_array_equal(sample_outcome(mechanism, 200, seed=7)[:100], first)
    assert not np.intersect1d(sample_outcome(mechanism, 100, seed=8), first).size
    assert np.unique(first).size == 100


def test_rounds_that_cannot_matter_are_not_drawn():
    mechanism = ClientServer(Fading(0.8, 10, 0.6), agents=3)
    np.testing.assert_array_equal(sample_outcome(mechanism, 20, rounds=10**9), sample_outcome(mechanism, 20))


@given(st.floats(1e-12, 1 - 1e-6))
def test_the_cut_off_is_the_first_round_that_its_proof_allows(q):
    def log_rest(rounds):  # log of q^(2T−2)/(1−q²), the bound on the mean relative error
        return (2 * rounds - 2) * math.log(q) - math.log1p(-q) - math.log1p(q)

    rounds = Fading(0.5, 1, q).significant_rounds(None)
    limit = -53 * math.log(2)
    assert rounds >= 2
    assert log_rest(rounds) <= limit + 1e-9
    assert rounds == 2 or log_rest(rounds - 1) > limit - 1e-9


def test_agents_that_differ_in_mixing_alone_are_drawn_together():
    mixing = np.linspace(0.1, 0.9, 1000)
    assert outcome._Groups.of(ClientServer(Fading(mixing, 2, 0.5), agents=1000), None).count.tolist() == [
        1000
    ]


@each_mechanism
def test_nothing_has_happened_before_the_first_round(mechanism):
    assert not sample_outcome(mechanism, 5, rounds=0).any()
    np.testing.assert_array_equal(sample_average(mechanism, 0, 5, start=2.0), np.full((5, 1), 2.0))


def test_tiny_noise_does_not_vanish():
    sample = sample_outcome(ClientServer(Fading(0.5, 1e-250, 0.5), agents=4), 1000)
    assert (sample != 0).all()


def test_refusals():
    server = MECHANISMS["server, fading"]
    for bad in (0, -1, 2.5, True):
        with pytest.raises(ParameterError, match="runs must be a whole number"):
            sample_outcome(server, bad)
    with pytest.raises(ParameterError, match="rounds must be a whole number"):
        sample_outcome(server, 5, rounds=-1)
    with pytest.raises(ParameterError, match="seed must be a whole number"):
        sample_average(server, 5, 5, seed=-3)
    with pytest.raises(ParameterError, match="start must be a finite"):
        sample_average(server, 5, 5, start=math.nan)
    for other in ("server, per agent", "graph, fading"):
        with pytest.raises(ParameterError, match="one mixing for all agents"):
            sample_agent(MECHANISMS[other], 1.0, 0.0, 5, 5)


def test_a_private_value_is_never_shown():
    with pytest.raises(ParameterError) as caught:
        sample_agent(MECHANISMS["server, fading"], math.inf, 0.0, 5, 5)
    assert "inf" not in str(caught.value).replace("finite", "")


def test_the_two_streams_of_a_seed_have_nothing_in_common():
    one, other = (generator.random(1000) for generator in outcome._generators(0))
    assert not np.intersect1d(one, other).size
