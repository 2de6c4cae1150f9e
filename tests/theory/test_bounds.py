"""What no private protocol can beat.

Checked by enumeration, least squares and exact radii.
"""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import LawError, ParameterError
from tacit.core.law import Constant
from tacit.core.law.base import Law
from tacit.core.theory import accuracy, bounds
from tacit.core.theory.optimum import best_fading, best_one_shot
from tacit.core.theory.privacy import epsilon

KARATE = Graph.from_name("karate")


# ---- every interactive protocol --------------------------------------------------------------------


class Bits:
    """Two agents in turn say a bit, twice.

    Its probability is linear in their value, and depends on what was said before.
    """

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.base, self.slope = {}, {}
        for said in (tuple(bits) for k in range(4) for bits in product((0, 1), repeat=k)):
            self.base[said] = rng.uniform(0.35, 0.65)
            self.slope[said] = rng.uniform(0.05, 0.3)

    def likelihoods(self, theta):
        """Return each agent's factor for each of the 16 transcripts.

        Also return its derivative by the agent's value.
        """
        factor, slope = np.ones((2, 16)), np.zeros((2, 16))
        for row, bits in enumerate(product((0, 1), repeat=4)):
            for t, bit in enumerate(bits):
                agent, said = t % 2, bits[:t]
                one = self.base[said] + self.slope[said] * theta[agent]
                p, d = (one, self.slope[said]) if bit else (1 - one, -self.slope[said])
                slope[agent, row] = slope[agent, row] * p + factor[agent, row] * d
                factor[agent, row] *= p
        return factor, slope

    def epsilons(self):
        """Return the largest score of each agent for values in [−1/2, 1/2].

        It is largest at one of the ends.
        """
        found = np.zeros(2)
        for theta in np.linspace(-0.5, 0.5, 41):
            factor, slope = self.likelihoods((theta, theta))
            found = np.maximum(found, np.abs(slope / factor).max(axis=1))
        return found

    def least_unbiased(self, theta):
        """Return the variance at θ of the best unbiased estimate.

        It estimates the average, and is unbiased for all values.
        """
        at = [np.array(pair) for pair in product((-0.5, 0.0, 0.5), repeat=2)]  # degree 2 in each value
        constraints = np.array([self.likelihoods(point)[0].prod(axis=0) for point in at])
        root = np.sqrt(self.likelihoods(theta)[0].prod(axis=0))
        means = np.array([point.mean() for point in at])
        scaled = np.linalg.lstsq(constraints / root, means, rcond=None)[0]  # least Σ L·R²
        assert constraints @ (scaled / root) == pytest.approx(means)  # such an estimate exists
        return float(scaled @ scaled) - np.mean(theta) ** 2


@pytest.mark.parametrize("seed", range(8))
def test_no_unbiased_estimate_from_an_interactive_protocol_beats_the_bound(seed):
    protocol = Bits(seed)
    eps = protocol.epsilons()
    for theta in ((0.0, 0.0), (0.3, -0.4), (0.5, 0.5)):
        assert protocol.least_unbiased(theta) >= bounds.least_variance(eps, 2)


@pytest.mark.parametrize("seed", range(4))
def test_the_information_of_an_interactive_protocol_is_diagonal(seed):
    factor, slope = Bits(seed).likelihoods((0.2, -0.1))
    score, likelihood = slope / factor, factor.prod(axis=0)
    assert likelihood.sum() == pytest.approx(1)
    assert score[0] @ (likelihood * score[1]) == pytest.approx(0, abs=1e-15)
    eps = Bits(seed).epsilons()
    for own, limit in zip(score, eps, strict=True):
        assert 0 < own @ (likelihood * own) <= limit**2


def test_a_shared_secret_breaks_the_bound_but_not_its_own():
    # A curator adds one draw to the sum of all values: variance 2/(Nε)².
    n, eps = 20, 0.5
    curator = 2 / (n * eps) ** 2
    assert curator < bounds.least_variance(eps, n)
    assert curator == pytest.approx(2 * bounds.least_variance(eps, n, shared_secrets=True))


