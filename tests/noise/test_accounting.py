"""What messages cost: exact recursions, and (ε, δ) beside them.

The bounds hold for every feedback.
"""

import math
from fractions import Fraction
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from tacit import Fading, OneShot
from tacit.base.errors import ParameterError
from tacit.core.mechanism.lattice import Lattice
from tacit.core.noise import account, delta_for_epsilon, epsilon_delta, horizon
from tacit.core.noise.accounting import sensitivities
from tacit.core.theory.finite_precision import lattice_loss
from tacit.core.theory.privacy import epsilon, loss

PAPER = Fading(sigma=0.8, c=10, q=0.6)
SLOW = Fading(sigma=0.1, c=10, q=0.92)
parameters = st.builds(Fading, st.floats(0.05, 0.95), st.floats(0.1, 100), st.floats(0.3, 0.99))


def exact_loss(agent, messages, adjacency, k):
    """The bound of the proof page, in fractions: Σ m_u·g_u/b_u."""
    s = Fraction(agent.lattice.state_step)
    keep = 1 - Fraction(agent.law.sigma)
    apart, total = math.ceil(Fraction(adjacency) / s) + k - 1, Fraction(0)
    for u in range(messages):
        g = Fraction(2) ** agent.message_exponent(u)
        steps = math.floor((apart * s + k * (g - s)) / g)
        total += steps * g / Fraction(agent.scale(u))
        apart = math.floor(keep * apart + k * (1 - Fraction(1, keep.denominator)))
    return total


@settings(max_examples=40, deadline=None)
@given(parameters, st.integers(1, 40), st.floats(0.1, 3), st.integers(1, 4))
def test_the_account_covers_the_exact_sum_and_hardly_more(p, messages, adjacency, k):
    agent = Lattice.fitting(p, messages, 0, 1).agent(p)
    book = account(agent, messages, adjacency=adjacency, components=k)
    exact = exact_loss(agent, messages, adjacency, k)
    assert exact <= Fraction(book.total) <= exact * (1 + Fraction(1, 2**48))
    assert book.total == book.spent[-1]
    assert np.all(np.diff(book.spent) >= 0)


@settings(max_examples=40, deadline=None)
@given(parameters, st.integers(1, 40), st.floats(0.1, 3), st.integers(1, 4))
def test_it_lies_between_the_loss_on_reals_and_the_coarser_bound_of_theory(p, messages, adjacency, k):
    lattice = Lattice.fitting(p, messages, 0, 1)
    total = account(lattice.agent(p), messages, adjacency=adjacency, components=k).total
    bound = lattice_loss(p, messages, adjacency=adjacency, state_step=lattice.state_step, components=k).total
    assert total <= bound
    # the scale is rounded up by less than 2^-52 of it, so the loss may be that much lower
    assert total >= loss(p, adjacency, messages) * (1 - 2**-50)


def test_in_the_limit_of_a_fine_lattice_it_is_lemma_1():
    for p, rounds in ((PAPER, 60), (SLOW, 400)):
        fine = account(Lattice.fitting(p, rounds, 0, 1, bits=51).agent(p), rounds).total
        assert fine == pytest.approx(epsilon(p, rounds), rel=1e-12)


def test_the_numbers_of_the_theory_page():
    agent = Lattice(0, 1, state_exponent=-120).agent(PAPER)
    assert 0.15 < account(agent, 100).total < 0.1500000001
    rounds = 406  # a float state spends 5.21 here: tests/mechanism/test_lattice.py
    spent = account(Lattice.fitting(SLOW, rounds, 0, 1).agent(SLOW), rounds).total
    assert spent == pytest.approx(epsilon(SLOW, rounds), rel=1e-8)
    assert spent < 4.6


coarse = st.builds(Lattice, st.just(-4), st.just(4), st.integers(-44, -6), st.integers(8, 40), st.just(12))


@settings(max_examples=200, deadline=None)
@given(coarse, parameters.filter(lambda p: p.c < 60), st.integers(1, 3), st.data())
def test_no_feedback_drives_two_neighbours_further_apart(lattice, p, k, data):
    """Messages of two adjacent vectors obey m_u.

    Both get the same public feedback, however chosen.
    """
    agent = lattice.agent(p)
    numbers = st.floats(-4, 4)
    a = data.draw(st.lists(numbers, min_size=k, max_size=k))
    b = data.draw(st.lists(numbers, min_size=k, max_size=k))
    adjacency = sum(abs(Fraction(x) - Fraction(y)) for x, y in zip(a, b, strict=True))
    if not adjacency:
        return
    adjacency = math.nextafter(float(adjacency), math.inf)
    one, two = lattice.start(a), lattice.start(b)
    feedback = st.lists(st.integers(-lattice.limit, lattice.limit), min_size=k, max_size=k)
    for u, bound in enumerate(sensitivities(agent, adjacency, k)):
        silent = np.zeros(k, dtype=np.int64)
        assert sum(abs(agent.report(one, u, silent) - agent.report(two, u, silent))) <= bound
        if u == 6:
            break
        y = np.array(data.draw(feedback), dtype=object)
        one, two = agent.update(one, y), agent.update(two, y)


