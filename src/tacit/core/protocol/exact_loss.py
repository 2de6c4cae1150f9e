"""Exact and fast sums of floats, as whole multiples of 2^−1074.

Every finite float is such a multiple. Losses are added up for every message, and a sum that is compared with
a cap must not be rounded: rounding errors could add up and hide that the cap is exceeded.
"""

from __future__ import annotations

import math
from fractions import Fraction

_BITS = 1074
_ONE = 1 << _BITS


def exact(value: float) -> int:
    """Return a finite float as a whole multiple of 2^−1074."""
    # The denominator is a power of two, 2^(bit length − 1).
    numerator, denominator = value.as_integer_ratio()
    return numerator << _BITS + 1 - denominator.bit_length()


def up(total: int) -> float:
    """Return the smallest float that is at least as large as an exact sum."""
    # Python divides whole numbers to the nearest float, so at most one float step is missing.
    result = total / _ONE
    return result if exact(result) >= total else math.nextafter(result, math.inf)


def as_fraction(total: int) -> Fraction:
    """Return an exact sum as a fraction."""
    return Fraction(total, _ONE)


def within(total: int, cap: float) -> bool:
    """Whether an exact sum is at most a cap, which may be infinite.

    The comparison is exact: even an excess of 2^−1074 counts.
    """
    return cap == math.inf or total <= exact(cap)
