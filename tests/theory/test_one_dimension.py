"""Zeros and lowest points: as scipy finds them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from tacit.core.theory.one_dimension import lowest_point, zero

FALLING = {
    "line": lambda x: 1 - x,
    "exponential": lambda x: math.exp(-x) - 0.3,
    "flat": lambda x: (1 - x) ** 3,
    "steep": lambda x: math.erfc(40 * (x - 1.234)) - 1e-9,
    "jump": lambda x: 1.0 if x < 1 / 3 else -1e-9,
    "next to zero": lambda x: 1e-20 - x,
}


@pytest.mark.parametrize("name", FALLING)
def test_a_zero_is_the_one_of_scipy(name):
    f, asked = FALLING[name], []

    def counted(x):
        asked.append(x)
        return f(x)

    found = zero(counted, (0.0, f(0.0)), (10.0, f(10.0)), 1e-14)
    scipys = brentq(f, 0, 10, xtol=1e-300, rtol=1e-14, maxiter=1000)
    assert f(found) == 0 or found == pytest.approx(scipys, rel=1e-13, abs=0)
    assert len(asked) <= 200


@given(st.floats(-50, 50))
def test_the_lowest_point(least):
    def f(x):
        return math.cosh((x - least) / 20)

    found = lowest_point(f, -30.0, 40.0, 1e-3)
    inside = min(max(least, -30.0), 40.0)
    assert found == pytest.approx(inside, abs=2e-3)
    scipys = minimize_scalar(f, bounds=(-30, 40), method="bounded", options={"xatol": 1e-3}).x
    assert found == pytest.approx(scipys, abs=5e-3)


def test_a_function_that_is_not_a_number_is_refused():
    with pytest.raises(ArithmeticError):
        zero(lambda _: math.nan, (0.0, 1.0), (1.0, -1.0), 1e-12)