@pytest.mark.parametrize("eps", [0.05, 0.5, 2.0])
def test_one_bit_reaches_the_bound_for_a_loss_at_one_distance(eps):
    b = 1 / math.tanh(eps)  # values in [−1, 1]: says +1 with probability ½ + θ/(2b); the estimate is ±b
    most, least = 0.5 + 1 / (2 * b), 0.5 - 1 / (2 * b)
    assert most / least == pytest.approx(math.exp(2 * eps))
    assert b**2 - 1 == pytest.approx(bounds.least_variance(eps, 1, distance=2))  # its variance at ±1
    assert bounds.least_variance(eps, 1, distance=2) < bounds.least_variance(eps, 1)
    assert bounds.least_variance(eps, 1, distance=1e-6) == pytest.approx(bounds.least_variance(eps, 1))


def test_each_agent_has_its_own_epsilon():
    eps = np.array([0.5, 1.0, 2.0])
    assert bounds.least_variance(eps, 3) == pytest.approx((4 + 1 + 0.25) / 9)
    assert bounds.least_variance(eps, 3, shared_secrets=True) == pytest.approx(4 / 9)
    assert bounds.least_variance(0.5, 3) == pytest.approx(bounds.least_variance(np.full(3, 0.5), 3))
    own = ClientServer(OneShot(0.4, 1 / eps), 3)
    assert bounds.best_possible(own) == pytest.approx(bounds.least_variance(eps, 3))
    assert bounds.times_least_variance(own) == pytest.approx(2)


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0.0}, {"epsilon": [1.0, 2.0]}, {"agents": 0}, {"distance": -1.0}, {"epsilon": "one"}],
)
def test_wrong_questions_are_refused(wrong):
    with pytest.raises(ParameterError):
        bounds.least_variance(**({"epsilon": 1.0, "agents": 3} | wrong))


# ---- how close each mechanism comes ----------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.05, 0.5, 0.8, 0.99])
def test_every_mechanism_is_as_close_as_the_proof_says(sigma):
    paper = 2 * sigma**2 / (1 - (1 - sigma) ** (2 / 3)) ** 3
    noise = best_fading(sigma, 0.3)
    for made in (
        ClientServer(noise, 9),
        Distributed(noise, KARATE, "metropolis"),
        Distributed(noise, KARATE),
    ):
        assert bounds.times_least_variance(made) == pytest.approx(paper)
    for made in (ClientServer(best_one_shot(sigma, 0.3), 9), Distributed(best_one_shot(sigma, 0.3), KARATE)):
        assert bounds.times_least_variance(made) == pytest.approx(2)
    keepers = ClientServer(noise, 9, 3)
    assert bounds.best_possible(keepers) == pytest.approx(1 / (9 * 0.3) ** 2)
    assert bounds.times_least_variance(keepers) == pytest.approx(3 * paper)
    assert bounds.best_possible(ClientServer(noise, 9)) == pytest.approx(bounds.least_variance(0.3, 9))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_no_schedule_of_noise_beats_the_bound_after_any_number_of_rounds(seed, rounds):
    rng = np.random.default_rng(seed)
    n, sigma = 5, rng.uniform(0.02, 0.98, 5)
    law = Fading(sigma, rng.lognormal(0, 2, n), rng.uniform(0.05, 0.95, n))
    for made in (ClientServer(law, n), Distributed(law, Graph.from_name("path:5"))):
        assert bounds.times_least_variance(made, rounds) >= 2 * (1 - 1e-12)  # Laplace noise: at best 2
    assert bounds.times_least_variance(ClientServer(OneShot(sigma, law.c), n), rounds) == pytest.approx(2)


def test_constant_noise_over_t_rounds_is_2t_times_the_bound():
    for rounds in (1, 7):
        made = ClientServer(Constant.best(0.3, 0.5, rounds), 4)
        assert bounds.times_least_variance(made, rounds) == pytest.approx(2 * rounds)


def test_nothing_is_compared_before_the_first_round():
    with pytest.raises(ParameterError, match="rounds"):
        bounds.times_least_variance(ClientServer(OneShot(0.5, 1.0), 3), 0)


# ---- the best linear estimate ----------------------------------------------------------------------


