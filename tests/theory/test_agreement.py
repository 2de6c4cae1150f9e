"""Rounds to agreement: exact where they can be, proved bounds elsewhere."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import ParameterError
from tacit.core.theory import accuracy, agreement
from tacit.core.theory.agreement import apart, disagreement, rounds_to_agreement
from tacit.core.theory.laplace_sum import LaplaceSum
from tacit.core.theory.rates import spectral_gap, step_sizes

STAR, KARATE, RING = (Graph.from_name(name) for name in ("star:8", "karate", "ring:12"))


def mechanisms():
    """Both kinds of noise, on graphs and around a server.

    With and without per-agent parameters.
    """
    rng = np.random.default_rng(8)
    found = []
    for graph in (STAR, KARATE, RING, Graph.from_edges([(0, 1)])):
        n = graph.n
        sigma, c, q = rng.uniform(0.1, 0.9, n), rng.uniform(0.2, 3, n), rng.uniform(0.3, 0.95, n)
        kinds = [Fading(sigma, c, q), OneShot(sigma, c)]
        if n > 2:  # two agents with one mixing move alike
            kinds += [Fading(0.6, 1.0, 0.8), OneShot(0.6, 1.0)]
        found += [Distributed(parameters, graph) for parameters in kinds]
        found += [ClientServer(Fading(sigma, c, q), n), ClientServer(OneShot(sigma, c), n)]
    return found


# ---- exact


@given(st.floats(0.001, 0.999), st.integers(1, 400), st.floats(1e-3, 1e6))
def test_exact_powers_are_met_exactly(sigma, rounds, spread):
    tolerance = spread * (1 - sigma) ** rounds
    if tolerance < 1e-290:
        return
    for mechanism in (ClientServer(Fading(sigma, 1, 0.9), 5), ClientServer(OneShot(sigma, 1), 5)):
        assert rounds_to_agreement(mechanism, tolerance, spread) == rounds
        assert rounds_to_agreement(mechanism, tolerance * (1 - 1e-9), spread) == rounds + 1
        assert disagreement(mechanism, rounds, spread) == pytest.approx(tolerance, rel=1e-12)


@pytest.mark.parametrize(
    ("sigma", "tolerance", "rounds"),
    [
        (0.5, 0.125, 3),
        (0.3, 0.49, 2),
        (0.2, 0.64, 2),
        (0.9, 1e-3, 3),
        (0.9, 1e-12, 12),
        (0.2, 1, 0),
        (0.2, 7, 0),
    ],
)
def test_decimals_mean_what_they_say(sigma, tolerance, rounds):
    """0.7² is 0.49, although neither is a binary number."""
    assert rounds_to_agreement(ClientServer(Fading(sigma, 1, 0.9), 5), tolerance, 1.0) == rounds


def test_exact_rounds_are_certain_whatever_the_noise():
    mechanism = Distributed(Fading(0.3, 100.0, 0.99), Graph.from_name("complete:4"))
    rounds = rounds_to_agreement(mechanism, 1e-3, 2.0)
    noise = np.random.default_rng(1).laplace(size=(rounds, 4)) * 100
    theta = mechanism.execute([-1, 1, 0, 0.5], noise).theta
    assert np.ptp(theta[rounds]) <= 1e-3 < np.ptp(theta[rounds - 1])


def test_a_billion_rounds():
    mechanism = ClientServer(Fading(1e-9, 1, 0.9999999999), 3)
    rounds = rounds_to_agreement(mechanism, 1e-3, 1.0)
    assert rounds == pytest.approx(math.log(1e3) * 1e9, rel=1e-8)
    assert disagreement(mechanism, rounds, 1.0) <= 1e-3 * (1 + 1e-6)
    slow = Distributed(Fading(1e-8, 1, 1 - 1e-10), RING)
    rounds = rounds_to_agreement(slow, 1e-3, 1.0)
    assert rounds > 10**9
    assert disagreement(slow, rounds, 1.0) <= 1e-3 < disagreement(slow, rounds // 2, 1.0)


# ---- the bound


@pytest.mark.parametrize(
    ("mechanism", "more"),
    [
        *(pytest.param(m, 3, marks=[pytest.mark.long] * (m.n == KARATE.n)) for m in mechanisms()),
        *(pytest.param(m, 40, marks=pytest.mark.long) for m in mechanisms()),
    ],
)
def test_the_bound_inverts_and_only_falls(mechanism, more):
    for tolerance, spread in ((1e-3, 1.0), (0.5, 10.0), (1e-6, 0.0), (1e3, 1.0)):
        rounds = rounds_to_agreement(mechanism, tolerance, spread)
        assert max(disagreement(mechanism, t, spread) for t in range(rounds, rounds + more)) <= tolerance
        later = [apart(mechanism, t, spread).pair for t in range(rounds, rounds + more)]
        assert max(later) <= tolerance
        assert sorted(later[1:], reverse=True) == later[1:] or rounds == 0
        bound = agreement._Bound.of(mechanism, spread, 0.05, None)
        falling = [bound.after(t, later=True).pair for t in range(rounds + 20)]
        assert sorted(falling, reverse=True) == falling
        assert rounds == 0 or falling[rounds - 1] > tolerance


def noise_weights(mechanism, rounds):
    """Return the weight of every draw in every agent's distance.

    It is at the draw's scale, and from the average; one column per draw.
    """
    n, drawn = mechanism.n, 1 if mechanism.shadowed else rounds
    scales = np.broadcast_to(mechanism.law.scales(rounds).reshape(rounds, -1), (rounds, n))[:drawn]
    noise = np.zeros((rounds, n, drawn * n))
    noise[:drawn] = np.diag(scales.ravel()).reshape(drawn, n, drawn * n)
    theta = mechanism.execute(np.zeros((n, drawn * n)), noise).theta[-1]
    gamma = 1 / step_sizes(mechanism)
    return theta - gamma @ theta / gamma.sum()


@pytest.mark.parametrize("mechanism", mechanisms())
@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_the_bounds_hold_for_exact_weights(mechanism, rounds):
    """E‖Z‖², Σ weight² and every weight are within the proof's bounds."""
    bound = agreement._Bound.of(mechanism, 1.0, 0.05, None)
    weights = noise_weights(mechanism, rounds)
    squares = np.sum(weights**2, axis=1)
    energy = np.sum(2 * squares / step_sizes(mechanism))
    for later in (False, True):
        total, largest = bound._weights(rounds, later)
        assert energy <= bound._energy(rounds, later) * (1 + 1e-9)
        assert squares.max() <= total * (1 + 1e-9)
        assert np.abs(weights).max() <= largest * (1 + 1e-9)
    if rounds == 1 and not mechanism.shadowed:
        assert energy == pytest.approx(bound._energy(1, later=False), rel=1e-9)  # no slack in round 0


