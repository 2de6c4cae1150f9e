"""One-shot noise is never less accurate than fresh noise.

They have the same epsilon: docs/proofs/best-noise.md.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.core.theory.accuracy import agent_deviation, deviation
from tacit.core.theory.laplace_sum import LaplaceSum
from tacit.core.theory.privacy import epsilon

GRAPH = Graph.from_edges([(0, 1), (0, 2), (0, 3), (3, 4)])
FAILURES = (0.5, 1e-6)  # the middle of the law, and far into its tail


def law(weights):
    """Return the law of Σ_k w_k L_k."""
    sizes = np.abs(np.ravel(weights))
    sizes = sizes[sizes > 1e-12 * sizes.max()]
    return LaplaceSum(sizes, np.zeros_like(sizes), np.ones_like(sizes), 1)


def entries(sigma, rounds, function):
    """Return w_{t,j}: the weight of a draw in a function of θ(T).

    The draw is in agent j's message of round t, and the function is linear.
    """
    rows = []
    for t in range(rounds):
        for j in range(GRAPH.n):
            noise = np.zeros((rounds, GRAPH.n))
            noise[t, j] = 1.0
            run = Distributed(Fading(sigma, 1.0, 0.5), GRAPH).execute(np.zeros(GRAPH.n), noise)
            rows.append(function @ run.theta[-1])
    return np.reshape(rows, (rounds, GRAPH.n))


SCHEDULES = (st.integers(0, 2**32), st.integers(1, 5))


@settings(max_examples=4, deadline=None)
@given(*SCHEDULES)
def test_for_any_schedule_and_any_linear_function_of_the_states(seed, rounds):
    compare_once_with_fresh(seed, rounds)


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(*SCHEDULES)
def test_for_many_schedules(seed, rounds):
    compare_once_with_fresh(seed, rounds)


def compare_once_with_fresh(seed, rounds):
    rng = np.random.default_rng(seed)
    sigma, function = rng.uniform(0.05, 0.95, GRAPH.n), rng.normal(size=GRAPH.n)
    scales = rng.lognormal(0, 1.5, (rounds, GRAPH.n))
    keeps = (1 - sigma) ** np.arange(rounds)[:, None]
    spent = np.sum(keeps / scales, axis=0)  # ε of each agent
    w = entries(sigma, rounds, function)
    fresh, once = law(w * scales), law(np.sum(w * keeps, axis=0) / spent)
    for b in FAILURES:
        assert once.quantile(b).low <= fresh.quantile(b).high
        offset = 0.3 * once.quantile(b).high
        assert once.quantile(b, offset).low <= fresh.quantile(b, offset).high


@pytest.mark.parametrize("sigma", [0.1, 0.9])
@pytest.mark.parametrize("rounds", [3, None])
def test_for_the_mechanisms_as_they_are(sigma, rounds):
    fading = Fading(sigma, 1.0, (1 - sigma) ** (1 / 3))
    once = OneShot(sigma, 1 / epsilon(fading, rounds))
    pairs = [
        (deviation(make(once), rounds), deviation(make(fading), rounds))
        for make in (lambda p: ClientServer(p, agents=7), lambda p: Distributed(p, GRAPH))
    ]
    if rounds is not None:
        pairs += [
            (agent_deviation(Distributed(once, GRAPH), i, rounds)[0],
             agent_deviation(Distributed(fading, GRAPH), i, rounds)[0])
            for i in (0, 4)
        ]  # fmt: skip
    for better, worse in pairs:
        for b in FAILURES:
            assert better.quantile(b).low <= worse.quantile(b).high
