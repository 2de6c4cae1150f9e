"""`state_space` is one step of the mechanism, as matrices."""

import numpy as np
import pytest

from tacit import ClientServer, Constant, Distributed, Fading, OneShot
from tacit.base.errors import ParameterError

PER_AGENT = Fading([0.3, 0.5, 0.7, 0.9], 1, 0.95)
PATH = [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize(
    "mechanism",
    [
        ClientServer(PER_AGENT, agents=4),
        ClientServer(Constant(0.8, 1), agents=4, keepers=2),
        ClientServer(PER_AGENT, agents=4, keepers=3),
        Distributed(PER_AGENT, PATH),
        Distributed(Fading(0.8, 1, 0.9), PATH, "metropolis"),
        Distributed(PER_AGENT, "star:4"),
    ],
)
def test_it_is_one_step(mechanism):
    a, b = mechanism.state_space()
    rng = np.random.default_rng(1)
    theta, eta = rng.normal(size=4), rng.normal(size=mechanism.sources)
    after, _ = mechanism.step(mechanism.start(theta), eta)
    np.testing.assert_allclose(a @ theta + b @ eta, after.theta, rtol=0, atol=1e-12)


def test_a_keeps_agreement():
    a, b = Distributed(PER_AGENT, PATH).state_space()
    np.testing.assert_allclose(a.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(b.sum(axis=1), PER_AGENT.sigma, atol=1e-12)


def test_noise_that_is_drawn_once_is_refused():
    with pytest.raises(ParameterError):
        ClientServer(OneShot(0.8, 1), agents=4).state_space()
