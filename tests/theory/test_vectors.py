"""A radius for one component, and one for all: what each covers."""

import math

import numpy as np
import pytest

from tacit import ClientServer, Fading
from tacit.base.errors import ParameterError
from tacit.core.theory import influence
from tacit.core.theory.laplace_sum import per_component


@pytest.mark.parametrize(("components", "some"), [(3, 0.142625), (10, 0.401263)])
def test_coverage_of_one_component_and_of_all(components, some):
    """All together are within their radius 95% of the time.

    By simulation. The radius for one component is left far more often.
    """
    mechanism, runs, b = ClientServer(Fading(0.8, 1, 0.6), agents=6), 4000, 0.05
    run = influence.everyone(mechanism, 4)
    value = run.agent(2)
    rng, states = np.random.default_rng(11), np.zeros((runs, 6, components))
    for t in range(4):
        said = states + rng.laplace(0, 0.6**t, states.shape)
        states = 0.2 * states + 0.8 * said.mean(axis=1, keepdims=True)
    off = np.abs(states[:, 2])
    assert np.mean(off > value.radius(b)) == pytest.approx(b, abs=5 * math.sqrt(b / runs / components))
    assert np.mean((off > value.radius(b)).any(axis=1)) == pytest.approx(some, abs=5 * math.sqrt(some / runs))
    missed = np.mean((off > value.radius(b, components=components)).any(axis=1))
    assert missed == pytest.approx(b, abs=5 * math.sqrt(b / runs))


@pytest.mark.parametrize("components", [1, 2, 10, 10**6])
@pytest.mark.parametrize("b", [0.5, 0.05, 1e-12, 1e-300])
def test_the_failure_probability_is_shared_out_and_never_exceeded(b, components):
    each = per_component(b, components)
    assert 0 < each <= b
    assert -math.expm1(components * math.log1p(-each)) <= b * (1 + 1e-15)
    assert each == pytest.approx(-math.log1p(-b) / components, rel=b if components > 1 else 1)


def test_what_is_no_probability_or_no_vector_is_refused():
    with pytest.raises(ParameterError, match="failure probability"):
        per_component(1.0, 3)
    with pytest.raises(ParameterError, match="components"):
        per_component(0.1, 0)
