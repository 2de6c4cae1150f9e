"""The law of a sum of independent Gaussian variables."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.core.theory.laplace_sum import Bounds, require_probability

_MARGIN = 1 + 1e-12  # rounding of the distribution function and of its inverse


@dataclass(frozen=True)
class NormalLaw:
    """A Gaussian variable around 0, with the methods of `LaplaceSum`.

    Examples
    --------
    >>> round(NormalLaw(2.0).quantile(0.05).high, 6)
    3.919928
    """

    deviation: float

    @property
    def variance(self) -> float:
        """The square of the deviation."""
        return self.deviation**2

    def quantile(self, probability: float, offset: float = 0.0) -> Bounds:
        """Enclose the r with P(|V + offset| > r) = probability."""
        from scipy.optimize import brentq
        from scipy.special import ndtr, ndtri

        require_probability(probability)
        near = abs(offset)
        if self.deviation == 0:
            return Bounds(near, near)
        widest = -self.deviation * float(ndtri(probability / 2))
        found = widest
        if near:

            def excess(r: float) -> float:
                tails = ndtr((near - r) / self.deviation) + ndtr((-near - r) / self.deviation)
                return float(tails) - probability

            found = float(brentq(excess, 0.0, near + widest, xtol=1e-300, rtol=1e-14))
        return Bounds(found / _MARGIN, math.nextafter(found * _MARGIN, math.inf))
