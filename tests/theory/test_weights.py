"""Weighted feedback against dense matrices.

Metropolis weights need no more noise than a server.
"""

import math

import networkx as nx
import numpy as np
import pytest
from tests.doubles import known_session

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import ParameterError
from tacit.core.mechanism.topology import GivenWeights
from tacit.core.theory import accuracy, agreement, convergence, influence, moments
from tacit.core.theory.endings import ending
from tacit.core.theory.influence import everyone
from tacit.core.theory.optimum import best_fading

KARATE = Graph.from_name("karate")


def price(sigma, epsilon, n):
    """Return theory's standard deviation for the server.

    √Var = √((2/ε²N)·σ²/(1−p^{2/3})³), p = 1 − σ.
    """
    return math.sqrt(2 / (epsilon**2 * n) * sigma**2 / (1 - (1 - sigma) ** (2 / 3)) ** 3)


def lopsided(graph, seed=3):
    rng = np.random.default_rng(seed)
    return GivenWeights(graph, rng.integers(0, 4, graph.n), rng.integers(1, 9, len(graph.indices)))


def mechanisms():
    small = Graph.from_edges([(0, 1), (1, 2), (2, 3), (1, 3), (3, 4)])
    each = np.array([0.3, 0.8, 0.5, 0.9, 0.6])
    ring = Graph.from_networkx(nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (2, 0)]))
    for sigma in (0.7, each):
        law = Fading(sigma, 2.0, 0.85)
        yield Distributed(law, small, "metropolis")
        yield Distributed(law, small, lopsided(small))
        yield Distributed(law, ring)
        yield Distributed(OneShot(sigma, 2.0), small, lopsided(small))


def matrices(mechanism):
    """P = I − Σ + ΣW and R = ΣW, dense."""
    sigma = np.broadcast_to(mechanism.law.sigma, (mechanism.n,))
    w = mechanism.topology.matrix.toarray()
    return np.eye(mechanism.n) - np.diag(sigma) + np.diag(sigma) @ w, np.diag(sigma) @ w


def coefficients(mechanism, rounds):
    """Return what θ(T) is of θ(0) and of each round's noise.

    It is by powers of dense matrices.
    """
    p, r = matrices(mechanism)
    if mechanism.shadowed:
        sigma = np.broadcast_to(mechanism.law.sigma, (mechanism.n,))
        power = np.linalg.matrix_power(p, rounds)
        return power, [power - np.diag((1 - sigma) ** rounds)]
    return np.linalg.matrix_power(p, rounds), [
        np.linalg.matrix_power(p, rounds - 1 - t) @ r for t in range(rounds)
    ]


def covariance(mechanism, rounds):
    scales = mechanism.law.scales(max(rounds, 1))
    return sum(
        (2 * m * scale**2) @ m.T for m, scale in zip(coefficients(mechanism, rounds)[1], scales, strict=False)
    )


@pytest.mark.parametrize("mechanism", [*mechanisms()], ids=range(8))
def test_the_target_is_the_left_eigenvector_and_the_limit_of_the_powers(mechanism):
    p, _ = matrices(mechanism)
    limit = np.linalg.matrix_power(p, 10_000)
    assert np.allclose(accuracy.weights(mechanism), limit[0], rtol=1e-9)
    assert np.allclose(limit, limit[0], rtol=1e-9)


@pytest.mark.parametrize("mechanism", [*mechanisms()], ids=range(8))
def test_the_rate_is_the_second_largest_modulus_and_the_norm_bounds_it(mechanism):
    p, _ = matrices(mechanism)
    moduli = np.sort(np.abs(np.linalg.eigvals(p)))
    noise = 1 - np.min(mechanism.law.sigma) if mechanism.shadowed else mechanism.law.q
    assert convergence.rate(mechanism) == pytest.approx(max(moduli[-2], noise), abs=1e-9)
    gamma = accuracy.weights(mechanism)
    turned = np.sqrt(gamma)[:, None] * p / np.sqrt(gamma)[None, :]
    norm = np.linalg.svd(turned, compute_uv=False)[1]
    assert norm <= convergence.spectral_rate(mechanism) <= norm + 1e-7


@pytest.mark.parametrize("mechanism", [*mechanisms()], ids=range(8))
@pytest.mark.parametrize("rounds", [1, 7])
def test_moments_variance_and_influence_equal_dense_sums(mechanism, rounds):
    expected = covariance(mechanism, rounds)
    assert np.allclose(moments.second_moments(mechanism, rounds), expected, rtol=1e-10, atol=1e-13)
    pi = accuracy.weights(mechanism)
    assert accuracy.variance(mechanism, rounds) == pytest.approx(pi @ expected @ pi, rel=1e-9)
    law, bias = accuracy.agent_deviation(mechanism, 2, rounds)
    assert law.variance == pytest.approx(expected[2, 2], rel=1e-9)
    power = coefficients(mechanism, rounds)[0]
    assert bias == pytest.approx(0.5 * np.abs(power[2] - pi).sum(), rel=1e-9)
    value = everyone(mechanism, rounds).agent(2)
    assert np.allclose(value.weights, power[2], atol=1e-12)
    assert value.noise.variance == pytest.approx(expected[2, 2], rel=1e-6)


