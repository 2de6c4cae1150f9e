"""Simulation against closed forms: variance and quantiles of where agents end.

Fixed seeds; each comparison would raise a false alarm once in a million seeds.
"""

import numpy as np
import pytest
from scipy import stats

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.core.theory import accuracy
from tacit.lab.simulation import Record, sample_outcome, simulate

ALARM = 1e-6
GRAPH = Graph.from_name("barabasi:60:2:seed=3")  # degrees from 2 up to a hub's
SIGMAS = np.linspace(0.3, 0.9, 60)
CASES = {
    "server": ClientServer(Fading(0.8, 10, 0.6), agents=500),
    "server, few": ClientServer(Fading(0.5, 1, 0.7), agents=3),
    "server, each its own": ClientServer(Fading(SIGMAS, np.linspace(1, 2, 60), 0.8), agents=60),
    "graph": Distributed(Fading(0.8, 10, 0.6), GRAPH),
    "graph, each its own": Distributed(Fading(SIGMAS, np.linspace(1, 2, 60), 0.8), GRAPH),
    "server, one-shot": ClientServer(OneShot(0.8, 10), agents=500),
    "graph, one-shot": Distributed(OneShot(SIGMAS, 2.0), GRAPH),
}


def require_variance(sample, expected):
    """The mean square of the sample against the expected variance, by its own spread."""
    squares = sample**2
    error = stats.norm.isf(ALARM / 2) * squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - expected) < error


def require_share(outside, runs, probability):
    """The number of runs outside a radius against a binomial law, both sides."""
    low, high = stats.binom.interval(1 - ALARM, runs, probability)
    assert low <= outside <= high


@pytest.mark.parametrize("name", CASES)
def test_the_engine_ends_where_theory_says(name):
    mechanism = CASES[name]
    runs, rounds = 1500, 40
    values = np.random.default_rng(0).random(mechanism.n)
    record = Record(states=False, average=True)
    result = simulate(mechanism, values, rounds, runs=runs, seed=11, record=record)
    deviation = result.average.isel(round=-1).to_numpy() - accuracy.target(mechanism, values)
    require_variance(deviation, accuracy.variance(mechanism, rounds))
    for b in (0.5, 0.05, 0.01):
        require_share(np.sum(np.abs(deviation) > accuracy.radius(mechanism, b, rounds)), runs, b)


@pytest.mark.parametrize("name", CASES)
def test_outcomes_have_the_exact_law_far_into_the_tail(name):
    mechanism = CASES[name]
    runs = 10_000 if "each" in name else 60_000  # a class of agents each costs as much as all alike
    deviation = sample_outcome(mechanism, runs, seed=12)
    require_variance(deviation, accuracy.variance(mechanism))
    for b in (0.5, 0.05, 0.001):
        require_share(np.sum(np.abs(deviation) > accuracy.radius(mechanism, b)), runs, b)


def test_where_chebyshev_is_ten_times_too_wide():
    mechanism, b, runs = CASES["server"], 0.0009, 300_000
    exact, chebyshev = accuracy.radius(mechanism, b), accuracy.chebyshev_radius(mechanism, b)
    assert chebyshev > 10 * exact
    deviation = np.abs(sample_outcome(mechanism, runs, seed=13))
    require_share(np.sum(deviation > exact), runs, b)
    assert not (deviation > chebyshev / 2).any()


@pytest.mark.parametrize("name", ["graph, each its own", "graph, one-shot", "server, few"])
def test_one_agents_own_state_after_a_few_rounds(name):
    mechanism, runs, rounds, agent, b = CASES[name], 20_000, 4, 2, 0.1
    values = np.zeros(mechanism.n)  # no bias: every agent starts at the target
    states = (
        simulate(mechanism, values, rounds, runs=runs, seed=14).theta.isel(round=-1, agent=agent).to_numpy()
    )
    law, _ = accuracy.agent_deviation(mechanism, agent, rounds)
    require_variance(states, law.variance)
    require_share(np.sum(np.abs(states) > law.quantile(b).high), runs, b)
