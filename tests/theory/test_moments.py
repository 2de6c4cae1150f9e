"""Exact moments against a slow, obvious formula and against sampling."""

import numpy as np
import pytest
from scipy import stats

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import ParameterError, RecordTooLarge
from tacit.core.theory import moments
from tacit.core.theory.convergence import potential

STAR = Graph.from_name("star:5")
PATH = Graph.from_name("path:4")
SIGMA = np.array([0.2, 0.5, 0.7, 0.9])
C = np.array([0.5, 1.0, 2.0, 0.1])
Q = np.array([0.9, 0.3, 0.6, 0.6])


def dense(mechanism):
    """P = I − DL and R = D(A+I), written out."""
    n = mechanism.n
    closed = np.ones((n, n))
    if isinstance(mechanism, Distributed):
        closed = np.eye(n) + mechanism.graph.adjacency().toarray()
    D = np.diag(np.broadcast_to(mechanism.law.sigma / closed.sum(axis=1), n))
    return np.eye(n) - D @ (np.diag(closed.sum(axis=1)) - closed), D @ closed


def slow_covariance(mechanism, rounds):
    """Σ_s P^{T−1−s} R diag(2 scale_s²) Rᵀ (P^{T−1−s})ᵀ."""
    P, R = dense(mechanism)
    total = np.zeros_like(P)
    for s, scale in enumerate(mechanism.law.scales(rounds)):
        M = np.linalg.matrix_power(P, rounds - 1 - s) @ R
        total += M @ np.diag(np.broadcast_to(2 * scale**2, mechanism.n)) @ M.T
    return total


FADING = [
    Distributed(Fading(0.6, 1.5, 0.8), STAR),
    Distributed(Fading(SIGMA, C, 0.7), PATH),
    Distributed(Fading(SIGMA, C, Q), PATH),
    ClientServer(Fading(0.6, 1.5, 0.8), 5),
    ClientServer(Fading(SIGMA, C, Q), 4),
]
ONE_SHOT = [
    Distributed(OneShot(0.6, 1.5), STAR),
    Distributed(OneShot(SIGMA, C), PATH),
    ClientServer(OneShot(SIGMA, C), 4),
    ClientServer(OneShot(0.3, 2.0), 3),
]