def test_the_bound_is_reached():
    agent = Lattice(0, 64, state_exponent=0, bits=8, reach_exponent=20).agent(Fading(0.25, 2.0**9, 0.99))
    agents = range(0, 40)
    apart = [
        abs(agent.report(agent.lattice.start(v), 0, 0) - agent.report(agent.lattice.start(v + 5), 0, 0))
        for v in agents
    ]
    later = [
        abs(agent.report(agent.update(v, y), 1, 0) - agent.report(agent.update(v + 5, y), 1, 0))
        for v in agents
        for y in range(40)
    ]
    assert [max(apart), max(later)] == list(islice(sensitivities(agent, 5.0), 2))


def test_every_component_may_round_away_from_its_neighbour():
    agent = Lattice(0, 64, state_exponent=0, bits=8, reach_exponent=20).agent(Fading(0.25, 2.0**8, 0.99))
    assert agent.lattice.start([0.0, 0.0]).tolist() == [0, 0]
    assert agent.lattice.start([0.5, 0.5]).tolist() == [1, 1]  # apart by 1, on the lattice by 2
    assert next(sensitivities(agent, 1.0, components=2)) == 2


# the horizon


@settings(max_examples=25, deadline=None)
@given(
    st.builds(Fading, st.floats(0.2, 0.95), st.floats(0.1, 100), st.floats(0.3, 0.8)),
    st.floats(0.001, 5),
    st.floats(0.1, 3),
)
def test_the_horizon_is_the_last_message_within_the_cap(p, cap, adjacency):
    agent = Lattice(0, 1, state_exponent=-60, reach_exponent=20).agent(p)
    allowed = horizon(agent, cap, adjacency=adjacency)
    assert account(agent, allowed, adjacency=adjacency).total <= cap
    if allowed < horizon(agent, math.inf, adjacency=adjacency):
        assert account(agent, allowed + 1, adjacency=adjacency).total > cap


def test_on_a_lattice_a_run_ends_even_where_lemma_1_has_no_end():
    agent = Lattice(0, 1, state_exponent=-60).agent(PAPER)
    assert horizon(agent, 0.2) < horizon(agent, 1e6) <= horizon(agent, math.inf)
    with pytest.raises(ParameterError, match="too coarse for the noise after"):
        account(agent, horizon(agent, math.inf) + 1)


def test_what_was_spent_before_counts():
    agent = Lattice(0, 1, state_exponent=-120).agent(PAPER)
    book = account(agent, 5)
    assert horizon(agent, 1.0, spent=1.0 - book.spent[2]) in (2, 3)
    assert horizon(agent, 1.0, spent=math.nextafter(1.0, 2)) == 0
    assert horizon(agent, 0.0) == 0


def test_one_shot_noise_costs_once():
    agent = Lattice(0, 1).agent(OneShot(0.3, 10.0))
    book = account(agent, 4, adjacency=2.0)
    assert book.per_message[1:].tolist() == [0, 0, 0]
    assert book.total == pytest.approx(0.2, rel=1e-11)
    assert horizon(agent, 0.3, adjacency=2.0) is None
    assert horizon(agent, 0.1, adjacency=2.0) == 0


# (ε, δ)


def hockey(lam, eps):
    """δ(ε) of one Laplace message, for every real ε."""
    if eps >= lam:
        return 0.0
    return -math.expm1((eps - lam) / 2) if eps >= -lam else -math.expm1(eps)


def two_messages(first, second, eps):
    """δ(ε) of two Laplace messages, by integrating over the loss of the first."""
    ends = 0.5 * hockey(second, eps - first) + 0.5 * math.exp(-first) * hockey(second, eps + first)
    kinks = [p for p in (eps - second, eps + second) if -first < p < first]
    middle, _ = quad(
        lambda v: 0.25 * math.exp(-(first - v) / 2) * hockey(second, eps - v),
        -first,
        first,
        points=kinks or None,
        epsabs=1e-13,
        limit=200,
    )
    return ends + middle


@pytest.mark.parametrize("p", [Fading(0.5, 2.0, 0.7), Fading(0.3, 0.5, 0.9), Fading(0.9, 10.0, 0.3)])
def test_two_messages_against_integration(p):
    first, second = 1 / p.c, (1 - p.sigma) / (p.c * p.q)
    for share in (0.0, 0.2, 0.5, 0.9, 0.99):
        eps = share * (first + second)
        exact = two_messages(first, second, eps)
        ours = delta_for_epsilon(p, 2, 1.0, eps)
        assert exact - 1e-12 <= ours <= exact * 1.001 + 1e-9
        assert epsilon_delta(p, 2, 1.0, ours) == pytest.approx(eps, abs=2e-3 * (first + second))


