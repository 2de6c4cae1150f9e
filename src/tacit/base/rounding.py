"""Rounding to the safe side: a printed loss or radius is never too small."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tacit.base.arrays import FloatArray

if TYPE_CHECKING:
    import numpy.typing as npt

    Extended: TypeAlias = npt.NDArray[np.longdouble]
else:
    Extended = Any


@cache
def ulp() -> float:
    """Relative rounding error of one extended-precision operation."""
    return float(np.finfo(np.longdouble).eps)


def extended(value: npt.ArrayLike) -> Extended:
    """Return the value in the widest floating-point type of the machine."""
    return np.asarray(value, dtype=np.longdouble)


def round_up(value: Extended, relative_error: npt.ArrayLike | None = None) -> FloatArray:
    """Return a float64 that is at least the true value.

    `value` is non-negative and within `relative_error` of the true value; without it, within that of eight
    operations.
    """
    bound = value * (1 + extended(8 * ulp() if relative_error is None else relative_error))
    result = np.asarray(bound, dtype=np.float64)
    return np.where(extended(result) < bound, np.nextafter(result, np.inf), result)


def fraction_up(value: Fraction) -> float:
    """Return the smallest float at least as large as an exact fraction."""
    return ratio_up(value.numerator, value.denominator)


def ratio_up(over: int, under: int) -> float:
    """Round a quotient of whole numbers up to a float.

    It is the smallest float that is at least as large; inf on overflow. The quotient is not reduced: with
    many thousand digits that would be the slowest part.
    """
    try:
        result = over / under  # rounded to nearest, for whole numbers of any size
    except OverflowError:
        return math.inf if (over < 0) == (under < 0) else -math.inf
    if under < 0:
        over, under = -over, -under
    p, q = result.as_integer_ratio()
    return result if p * under >= over * q else math.nextafter(result, math.inf)


def root_up(value: Fraction) -> float:
    """Return the smallest float that is at least the root of a fraction."""
    over, under, bits = value.numerator, value.denominator, 64 + value.denominator.bit_length()
    scaled = over << 2 * bits
    root = math.isqrt(scaled // under)
    return ratio_up(root + (root * root * under < scaled), 1 << bits)


def product_up(*factors: float) -> float:
    """Multiply non-negative numbers, rounding up."""
    if not all(map(math.isfinite, factors)):
        return math.inf
    return fraction_up(math.prod(map(Fraction, factors), start=Fraction(1)))


def shown_up(value: float, digits: int = 6) -> str:
    """Write a number for people with this many significant digits, rounded up."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    exact = Decimal(repr(float(value)))  # the decimal that reads back as this float: 0.14, not 0.140001
    places = Decimal((0, (1,), exact.adjusted() - digits + 1))
    return f"{float(exact.quantize(places, rounding=ROUND_CEILING)):.{digits}g}"
