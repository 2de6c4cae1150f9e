"""Section 4: the distributed mechanism, its privacy and accuracy (convergence has its own file)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph
from tacit.core.theory import accuracy
from tacit.core.theory.privacy import epsilon
from tacit.core.theory.witness import find_witness

GRAPH = Graph.from_edges([(0, 1), (0, 2), (0, 3), (3, 4)])
SIGMA = np.array([0.9, 0.5, 0.6, 0.7, 0.8])
C, Q, N = 2.0, 0.7, 5
MECHANISM = Distributed(Fading(SIGMA, C, Q), GRAPH)
CLOSED = [[0, 1, 2, 3], [1, 0], [2, 0], [3, 0, 4], [4, 3]]

seeds = st.integers(0, 2**32)


def execution(seed, rounds=12):
    rng = np.random.default_rng(seed)
    return MECHANISM.execute(
        rng.normal(size=N), rng.laplace(size=(rounds, N)) * C * Q ** np.arange(rounds)[:, None]
    )


@given(seeds)
def test_agents_average_their_closed_neighbourhood(seed):
    """eq:y_dis: y_i(t) is the mean of x_j(t) over N(i) ∪ {i}."""
    alpha = execution(seed)
    for i, closed in enumerate(CLOSED):
        np.testing.assert_allclose(alpha.y[:, i], alpha.x[:, closed].mean(axis=1))


@given(seeds)
def test_the_update_in_matrix_form(seed):
    """θ(t+1) = θ(t) − DLθ(t) + Dw(t), with eq:L_dis and eq:D."""
    alpha = execution(seed)
    L = GRAPH.laplacian().toarray()
    D = np.diag(SIGMA / (GRAPH.degrees + 1))
    w = alpha.eta @ (np.eye(N) + GRAPH.adjacency().toarray())
    np.testing.assert_allclose(alpha.theta[1:], alpha.theta[:-1] @ (np.eye(N) - D @ L).T + w @ D, atol=1e-12)


def test_slip_the_summed_noise_is_the_neighbours():
    """Errata: eq:w_def prints Σ_j η_i(t); it must be Σ_j η_j(t)."""
    alpha = execution(1)
    L, D = GRAPH.laplacian().toarray(), np.diag(SIGMA / (GRAPH.degrees + 1))
    as_printed = alpha.eta * (GRAPH.degrees + 1)
    drift = alpha.theta[1:] - alpha.theta[:-1] @ (np.eye(N) - D @ L).T
    assert not np.allclose(drift, as_printed @ D)
    needed = np.stack([alpha.eta[:, closed].sum(axis=1) for closed in CLOSED], axis=1)
    np.testing.assert_allclose(drift, needed @ D, atol=1e-12)


def test_the_laplacian():
    """eq:L_dis: degrees on the diagonal, −1 for neighbours; rows sum to zero."""
    L = GRAPH.laplacian().toarray()
    np.testing.assert_array_equal(np.diag(L), GRAPH.degrees)
    np.testing.assert_array_equal(L.sum(axis=1), 0)
    np.testing.assert_array_equal(L, L.T)
    assert L[3, 4] == -1
    assert L[1, 2] == 0


def test_lemma_5_the_least_mixing_decides():
    """Lemma 5 (lem:pri_dis): ε = q/(c(q+σ_m−1)) with σ_m the minimum element of σ."""
    assert epsilon(MECHANISM.law) == pytest.approx(Q / (C * (Q + SIGMA.min() - 1)), rel=1e-12)


@given(seeds, st.integers(0, N - 1), st.floats(-2, 2))
def test_privacy_against_channels_and_compromised_agents(seed, k, delta):
    """The intruder sees all channels and the internal states of C, not of the protected agent."""
    alpha = execution(seed)
    found = find_witness(alpha, k, delta)
    others = [i for i in range(N) if i != k]
    assert found.history.compromised(others).matches(alpha.compromised(others), atol=1e-9)
    assert found.log_likelihood_ratio <= epsilon(MECHANISM.law) * abs(delta) + 1e-12


@given(seeds)
def test_the_weighted_average_only_drifts_by_the_noise(seed):
    """Proof of Lemma 8: θ̄(t+1) = θ̄(t) + w̃(t) with weights γ_i = (|N(i)|+1)/σ_i."""
    alpha = execution(seed)
    gamma = (GRAPH.degrees + 1) / SIGMA
    average = alpha.theta @ gamma / gamma.sum()
    drift = alpha.eta @ (GRAPH.degrees + 1) / gamma.sum()
    np.testing.assert_allclose(np.diff(average), drift, atol=1e-12)
    np.testing.assert_allclose(accuracy.weights(MECHANISM), gamma / gamma.sum())


def test_lemma_8_accuracy():
    """Lemma 8 (lem:acc_dis): (b, √(2d̃)c/√(b(1−q²)))-accuracy."""
    gamma = (GRAPH.degrees + 1) / SIGMA
    d = np.sum((GRAPH.degrees + 1) ** 2) / gamma.sum() ** 2
    assert accuracy.d_tilde(MECHANISM) == pytest.approx(d)
    b = 0.1
    assert accuracy.chebyshev_radius(MECHANISM, b) == pytest.approx(
        math.sqrt(2 * d) * C / math.sqrt(b * (1 - Q**2))
    )


def test_slip_an_n_too_many_in_the_proof_of_lemma_8():
    """Errata: the proof ends with r = √(2d̃)c/√(bN(1−q²)), √N too small; a run shows it fails."""
    mechanism = ClientServer(Fading(0.8, 1.0, 0.6), agents=100)
    b = 0.05
    printed = accuracy.chebyshev_radius(mechanism, b) / math.sqrt(100)
    law = accuracy.deviation(mechanism)
    assert law.exceedance(printed).low > 0.6  # promised: at most 0.05
    assert law.exceedance(accuracy.chebyshev_radius(mechanism, b)).high < b


def test_slip_w_for_w_tilde_in_the_proof_of_lemma_8():
    """Errata: Chebyshev is about w̃ = Σw_i/Σγ_i; the variance of one agent's w_i is another."""
    gamma = (GRAPH.degrees + 1) / SIGMA
    of_w_tilde = 2 * C**2 * np.sum((GRAPH.degrees + 1) ** 2) / gamma.sum() ** 2
    of_w = 2 * C**2 * (GRAPH.degrees + 1)
    assert accuracy.variance(MECHANISM) == pytest.approx(of_w_tilde / (1 - Q**2))
    assert (of_w > 2 * of_w_tilde).all()


