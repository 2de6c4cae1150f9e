"""The best noise in closed form against numerical minima.

The minima are over all schedules.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar

from tacit import ClientServer, Distributed, Fading, Graph
from tacit.core.theory import accuracy
from tacit.core.theory.optimum import (
    averaging_mixing,
    best_decay,
    best_fading,
    best_noise,
    best_one_shot,
    one_shot_variance,
    price_of_smoothness,
)
from tacit.core.theory.privacy import epsilon


def variance_at(sigma, q, eps):
    c = q / (eps * (q + sigma - 1))  # Lemma 1 solved for c
    return accuracy.variance(ClientServer(Fading(sigma, c, q), agents=10))


@pytest.mark.parametrize("sigma", [0.1, 0.5, 0.8, 0.95])
def test_decay_and_noise_minimise_the_variance(sigma):
    found = minimize_scalar(
        lambda q: variance_at(sigma, q, 1.0), bounds=(1 - sigma + 1e-9, 1 - 1e-9), method="bounded",
        options={"xatol": 1e-10},
    )  # fmt: skip
    assert best_decay(sigma) == pytest.approx(found.x, abs=1e-6)
    best = accuracy.variance(ClientServer(best_fading(sigma, 1.0), agents=10))
    assert best == pytest.approx(found.fun, rel=1e-9)


@pytest.mark.parametrize("rounds", [2, 5])
@pytest.mark.parametrize("sigma", [0.2, 0.7])
def test_no_other_schedule_of_scales_does_better(sigma, rounds):
    # any scales s_t > 0 with Σ (1−σ)^t/s_t = ε; the deviation's variance is ∝ Σ s_t²
    weights = (1 - sigma) ** np.arange(rounds)

    def spent(logs):
        scales = np.exp(logs)
        scales = scales * np.sum(weights / scales)  # now ε = 1
        return np.sum(scales**2)

    free = minimize(spent, np.zeros(rounds), method="BFGS", options={"gtol": 1e-10}).fun
    ours = best_fading(sigma, 1.0, rounds).scales(rounds)
    assert np.sum(weights / ours) == pytest.approx(1.0)
    assert np.sum(ours**2) == pytest.approx(free, rel=1e-8)


@given(st.floats(0.01, 0.99), st.floats(1e-3, 1e3), st.one_of(st.none(), st.integers(1, 200)))
def test_the_best_noise_never_costs_more_than_asked(sigma, eps, rounds):
    assert eps * (1 - 1e-12) <= epsilon(best_fading(sigma, eps, rounds), rounds) <= eps
    assert eps * (1 - 1e-12) <= epsilon(best_one_shot(sigma, eps)) <= eps


def test_the_price_of_smoothness():
    for sigma, price in [(0.1, 5.66), (0.5, 2.22), (0.8, 1.50), (0.99, 1.06)]:
        assert price_of_smoothness(sigma) == pytest.approx(price, abs=0.01)
        variance = accuracy.variance(ClientServer(best_fading(sigma, 0.3), agents=7))
        assert np.sqrt(variance / one_shot_variance(0.3, 7)) == pytest.approx(price_of_smoothness(sigma))


def test_one_shot_noise_reaches_the_limit():
    variance = accuracy.variance(ClientServer(best_one_shot(0.2, 0.3), agents=7))
    assert variance == pytest.approx(one_shot_variance(0.3, 7))


def test_each_agent_gets_its_own_best():
    both = best_fading(np.array([0.2, 0.7]), 0.5)
    assert both.q == pytest.approx([best_decay(0.2), best_decay(0.7)])
    assert both.c == pytest.approx([best_noise(0.2, 0.5), best_noise(0.7, 0.5)])


def test_mixing_in_proportion_to_the_neighbourhood_reaches_the_average():
    star = Graph.from_edges([(0, 1), (0, 2), (0, 3)])
    sigma = averaging_mixing(star, 0.9)
    assert sigma == pytest.approx([0.9, 0.45, 0.45, 0.45])
    assert accuracy.reaches_average(Distributed(Fading(sigma, 1, 0.9), star))
