"""Privacy by brute force: two worlds, the very same messages, and what the noise must have been."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from tacit import Graph
from tacit.base.errors import ParameterError
from tacit.lab.comparison import Case
from tacit.lab.comparison.gossip import Gossip, leverages, mean_leverage
from tacit.lab.comparison.laplacian import Laplacian
from tacit.lab.comparison.method import likeliest_start
from tacit.lab.comparison.paper import ConstantNoise
from tacit.lab.comparison.zero_sum import ZeroSum

PURE = ("server", "server-one-shot", "graph", "constant", "laplacian", "one-shot")
THETA = np.array([0.3, -0.2, 0.9, 0.1])
GRAPH = Graph.from_edges([(0, 1), (1, 2), (2, 3), (1, 3)])  # degrees 1, 3, 2, 2


def case(**given):
    return Case(GRAPH, **({"epsilon": 0.7, "rounds": 6, "mixing": 0.6} | given))


def attack_deviation(method):
    """How far off the attack on zero-sum noise is, by the module's closed form: s/√(Σ_{t<T} φ^{−2t})."""
    return method.s / math.sqrt(sum(method.phi ** (-2 * t) for t in range(method.rounds)))


def log_ratio(method, black_box, agent, shift, noise):
    """Σ|η'| − |η| where η' says the same from the shifted start. Knows nothing of the method's formulas."""
    here, shifted = black_box(method, THETA), THETA.copy()
    shifted[agent] += shift
    there, total = black_box(method, shifted), 0.0
    for eta in noise:
        mark = there.rng.draws
        x, _ = here.say(eta)
        drew = here.rng.draws > mark
        needed = np.array(eta, dtype=float)
        if drew:
            scale = unit_scale(method, black_box, agent, here.rng.draws - 1)
            needed[agent] = (x[agent] - float(there.states[agent, 0])) / scale
            total += abs(needed[agent]) - abs(eta[agent])
        same, _ = there.say(needed)
        np.testing.assert_allclose(same, x, rtol=0, atol=1e-9)
    return total


def unit_scale(method, black_box, agent, t):
    """What one unit of noise in round t adds to the message, found by trying it."""
    without, with_one = black_box(method, THETA), black_box(method, THETA)
    none, one = np.zeros(len(THETA)), np.eye(len(THETA))[agent]
    for k in range(t + 1):
        plain, _ = without.say(none)
        louder, _ = with_one.say(one if k == t else none)
    return float(louder[agent] - plain[agent])


@pytest.mark.parametrize("name", PURE)
@pytest.mark.parametrize("agent", [0, 1])
def test_epsilon_is_the_worst_case_of_the_likelihood_ratio(name, agent, tuned, black_box):
    method = tuned(name, case())
    promised = method.guarantee.epsilon
    assert promised <= 0.7
    rng, shift = np.random.default_rng(5), 1.7
    for noise in rng.laplace(size=(20, method.rounds, len(THETA))):
        assert log_ratio(method, black_box, agent, shift, noise) <= promised * shift * (1 + 1e-9)
    # all noise far out on one side: every message costs all it can
    worst = log_ratio(method, black_box, agent, shift, np.full((method.rounds, len(THETA)), -50.0))
    assert worst == pytest.approx(promised * shift, rel=1e-9)


@pytest.mark.parametrize(("s", "q"), [(0.4, 0.8), (1.3, 0.5), (1.7, 0.9), (1.0, 0.4)])
def test_the_whole_laplacian_family(s, q, black_box):
    method = Laplacian(case(), s, 1.3, q)
    sign = np.sign(1 - s) or 1.0
    noise = -50.0 * (sign ** np.arange(6))[:, None] * np.ones(len(THETA))
    assert log_ratio(method, black_box, 2, 1.0, noise) == pytest.approx(method.epsilon, rel=1e-9)


