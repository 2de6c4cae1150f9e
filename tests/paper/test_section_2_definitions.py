"""Section 2: preliminaries and definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import ClientServer, Fading
from tacit.core.noise import SimulatedNoise
from tacit.core.theory.accuracy import chebyshev_radius, radius


def density(x, b):
    return np.exp(-abs(x) / b) / (2 * b)


def test_lap_b_has_mean_0_and_variance_2b2():
    """'This distribution has mean 0 and variance 2b².'"""
    n, b = 1_000_000, 3.0
    draws = SimulatedNoise(1).draw(Fading(0.5, b, 0.9), rounds=1, n=n)[0]
    # 4.9 standard errors: a false alarm in 10^6 (the fourth moment of Lap(b) is 24 b⁴)
    assert abs(draws.mean()) < 4.9 * np.sqrt(2) * b / np.sqrt(n)
    assert abs((draws**2).mean() - 2 * b * b) < 4.9 * np.sqrt(20) * b * b / np.sqrt(n)


@given(st.floats(-50, 50), st.floats(-50, 50), st.floats(0.5, 20))
def test_densities_differ_by_at_most_the_distance(x, y, b):
    """'For any x, y: p(x|b)/p(y|b) ≤ e^{|x−y|/b}.'"""
    assert density(x, b) / density(y, b) <= np.exp(abs(x - y) / b) * (1 + 1e-12)


def test_accuracy_is_a_statement_about_the_limit():
    """Definition 4: 'converges to a state within r of the average, with probability at least 1 − b'."""
    mechanism = ClientServer(Fading(0.8, 1.0, 0.6), agents=4)
    runs, b = 4000, 0.3
    noise = SimulatedNoise(2)
    ends = np.array(
        [
            mechanism.execute(np.zeros(4), noise.draw(mechanism.law, 40, 4, run=r)).theta[-1]
            for r in range(runs)
        ]
    )
    assert np.ptp(ends, axis=1).max() < 1e-12  # all agents end in one place
    outside = np.mean(np.abs(ends[:, 0]) > radius(mechanism, b))
    assert outside == pytest.approx(b, abs=4.9 * np.sqrt(b * (1 - b) / runs))  # exact, 1e-6 false alarm
    assert np.mean(np.abs(ends[:, 0]) > chebyshev_radius(mechanism, b)) < b / 2  # the paper's is only a bound
