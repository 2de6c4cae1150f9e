"""The fan of the exact radius, against the radius itself."""

import numpy as np
import pytest

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.core.theory import accuracy
from tacit.lab.plots.fans import fan

MECHANISMS = [
    ClientServer(Fading(0.5, 2.0, 0.8), agents=20),
    ClientServer(Fading(0.5, 2.0, 0.9), agents=1),
    ClientServer(OneShot(0.3, 2.0), agents=5),
    Distributed(Fading(0.5, 2.0, 0.7), Graph.from_edges([(0, 1), (1, 2), (1, 3)])),
]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_it_is_the_exact_radius_to_a_thousandth(mechanism):
    found = fan(mechanism, 12, (0.1, 0.5))
    assert found.failure_probability == (0.5, 0.1)
    assert found.radius.shape == (2, 13)
    assert found.radius[:, 0].tolist() == [0, 0]
    for b, row in zip(found.failure_probability, found.radius, strict=True):
        for t in (1, 4, 7, 11, 12):
            assert row[t] == pytest.approx(accuracy.radius(mechanism, b, t), rel=2e-3)


def test_a_long_fan_ends_at_the_limit():
    mechanism = MECHANISMS[0]
    found = fan(mechanism, 200, (0.05,))
    assert found.radius[0, -1] == pytest.approx(accuracy.radius(mechanism, 0.05), rel=1e-9)
    assert (np.diff(found.radius[0]) >= 0).all()


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_short_fans(rounds):
    assert fan(MECHANISMS[0], rounds).radius.shape == (2, rounds + 1)