@settings(deadline=None)
@given(st.floats(0.6, 40), st.integers(1, 30), st.floats(0, 1))
@example(1.0, 1, 0.0)
def test_discrete_noise_loses_no_more_than_real_noise_with_a_little_more(t, m, share):
    """docs/proofs/lattice.md, section 6: λ = m/t + 1/(4t²) dominates."""
    eps = share * m / t
    k = np.arange(-2000, 2000 + m)
    p, q = (math.tanh(1 / (2 * t)) * np.exp(-np.abs(k - shift) / t) for shift in (0, m))
    discrete = float(np.sum(np.maximum(p - math.exp(eps) * q, 0)))
    assert discrete <= hockey(m / t + 1 / (4 * t * t), eps) + 1e-12


@settings(deadline=None)
@given(st.floats(0.01, 4), st.floats(0.01, 4), st.floats(0, 1))
def test_two_messages_lose_no_more_than_one_with_the_sum(first, second, share):
    eps = share * (first + second)
    assert two_messages(first, second, eps) <= hockey(first + second, eps) + 1e-10


@pytest.mark.parametrize("p", [PAPER, SLOW, Fading(0.02, 10, 0.99), OneShot(0.5, 2.0)])
@pytest.mark.parametrize("rounds", [1, 30, None])
def test_never_above_the_pure_bound(p, rounds):
    pure = loss(p, 1.5, rounds)
    found = [epsilon_delta(p, rounds, 1.5, delta) for delta in (0.0, 1e-12, 1e-9, 1e-5, 0.1, 0.9)]
    assert found[0] == pure
    assert all(a >= b for a, b in pairwise(found))
    assert delta_for_epsilon(p, rounds, 1.5, pure) == 0
    assert 0 < delta_for_epsilon(p, rounds, 1.5, 0.9 * pure) < 1


def test_many_messages_lose_much_less_than_their_sum():
    assert epsilon_delta(SLOW, None, 1.0, 1e-6) < 0.5 * epsilon(SLOW)


def test_more_rounds_never_cost_less_and_converge():
    found = [epsilon_delta(SLOW, rounds, 1.0, 1e-6) for rounds in (5, 20, 100, None)]
    assert all(b > a - 1e-6 for a, b in pairwise(found))
    assert epsilon_delta(SLOW, 600, 1.0, 1e-6) == pytest.approx(found[-1], rel=1e-3)


def test_on_a_lattice_rounding_is_paid_for():
    on_reals = epsilon_delta(SLOW, 100, 1.0, 1e-6)
    fine, rough = (Lattice(0, 1, state_exponent=-80, bits=bits) for bits in (40, 8))
    assert epsilon_delta(SLOW, 100, 1.0, 1e-6, lattice=fine) == pytest.approx(on_reals, rel=1e-6)
    paid = epsilon_delta(SLOW, 100, 1.0, 1e-6, lattice=rough)
    assert on_reals < paid <= account(rough.agent(SLOW), 100).total
    assert epsilon_delta(SLOW, 100, 1.0, 0.0, lattice=rough) == account(rough.agent(SLOW), 100).total
    assert epsilon_delta(SLOW, 100, 1.0, 1e-6, lattice=rough, components=9) > paid
    shot = OneShot(0.5, 2.0)
    assert epsilon_delta(shot, None, 1.0, 0.0, lattice=fine) == account(fine.agent(shot), 7).total


def test_a_loss_beyond_use_is_answered_by_the_pure_bound():
    assert epsilon_delta(Fading(0.5, 0.001, 0.9), 3, 1.0, 1e-6) == pytest.approx(
        loss(Fading(0.5, 0.001, 0.9), 1.0, 3), rel=1e-5
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: epsilon_delta(PAPER, 3, 1.0, 1.0), r"in \[0, 1\)"),
        (lambda: epsilon_delta(PAPER, -3, 1.0, 0.1), "rounds"),
        (lambda: epsilon_delta(PAPER, 3, -1.0, 0.1), "adjacency"),
        (lambda: epsilon_delta(Fading(0.1, 10, 0.5), None, 1.0, 0.1), "Lemma 1"),
        (lambda: epsilon_delta(Fading([0.8, 0.8], 10, 0.6), 3, 1.0, 0.1), "for one agent"),
        (lambda: epsilon_delta(PAPER, None, 1.0, 0.1, lattice=Lattice(0, 1)), "cannot be endless"),
        (lambda: epsilon_delta(PAPER, 999, 1.0, 0.1, lattice=Lattice(0, 1)), "fine enough"),
        (lambda: delta_for_epsilon(PAPER, 3, 1.0, math.nan), "loss must be"),
        (lambda: account(Lattice(0, 1).agent(PAPER), -1), "messages"),
        (lambda: account(Lattice(0, 1).agent(PAPER), 1, adjacency=0.0), "adjacency"),
        (lambda: account(Lattice(0, 1).agent(PAPER), 1, components=0), "components"),
        (lambda: horizon(Lattice(0, 1).agent(PAPER), math.nan), "cap"),
        (lambda: horizon(Lattice(0, 1).agent(PAPER), 1.0, spent=-1), "spent"),
    ],
)
def test_bad_requests_are_refused(call, sentence):
    with pytest.raises(ParameterError, match=sentence):
        call()