@pytest.mark.parametrize("mechanism", [*mechanisms()], ids=range(8))
@pytest.mark.parametrize("rounds", [1, 5, 30])
def test_bounds_on_disagreement_cover_simulated_noise(mechanism, rounds):
    rng = np.random.default_rng(rounds)
    runs, b = 4000, 0.05
    start, noisy = coefficients(mechanism, rounds)
    scales = mechanism.law.scales(rounds)
    theta = (start @ np.array([0.0, 1, 0, 1, 0]))[:, None] + sum(
        (m * scale) @ rng.laplace(size=(mechanism.n, runs)) for m, scale in zip(noisy, scales, strict=False)
    )
    pair = agreement.disagreement(mechanism, rounds, 1.0, b)
    end = ending(mechanism, b, rounds, 1.0)
    off = np.abs(theta - accuracy.target(mechanism, [0.0, 1, 0, 1, 0]))
    # The seed is fixed. 4000·b ± 7 standard deviations would be a false-alarm rate below 1e-6.
    assert np.mean(np.ptp(theta, axis=0) > pair * (1 + 1e-9)) <= b
    assert np.mean(off.max(axis=0) > end.radius) <= b


def test_metropolis_reaches_the_true_average_at_the_price_of_a_server():
    law = best_fading(0.8, 1.0)
    club = Distributed(law, KARATE, "metropolis")
    server = ClientServer(law, agents=KARATE.n)
    assert accuracy.reaches_average(club)
    assert price(0.8, 1.0, 34) == pytest.approx(0.36351, abs=5e-6)
    assert math.sqrt(accuracy.variance(club)) == pytest.approx(price(0.8, 1.0, 34), rel=1e-7)
    assert accuracy.radius(club, 0.05) == pytest.approx(accuracy.radius(server, 0.05), rel=1e-12)
    closed = Distributed(law, KARATE)
    assert math.sqrt(accuracy.variance(closed)) == pytest.approx(0.440, abs=5e-4)
    assert not accuracy.reaches_average(closed)


def test_metropolis_on_a_regular_graph_is_the_papers_mechanism():
    ring, law = Graph.from_name("ring:12"), Fading(0.6, 1.0, 0.9)
    paper, other = Distributed(law, ring), Distributed(law, ring, "metropolis")
    assert convergence.spectral_gap(paper) == convergence.spectral_gap(other)
    assert ending(other, 0.05, 20, 1.0) == pytest.approx(ending(paper, 0.05, 20, 1.0), rel=1e-12)


def test_sparse_and_dense_routes_find_the_same_rate_on_a_larger_graph():
    graph = Graph.from_name("barabasi:400:3:seed=2")
    for weights in ("metropolis", lopsided(graph)):
        mechanism = Distributed(Fading(0.7, 1.0, 0.01), graph, weights)
        p, _ = matrices(mechanism)
        gamma = accuracy.weights(mechanism)
        turned = np.sqrt(gamma)[:, None] * p / np.sqrt(gamma)[None, :]
        norm = np.linalg.svd(turned, compute_uv=False)[1]
        assert norm * (1 - 1e-12) <= convergence.spectral_rate(mechanism) <= norm + 1e-5
        assert convergence.rate(mechanism) == pytest.approx(
            np.sort(np.abs(np.linalg.eigvals(p)))[-2], abs=1e-6
        )


def test_what_is_about_the_papers_means_is_refused_for_other_weights():
    mechanism = Distributed(Fading(0.7, 1.0, 0.9), KARATE, "metropolis")
    with pytest.raises(ParameterError, match="Assumption 1 is about means over closed"):
        convergence.assumption(mechanism)
    directed = Distributed(Fading(0.7, 1.0, 0.9), KARATE, lopsided(KARATE))
    with pytest.raises(ParameterError, match="reversible weights"):
        convergence.spectrum(directed)


@pytest.mark.parametrize("name", ["karate", "ring:9", "star:7"])
def test_metropolis_keeps_the_true_average_where_agents_miss_each_other(name):
    """An agent that is down, or a cut edge, does not move the target.

    One lost message does.
    """
    graph, rng = Graph.from_name(name), np.random.default_rng(3)
    mechanism = Distributed(Fading(0.7, 1.0, 0.9), graph, "metropolis")
    every = influence.closed_pairs(mechanism)
    rounds = []
    for _ in range(12):
        cut = {frozenset(edge) for edge in graph.edges().tolist() if rng.random() < 0.2}
        rounds.append(np.array([pair for pair in every.tolist() if frozenset(pair) not in cut]))
    kept = influence.graph(mechanism, rounds).average().weights
    np.testing.assert_allclose(kept, 1 / graph.n, rtol=1e-12)
    lost = every[(every[:, 0] != 0) | (every[:, 1] != graph.neighbours(0)[0])]
    moved = influence.graph(mechanism, [lost, every]).average().weights
    assert np.abs(moved - 1 / graph.n).max() > 1e-3
    by_peers = influence.graph(Distributed(Fading(0.7, 1.0, 0.9), graph), rounds).average()
    assert by_peers.bias > 1e-3


def test_a_peer_keeps_the_weight_of_a_missing_message_unless_its_own_is_missing():
    session = known_session(graph="star:4", weights="metropolis")
    row = dict(zip((0, 1, 2, 3), session.counts(0, (0, 1, 2, 3)), strict=True))
    assert sum(session.counts(0, (0, 2))) == sum(row.values())
    assert session.counts(0, (0, 2)) == [row[0] + row[1] + row[3], row[2]]
    assert session.counts(0, (1, 2)) == [row[1], row[2]]
