"""Exact arithmetic with matrices of floats.

A float is a whole number times a power of two. So a matrix of floats is an array of whole numbers with one
common exponent, and products of such matrices need no division. They are exact, and fast: no common factor is
ever looked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

WholeArray: TypeAlias = "npt.NDArray[np.object_]"


class Dyadic(NamedTuple):
    """An array of exact numbers: whole/2^shift."""

    whole: WholeArray
    shift: int

    @classmethod
    def of(cls, values: npt.ArrayLike) -> Dyadic:
        """Return finite floats as they are, exactly."""
        array = np.asarray(values, dtype=np.float64)
        pairs = [float(value).as_integer_ratio() for value in array.flat]
        shift = max((under.bit_length() - 1 for _, under in pairs), default=0)
        whole = np.empty(array.shape, dtype=object)
        for k, (over, under) in enumerate(pairs):
            whole.flat[k] = over << (shift - under.bit_length() + 1)
        return cls(whole, shift)

    def __matmul__(self, other: Dyadic) -> Dyadic:
        return Dyadic(np.asarray(self.whole @ other.whole, dtype=object), self.shift + other.shift)

    def floats(self) -> npt.NDArray[np.float64]:
        """Return the nearest floats."""
        one = 1 << self.shift
        try:
            values = [int(value) / one for value in self.whole.flat]
        except OverflowError:
            values = [math.inf if int(value) > 0 else -math.inf for value in self.whole.flat]
        return np.array(values, dtype=np.float64).reshape(self.whole.shape)

    def fractions(self) -> list[Fraction]:
        """Return the numbers, one after another."""
        return [Fraction(int(value), 1 << self.shift) for value in self.whole.flat]


def powers(row: Dyadic, matrix: Dyadic) -> Iterator[Dyadic]:
    """Yield row, row·A, row·A², …: exact."""
    while True:
        yield row
        row = row @ matrix


def solved(matrix: Any, right: Any) -> list[Fraction]:
    """Solve M·x = r exactly; a ZeroDivisionError if M is singular."""
    rows = [[Fraction(v) for v in row] + [Fraction(r)] for row, r in zip(matrix, right, strict=True)]
    n = len(rows)
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k] != 0), None)
        if pivot is None:
            raise ZeroDivisionError("the matrix is singular")
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(n):
            if i != k and rows[i][k] != 0:
                factor = rows[i][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[n] for row in rows]


def is_positive(matrix: Any) -> bool:
    """Whether a symmetric matrix is positive semidefinite, exactly.

    It is LDLᵀ in fractions with the pivots in order: a pivot below 0, or a pivot of 0 whose column is not 0,
    shows that it is not.
    """
    rows = [[Fraction(v) for v in row] for row in matrix]
    n = len(rows)
    if any(rows[i][j] != rows[j][i] for i in range(n) for j in range(i)):
        return False
    for k in range(n):
        pivot = rows[k][k]
        if pivot < 0 or (pivot == 0 and any(rows[i][k] != 0 for i in range(k + 1, n))):
            return False
        for i in range(k + 1, n) if pivot else ():
            factor = rows[i][k] / pivot
            for j in range(k + 1, n):
                rows[i][j] -= factor * rows[k][j]
    return True
