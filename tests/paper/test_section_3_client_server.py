"""Section 3: the client-server mechanism, its privacy and accuracy (convergence has its own file)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import ClientServer, Fading
from tacit.core.theory.accuracy import chebyshev_radius, d_tilde, variance
from tacit.core.theory.privacy import epsilon
from tacit.core.theory.witness import find_witness

SIGMA, C, Q, N = 0.8, 10.0, 0.6, 5
MECHANISM = ClientServer(Fading(SIGMA, C, Q), agents=N)


def execution(seed, rounds=15):
    rng = np.random.default_rng(seed)
    return MECHANISM.execute(
        rng.normal(size=N), rng.laplace(size=(rounds, N)) * C * Q ** np.arange(rounds)[:, None]
    )


seeds = st.integers(0, 2**32)


@given(seeds)
def test_phase_i_a_message_is_the_state_plus_noise(seed):
    """(i) 'Client i sends a message x_i(t) = θ_i(t) + η_i(t) to the server.'"""
    alpha = execution(seed)
    np.testing.assert_allclose(alpha.x, alpha.theta[:-1] + alpha.eta)


@given(seeds)
def test_phase_ii_the_server_averages_all_messages(seed):
    """(ii) 'The server updates its own state as the average of all client messages.'"""
    alpha = execution(seed)
    np.testing.assert_allclose(alpha.y, alpha.x.sum(axis=1) / N)


@given(seeds)
def test_phase_iv_clients_interpolate(seed):
    """(iv) eq:upd: θ_i(t+1) = (1−σ)θ_i(t) + σ y(t)."""
    alpha = execution(seed)
    np.testing.assert_allclose(alpha.theta[1:], (1 - SIGMA) * alpha.theta[:-1] + SIGMA * alpha.y[:, None])


@given(seeds)
def test_start_and_noise_determine_the_execution(seed):
    """'Given θ(0) and the sequence of noise vectors, the execution is completely specified.'"""
    alpha = execution(seed)
    again = MECHANISM.execute(alpha.theta[0], alpha.eta)
    np.testing.assert_array_equal(alpha.theta, again.theta)
    np.testing.assert_array_equal(alpha.y, again.y)


@given(seeds, st.integers(0, N - 1), st.floats(-2, 2))
def test_the_proposition_of_the_privacy_proof(seed, k, delta):
    """(i) θ_k − θ'_k = δ(1−σ)^t, (ii) θ_i = θ'_i, (iii) x' = x, (iv) y' = y."""
    alpha = execution(seed)
    image = find_witness(alpha, k, delta).history
    difference = alpha.theta - image.theta
    np.testing.assert_allclose(
        difference[:, k], delta * (1 - SIGMA) ** np.arange(alpha.rounds + 1), atol=1e-12
    )
    np.testing.assert_allclose(np.delete(difference, k, axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(image.x, alpha.x, atol=1e-11)
    np.testing.assert_allclose(image.y, alpha.y, atol=1e-11)


@given(seeds, st.integers(0, N - 1), st.floats(-2, 2))
def test_f_is_a_bijection(seed, k, delta):
    """'First, we define a bijection f: A → A'': the opposite shift leads back."""
    alpha = execution(seed)
    back = find_witness(find_witness(alpha, k, delta).history, k, -delta).history
    np.testing.assert_allclose(back.theta, alpha.theta, atol=1e-11)
    np.testing.assert_allclose(back.eta, alpha.eta, atol=1e-11)


@given(seeds, st.floats(0, 2))
def test_lemma_1_bounds_the_ratio_of_every_prefix(seed, delta):
    """Lemma 1 (lem:pri): the product converges to e^{εδ} with ε = q/(c(q+σ−1))."""
    alpha = execution(seed)
    for rounds in (1, 4, alpha.rounds):
        ratio = find_witness(alpha.prefix(rounds), 0, delta).log_likelihood_ratio
        assert ratio <= epsilon(MECHANISM.law, rounds) * delta * (1 + 1e-12) + 1e-12
    assert epsilon(MECHANISM.law) == pytest.approx(Q / (C * (Q + SIGMA - 1)), rel=1e-15)


