"""Convergence, sentence by sentence: Definition 3, Lemma 3, Assumption 1, Lemma 6 and its proof."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph
from tacit.core.theory.convergence import (
    assumption,
    contraction,
    potential,
    rate,
    rounds_to_agreement,
    step_sizes,
)
from tacit.core.theory.moments import mean_potential, mean_square_disagreement, second_moments
from tacit.core.theory.rates import spectral_rate

seeds = st.integers(0, 2**32)
GRAPH = Graph.from_edges([(0, 1), (0, 2), (0, 3), (3, 4)])
SIGMA = np.array([0.9, 0.5, 0.6, 0.7, 0.8])
C, Q = 2.0, 0.7
MECHANISM = Distributed(Fading(SIGMA, C, Q), GRAPH)


def atlas():
    """Every connected graph of 2 to 7 agents."""
    graphs = nx.graph_atlas_g()
    return [Graph.from_networkx(g) for g in graphs if g.number_of_nodes() > 1 and nx.is_connected(g)]


def letters(mechanism):
    """L and D as dense matrices."""
    return mechanism.graph.laplacian().toarray(), np.diag(step_sizes(mechanism))


# ---- section 3: with a server


@given(seeds, st.floats(0.01, 0.99))
def test_lemma_2_the_potential_shrinks_by_exactly_one_factor(seed, sigma):
    """Lemma 3 (lem:con): P(t+1) = (1 − 2σ + σ²) P(t) = a P(t), a = (1−σ)², on any noise."""
    rng = np.random.default_rng(seed)
    server = ClientServer(Fading(sigma, 1, 0.9), agents=6)
    alpha = server.execute(rng.normal(size=(6, 2)), rng.laplace(size=(8, 6, 2)))
    P = [potential(server, theta) for theta in alpha.theta]
    assert contraction(server) == pytest.approx(1 - 2 * sigma + sigma**2)
    for now, then in itertools.pairwise(P):
        assert then == pytest.approx(contraction(server) * now, rel=1e-6, abs=1e-13)


@given(seeds)
def test_the_potential_is_half_the_sum_over_ordered_pairs(seed):
    """P(t) = ½ Σ_{i≠j} [θ_i(t) − θ_j(t)]² = θ(t)ᵀ L θ(t), eq:L."""
    theta = np.random.default_rng(seed).normal(size=5)
    pairs = sum((a - b) ** 2 for a in theta for b in theta) / 2
    L = 5 * np.eye(5) - np.ones((5, 5))
    found = potential(ClientServer(Fading(0.5, 1, 0.9), agents=5), theta)
    assert found == pytest.approx(pairs)
    assert found == pytest.approx(theta @ L @ theta)


def test_on_everyone_hearing_everyone_ll_is_nl():
    """L L = N L and L L L = N² L, eq:lya."""
    L = Graph.from_name("complete:6").laplacian().toarray()
    np.testing.assert_array_equal(L @ L, 6 * L)
    np.testing.assert_array_equal(L @ L @ L, 36 * L)


@given(seeds)
def test_each_agent_adds_an_identical_random_variable(seed):
    """'Each agent adds an identical random variable (σ/N)w(t) to its local state in round t.'"""
    rng = np.random.default_rng(seed)
    server = ClientServer(Fading(0.3, 1, 0.9), agents=4)
    theta, eta = rng.normal(size=4), rng.laplace(size=(1, 4))
    noisy, quiet = (server.execute(theta, noise).theta[1] for noise in (eta, 0 * eta))
    np.testing.assert_allclose(noisy - quiet, 0.3 / 4 * eta.sum(), atol=1e-12)


def test_with_a_server_the_mechanism_converges_deterministically():
    """'The mechanism converges deterministically': the same distances whatever the noise."""
    server = ClientServer(Fading(0.3, 5, 0.99), agents=4)
    theta = np.array([0.0, 1.0, 5.0, 2.0])
    for seed in range(3):
        noise = np.random.default_rng(seed).laplace(size=(20, 4)) * 5
        apart = server.execute(theta, noise).theta[20]
        np.testing.assert_allclose(apart - apart[0], 0.7**20 * (theta - theta[0]), atol=1e-12)


# ---- section 4: on a graph


def test_lambda_2_is_positive_just_on_connected_graphs():
    """'λ_1 = 0 and λ_2 > 0 if and only if the graph is connected.'"""
    for drawn in nx.graph_atlas_g():
        if drawn.number_of_nodes() < 2:
            continue
        values = np.linalg.eigvalsh(nx.laplacian_matrix(drawn).toarray().astype(float))
        assert values[0] == pytest.approx(0, abs=1e-12)
        assert (values[1] > 1e-9) == nx.is_connected(drawn)


@given(seeds)
def test_the_potential_on_a_graph(seed):
    """P(t) = ½ Σ_{(i,j)∈E} [θ_i − θ_j]² = θᵀLθ, over ordered pairs."""
    theta = np.random.default_rng(seed).normal(size=5)
    L, _ = letters(MECHANISM)
    ordered = [(i, j) for i in range(5) for j in GRAPH.neighbours(i)]
    assert potential(MECHANISM, theta) == pytest.approx(
        sum((theta[i] - theta[j]) ** 2 for i, j in ordered) / 2
    )
    assert potential(MECHANISM, theta) == pytest.approx(theta @ L @ theta)


@given(seeds)
def test_proposition_7(seed):
    """Proposition (prop:bnd): θᵀLLθ ≥ λ_2 θᵀLθ."""
    rng = np.random.default_rng(seed)
    graph = ATLAS[rng.integers(len(ATLAS))]
    mechanism = Distributed(Fading(0.5, 1, 0.9), graph)
    L, _ = letters(mechanism)
    theta = rng.normal(size=graph.n)
    assert theta @ L @ L @ theta >= assumption(mechanism).lambda_2 * potential(mechanism, theta) - 1e-12


ATLAS = atlas()


@given(seeds)
def test_slip_the_cross_term(seed):
    """Errata: eq:P prints 2θᵀ(I − DL)LDw; it must be 2θᵀ(I − LD)LDw. Its mean is 0 either way."""
    rng = np.random.default_rng(seed)
    theta, eta = rng.normal(size=5), rng.laplace(size=(1, 5))
    L, D = letters(MECHANISM)
    w = (np.eye(5) + GRAPH.adjacency().toarray()) @ eta[0]
    after = potential(MECHANISM, MECHANISM.execute(theta, eta).theta[1])
    rest = (
        theta @ L @ theta
        - 2 * theta @ L @ D @ L @ theta
        + theta @ L @ D @ L @ D @ L @ theta
        + w @ D @ L @ D @ w
    )
    identity = np.eye(5)
    assert after - rest == pytest.approx(2 * theta @ (identity - L @ D) @ L @ D @ w, abs=1e-9)
    printed = 2 * theta @ (identity - D @ L) @ L @ D @ w
    assert abs(after - rest - printed) > 1e-9


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_the_expected_potential(rounds):
    """eq:P_exp: E[P(t+1)] = E[P(t)] − E[Q(θ(t))] + E[w(t)ᵀDLDw(t)], from exact moments."""
    values = np.array([1.0, -2.0, 0.5, 3.0, 0.0])
    L, D = letters(MECHANISM)
    P = np.eye(5) - D @ L
    mean = np.linalg.matrix_power(P, rounds) @ values
    second = second_moments(MECHANISM, rounds) + np.outer(mean, mean)
    Q_mean = np.trace((2 * L @ D @ L - L @ D @ L @ D @ L) @ second)
    closed = np.eye(5) + GRAPH.adjacency().toarray()
    of_w = 2 * (C * Q**rounds) ** 2 * closed @ closed.T
    expected = mean_potential(MECHANISM, values, rounds) - Q_mean + np.trace(D @ L @ D @ of_w)
    assert mean_potential(MECHANISM, values, rounds + 1) == pytest.approx(expected, rel=1e-10)


def test_q_is_at_least_a_times_p():
    """eq:Qbnd: Q(θ) ≥ λ_2(2m − λ_N M²) P(t) wherever the assumption holds as the proof needs it."""
    rng = np.random.default_rng(2)
    held = 0
    for graph in ATLAS[::3]:
        mechanism = Distributed(Fading(rng.uniform(0.3, 0.6, graph.n), 1, 0.9), graph)
        found = assumption(mechanism)
        assert (found.contraction is not None) == found.as_needed
        if found.contraction is None:
            continue
        held += 1
        L, D = letters(mechanism)
        Q_matrix = 2 * L @ D @ L - L @ D @ L @ D @ L
        # Q − aP is a quadratic form: none of its eigenvalues may be negative
        assert np.linalg.eigvalsh(Q_matrix - found.contraction * L)[0] > -1e-12
    assert held > 50


@pytest.mark.parametrize("rounds", [0, 2, 10])
def test_lemma_6_under_the_assumption(rounds):
    """Lemma 6 (lem:con_dis): E[P(t+1)] ≤ (1−a)E[P(t)] + λ_N M² E[w(t)ᵀw(t)]."""
    mechanism = Distributed(Fading(0.5, C, Q), Graph.from_name("ring:6"))
    found = assumption(mechanism)
    assert found.as_needed
    values = np.arange(6.0)
    of_w = 6 * 3 * 2 * (C * Q**rounds) ** 2
    bound = (1 - found.contraction) * mean_potential(mechanism, values, rounds)
    bound += found.lambda_N * found.M**2 * of_w
    assert mean_potential(mechanism, values, rounds + 1) <= bound


def test_slip_the_assumption_as_printed_defeats_its_own_proof():
    """Errata: (II) prints λ_N < M²/(2m). Wherever that holds, 2m − λ_N M² < 0 and the proof has no a.

    λ_N ≥ 2 on any graph with an edge, so λ_N M² > 2mλ_N² ≥ 8m. Numbers: two agents, σ = (.02, .9), have
    λ_N = 2 < M²/(2m) = 10.1, and 2m − λ_N M² = −.385; with σ = (.5, .6) it is the other way round.
    """
    pair = Graph.from_edges([(0, 1)])
    uneven = assumption(Distributed(Fading([0.02, 0.9], 1, 0.99), pair))
    assert (uneven.as_printed, uneven.as_needed, uneven.contraction) == (True, False, None)
    assert uneven.M**2 / (2 * uneven.m) == pytest.approx(10.125)
    assert 2 * uneven.m - uneven.lambda_N * uneven.M**2 == pytest.approx(-0.385)
    even = assumption(Distributed(Fading([0.5, 0.6], 1, 0.99), pair))
    assert (even.as_printed, even.as_needed) == (False, True)
    rng = np.random.default_rng(1)
    printed = 0
    for graph in ATLAS[::3]:
        found = assumption(Distributed(Fading(10 ** rng.uniform(-4, -0.01, graph.n), 1, 0.9), graph))
        printed += found.as_printed
        assert not (found.as_printed and found.as_needed)
    assert printed > 50


@pytest.mark.parametrize(
    ("name", "sigma", "printed", "needed"),
    [
        ("star:20", 0.5, 1.25, 0.8),
        ("path:20", 0.8, 0.3, 3.3333),
        ("karate", 0.5, 1.125, 0.8889),
        ("barabasi:60:2:seed=1", 0.5, None, None),
    ],
)
def test_beyond_the_assumption_is_not_needed(name, sigma, printed, needed):
    """Graphs that break (II) in either reading, and still converge (docs/proofs/convergence.md)."""
    mechanism = Distributed(Fading(sigma, 1.0, 0.9), Graph.from_name(name))
    found = assumption(mechanism)
    assert not found.as_printed
    assert not found.as_needed
    if printed is not None:
        assert found.M**2 / (2 * found.m) == pytest.approx(printed, rel=1e-4)
        assert 2 * found.m / found.M**2 == pytest.approx(needed, rel=1e-4)
    assert found.lambda_N > max(found.M**2 / (2 * found.m), 2 * found.m / found.M**2)
    assert rate(mechanism) < 1
    values = np.linspace(0, 1, mechanism.n)
    settled = rounds_to_agreement(mechanism, 1e-6, 1.0)
    assert (
        mean_square_disagreement(mechanism, values, settled)
        < 1e-12
        < mean_square_disagreement(mechanism, values, 1)
    )


@given(seeds, st.integers(0, 40))
def test_every_execution_converges_whose_noise_is_summable(seed, t):
    """docs/proofs/convergence.md: what is left after t rounds, for each execution and not only on average.

    The noise is cut after 60 rounds, so the sum over later rounds is known exactly.
    """
    rng = np.random.default_rng(seed)
    theta, eta = rng.normal(size=5), rng.laplace(size=(60, 5)) * C * Q ** np.arange(60)[:, None]
    gamma, closed = 1 / step_sizes(MECHANISM), GRAPH.degrees + 1
    total = gamma.sum()
    heard = np.diag(step_sizes(MECHANISM)) @ (GRAPH.adjacency().toarray() + np.eye(5))
    drift = eta @ closed / total
    limit = gamma @ theta / total + drift.sum()

    def size(x):
        return np.sqrt(gamma @ x**2)

    def apart(x):
        return size(x - gamma @ x / total)

    rho = spectral_rate(MECHANISM)
    bound = (
        rho**t * apart(theta)
        + sum(rho ** (t - 1 - s) * apart(heard @ eta[s]) for s in range(t))
        + np.sqrt(total) * abs(drift[t:].sum())
    )
    reached = MECHANISM.execute(theta, eta[:t]).theta[-1]
    assert size(reached - limit) <= bound * (1 + 1e-9) + 1e-9
