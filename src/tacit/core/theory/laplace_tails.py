"""Upper bounds on the tails of many Laplace sums at once.

A sum S = Σ w_k·L_k with L_k ~ Lap(1) is given by upper bounds on Σ w², Σ w⁴ and max w. A Laplace variable is
a normal variable with an exponential variance, so given these variances S is normal. This makes the bound
exact for a normal S, where Chernoff's bound misses a factor (docs/proofs/ending.md). The exact law is in
`tacit.core.theory.laplace_sum`. It needs all weights and takes some thousand times longer.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from tacit.base.arrays import FloatArray, IntArray

_STEP = 1e-3  # of log ζ in the table
_LOWEST, _HIGHEST = math.log(0.02), math.log(36.0)
_TRIED = np.arange(0, 1000, 60)  # places in the table that are tried, counted down from the first
_TINY = 1e-70
_ROUNDING = 1e-9  # more than the exponents can be off


class Sums(NamedTuple):
    """Upper bounds on Σ w², Σ w⁴ and max w, one entry per sum."""

    squares: FloatArray
    fourths: FloatArray
    largest: FloatArray

    def some(self, chosen: IntArray) -> Sums:
        """Return the chosen sums."""
        return Sums(self.squares[chosen], self.fourths[chosen], self.largest[chosen])


class _Grid(NamedTuple):
    """log Q(ζ)·e^{−ζh/2} and ζ³h for a grid of ζ, with h = φ(ζ)/Q(ζ)."""

    factor: FloatArray
    square: FloatArray


@cache
def _table() -> _Grid:
    zeta = np.exp(np.arange(_LOWEST, _HIGHEST, _STEP))
    log_q = np.log([math.erfc(z / math.sqrt(2)) / 2 for z in zeta.tolist()])
    hazard = np.exp(-(zeta**2) / 2 - math.log(2 * math.pi) / 2 - log_q)
    return _Grid(log_q - zeta * hazard / 2, zeta**3 * hazard)


def tails(x: FloatArray, sums: Sums) -> FloatArray:
    """Return upper bounds on P(S > x), one per sum.

    They never grow with x, apart from rounding.
    """
    table, squares = _table(), sums.squares
    # No weight is above the root of Σ w², and Σ w⁴ is at most max w² times Σ w².
    largest = np.minimum(sums.largest, np.sqrt(squares))
    fourths = np.minimum(sums.fourths, largest**2 * squares)
    with np.errstate(all="ignore"):  # where x ≤ 0 or S = 0 the result is replaced below
        # Every ζ gives a bound. The best is near x over the deviation, or before the pole at 1/max w.
        first = np.minimum(x / np.sqrt(2 * squares), np.sqrt(x / largest))
        place = np.clip((np.log(first) - _LOWEST) / _STEP, 0, table.factor.size - 1)
        at = np.maximum(np.nan_to_num(place).astype(np.int64)[..., None] - _TRIED, 0)
        tilt = table.square[at] / (x**2)[..., None]  # λ²
        pole = tilt * (largest**2)[..., None]
        beyond = np.where(pole < 1, -np.log1p(-pole) - pole, np.inf)
        # fourth powers of tiny weights underflow
        count = np.where(largest > _TINY, fourths / largest**4, squares / largest**2)[..., None]
        exponents = table.factor[at] + tilt * squares[..., None] + count * beyond
        found = np.exp(np.fmin.reduce(exponents, axis=-1) * (1 - _ROUNDING) + _ROUNDING)
    found = np.where(np.isnan(found), 0.5, np.minimum(found, 0.5))
    found = np.where(squares > 0, found, 0.0)
    return np.where((x > 0) | ((x == 0) & (squares == 0)), found, 1.0)