def test_slip_the_exponent_in_the_privacy_proof():
    """Errata: the proof prints |η'_k − η'_k| (always 0); it must be |η'_k − η_k|."""
    alpha = execution(3)
    image = find_witness(alpha, 0, 1.0).history
    as_printed = np.exp(np.abs(image.eta[:, 0] - image.eta[:, 0]))
    needed = np.abs(image.eta[:, 0] - alpha.eta[:, 0]) / (C * Q ** np.arange(alpha.rounds))
    assert as_printed.prod() == 1.0  # a bound that real ratios exceed:
    assert max(find_witness(execution(s), 0, 1.0).log_likelihood_ratio for s in range(20)) > 0.01
    np.testing.assert_allclose(needed, ((1 - SIGMA) / Q) ** np.arange(alpha.rounds) / C)


def test_slip_the_ratio_is_upside_down():
    """Errata: Pr[α]/Pr[f(α)] is Π p(η)/p(η'), not Π p(η')/p(η)."""
    alpha = MECHANISM.execute(np.zeros(N), np.zeros((3, N)))  # the likeliest noise of all
    found = find_witness(alpha, 0, 1.0)
    scales = C * Q ** np.arange(3)[:, None]
    as_printed = np.sum(np.abs(alpha.eta) / scales - np.abs(found.history.eta) / scales)
    assert as_printed < 0  # as if f(α), which needs some noise, were likelier than α, which needs none
    assert found.log_likelihood_ratio == pytest.approx(-as_printed)


def test_slip_the_update_in_the_privacy_proof_uses_the_previous_feedback():
    """Errata: the proof prints θ'(t) = (1−σ)θ'(t−1) + σy'(t); eq:upd has y'(t−1)."""
    alpha = execution(4)
    t = 3
    np.testing.assert_allclose(alpha.theta[t], (1 - SIGMA) * alpha.theta[t - 1] + SIGMA * alpha.y[t - 1])
    assert not np.allclose(alpha.theta[t], (1 - SIGMA) * alpha.theta[t - 1] + SIGMA * alpha.y[t])


def test_slip_f_of_alpha_has_states_of_its_own():
    """Errata: the denominator prints θ(0), …, θ(T); f(α) has states θ'(0), …, θ'(T)."""
    alpha = execution(4)
    image = find_witness(alpha, 0, 1.0).history
    assert not np.allclose(image.theta, alpha.theta)


def test_slip_the_sign_in_the_proof_of_proposition_2():
    """Errata: θ'_k − θ_k is −δ(1−σ)^{T+1}, since θ_k(0) = θ'_k(0) + δ."""
    alpha = execution(4)
    image = find_witness(alpha, 0, 1.0).history
    np.testing.assert_allclose(image.theta[3, 0] - alpha.theta[3, 0], -((1 - SIGMA) ** 3), atol=1e-12)


def test_slip_the_radius_grows_with_the_accuracy_probability():
    """Errata: the introduction calls the radius inverse in 1 − b; it grows with it."""
    radii = [chebyshev_radius(MECHANISM, 1 - likely) for likely in (0.5, 0.9, 0.99)]
    assert radii[0] < radii[1] < radii[2]


def test_lemma_4_accuracy():
    """Lemma 4 (lem:acc): (b, √2cσ/√(bN(1−q²)))-accuracy; d̃ = σ²/N."""
    assert d_tilde(MECHANISM) == pytest.approx(SIGMA**2 / N)
    b = 0.3
    assert chebyshev_radius(MECHANISM, b) == pytest.approx(
        math.sqrt(2) * C * SIGMA / math.sqrt(b * N * (1 - Q**2))
    )
    assert variance(MECHANISM) == pytest.approx(2 * C**2 * SIGMA**2 / (N * (1 - Q**2)))
