"""The proof's bijection: same observations, another start.

The likelihood ratio is bounded.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import StateError
from tacit.core.theory.privacy import epsilon, epsilons
from tacit.core.theory.witness import find_witness

PATH = Graph.from_edges([(0, 1), (1, 2), (2, 3)])
SIGMAS = [0.5, 0.6, 0.7, 0.8]
MECHANISMS = {
    "client-server": ClientServer(Fading(0.8, 10, 0.6), agents=4),
    "client-server, each its own": ClientServer(Fading(SIGMAS, [1, 2, 3, 4], 0.6), agents=4),
    "distributed": Distributed(Fading(SIGMAS, 10, [0.6, 0.7, 0.8, 0.9]), PATH),
    "one-shot": ClientServer(OneShot(0.3, 2.0), agents=4),
    "one-shot, distributed": Distributed(OneShot(SIGMAS, 2.0), PATH),
}


def run(mechanism, seed, rounds=12, components=()):
    rng = np.random.default_rng(seed)
    scales = mechanism.law.scales(rounds).reshape(rounds, -1, *(1,) * len(components))
    return mechanism.execute(
        rng.normal(size=(4, *components)), rng.laplace(size=(rounds, 4, *components)) * scales
    )


@pytest.mark.parametrize("name", MECHANISMS)
@given(st.integers(0, 2**32), st.integers(0, 3), st.floats(-3, 3))
def test_looks_the_same_and_costs_no_more_than_epsilon(name, seed, agent, shift):
    mechanism = MECHANISMS[name]
    execution = run(mechanism, seed)
    found = find_witness(execution, agent, shift)
    other = found.history
    assert other.channels().matches(execution.channels(), atol=1e-9)
    assert execution.theta[0, agent] - other.theta[0, agent] == pytest.approx(shift, abs=1e-9)
    each = np.broadcast_to(epsilons(mechanism.law, execution.rounds), (4,))
    assert abs(found.log_likelihood_ratio) <= each[agent] * abs(shift) * (1 + 1e-9) + 1e-12


@given(st.integers(0, 2**32), st.integers(0, 3))
def test_the_states_of_the_others_do_not_change(seed, agent):
    execution = run(MECHANISMS["distributed"], seed)
    other = find_witness(execution, agent, 1.5).history
    rest = [i for i in range(4) if i != agent]
    assert other.compromised(rest).matches(execution.compromised(rest), atol=1e-9)
    fading = 1.5 * (1 - SIGMAS[agent]) ** np.arange(execution.rounds + 1)
    np.testing.assert_allclose(execution.theta[:, agent] - other.theta[:, agent], fading, atol=1e-9)


def test_epsilon_is_reached_not_only_a_bound():
    # With noise on the far side of zero in every round each message costs all it can.
    mechanism = MECHANISMS["client-server"]
    execution = mechanism.execute(np.zeros(4), np.full((20, 4), 0.5))
    found = find_witness(execution, 0, 1.0)
    assert found.log_likelihood_ratio == pytest.approx(epsilon(mechanism.law, 20), rel=1e-12)


def test_the_ratio_is_that_of_the_densities():
    mechanism = MECHANISMS["client-server, each its own"]
    execution = run(mechanism, 5)
    found = find_witness(execution, 2, 0.7)
    scales = mechanism.law.scales(execution.rounds)

    def log_density(eta):
        return float(np.sum(-np.abs(eta) / scales - np.log(2 * scales)))

    expected = log_density(execution.eta) - log_density(found.history.eta)
    assert found.log_likelihood_ratio == pytest.approx(expected, rel=1e-9)


@given(st.integers(0, 2**32))
def test_vectors_pay_for_the_l1_distance(seed):
    mechanism = MECHANISMS["client-server"]
    execution = run(mechanism, seed, components=(3,))
    shift = np.array([0.5, -0.25, 1.0])
    found = find_witness(execution, 1, shift)
    assert found.history.channels().matches(execution.channels(), atol=1e-9)
    bound = epsilon(mechanism.law, execution.rounds) * np.abs(shift).sum()
    assert abs(found.log_likelihood_ratio) <= bound * (1 + 1e-9)


def test_bad_requests_are_refused():
    execution = run(MECHANISMS["client-server"], 0)
    with pytest.raises(StateError, match="agent must be a number from 0 to 3"):
        find_witness(execution, 4, 1.0)
    with pytest.raises(StateError, match="shift must be a finite number"):
        find_witness(execution, 0, [1.0, 2.0])
    with pytest.raises(StateError, match="shift must be a finite number"):
        find_witness(execution, 0, np.inf)
