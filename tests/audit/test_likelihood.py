"""The ratio against the proof's own program, against densities written out, and against its bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import dlaplace, laplace

from tacit import ClientServer, Distributed, Fading, Graph, History, OneShot
from tacit.base.errors import StateError
from tacit.core.mechanism.lattice import Lattice
from tacit.core.noise import SimulatedNoise
from tacit.core.noise.accounting import account
from tacit.core.theory.privacy import epsilon, epsilons
from tacit.core.theory.witness import find_witness
from tacit.lab.audit import Deployed, Simulated, log_likelihood, log_likelihood_ratio, residuals
from tacit.lab.audit.likelihood import counted, log_likelihood_ratios, states
from tacit.lab.simulation.lattice import SimulatedWholeNoise, simulate_on_lattice

PATH = Graph.from_edges([(0, 1), (1, 2)])
PER_AGENT = Fading([0.8, 0.7, 0.6], [10.0, 5.0, 4.0], [0.6, 0.5, 0.7])
MECHANISMS = {
    "server": ClientServer(Fading(0.8, 10, 0.6), agents=3),
    "server, one-shot": ClientServer(OneShot(0.8, 10), agents=3),
    "server, per agent": ClientServer(PER_AGENT, agents=3),
    "graph": Distributed(Fading(0.5, 2, 0.9), PATH),
    "graph, one-shot": Distributed(OneShot([0.5, 0.6, 0.7], [1.0, 2.0, 3.0]), PATH),
    "graph, per agent": Distributed(PER_AGENT, PATH),
}


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("components", [None, 2])
@pytest.mark.parametrize("agent", [0, 2])
def test_ratio_equals_the_witness_of_the_proof(name, components, agent):
    mechanism = MECHANISMS[name]
    values = np.arange(3.0) if components is None else np.arange(6.0).reshape(3, 2)
    shift = 0.7 if components is None else np.array([0.7, -1.1])
    executions = [
        mechanism.execute(values, SimulatedNoise(5).draw(mechanism.law, 7, 3, components, run))
        for run in range(20)
    ]
    view = History.stack(executions).of(agent)
    ratio = log_likelihood_ratio(view, values[agent], values[agent] - shift)
    expected = [find_witness(e, agent, shift).log_likelihood_ratio for e in executions]
    assert ratio == pytest.approx(expected, abs=1e-9)
    # the same from densities
    both = log_likelihood(view, values[agent]) - log_likelihood(view, values[agent] - shift)
    assert ratio == pytest.approx(both, abs=1e-9)


def by_hand(session, start, sigma, scales):
    """Σ log p(noise) of one session: a new state per update, a new draw per update."""
    x, y, said, update = session
    total, state, last = 0.0, start, None
    for t in range(len(x)):
        if t and update[t] > update[t - 1]:
            state = (1 - sigma) * state + sigma * y[t - 1]
        if said[t] and update[t] != last:
            total += laplace.logpdf(x[t] - state, scale=scales[update[t]])
            last = update[t]
    return total


@pytest.mark.parametrize("name", ["server", "graph, per agent"])
def test_density_by_hand_where_agents_miss_rounds(name):
    mechanism = MECHANISMS[name]
    seen = Simulated(mechanism, misses=True)([1, 2, 3.0], 9, 30, 4)
    sigma, c, q = (np.broadcast_to(v, 3) for v in vars(mechanism.law).values())
    for agent in range(3):
        view = seen.of(agent)
        got = log_likelihood(view, 2.5)
        for run in range(30):
            session = view.x[run], view.y[run], view.said[run], view.update[0]
            expected = by_hand(session, 2.5, sigma[agent], c[agent] * q[agent] ** np.arange(9))
            assert got[run] == pytest.approx(expected, abs=1e-9)


def test_repetition_of_the_same_message_says_nothing_and_another_message_does():
    mechanism = MECHANISMS["server"]
    same = Simulated(mechanism, retries="repeat")([0, 0, 0.0], 5, 50, 1).of(0)
    once = Simulated(mechanism)([0, 0, 0.0], 5, 50, 1).of(0)
    assert same.x.shape[1] == 7
    assert np.array_equal(counted(same)[0], [True, False, True, True, True, True, False])
    assert counted(once).all()
    limit = epsilon(mechanism.law, 5)
    assert np.abs(log_likelihood_ratio(same, 0.0, 1.0)).max() <= limit + 1e-12
    redrawn = Simulated(mechanism, retries="redraw")([0, 0, 0.0], 5, 2000, 1).of(0)
    assert counted(redrawn).all()
    assert log_likelihood_ratio(redrawn, 0.0, 1.0).max() > limit + 0.09  # round 0 was paid for twice


@settings(max_examples=30, deadline=None)
@given(
    sigma=st.floats(0.05, 0.95),
    c=st.floats(0.1, 20),
    q=st.floats(0.1, 0.95),
    distance=st.floats(0.01, 10),
    seed=st.integers(0, 2**32),
)
def test_ratio_never_passes_the_promise_and_reaches_it(sigma, c, q, distance, seed):
    mechanism = ClientServer(Fading(sigma, c, q), agents=2)
    view = Simulated(mechanism, lattice=False)([0, 0], 4, 300, seed).of(0)
    ratio = log_likelihood_ratio(view, 0.0, distance)
    limit = distance * epsilon(mechanism.law, 4)
    assert np.abs(ratio).max() <= limit * (1 + 1e-9) + 1e-9
    # every noise on the far side has probability 2^-4 or more: 300 sessions miss it once in 10^8
    assert ratio.max() == pytest.approx(limit, rel=1e-9)


def test_prefixes_are_partial_sums():
    seen = Simulated(MECHANISMS["server"], retries="repeat")([0, 1, 2.0], 6, 10, 2)
    gains = log_likelihood_ratios(seen.of(1), 1.0, 1.5)
    for rounds in (1, 3, 6):
        part = seen.prefix(rounds)
        slots = part.x.shape[1]
        assert log_likelihood_ratio(part.of(1), 1.0, 1.5) == pytest.approx(gains[:, :slots].sum(axis=1))


def test_lattice_ratio_is_of_the_discrete_law_exactly():
    mechanism = MECHANISMS["server"]
    seen = Deployed(mechanism, 0, 4, seedable=True)([1, 2, 3.0], 6, 40, 3)
    view, agent = seen.of(1), Lattice.fitting(mechanism.law, 6, 0, 4).agent(mechanism.law)
    for start in (2.0, 2.75):
        expected = np.zeros(40)
        for run in range(40):
            state = agent.lattice.start(start)
            for u in range(6):
                shift = agent.message_exponent(u) - agent.lattice.state_exponent
                draw = int(seen.wholes.x[run, u, 1]) - agent.report(state, u, 0)
                assert shift >= 0
                expected[run] += dlaplace.logpmf(draw, 1 / agent.draw_scale(u))
                state = agent.update(state, seen.wholes.y[run, u])
        assert log_likelihood(view, start) == pytest.approx(expected, abs=1e-6)
        assert np.isfinite(expected).all()
    ratio = log_likelihood_ratio(view, 2.0, 2.75)
    assert ratio == pytest.approx(log_likelihood(view, 2.0) - log_likelihood(view, 2.75), abs=1e-9)
    assert np.abs(ratio).max() <= account(agent, 6, adjacency=0.75).total * (1 + 1e-12)


@pytest.mark.parametrize("name", ["server, per agent", "graph, per agent", "server, one-shot"])
def test_lattice_residuals_are_the_draws_to_the_last_step(name):
    mechanism, values = MECHANISMS[name], np.arange(6.0).reshape(3, 2) / 7
    lattice = Lattice.fitting(mechanism.law, 5, 0, 1)
    runs = simulate_on_lattice(mechanism, lattice, values, 5, noise=SimulatedWholeNoise(7), runs=25)
    assert runs.private is not None
    steps = np.ldexp(1.0, runs.exponent[0])
    for agent in range(3):
        view = runs.of(agent)
        drawn = runs.private.draws[:, :, agent].astype(float)
        exact = residuals(view, values[agent]) / steps[None, :, agent, None]
        told = counted(view)
        assert np.array_equal(exact[told], drawn[told])
        floats = view.x - states(view, values[agent])
        assert np.abs(exact * steps[None, :, agent, None] - floats)[told].max() <= steps.max()


def test_starts_may_differ_by_session():
    view = Simulated(MECHANISMS["graph"])([0, 1, 2.0], 4, 6, 2).of(0)
    starts = np.linspace(-1, 1, 6)
    together = log_likelihood_ratio(view, starts, 0.5)
    apart = [log_likelihood_ratio(view, s, 0.5)[i] for i, s in enumerate(starts)]
    assert together == pytest.approx(apart)
    assert log_likelihood_ratio(view, 0.5, starts) == pytest.approx(-together)


@pytest.mark.parametrize("start", [np.nan, np.inf, [1.0, 2.0]])
def test_starts_that_fit_nothing_are_refused(start):
    view = Simulated(MECHANISMS["server"])([0, 1, 2.0], 4, 6, 2).of(0)
    with pytest.raises(StateError):
        log_likelihood_ratio(view, start, 0.0)


def test_per_agent_promises_differ():
    seen = Simulated(MECHANISMS["graph, per agent"])([0, 0, 0.0], 5, 3000, 2)
    for agent, limit in enumerate(epsilons(PER_AGENT, 5)):
        assert log_likelihood_ratio(seen.of(agent), 0.0, 1.0).max() == pytest.approx(limit, rel=1e-9)