def test_agents_of_the_family_may_differ(black_box):
    s, c, q = np.array([0.5, 1.0, 1.2, 0.8]), np.array([1.0, 2.0, 3.0, 0.6]), np.array([0.9, 0.1, 0.7, 0.5])
    method = Laplacian(case(), s, c, q)
    each = []
    for agent in range(4):
        sign = np.sign(1 - s[agent]) or 1.0
        noise = -50.0 * (sign ** np.arange(6))[:, None] * np.ones(4)
        each.append(log_ratio(method, black_box, agent, 1.0, noise))
    expected = [sum((abs(1 - s[i]) / q[i]) ** t for t in range(6)) / c[i] for i in range(4)]
    np.testing.assert_allclose(each, expected, rtol=1e-9)
    assert method.epsilon == pytest.approx(max(expected), rel=1e-12)


def test_nothing_in_the_family_beats_one_shot_noise(tuned):
    best = tuned("one-shot", case()).error(0.05).deviation
    assert best == pytest.approx(math.sqrt(2 / 4) / 0.7)
    for s in (0.2, 0.95, 1.2):
        for q in np.linspace(abs(s - 1) + 0.01, 0.99, 4):
            member = Laplacian(case(), s, 1.0, q)
            scaled = Laplacian(case(), s, member.epsilon / 0.7, q)
            assert scaled.epsilon == pytest.approx(0.7)
            assert scaled.error(0.05).deviation > best * 0.999999


def test_the_tuned_member_has_the_best_decay_and_s_beats_its_mirror(tuned):
    best = tuned("laplacian", case())
    for q in (0.5, 0.7, 0.8, 0.95):
        other = Laplacian(case(), 0.6, Laplacian(case(), 0.6, 1.0, q).epsilon / 0.7, q)
        assert other.error(0.05).deviation >= best.error(0.05).deviation
    mirror = Laplacian(case(), 1.4, best.c, best.q)
    assert mirror.epsilon == pytest.approx(best.epsilon)
    assert mirror.error(0.05).deviation == pytest.approx(best.error(0.05).deviation * 1.4 / 0.6)


@pytest.mark.parametrize(("s", "q"), [(0.5, 0.5), (0.5, 0.3), (2.0, 0.9), (0.0, 0.9), (0.9, 1.0), (0.9, 0.0)])
def test_members_without_privacy_are_refused(s, q):
    with pytest.raises(ParameterError, match="needs s in"):
        Laplacian(case(), s, 1.0, q)


def test_constant_noise_pays_for_every_round(tuned):
    few, many = (tuned("constant", case(rounds=rounds)) for rounds in (5, 50))
    assert isinstance(few, ConstantNoise)
    assert few.epsilon <= 0.7 < few.epsilon * (1 + 1e-12)
    # the average takes in every round's noise: variance grows with the rounds, and never settles
    ratio = many.error(0.05).deviation / few.error(0.05).deviation
    assert ratio == pytest.approx(math.sqrt(10), rel=0.2)


def test_the_likeliest_start_is_the_maximum_of_the_likelihood():
    rng, keeps, scales = np.random.default_rng(3), 0.6, 2.0 * 0.8 ** np.arange(7)
    x, y = rng.normal(size=(2, 7, 30))
    found = likeliest_start(x, y, keeps, scales)

    def likelihood(start):
        state, total = np.broadcast_to(start, found.shape).copy(), 0.0
        for t in range(7):
            total = total - np.abs(x[t] - state) / scales[t]
            state = keeps * state + y[t]
        return total

    for step in (-1.0, -0.1, -1e-3, 1e-3, 0.1, 1.0):
        assert (likelihood(found) >= likelihood(found + step) - 1e-12).all()


# Zero-sum noise


def spread_of_start(of_theta, of_noise, heard, agent):
    """Deviation of the best linear unbiased guess of one start from some of the messages."""
    a, b = of_theta[heard], of_noise[heard]
    seen = np.linalg.pinv(b @ b.T, rcond=1e-12)
    information = a.T @ seen @ a
    pinned = np.linalg.pinv(information, rcond=1e-10)
    unit = np.eye(a.shape[1])[agent]
    if not np.allclose(information @ (pinned @ unit), unit, atol=1e-6):
        return math.inf
    return math.sqrt(pinned[agent, agent])


