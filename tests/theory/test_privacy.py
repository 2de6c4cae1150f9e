"""ε in closed form against exact rational sums, and always rounded up."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Fading, OneShot
from tacit.base.errors import ParameterError
from tacit.core.law.geometric import _rounded_epsilons
from tacit.core.theory.privacy import epsilon, epsilons, loss, rounds_within

unit = st.floats(0.01, 0.99)
noise = st.floats(1e-3, 1e3)


def exact_sum(sigma: float, c: float, q: float, rounds: int) -> Fraction:
    ratio = (1 - Fraction(sigma)) / Fraction(q)
    return sum((ratio**t for t in range(rounds)), Fraction(0)) / Fraction(c)


@given(unit, noise, unit, st.integers(0, 40))
def test_finite_horizon_is_the_sum_rounded_up(sigma, c, q, rounds):
    exact = exact_sum(sigma, c, q, rounds)
    computed = Fraction(epsilon(Fading(sigma, c, q), rounds))
    assert exact <= computed <= exact * (1 + Fraction(1, 10**13))


@given(unit, noise, unit)
def test_endless_run_is_the_closed_form_rounded_up(sigma, c, q):
    gap = Fraction(q) + Fraction(sigma) - 1
    if gap <= 0:
        with pytest.raises(ParameterError, match=r"decay must be in \(1 - mixing, 1\)"):
            epsilon(Fading(sigma, c, q))
        return
    exact = Fraction(q) / (Fraction(c) * gap)
    for parameters in (Fading(sigma, c, q), Fading([sigma, 0.995], [c, c], [q, q])):
        computed = Fraction(float(np.max(epsilons(parameters)[..., None][0])))
        assert exact <= computed <= exact * (1 + Fraction(1, 10**13))


def test_finite_horizons_rise_to_the_endless_one():
    parameters = Fading(0.3, 2.0, 0.9)
    finite = [epsilon(parameters, rounds) for rounds in range(1, 400)]
    assert finite[0] == pytest.approx(1 / 2.0)
    assert all(a < b for a, b in itertools.pairwise(finite[:50]))
    assert finite[-1] == pytest.approx(epsilon(parameters), rel=1e-12)


def test_at_the_border_every_round_costs_the_same():
    assert epsilon(Fading(0.5, 2.0, 0.5), 1000) == pytest.approx(500.0, rel=1e-15)


def test_below_the_border_a_finite_run_still_has_a_finite_epsilon():
    assert epsilon(Fading(0.2, 1.0, 0.5), 10) == pytest.approx(sum(1.6**t for t in range(10)))


def test_each_agent_has_its_own_epsilon_and_the_least_mixing_decides():
    each = epsilons(Fading([0.5, 0.8], 10, 0.6))
    assert each == pytest.approx([0.6, 0.15])
    assert epsilon(Fading([0.5, 0.8], 10, 0.6)) == each[0]


def test_the_border_names_the_agent_that_breaks_it():
    with pytest.raises(ParameterError, match=r"= \(0.5, 1\), got 0.4 for agent 1"):
        epsilon(Fading([0.8, 0.5], 10, 0.4))
    with pytest.raises(ParameterError, match=r"= \(0.9, 1\), got 0.5 for agent 0"):
        epsilon(Fading([0.1, 0.1, 0.1], 1, [0.5, 0.95, 0.95]))


def test_one_shot_noise_costs_the_same_whatever_the_rounds():
    for rounds in (1, 10, None):
        assert epsilon(OneShot(0.1, 4.0), rounds) == 0.25
    assert epsilon(OneShot(0.1, 4.0), 0) == 0


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_loss_is_never_below_the_product(c, adjacency):
    exact = Fraction(adjacency) / Fraction(c)
    assert exact <= Fraction(loss(OneShot(0.5, c), adjacency)) <= exact * (1 + Fraction(1, 2**51))


@given(unit, unit, st.floats(0.0, 3.0))
def test_rounds_within_a_cap_is_the_last_that_fits(sigma, q, cap):
    parameters = Fading(sigma, 1.0, q)
    rounds = rounds_within(parameters, cap)
    if rounds is None:
        assert epsilon(parameters) <= cap
    else:
        assert epsilon(parameters, rounds) <= cap < epsilon(parameters, rounds + 1)


@pytest.mark.parametrize("c", [0.1, 1.0, 2.0, 10.0])
def test_one_round_fits_under_exactly_what_it_costs(c):
    assert rounds_within(Fading(0.5, c, 0.9), 1 / c) == 1


def test_rounds_within_for_one_shot_noise_is_all_or_nothing():
    assert rounds_within(OneShot(0.5, 1.0), 1.0) is None
    assert rounds_within(OneShot(0.5, 1.0), 0.99) == 0


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_adjacency_must_be_positive(bad):
    with pytest.raises(ParameterError, match="adjacency must be a positive number"):
        loss(OneShot(0.5, 1.0), bad)


def test_negative_rounds_are_refused():
    with pytest.raises(ParameterError, match="rounds must be at least 0"):
        epsilon(Fading(0.5, 1, 0.9), -1)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("rounds", [1, 2, 1000])
def test_what_is_exact_is_not_rounded_up(rounds, each):
    """With q = 1 − σ, T rounds cost exactly T/c.

    They fit under a cap of T/c, because every message costs 1/c.
    """
    sigma = np.array([0.5, 0.5]) if each else 0.5
    assert epsilon(Fading(sigma, 1.0, 0.5), rounds) == rounds
    assert rounds_within(Fading(sigma, 1.0, 0.5), rounds) == rounds
    assert rounds_within(Fading(sigma, 1.0, 0.5), np.nextafter(rounds, 0)) == rounds - 1
    assert epsilon(OneShot(sigma, 0.25)) == 4


@given(unit, noise, unit)
def test_one_round_costs_just_one_over_the_noise(sigma, c, q):
    found = epsilon(Fading(sigma, c, q), 1)
    assert Fraction(found) >= 1 / Fraction(c) > Fraction(np.nextafter(found, 0))
    assert rounds_within(Fading(sigma, c, q), found) != 0


@given(unit, noise, unit)
@settings(max_examples=20, deadline=None)
def test_exact_and_extended_precision_agree_where_they_meet(sigma, c, q):
    exact, rounded = epsilon(Fading(sigma, c, q), 1000), float(_rounded_epsilons(sigma, c, q, 1000))
    assert exact <= rounded
    assert rounded == exact or rounded <= exact * (1 + 1e-9)