def least_squares(mechanism, rounds, target):
    """Return the variance of weighted least squares for Σ target·θ(0).

    It is on messages of the mechanism itself.
    """
    n, law = mechanism.n, mechanism.law
    zero, states = np.zeros((rounds, n)), np.zeros(n)
    columns = []
    for j in range(n):
        start = states.copy()
        start[j] = 1.0
        columns.append(mechanism.execute(start, zero).x.reshape(-1))  # how messages depend on θ_j(0)
    signal = np.column_stack(columns)
    noise = []
    for k in range(rounds * n):
        eta = np.zeros(rounds * n)
        eta[k] = 1.0
        noise.append(mechanism.execute(states, eta.reshape(rounds, n)).x.reshape(-1))
    each = np.broadcast_to(law.scales(rounds).reshape(rounds, -1), (rounds, n)).reshape(-1)
    spread = np.column_stack(noise)
    cov = spread @ np.diag(2 * each**2) @ spread.T
    information = signal.T @ np.linalg.solve(cov, signal)
    return float(target @ np.linalg.solve(information, target))


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize("sigma", [0.3, 0.8])
def test_the_linear_estimate_is_least_squares_on_the_messages(sigma, rounds):
    law, path = Fading(sigma, 1.3, 0.75), Graph.from_name("path:3")
    for made in (
        ClientServer(law, 3),
        Distributed(law, path),
        ClientServer(Fading(np.array([0.2, 0.5, 0.9]), 1.3, np.array([0.5, 0.7, 0.9])), 3),
        ClientServer(Constant(sigma, 1.3), 3),
    ):
        found = least_squares(made, rounds, accuracy.weights(made))
        assert bounds.linear_variance(made, rounds) == pytest.approx(found)


@pytest.mark.parametrize("sigma", [1e-6, 0.1, 0.5, 0.9, 0.999])
def test_the_papers_motion_loses_at_most_an_eighth(sigma):
    made = ClientServer(best_fading(sigma, 0.7), 11)
    rho = (1 - sigma) ** (2 / 3)
    linear = bounds.linear_variance(made)
    assert linear == pytest.approx(2 / (11 * 0.7**2) * (1 + rho) / (1 - rho), rel=1e-6)
    lost = accuracy.variance(made) / linear
    assert lost == pytest.approx(bounds.motion_loss(sigma), rel=1e-6)
    assert 1 < bounds.motion_loss(sigma) < 9 / 8
    keepers = ClientServer(best_fading(sigma, 0.7), 11, 2)
    assert accuracy.variance(keepers) / bounds.linear_variance(keepers) == pytest.approx(lost)


def test_the_loss_of_the_motion_rises_to_nine_eighths():
    found = [bounds.motion_loss(sigma) for sigma in (0.999999, 0.9, 0.5, 0.1, 1e-12)]
    assert found == sorted(found)
    assert found[-1] == pytest.approx(9 / 8)


def test_the_linear_estimate_of_other_laws():
    assert bounds.linear_variance(ClientServer(OneShot(0.4, 3.0), 5)) == pytest.approx(2 * 9 / 5)
    assert bounds.linear_variance(ClientServer(OneShot(0.4, 3.0), 5), 2) == pytest.approx(2 * 9 / 5)
    # where noise fades faster than influence, the messages give every value away
    assert bounds.linear_variance(ClientServer(Fading(0.4, 3.0, 0.5), 5)) == 0
    same = ClientServer(Fading(0.4, 3.0, 0.6), 5)
    assert bounds.linear_variance(same, 7) == pytest.approx(2 * 9 / 5 / 7)
    with pytest.raises(LawError, match="one mixing"):
        bounds.linear_variance(ClientServer(Fading(np.array([0.2, 0.4]), 3.0, 0.9), 2, 1))


def test_a_law_of_ones_own():
    class Harmonic(Law):
        name = "harmonic"

        def scale(self, u):
            return self.c / (u + 1)

    made = ClientServer(Harmonic(0.5, 2.0), 3)
    told = sum((0.5**t * (t + 1) / 2) ** 2 for t in range(4))
    assert bounds.linear_variance(made, 4) == pytest.approx(2 / told / 3)
    assert bounds.times_least_variance(made, 4) > 2
    for ask in (bounds.linear_variance, lambda m: bounds.settling_radius(m, 3, 0.1)):
        with pytest.raises(LawError):
            ask(made)


# ---- the tail --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [1, 3, 8])
def test_constant_and_one_shot_noise_have_the_least_tail(rounds):
    n, sigma, eps = 2, 0.3, 0.5
    least = (1 - (1 - sigma) ** rounds) / (n * eps)
    for law in (Constant.best(sigma, eps, rounds), best_one_shot(sigma, eps)):
        assert bounds.tail_scale(ClientServer(law, n), rounds) == pytest.approx(least)
    rng = np.random.default_rng(rounds)
    for q in rng.uniform(0.2, 0.99, 5):
        other = ClientServer(Fading(sigma, epsilon(Fading(sigma, 1.0, q), rounds) / eps, q), n)
        assert bounds.tail_scale(other, rounds) >= least * (1 - 1e-12)


