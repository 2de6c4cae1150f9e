"""Noise whose density is a staircase: the least variance for a domain.

Geng and Viswanath, "The optimal noise-adding mechanism in differential privacy" (2016). The density is flat
for a width of `inner`·domain on both sides of 0. From there on it falls by the factor e^−loss every domain.

Proofs: docs/proofs/bits.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, final

import numpy as np

from tacit.base.arrays import FloatArray, PerAgent
from tacit.base.rounding import fraction_up
from tacit.core.law.base import STEP, Law
from tacit.core.law.once import WholeDomain
from tacit.core.motion import Motion

_GOLDEN = (math.sqrt(5) - 1) / 2
_NARROW = 1e-9  # of `inner`: it changes the variance by much less


class Stairs(NamedTuple):
    """Widths of a stair and of the first one; e^−(over/under) per stair."""

    width: int
    first: int
    over: int
    under: int


@final
@dataclass(frozen=True, eq=False)
class Staircase(WholeDomain, Law):
    """Noise once, with the density of a staircase.

    Parameters
    ----------
    sigma, c
        See `Law`. c is domain/loss: the scale of Laplace noise of the same loss.
    domain : float
        The largest distance of two values: the width of the range.
    inner : float
        In (0, 1): the width of the first stair on each side, as a share of the domain.

    Examples
    --------
    >>> law = Staircase.best_of(0.5, loss=2.0, low=0.0, domain=10.0)
    >>> float(law.c), round(law.inner, 4), round(float(law.deviation(0)), 4)
    (5.0, 0.3351, 6.5018)
    """

    domain: float
    inner: float

    name: ClassVar[str] = "staircase"
    shadowed: ClassVar[bool] = True
    by_mixing: ClassVar[bool] = False
    drawn: ClassVar[str] = "staircase"
    noise_meaning: ClassVar[str] = "domain/loss, the scale of Laplace noise of the same loss"
    below_one: ClassVar[frozenset[str]] = frozenset({"sigma", "inner"})
    meanings: ClassVar[Any] = {
        "domain": "the largest distance of two values",
        "inner": "width of the first stair, as a share of the domain",
    }

    if TYPE_CHECKING:

        def __init__(
            self, sigma: PerAgent | Motion, c: PerAgent, domain: PerAgent, inner: PerAgent
        ) -> None: ...

    def __post_init__(self) -> None:
        self.check(("sigma", "c", "domain", "inner"))

    @property
    def whole_loss(self) -> float:
        """The loss of the one message, domain/c, rounded up."""
        return fraction_up(Fraction(self.domain) / Fraction(float(self.c)))

    @property
    def fall(self) -> float:
        """By which factor the density falls at every stair: e^−loss."""
        return _fall(self.domain, float(self.c))

    def deviation(self, u: Any) -> Any:
        """Standard deviation of the noise of update u."""
        own = math.sqrt(_variance(self.inner, self.fall)) * self.domain
        return np.where(np.asarray(u) == 0, own, 0.0)

    def noise_of(self, unit: FloatArray, theta: FloatArray) -> FloatArray:
        """Return what is added to values, from Laplace draws of scale 1.

        |noise| has the tail P(> x) = 2p·(what is left of the stairs), which is turned around.
        """
        q, w = self.fall, self.inner
        left = np.exp(-np.abs(unit))  # uniform: P(|noise| > result)
        whole = w + (1 - w) * q  # of the first domain, in units of the density at 0
        period = np.floor(np.log(left) / math.log(q))
        rest = (1 - left / q**period) * whole / (1 - q)  # area left of the result, within its domain
        inside = np.where(rest <= w, rest, w + (rest - w) / q)
        return np.asarray(np.sign(unit) * (period + np.clip(inside, 0.0, 1.0)) * self.domain)

    def clamped(self, room: float, rounds: int) -> float:
        """Bound how likely the one draw exceeds `room`."""
        return math.exp(-max(room / self.domain - 1, 0.0) * self.domain / float(self.c))

    # ---- on a lattice -----------------------------------------------------------------------------------

    def stairs(self, apart: int) -> Stairs:
        """Return the noise of whole numbers at most `apart` steps apart."""
        loss = Fraction(self.domain) / Fraction(float(self.c))
        first = min(max(round(Fraction(self.inner) * apart), 1), apart)
        return Stairs(apart, first, loss.numerator, loss.denominator)

    @classmethod
    def best_of(cls, sigma: PerAgent | Motion, *, loss: float, low: float, domain: float) -> Self:
        """Return the noise of least variance with this loss."""
        c = domain / loss
        while (made := cls(sigma, c, **cls.located(c, low, domain))).whole_loss > loss:
            c *= STEP
        return made

    @classmethod
    def located(cls, c: float, low: float, domain: float) -> dict[str, float]:
        """Return the parameters that follow from the domain."""
        return {"domain": domain, "inner": _best_inner(_fall(domain, c))}


def _fall(domain: float, c: float) -> float:
    return max(math.exp(-domain / c), 1e-300)


def _variance(inner: float, fall: float) -> float:
    """Return the variance for a domain of 1.

    The density is a mixture of uniform ones on ±(j + inner), with weights ∝ fall^j·(j + inner).
    """
    rest = 1 - fall
    one = inner + fall / rest  # Σ (1−q)·q^j·(j + w)^k for k = 1 and 3
    second = fall * (1 + fall) / rest**2
    third = fall * (1 + 4 * fall + fall**2) / rest**3
    cubes = third + 3 * inner * second + 3 * inner**2 * fall / rest + inner**3
    return cubes / one / 3


def _best_inner(fall: float) -> float:
    """Return the width of the first stair with the least variance."""
    low, high = 0.0, 0.5  # golden section; it is below ½ for every loss
    while high - low > _NARROW:
        a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, b) if _variance(a, fall) < _variance(b, fall) else (a, high)
    return max(round((low + high) / 2, 8), 1e-8)