def test_slip_one_round_too_many_in_the_proof_of_lemma_8():
    """Errata: θ̄(t) − θ̄(0) is the sum of w̃(s) for s < t; the Chebyshev line also has w̃(t)."""
    gamma = (GRAPH.degrees + 1) / SIGMA
    rng = np.random.default_rng(7)
    eta = rng.laplace(size=(4, GRAPH.n)) * C * Q ** np.arange(4)[:, None]
    run = MECHANISM.execute(rng.uniform(size=GRAPH.n), eta)
    w_tilde = eta @ (GRAPH.degrees + 1) / gamma.sum()  # Σ_i w_i(t) = Σ_j (|N(j)| + 1) η_j(t)
    average = run.theta @ gamma / gamma.sum()
    for t in range(5):
        assert average[t] - average[0] == pytest.approx(w_tilde[:t].sum(), abs=1e-12)
        of_w_tilde = 2 * C**2 * np.sum((GRAPH.degrees + 1) ** 2) / gamma.sum() ** 2 * Q ** (2 * np.arange(t))
        assert accuracy.variance(MECHANISM, t) == pytest.approx(of_w_tilde.sum())
    assert abs(average[3] - average[0] - w_tilde[:4].sum()) > 1e-3  # as printed, for t = 3


def test_higher_degree_or_slower_agents_weigh_more():
    """'A node with higher degree or slower evolution will have heavier weight on the consensus value.'"""
    weights = accuracy.weights(Distributed(Fading(0.5, 1, 0.9), GRAPH))
    assert weights[0] == weights.max()
    slower = accuracy.weights(Distributed(Fading([0.5, 0.1, 0.5, 0.5, 0.5], 1, 0.9), GRAPH))
    assert slower[1] > weights[1]