@pytest.mark.parametrize(
    "law", [Constant.best(0.3, 0.5, 3), best_fading(0.3, 0.5, 3), best_one_shot(0.3, 0.5)]
)
def test_the_exact_radius_goes_to_the_limit(law):
    made = ClientServer(law, 2)
    far = [accuracy.radius(made, b, 3) / math.log(1 / b) for b in (1e-3, 1e-30, 1e-100, 1e-290)]
    limit = bounds.tail_scale(made, 3)
    assert far == sorted(far, reverse=True)
    assert limit < far[-1] < 1.05 * limit
    for b in (0.3, 1e-3, 1e-290):
        assert accuracy.radius(made, b, 3) >= limit * math.log(1 / (2 * b))


def test_the_table_of_the_proof():
    shown = {1: (2.61, 1.89, 1.32, 1.06), 5: (2.96, 2.49, 1.76, 1.19)}
    for n, row in shown.items():
        constant, once = (
            ClientServer(Constant.best(0.3, 0.5, 10), n),
            ClientServer(best_one_shot(0.3, 0.5), n),
        )
        found = [
            accuracy.radius(constant, b, 10) / accuracy.radius(once, b, 10)
            for b in (1e-2, 1e-6, 1e-30, 1e-290)
        ]
        assert found == pytest.approx(row, abs=0.006)


@pytest.mark.parametrize("b", [1e-100, 1e-6, 0.05, 0.4, 0.5, 0.9])
def test_no_radius_is_below_the_least(b):
    for n in (1, 3, 50):
        for made in (ClientServer(best_one_shot(0.5, 0.4), n), ClientServer(best_one_shot(0.5, 0.4), n, 1)):
            assert accuracy.radius(made, b) >= bounds.least_radius(0.4, n, b)
    curator = ClientServer(best_one_shot(0.5, 0.4), 50, 1)  # one draw of scale 1/(Nε): r = ln(1/b)/(Nε)
    if b < 1e-50:
        assert accuracy.radius(curator, b) / bounds.least_radius(0.4, 50, b) == pytest.approx(2, rel=0.01)
    assert bounds.least_radius(np.array([0.4, 2.0]), 2, 0.1) == bounds.least_radius(0.4, 2, 0.1)


# ---- almost sure convergence -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "law",
    [Fading(0.5, 1.0, 0.8), OneShot(0.3, 1.0), OneShot(np.array([0.2, 0.5, 0.9]), 1.0)],
    ids=["fading", "one-shot", "one-shot, several mixings"],
)
def test_the_average_never_leaves_the_settling_radius(law):
    made, rounds, runs, later = ClientServer(law, 3), 80, 20_000, 4
    scale = np.broadcast_to(law.scales(rounds).reshape(rounds, -1), (rounds, 3))[:, :, None]
    noise = np.random.default_rng(7).laplace(size=(rounds, 3, runs)) * scale
    path = np.einsum("tir,i->tr", made.execute(np.zeros((3, runs)), noise).theta, accuracy.weights(made))
    furthest = np.abs(path[later:] - path[-1]).max(axis=0)
    left = {b: int(np.sum(furthest > bounds.settling_radius(made, later, b) + 1e-6)) for b in (0.5, 0.1)}
    for b, count in left.items():  # a fixed seed; without one, within five deviations
        assert count <= b * runs + 5 * math.sqrt(b * (1 - b) * runs)
    assert left[0.5] > 0  # the radius is not absurdly wide


def test_the_settling_radius_goes_to_zero_and_needs_noise_that_fades():
    made = ClientServer(Fading(0.5, 1.0, 0.8), 3)
    assert bounds.settling_radius(made, 0, 0.1) == accuracy.radius(made, 0.05)
    assert bounds.settling_radius(made, 100, 0.1) < 1e-8
    with pytest.raises(LawError, match="settle"):
        bounds.settling_radius(ClientServer(Constant(0.5, 1.0), 3), 10, 0.1)


@pytest.mark.parametrize(
    "bound", [bounds.least_variance, partial(bounds.least_radius, failure_probability=0.1)]
)
def test_an_epsilon_for_each_agent_must_be_one_for_each(bound):
    with pytest.raises(ParameterError, match="7 agents"):
        bound([0.4, 2.0], 7)