@pytest.mark.parametrize("mechanism", mechanisms()[:8])
def test_the_bound_from_a_round_on_is_the_largest_of_all_later_ones(mechanism):
    bound = agreement._Bound.of(mechanism, 1.0, 0.05, None)
    for rounds in (1, 2, 5, 12):
        each = [bound._weights(t, later=False) for t in range(rounds, rounds + 300)]
        total, largest = bound._weights(rounds, later=True)
        assert max(t for t, _ in each) <= total * (1 + 1e-9)
        assert max(w for _, w in each) <= largest * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", mechanisms())
def test_the_certain_part_holds_for_every_start(mechanism):
    """Without noise, from the worst of many starts in [0, 1]^N."""
    rng = np.random.default_rng(3)
    starts = rng.integers(0, 2, size=(mechanism.n, 200)).astype(float)
    starts[0], starts[-1] = 0, 1
    theta = starts
    bound = agreement._Bound.of(mechanism, 1.0, 0.05, None)
    for rounds in range(1, 30):
        theta = mechanism.update(theta, mechanism.aggregate(theta))
        spectral = bound.pair * bound.start * math.exp(bound.log_rate * rounds)
        certain = spectral if bound.log_server is None else min(spectral, math.exp(bound.log_server * rounds))
        assert np.ptp(theta, axis=0).max() <= min(1, certain) * (1 + 1e-12)


@pytest.mark.parametrize("mechanism", mechanisms())
def test_simulated_agents_keep_to_the_bound(mechanism):
    """4,000 runs at b = .2; false alarm 10⁻⁶.

    That is if each left the bound with probability .2. Hardly any do.
    """
    rng = np.random.default_rng(11)
    runs, n = 4000, mechanism.n
    values = np.repeat(np.linspace(0, 1, n)[:, None], runs, axis=1)
    scale = np.broadcast_to(mechanism.law.scales(15).reshape(15, -1), (15, n))
    theta = mechanism.execute(values, rng.laplace(size=(15, n, runs)) * scale[:, :, None]).theta
    for rounds in (1, 4, 15):
        off = np.abs(theta[rounds] - accuracy.weights(mechanism) @ theta[rounds]).max(axis=0)
        allowed = apart(mechanism, rounds, 1.0, 0.2)
        outside = (np.ptp(theta[rounds], axis=0) > allowed.pair) | (off > allowed.own)
        assert np.sum(outside) <= stats.binom.isf(1e-6, runs, 0.2)