@pytest.mark.parametrize("rounds", [1, 3, 6])
def test_an_eavesdropper_on_everything_undoes_zero_sum_noise(rounds, linear):
    method = ZeroSum(case(rounds=rounds), s=1.3, phi=0.7)
    of_theta, of_noise = linear(method, 4)
    everything = np.ones(rounds * 4, dtype=bool)
    for agent in range(4):
        best = spread_of_start(of_theta, of_noise, everything, agent)
        assert attack_deviation(method) == pytest.approx(best, rel=1e-6)


def test_a_neighbourhood_is_enough_and_less_is_not(linear):
    path = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4)])
    found = {}
    for rounds in (4, 8):
        method = ZeroSum(Case(path, epsilon=1.0, rounds=rounds), s=1.0, phi=0.6)
        of_theta, of_noise = linear(method, 5)
        who = np.tile(np.arange(5), rounds)
        for name, agents in (("closed", (0, 1, 2)), ("one missing", (0, 1))):
            heard = np.isin(who, agents)
            found[name, rounds] = spread_of_start(of_theta, of_noise, heard, 1)
        assert found["closed", rounds] == pytest.approx(attack_deviation(method), rel=1e-6)
    assert found["closed", 8] < 0.3 * found["closed", 4]
    assert found["one missing", 8] > 0.3  # and does not vanish with the rounds


def test_the_average_of_zero_sum_noise_is_exact_in_the_end(black_box):
    method = ZeroSum(case(rounds=40), s=1.0, phi=0.5)
    box, rng = black_box(method, THETA), np.random.default_rng(1)
    for _ in range(40):
        box.say(rng.normal(size=4))
    assert box.states.mean() == pytest.approx(THETA.mean(), abs=1e-10)
    assert method.guarantee.epsilon is None
    assert method.guarantee.kind == "none"


# Gossip


def view_of(method, linear, watcher, n):
    """Projection leverages from the messages that really reach one agent."""
    of_theta, _ = linear(method, n)
    heard = np.isin(np.tile(np.arange(n), method.rounds), method.case.graph.neighbours(watcher))
    rows = np.vstack([of_theta[heard], np.eye(n)[watcher]])
    _, sizes, right = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return (right[: int((sizes > 1e-9).sum())] ** 2).sum(axis=0)


@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("name", ["ring:12", "star:7", "regular:14:3:seed=2"])
def test_leverages_are_those_of_the_messages(name, rounds, linear):
    job = Case(Graph.from_name(name), epsilon=1.0, rounds=rounds)
    method = Gossip(job, 1.0, rounds)
    for watcher in (0, 3):
        expected = view_of(method, linear, watcher, job.graph.n)
        np.testing.assert_allclose(leverages(job, watcher, rounds), expected, atol=1e-7)


def test_the_loss_between_two_worlds_is_the_leverage(linear):
    """KL divergence of what one agent hears, from the joint Gaussian itself: leverage/(2s²)."""
    job = Case(Graph.from_name("regular:14:3:seed=2"), epsilon=1.0, rounds=3)
    of_theta, _ = linear(Gossip(job, 1.0, 3), 14)  # noise enters as values do
    heard = np.isin(np.tile(np.arange(14), 3), job.graph.neighbours(0))
    rows = np.vstack([of_theta[heard], np.eye(14)[0]])
    for agent in range(1, 14):
        shift, s = rows[:, agent], 1.7
        loss = shift @ np.linalg.pinv(s**2 * rows @ rows.T, rcond=1e-10) @ shift / 2
        assert leverages(job, 0, 3)[agent] / (2 * s**2) == pytest.approx(loss, abs=1e-7)


