"""Exact arithmetic on whole numbers.

Only `nearest` and `nearest_shift` round. Whole numbers are Python's integers, alone or in object arrays: they
cannot overflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from tacit.base.errors import StateError

if TYPE_CHECKING:
    import numpy.typing as npt

WholeArray: TypeAlias = "npt.NDArray[np.object_]"
"""An array of Python's whole numbers."""
Whole: TypeAlias = "int | WholeArray"
"""A whole number, or one per component."""


def as_whole(values: Any, what: str) -> Whole:
    """Return Python integers, which cannot overflow.

    Other values are refused, without showing them.
    """
    if type(values) is int:
        return values
    array = np.asarray(values)
    if array.dtype.kind in "iu":
        return cast(Whole, array.astype(object)[()])
    if array.dtype == object and all(type(v) is int for v in array.flat):
        return cast(Whole, array[()])
    raise StateError(f"{what} must be whole numbers of their step.")


def nearest(numerator: Whole, denominator: Whole) -> Whole:
    """Divide and round to the nearest whole number, ties up, exactly."""
    return cast(Whole, (2 * numerator + denominator) // (2 * denominator))


def nearest_shift(value: Whole, shift: int) -> Whole:
    """Divide by 2^shift and round to the nearest whole number, ties up."""
    return value if shift == 0 else cast(Whole, (value + (1 << shift >> 1)) >> shift)


def cut(value: Whole, bound: int) -> Whole:
    """Clamp to ±bound."""
    if isinstance(value, int):
        return max(min(value, bound), -bound)
    return cast(WholeArray, np.maximum(np.minimum(value, bound), -bound))