def test_more_agents_cost_the_logarithm_of_their_number():
    """Chernoff, agent by agent: Markov alone would grow with √N."""
    rounds = [
        rounds_to_agreement(Distributed(Fading(0.5, 1, 0.8), Graph.from_name(f"torus:4x{k}")), 1e-3, 1.0)
        * spectral_gap(Distributed(Fading(0.5, 1, 0.8), Graph.from_name(f"torus:4x{k}")))
        for k in (30, 120)
    ]
    assert rounds[1] - rounds[0] < math.log(2) + 0.5


def test_a_server_with_many_agents_is_close_to_certain():
    """One mean of many draws hardly spreads agents of different mixing."""
    rng = np.random.default_rng(1)
    few, many = (
        apart(ClientServer(Fading(rng.uniform(0.3, 0.6, n), 1.0, 0.8), n), 20, 1.0).pair for n in (100, 10**6)
    )
    assert many < few / 5
    assert 0.7**20 < many < 1.5 * 0.7**20


# ---- parts


@pytest.mark.parametrize(("a", "b"), [(0.9, 0.5), (0.5, 0.9), (0.8, 0.8), (0.8, 0.8 + 1e-13), (0.99999, 0.3)])
@pytest.mark.parametrize("rounds", [0, 1, 2, 9, 300])
def test_geometric_sums(a, b, rounds):
    def slow(t):
        return math.fsum(a ** (t - 1 - s) * b**s for s in range(t))

    log_b = np.array([math.log(b)])
    found = agreement._geometric(rounds, math.log(a), log_b, later=False)[0]
    assert found == pytest.approx(slow(rounds), rel=1e-9)
    if a < 0.999:
        largest = max(slow(t) for t in range(rounds, rounds + 100))
        later = agreement._geometric(rounds, math.log(a), log_b, later=True)[0]
        assert largest * (1 - 1e-12) <= later <= 1.2 * largest


@pytest.mark.parametrize("probability", [0.5, 0.05, 1e-8])
@pytest.mark.parametrize("weights", [[1.0], [1.0] * 20, [1.0, 0.5, 0.25], [0.01] * 1000])
def test_chernoff_is_on_the_safe_side_and_close(weights, probability):
    exact = LaplaceSum(np.array(weights), np.zeros(len(weights)), np.ones(len(weights)), 1).quantile(
        probability
    )
    y = agreement._chernoff(sum(w * w for w in weights), max(weights), probability)
    assert exact.low <= y <= 2.5 * exact.high + 2 * max(weights)
    assert y <= agreement._chernoff(2 * sum(w * w for w in weights), max(weights), probability)
    assert agreement._chernoff(0.0, 1.0, probability) == 0


def test_every_agent_has_its_share_of_the_failure_probability():
    """A union over N agents: each may fail with probability b/N."""
    mechanism = Distributed(Fading(0.6, 2.0, 0.8), STAR)
    bound = agreement._Bound.of(mechanism, 0.0, 0.05, None)
    each = agreement._chernoff(*bound._weights(1, later=False), 0.05 / 8)
    found = bound.after(1, later=False)
    assert found.own == pytest.approx(each)
    assert found.pair == pytest.approx(2 * each)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1.0, 0.05), "tolerance"),
        ((math.nan, 1.0, 0.05), "tolerance"),
        ((1.0, -1.0, 0.05), "spread"),
        ((1.0, math.inf, 0.05), "spread"),
        ((1.0, 1.0, 0.0), "failure probability"),
        ((1.0, 1.0, 1.0), "failure probability"),
    ],
)
def test_wrong_questions_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        rounds_to_agreement(ClientServer(Fading(0.5, 1, 0.9), 3), *arguments)


def test_rounds_are_whole_numbers():
    for rounds in (-1, 1.5):
        with pytest.raises(ParameterError, match="rounds"):
            disagreement(ClientServer(Fading(0.5, 1, 0.9), 3), rounds, 1.0)