def message_sum(case, watcher, rounds):
    """Σ_t Σ_{w∼v} (W^t)²_wu/‖(W^t)_w‖² of every u: the messages' own leverages, added up.

    This is not an upper bound on `leverages`: messages share their noise, and together they reveal more.
    """
    heard = case.graph.neighbours(watcher)
    rows = np.zeros((case.graph.n, len(heard)))
    rows[heard, np.arange(len(heard))] = 1.0
    total = np.zeros(case.graph.n)
    for _ in range(rounds):
        total += np.sum(rows**2 / np.sum(rows**2, axis=0), axis=1)
        rows = np.asarray(case.gossip_matrix @ rows)
    return total


def test_adding_up_messages_as_if_independent_gives_too_little():
    job = Case(Graph.from_name("ring:40"), epsilon=1.0)
    exact, added = leverages(job, 0, 8), np.minimum(message_sum(job, 0, 8), 1)
    far = 7  # edges away from the watcher
    assert exact[far] > 0.5
    assert added[far] < 0.01
    # on average over agents both count the messages, as long as none is capped
    assert exact.sum() - 1 == pytest.approx(message_sum(job, 0, 8).sum(), abs=1e-6)


def test_neighbours_are_not_protected_from_each_other():
    job = Case(Graph.from_name("regular:60:3:seed=1"), epsilon=1.0)
    seen = leverages(job, 5, 6)
    np.testing.assert_allclose(seen[job.graph.neighbours(5)], 1.0)
    assert seen.max() <= 1


@pytest.mark.parametrize("name", ["regular:60:3:seed=1", "star:20", "regular:300:4:seed=1"])
def test_the_average_over_pairs_is_bounded_by_counting(name):
    job = Case(Graph.from_name(name), epsilon=1.0)
    n, rounds = job.graph.n, 5
    watchers = range(0, n, max(1, n // 20))
    sampled = [(leverages(job, v, rounds).sum() - 1) / (n - 1) for v in watchers]
    counted = np.minimum(1, job.graph.degrees * rounds / (n - 1))
    assert (np.array(sampled) <= counted[list(watchers)] + 1e-9).all()
    assert mean_leverage(job, rounds) <= counted.mean() * (1 + 1e-8)


@pytest.mark.parametrize("adjacency", [1.0, 4.0])
def test_gossip_has_the_epsilon_asked_for_on_average(adjacency, tuned):
    job = Case(Graph.from_name("regular:300:4:seed=1"), epsilon=0.5, adjacency=adjacency)
    method = tuned("gossip", job)
    given = method.guarantee
    assert given.kind == "per pair"
    assert given.epsilon == pytest.approx(0.5, rel=1e-6)
    assert given.epsilon < given.by_distance[0][1] == pytest.approx(given.worst)
    assert [d for d, _ in given.by_distance] == list(range(1, len(given.by_distance) + 1))

    def failure(epsilon, leverage):  # of a Gaussian mechanism, Balle and Wang 2018
        mu, loss = adjacency * math.sqrt(leverage) / method.s, epsilon * adjacency
        return norm.cdf(mu / 2 - loss / mu) - math.exp(loss) * norm.cdf(-mu / 2 - loss / mu)

    assert failure(given.epsilon, mean_leverage(job, method.rounds)) == pytest.approx(1e-6, rel=1e-3)
    assert failure(given.worst, 1.0) == pytest.approx(1e-6, rel=1e-3)


def test_gossip_keeps_the_average_and_contracts_like_chebyshev(black_box):
    job = Case(Graph.from_name("ring:20"), epsilon=1.0, rounds=15)
    theta = np.cos(np.arange(20) * 2 * np.pi / 20)  # the slowest mode
    box = black_box(Gossip(job, 1.0, 15), theta)
    for t in range(1, 16):
        box.say(np.zeros(20))
        assert abs(box.states.mean()) < 1e-12
        expected = 1 / math.cosh(t * math.acosh(1 / job.rate))
        assert np.ptp(box.states) == pytest.approx(2 * expected, rel=1e-6)
