"""The loss on a lattice: the theory page's numbers, and a recursion."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import Fading
from tacit.base.errors import ParameterError
from tacit.core.theory.finite_precision import lattice_loss, message_step
from tacit.core.theory.privacy import epsilon

PAPER = Fading(0.8, 10, 0.6)


def test_a_fixed_message_lattice_would_not_do():
    fine = 2.0**-120
    assert lattice_loss(PAPER, 30, state_step=fine, fixed_step=2.0**-40).total == pytest.approx(
        0.1500006, abs=1e-7
    )
    assert lattice_loss(PAPER, 100, state_step=fine, fixed_step=2.0**-40).total == pytest.approx(
        2.09e9, rel=1e-2
    )
    followed = lattice_loss(PAPER, 100, state_step=fine).total
    assert 0.15 < followed < 0.1500000001


@given(st.floats(0.1, 0.9), st.floats(0.1, 100), st.floats(0.1, 0.99), st.integers(0, 30), st.integers(1, 5))
def test_every_message_covers_the_exact_recursion(sigma, c, q, rounds, components):
    step = 2.0**-200  # finer than 2^-40 of any noise here
    result = lattice_loss(Fading(sigma, c, q), rounds, state_step=step, components=components, adjacency=2.0)
    s, k = Fraction(step), components
    delta, total = Fraction(2) + k * s, Fraction(0)
    for u in range(rounds):
        scale = Fraction(c) * Fraction(q) ** u
        g = Fraction(float(result.message_step[u]))
        assert g <= scale * Fraction(1, 2**40) * (1 + Fraction(1, 2**45)) < 2 * g * (1 + Fraction(1, 2**44))
        assert Fraction(float(result.sensitivity[u])) >= delta
        assert Fraction(float(result.per_message[u])) >= (delta + k * g) / scale
        total += (delta + k * g) / scale
        delta = (1 - Fraction(sigma)) * delta + k * s
    assert total <= Fraction(result.total) <= total * (1 + Fraction(1, 2**40))


def test_a_fine_lattice_costs_what_the_reals_cost():
    loss = lattice_loss(PAPER, 40, state_step=2.0**-200, bits=60).total
    assert loss == pytest.approx(epsilon(PAPER, 40), rel=1e-12)
    assert loss >= epsilon(PAPER, 40)


def test_the_message_step_is_a_power_of_two_just_below_the_noise():
    assert message_step(1.0, 2.0**-80) == 2.0**-40
    assert message_step(1.999, 2.0**-80) == 2.0**-40
    assert message_step(2.0**-50, 2.0**-80) == 2.0**-80  # never finer than the states


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"state_step": 0.3}, "state_step must be a power of two"),
        ({"fixed_step": 3.0}, "fixed_step must be a power of two"),
        ({"adjacency": math.nan}, "adjacency must be a positive number"),
        ({"components": 0}, "components at least 1"),
        ({"rounds": 500}, "falls below it after 86 rounds"),
    ],
)
def test_bad_requests_are_refused(options, sentence):
    with pytest.raises(ParameterError, match=sentence):
        lattice_loss(PAPER, options.pop("rounds", 10), **options)


def test_only_one_agent_at_a_time():
    with pytest.raises(ParameterError, match="for one agent"):
        lattice_loss(Fading([0.8, 0.8], 10, 0.6), 10)
