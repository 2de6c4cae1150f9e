"""Keepers: reference numbers, the exact law, and its consequences."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tacit import ClientServer, Constant, Fading, Graph, OneShot
from tacit.base.errors import ParameterError, StateError
from tacit.core.law import Law
from tacit.core.mechanism.lattice import Lattice
from tacit.core.theory import accuracy, agreement, influence, moments, privacy, selection
from tacit.core.theory.advice import right_at_most
from tacit.core.theory.answers import design
from tacit.core.theory.choosing import solve
from tacit.core.theory.endings import ending
from tacit.core.theory.optimum import best_fading
from tacit.core.theory.plan import Plan
from tacit.core.theory.trial import Trial
from tacit.core.theory.trust import price_of_trust
from tacit.core.theory.witness import find_witness

EACH = [0.2, 0.35, 0.5, 0.8]  # one mixing per agent
MECHANISMS = {
    "fading": ClientServer(Fading(0.5, 1, 0.9), agents=4, keepers=2),
    "fading, more keepers than agents": ClientServer(Fading(0.5, 1, 0.9), agents=4, keepers=6),
    "fading, each": ClientServer(Fading(EACH, 1, 0.9), agents=4, keepers=3),
    "constant": ClientServer(Constant(0.5, 1), agents=4, keepers=2),
    "one-shot": ClientServer(OneShot(0.5, 2), agents=4, keepers=3),
}
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)

# 1,000 agents, range 10, within 0.2 with 95% probability: the loss
LOSSES = {
    1: {"one-shot": 0.149787, 0.99: 0.158091, 0.8: 0.216290, 0.5: 0.314430},
    2: {"one-shot": 0.205650, 0.99: 0.217602, 0.8: 0.300683, 0.5: 0.440314},
    3: {"one-shot": 0.248430, 0.99: 0.263206, 0.8: 0.365669, 0.5: 0.537325},
    0: {"one-shot": 4.38307, 0.99: 4.65985},
}


@pytest.mark.parametrize(("keepers", "row"), LOSSES.items())
def test_design_answers_the_reference_losses(keepers, row):
    for kind, expected in row.items():
        how = {"law": "one-shot"} if kind == "one-shot" else {"mixing": kind}
        answer = design(agents=1000, radius=0.2, adjacency=10, keepers=keepers, **how)
        assert answer.promise.loss == pytest.approx(expected, rel=5e-6)
        assert answer.promise.radius <= 0.2
        assert answer.mechanism.keepers == keepers


@pytest.mark.parametrize(("keepers", "expected"), [(1, 0.0299573), (2, 0.0411300), (3, 0.0496860)])
def test_the_radius_falls_like_one_over_n(keepers, expected):
    radii = [design(agents=n, loss=1, keepers=keepers, law="one-shot").promise.radius for n in (100, 1000)]
    assert radii[0] == pytest.approx(expected, rel=2e-6)
    assert radii[0] / radii[1] == pytest.approx(10, rel=1e-6)


@pytest.mark.parametrize("t", [0.1, 1.0, 3.7, 12.0])
def test_one_shot_tails_in_closed_form(t):
    closed = {1: 1.0, 2: 1 + t / 2, 3: 1 + 5 * t / 8 + t * t / 8}
    for keepers, polynomial in closed.items():
        law = accuracy.deviation(ClientServer(OneShot(0.5, 1), agents=10, keepers=keepers))
        low, high = law.exceedance(t / 10)
        exact = math.exp(-t) * polynomial
        assert low <= exact * (1 + 1e-9)
        assert exact <= high * (1 + 1e-9)
        assert high - low < 1e-6


def test_variance_in_closed_form():
    sigma, c, q, n, m = 0.8, 10, 0.6, 500, 3
    mechanism = ClientServer(Fading(sigma, c, q), agents=n, keepers=m)
    assert accuracy.variance(mechanism) == pytest.approx(m * 2 * (sigma * c / n) ** 2 / (1 - q * q))
    assert accuracy.variance(mechanism, 7) == pytest.approx(
        m * 2 * (sigma * c / n) ** 2 * (1 - q**14) / (1 - q * q)
    )
    assert accuracy.variance(mechanism) == pytest.approx(
        2 * accuracy.d_tilde(mechanism) * c * c / (1 - q * q)
    )
    once = ClientServer(OneShot(sigma, c), agents=n, keepers=m)
    assert accuracy.variance(once) == pytest.approx(m * 2 * (c / n) ** 2)
    flat = ClientServer(Constant(sigma, c), agents=n, keepers=m)
    assert accuracy.variance(flat, 7) == pytest.approx(7 * m * 2 * (sigma * c / n) ** 2)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 0.95])
def test_best_noise_is_the_papers(sigma):
    def variance(q):
        return accuracy.variance(ClientServer(Fading(sigma, q / (q + sigma - 1), q), agents=50, keepers=2))

    least = minimize_scalar(variance, bounds=(1 - sigma + 1e-9, 1 - 1e-9), method="bounded")
    best = ClientServer(best_fading(sigma, 1.0), agents=50, keepers=2)
    assert best.law.q == pytest.approx((1 - sigma) ** (1 / 3))
    assert best.law.c == pytest.approx(1 / (1 - (1 - sigma) ** (2 / 3)))
    assert accuracy.variance(best) == pytest.approx(least.fun, rel=1e-6)


def test_epsilon_does_not_depend_on_who_adds_the_noise():
    law = Fading(0.8, 10, 0.6)
    for keepers in (0, 1, 5):
        assert privacy.epsilon(ClientServer(law, agents=7, keepers=keepers).law) == 0.15


def brute_force(mechanism, rounds):
    """Return the weight of every start and every draw in each state.

    Unit vectors are run.
    """
    n, m = mechanism.n, mechanism.sources
    draws = 1 if mechanism.shadowed else rounds
    starts = [mechanism.execute(row, np.zeros((rounds, m))).theta[-1] for row in np.eye(n)]
    noise = []
    for t in range(draws):
        eta = np.zeros((rounds, m))
        eta[t, 0] = 1
        noise.append(mechanism.execute(np.zeros(n), eta).theta[-1])
    return np.array(starts).T, np.array(noise).T  # (n, n), (n, draws)


@each_mechanism
def test_moments_and_deviation_equal_brute_force(mechanism):
    starts, noise = brute_force(mechanism, 6)
    scale = mechanism.noise_law.scales(6)[: noise.shape[1]]
    covariance = 2 * mechanism.keepers * (noise * scale**2) @ noise.T
    assert np.allclose(moments.second_moments(mechanism, 6), covariance, rtol=1e-10)
    weights = accuracy.weights(mechanism)
    assert accuracy.variance(mechanism, 6) == pytest.approx(weights @ covariance @ weights, rel=1e-10)
    assert np.allclose(weights @ starts, weights)
    for agent in range(4):
        law, bias = accuracy.agent_deviation(mechanism, agent, 6)
        assert law.variance == pytest.approx(covariance[agent, agent], rel=1e-10)
        assert bias == pytest.approx(0.5 * np.abs(starts[agent] - weights).sum(), abs=1e-12)


@each_mechanism
def test_a_state_stays_within_the_ending_radius(mechanism):
    """Worst starts, 2,000 runs, alarm rate 1e-6.

    More misses than 5% + 5.2 deviations have a probability below that.
    """
    rng, runs, rounds = np.random.default_rng(13), 2000, 8
    end = ending(mechanism, 0.05, rounds, spread=3.0)
    starts, noise = brute_force(mechanism, rounds)
    scale = mechanism.noise_law.scales(rounds)[: noise.shape[1]]
    drawn = rng.laplace(size=(runs, len(scale), mechanism.keepers)).sum(axis=2) * scale
    values = np.array([3.0, 0, 0, 0])
    states = starts @ values + drawn @ noise.T
    off = np.abs(states - accuracy.target(mechanism, values)).max(axis=1) > end.radius
    apart = np.ptp(states, axis=1) > end.disagreement * (1 + 1e-9)
    assert np.mean(off | apart) < 0.05 + 5.2 * math.sqrt(0.05 * 0.95 / runs)


def test_unequal_mixing_is_driven_apart_by_keepers_noise():
    """The bound covers agents that take in different shares of a draw."""
    mechanism, rounds = MECHANISMS["fading, each"], 12
    _, noise = brute_force(mechanism, rounds)
    scale, rng = mechanism.noise_law.scales(rounds), np.random.default_rng(3)
    drawn = rng.laplace(size=(4000, rounds, 3)).sum(axis=2) * scale
    found = agreement.disagreement(mechanism, rounds, 0.0, 0.01)
    assert found > 0
    assert np.mean(np.ptp(drawn @ noise.T, axis=1) > found) < 0.01 + 4.9 * math.sqrt(0.01 / 4000)


USED = [[0, 1, 2, 3], [0, 2, 3], [1, 2]]


@each_mechanism
def test_what_happened_equals_brute_force(mechanism):
    run = influence.server(mechanism, USED)
    n, m, rounds = 4, mechanism.keepers, len(USED)
    sigma = np.broadcast_to(mechanism.law.sigma, n)

    def final(theta, eta):
        y = None
        for t, used in enumerate(USED):
            if y is None or not mechanism.shadowed:
                y = (theta[used].sum() + eta[t].sum()) / len(used)
            theta = (1 - sigma) * theta + sigma * y
        return theta

    starts = np.array([final(row, np.zeros((rounds, m))) for row in np.eye(n)]).T
    scale = mechanism.noise_law.scales(rounds)
    for agent in range(n):
        value = run.agent(agent)
        assert np.allclose(value.weights, starts[agent], atol=1e-14)
        unit = np.eye(rounds * m).reshape(-1, rounds, m)
        each = [final(np.zeros(n), eta)[agent] * scale[np.argwhere(eta)[0, 0]] for eta in unit]
        assert value.noise.variance == pytest.approx(2 * np.sum(np.square(each)), rel=1e-9)


def test_what_happened_equals_theory_when_nobody_is_missing():
    for mechanism in MECHANISMS.values():
        run = influence.everyone(mechanism, 7)
        for b in (0.5, 0.01):
            assert run.average().radius(b) == pytest.approx(accuracy.radius(mechanism, b, 7), rel=1e-10)


def test_rounding_of_what_happened_is_that_of_all_messages():
    """The N agents round their messages, and not the few keepers."""
    lattice = Lattice(0, 1, bits=10)
    law = Fading(0.5, 1, 0.9)
    kept = influence.everyone(ClientServer(law, agents=50, keepers=1), 5, lattice)
    own = influence.everyone(ClientServer(law, agents=50), 5, lattice)
    assert kept.feedback().rounding == pytest.approx(own.feedback().rounding)


def test_keepers_open_one_update_at_a_time():
    with pytest.raises(StateError, match="must all be of update 1"):
        influence.server(MECHANISMS["fading"], [[0, 1], [0, 1]], updates=[[0, 0], [0, 1]])


@pytest.mark.parametrize("law", [Fading(0.5, 1, 0.8), OneShot(0.5, 1)])
def test_a_coordinator_that_selects_stays_within_the_radius(law):
    """3,000 runs, alarm rate 1e-6.

    It takes the quorum of the lowest values, whenever noise is negative.
    """
    n, least, rounds, rng = 20, 11, 10, np.random.default_rng(4)
    mechanism = ClientServer(law, agents=n, keepers=2)
    run = influence.server(mechanism, [range(least)] * rounds)
    value = run.feedback()
    found = selection.radius(run, value, 0.05, least=least)
    assert found > value.radius(0.05)
    scale = mechanism.noise_law.scales(rounds)
    z = rng.laplace(size=(3000, rounds, 2)).sum(axis=2) * scale
    # no values at all: what selection does to the noise alone is to make its part as large as it can
    state, off = np.zeros(3000), np.zeros(3000)
    for t in range(rounds):
        if t == 0 or not mechanism.shadowed:
            used = np.where(np.sign(z[:, t]) == np.sign(state), least, n)
            used = np.where(state == 0, least, used)
            off = state + z[:, t] / used
        state = state + 0.5 * (off - state)
    assert np.mean(np.abs(off) > found) < 0.05 + 5.2 * math.sqrt(0.05 * 0.95 / 3000)


@each_mechanism
def test_witness_looks_the_same_to_the_conspirators(mechanism):
    rng = np.random.default_rng(8)
    scales = mechanism.noise_law.scales(5)
    execution = mechanism.execute(rng.random(4), rng.laplace(size=(5, mechanism.keepers)) * scales[:, None])
    other = find_witness(execution, agent=2, shift=0.75)
    assert other.history.conspirators(2, 0).matches(execution.conspirators(2, 0))
    assert other.history.channels().matches(execution.channels())
    assert not other.history.conspirators(1, 0).matches(execution.conspirators(1, 0))
    sigma = float(np.broadcast_to(mechanism.law.sigma, 4)[2])
    bound = float(type(mechanism.noise_law)(**{**mechanism.noise_law.values(), "sigma": sigma}).epsilons(5))
    assert abs(other.log_likelihood_ratio) <= bound * 0.75 * (1 + 1e-9)


def test_nobody_sees_what_is_under_the_masks():
    execution = MECHANISMS["fading"].execute([1, 2, 3, 4], np.zeros((3, 2)))
    assert execution.channels().x is None
    assert execution.compromised([1]).x is None
    assert not execution.x.any()  # what agents send is as private as their states
    assert not execution.said.any()
    with pytest.raises(StateError, match="keepers"):
        execution.of(0)
    with pytest.raises(StateError, match="keeper from 0 to 1"):
        execution.conspirators(0, 2)


def test_one_shot_agents_move_towards_the_one_feedback():
    run = ClientServer(OneShot(0.5, 1), agents=2, keepers=1).execute([0, 4], [[2.0], [0], [0]])
    assert run.y.tolist() == [3, 3, 3]
    assert run.theta[-1].tolist() == [2.625, 3.125]


def test_vectors():
    mechanism = MECHANISMS["fading"]
    eta = np.random.default_rng(1).laplace(size=(5, 2, 3))
    values = np.arange(12.0).reshape(4, 3)
    together = mechanism.execute(values, eta)
    for component in range(3):
        alone = mechanism.execute(values[:, component], eta[:, :, component])
        assert np.array_equal(together.theta[..., component], alone.theta)
    one = accuracy.radius(mechanism, 0.05)
    assert accuracy.radius(mechanism, 0.05, components=3) > one


def test_price_of_trust():
    question = solve(Trial.of(Plan(agents=1000, radius=0.2, adjacency=10, keepers=2)))
    nobody, one, two, three = price_of_trust(question)
    assert [row.keepers for row in (nobody, one, two, three)] == [0, 1, 2, 3]
    assert two.radius == pytest.approx(0.2)
    assert two.loss == pytest.approx(0.205650, rel=1e-5)
    assert nobody.loss == pytest.approx(4.38307, rel=1e-5)
    assert one.loss == pytest.approx(0.149787, rel=1e-5)
    assert nobody.radius > two.radius > one.radius
    assert three.loss > two.loss
    assert right_at_most(nobody.loss) == "98.8%"
    assert right_at_most(two.loss) == "55.2%"


def test_four_sides():
    kept = design(agents=1000, radius=0.2, adjacency=10, keepers=2)
    back = design(agents=1000, loss=kept.promise.loss, adjacency=10, keepers=2)
    assert back.promise.radius == pytest.approx(0.2, rel=1e-6)
    size = design(radius=0.2, loss=kept.promise.loss * (1 + 1e-7), adjacency=10, keepers=2)
    assert size.mechanism.n == 1000
    failure = design(
        agents=1000, radius=0.2, loss=kept.promise.loss * (1 + 1e-7), adjacency=10, keepers=2,
        failure_probability=None,
    )  # fmt: skip
    assert failure.promise.failure_probability == pytest.approx(0.05, rel=1e-4)


@pytest.mark.long
def test_so_many_rounds():
    short = design(agents=1000, radius=0.2, adjacency=10, keepers=2, rounds=10, tolerance=0.1)
    assert short.promise.radius <= 0.2
    assert short.promise.disagreement <= 0.1


def test_refusals():
    with pytest.raises(ParameterError, match="keepers need a server"):
        design(graph=Graph.from_edges([(0, 1)]), radius=0.2, keepers=1)
    for law in (Fading(0.5, [1.0, 2.0], 0.9), Fading(0.5, 1, [0.8, 0.9])):
        with pytest.raises(ParameterError, match="must be one number if keepers add the noise"):
            ClientServer(law, agents=2, keepers=1)
    with pytest.raises(ParameterError, match="mixing must be one number if keepers add noise once"):
        ClientServer(OneShot([0.5, 0.6], 1), agents=2, keepers=1)
    for keepers in (-1, 1.5, True, 101, "2"):
        with pytest.raises(ParameterError, match="keepers must be a whole number from 0 to 100"):
            ClientServer(Fading(0.5, 1, 0.9), agents=2, keepers=keepers)
    with pytest.raises(StateError, match=r"shape \(rounds, 3\).*keeper"):
        ClientServer(Fading(0.5, 1, 0.9), agents=2, keepers=3).execute([0, 1], [[0, 0]])
    with pytest.raises(ParameterError, match="no shadows"):
        moments.shadow_second_moments(MECHANISMS["one-shot"], 3)


def test_a_law_of_one_source_serves_all_keepers():
    assert isinstance(MECHANISMS["fading, each"].noise_law, Law)
    assert MECHANISMS["fading, each"].noise_law.agents is None