@pytest.mark.parametrize("mechanism", FADING)
@pytest.mark.parametrize("rounds", [0, 1, 2, 5, 30, 77])
def test_second_moments_are_the_sum_over_rounds(mechanism, rounds):
    slow = slow_covariance(mechanism, rounds)
    found = moments.second_moments(mechanism, rounds)
    np.testing.assert_allclose(found, slow, rtol=1e-11, atol=1e-15)
    one = moments.OneRound(mechanism)
    np.testing.assert_allclose(moments._round_by_round(one, rounds), slow, rtol=1e-11, atol=1e-15)
    q = np.broadcast_to(mechanism.law.q, mechanism.n)
    doubled = sum(moments._by_doubling(one, rounds, value, q == value) for value in np.unique(q))
    np.testing.assert_allclose(doubled, slow, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("mechanism", ONE_SHOT)
@pytest.mark.parametrize("rounds", [0, 1, 2, 5, 30])
def test_one_shot_second_moments_follow_unit_noise_through_the_mechanism(mechanism, rounds):
    """Column j of the coefficients is an execution from 0 on noise e_j."""
    n = mechanism.n
    noise = np.zeros((rounds, n, n))
    noise[:1] = np.eye(n)
    coefficients = mechanism.execute(np.zeros((n, n)), noise).theta[-1]
    c = np.broadcast_to(mechanism.law.c, n)
    found = moments.second_moments(mechanism, rounds)
    np.testing.assert_allclose(
        found, coefficients @ np.diag(2 * c**2) @ coefficients.T, rtol=1e-11, atol=1e-14
    )
    P, _ = dense(mechanism)
    power = np.linalg.matrix_power(P, rounds)
    shadow = moments.shadow_second_moments(mechanism, rounds)
    np.testing.assert_allclose(shadow, power @ np.diag(2 * c**2) @ power.T, rtol=1e-11)


@pytest.mark.parametrize("runs", [40_000, pytest.param(400_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("mechanism", FADING + ONE_SHOT)
def test_moments_against_sampling(mechanism, runs):
    """False alarm 10⁻⁶ over all entries.

    There are many executions, as components of one.
    """
    rounds, n = 6, mechanism.n
    values = np.linspace(-1, 2, n)
    rng = np.random.default_rng(99)
    scale = np.broadcast_to(mechanism.law.scales(rounds).reshape(rounds, -1), (rounds, n))
    noise = rng.laplace(size=(rounds, n, runs)) * scale[:, :, None]
    theta = mechanism.execute(np.repeat(values[:, None], runs, axis=1), noise).theta[-1]
    e = theta - moments.mean_state(mechanism, values, rounds)[:, None]
    exact = moments.second_moments(mechanism, rounds)
    z = stats.norm.isf(1e-6 / (2 * (n + n * n)))
    np.testing.assert_array_less(np.abs(e.mean(axis=1)), z * np.sqrt(np.diag(exact) / runs))
    for i in range(n):
        for j in range(n):
            product = e[i] * e[j]
            assert abs(product.mean() - exact[i, j]) <= z * product.std() / np.sqrt(runs)


@pytest.mark.parametrize("mechanism", FADING + ONE_SHOT)
@pytest.mark.parametrize("rounds", [0, 3, 400])
def test_the_mean_is_an_execution_without_noise(mechanism, rounds):
    values = np.random.default_rng(1).normal(size=(mechanism.n, 2))
    noise = np.zeros((rounds, *values.shape))
    expected = mechanism.execute(values, noise).theta[-1]
    np.testing.assert_allclose(moments.mean_state(mechanism, values, rounds), expected, rtol=1e-12)
    one = moments.mean_state(mechanism, values[:, 0], rounds)
    np.testing.assert_allclose(one, expected[:, 0], rtol=1e-12)


@pytest.mark.parametrize("mechanism", FADING + ONE_SHOT)
@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_disagreement_and_potential_from_the_moments(mechanism, rounds):
    values = np.random.default_rng(2).normal(size=(mechanism.n, 3))
    covariance = moments.second_moments(mechanism, rounds)
    mean = moments.mean_state(mechanism, values, rounds)
    n = mechanism.n
    apart = [
        3 * (covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]) + np.sum((mean[i] - mean[j]) ** 2)
        for i in range(n)
        for j in range(n)
    ]
    assert moments.mean_square_disagreement(mechanism, values, rounds) == pytest.approx(max(apart), rel=1e-9)
    # E[θᵀLθ]: that of the mean, and of each direction the noise takes
    axes = np.linalg.cholesky(covariance + 1e-13 * np.eye(n)) if rounds else np.zeros((n, n))
    expected = potential(mechanism, mean) + 3 * potential(mechanism, axes)
    assert moments.mean_potential(mechanism, values, rounds) == pytest.approx(expected, rel=1e-9, abs=1e-11)


def test_small_disagreement_is_not_drowned_by_the_common_noise():
    """Differences are 30 orders below the average's noise.

    A server moves all alike, so they are (1−σ)^T.
    """
    server = ClientServer(Fading(0.5, 10.0, 0.99), 3)
    found = moments.mean_square_disagreement(server, [0.0, 0.5, 1.0], 100)
    assert found == pytest.approx(0.25**100, rel=1e-9)


def test_a_very_long_run():
    mechanism = Distributed(Fading(0.5, 1.0, 0.9), PATH)
    late = moments.second_moments(mechanism, 10**9)
    np.testing.assert_allclose(late, moments.second_moments(mechanism, 2000), rtol=1e-6)
    assert moments.mean_square_disagreement(mechanism, [0, 1, 2, 3], 10**9) == 0


def test_what_cannot_be_asked():
    large = ClientServer(Fading(0.5, 1, 0.9), moments.MOST_AGENTS + 1)
    with pytest.raises(RecordTooLarge, match="2001"):
        moments.second_moments(large, 1)
    assert moments.mean_state(large, np.ones(large.n), 3) == pytest.approx(1)
    for rounds in (-1, 2.5):
        with pytest.raises(ParameterError, match="rounds"):
            moments.second_moments(FADING[0], rounds)
    with pytest.raises(ParameterError, match="shadow"):
        moments.shadow_second_moments(FADING[0], 1)
