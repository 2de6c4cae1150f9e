"""Section 5: the trade-off between privacy and accuracy."""

import numpy as np
import pytest

from tacit import ClientServer, Fading
from tacit.core.theory.accuracy import chebyshev_radius, radius
from tacit.core.theory.privacy import epsilon


def test_privacy_needs_noise_that_fades_slower_than_the_states_forget():
    """'The constraint to achieve privacy over infinite horizon is that q > 1 − σ.'"""
    with pytest.raises(ValueError, match="fade faster than the states forget"):
        epsilon(Fading(0.8, 10, 0.15))
    assert epsilon(Fading(0.8, 10, 0.2 + 1e-9)) > 1e6


@pytest.mark.parametrize("larger", [{"c": 11}, {"q": 0.7}])
def test_epsilon_decreases_and_the_radius_grows_with_noise(larger):
    """'ε decreases with larger c or q' and 'a more dispersive noise results in worse accuracy'."""
    base = {"sigma": 0.8, "c": 10, "q": 0.6}
    less, more = Fading(**base), Fading(**{**base, **larger})
    assert epsilon(more) < epsilon(less)
    for measure in (radius, chebyshev_radius):
        assert measure(ClientServer(more, agents=500), 0.5) > measure(ClientServer(less, agents=500), 0.5)


def test_the_radius_is_of_order_one_over_epsilon_root_bn():
    """'For fixed q … the accuracy radius r is O(1/(ε√(bN)))': Chebyshev's is exactly proportional."""
    scaled = []
    for c in (1.0, 10.0):
        for agents in (10, 1000):
            for b in (0.1, 0.5):
                parameters = Fading(0.8, c, 0.6)
                r = chebyshev_radius(ClientServer(parameters, agents=agents), b)
                scaled.append(r * epsilon(parameters) * np.sqrt(b * agents))
    assert scaled == pytest.approx([scaled[0]] * len(scaled))


def test_the_points_of_the_figure():
    """Figure 1: N = 500, σ = 0.8, c = 10, b = 0.5, over q."""
    for q, eps, r in [(0.3, 0.3, 0.750), (0.6, 0.15, 0.894), (0.9, 0.9 / 7, 1.642)]:
        mechanism = ClientServer(Fading(0.8, 10, q), agents=500)
        assert epsilon(mechanism.law) == pytest.approx(eps)
        assert chebyshev_radius(mechanism, 0.5) == pytest.approx(r, abs=1e-3)
