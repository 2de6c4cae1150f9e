"""Exact arithmetic on whole numbers: what may be rounded says how, nothing else is.

Whole numbers are Python's, alone or in object arrays: they cannot overflow.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tacit.errors import StateError

WholeArray: TypeAlias = npt.NDArray[np.object_]
"""An array of Python's whole numbers."""
Whole: TypeAlias = int | WholeArray
"""A whole number, or one per component."""


def as_whole(values: Any, what: str) -> Whole:
    """Return Python's whole numbers, which cannot overflow, or refuse without showing a value."""
    if type(values) is int:
        return values
    array = np.asarray(values)
    if array.dtype.kind in "iu":
        return cast(Whole, array.astype(object)[()])
    if array.dtype == object and all(type(v) is int for v in array.flat):
        return cast(Whole, array[()])
    raise StateError(f"{what} must be whole numbers of their step.")


def nearest(numerator: Whole, denominator: int) -> Whole:
    """Divide and round to the nearest whole number, ties up, exactly."""
    return cast(Whole, (2 * numerator + denominator) // (2 * denominator))


def nearest_shift(value: Whole, shift: int) -> Whole:
    """Divide by 2^shift and round to the nearest whole number, ties up."""
    return value if shift == 0 else cast(Whole, (value + (1 << shift >> 1)) >> shift)


def cut(value: Whole, bound: int) -> Whole:
    """Move what is beyond ±bound to it."""
    if isinstance(value, int):
        return max(min(value, bound), -bound)
    return cast(WholeArray, np.maximum(np.minimum(value, bound), -bound))


@lru_cache(maxsize=4096)  # agents of one session ask for the same ones, again and again
def fading_scale(c: float, q: float, u: int) -> float:
    """Return b_u, the least float64 at least c·q^u: the scale that update u really has.

    Rounded up, so the noise is never below the paper's; a float64, so that the sampler and the
    account take it exactly. The same on every machine: only whole numbers are used to find it.

    Examples
    --------
    >>> fading_scale(10.0, 0.6, 2)
    3.6
    """
    (b, c_den), (a, q_den) = c.as_integer_ratio(), q.as_integer_ratio()
    down = 1 - c_den.bit_length() + u * (1 - q_den.bit_length())  # c·q^u = b·a^u·2^down
    precision = 128
    while True:  # Ziv: until both bounds round to the same number
        low, high, exponent = _power(a, u, precision)
        result = _least_float(b * low, exponent + down)
        if result == _least_float(b * high, exponent + down):
            return result
        precision *= 2


def _power(a: int, u: int, precision: int) -> tuple[int, int, int]:
    """Return low, high, e with low·2^e ≤ a^u ≤ high·2^e, equal where `precision` bits suffice."""
    low = high = 1
    exponent = 0
    for bit in bin(u)[2:]:
        low, high, exponent = low * low, high * high, 2 * exponent
        if bit == "1":
            low, high = low * a, high * a
        if (excess := low.bit_length() - precision) > 0:
            low, high, exponent = low >> excess, -(-high >> excess), exponent + excess
    return low, high, exponent


def _least_float(value: int, exponent: int) -> float:
    """Return the least float64 at least value·2^exponent; 0 where that is below 2^−1000."""
    excess = max(value.bit_length() - 53, 0)
    value, exponent = -(-value >> excess), exponent + excess
    return math.ldexp(value, exponent) if value.bit_length() + exponent > -1000 else 0.0
