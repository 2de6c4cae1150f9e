"""One of two values instead of a noisy number: for one question, once.

An agent says middle ± B. Which one is a coin whose bias is its value, so the mean of the messages is right on
average. Nobody can say anything else, so a liar moves the mean by at most 2B/N.

Proofs: docs/proofs/bits.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np

from tacit.base.arguments import number
from tacit.base.arrays import FloatArray, PerAgent
from tacit.base.errors import ParameterError
from tacit.core.law.base import STEP, Law
from tacit.core.law.once import Ends, WholeDomain, log_up
from tacit.core.motion import Motion


@final
@dataclass(frozen=True, eq=False)
class Bits(WholeDomain, Law):
    """One of two values, middle ± c; the larger with ½ + (x − middle)/(2c).

    The loss is ln((c + h)/(c − h)) for h = domain/2, for any two values of the domain. In a histogram every
    component is one of two values: the own one is the larger with probability ½ (unary bits).

    Parameters
    ----------
    sigma, c
        See `Law`. c is half the distance of the two values, above half the domain.
    middle : float
        Half of the domain above the smallest value: the middle of the range, and 1 for a histogram.
    domain : float
        The largest L1 distance of two values: the width of the range, and 2 for a histogram.

    Examples
    --------
    >>> law = Bits.best_of(0.5, loss=1.0, low=0.0, domain=10.0)
    >>> round(float(law.c), 5), law.middle
    (10.81977, 5.0)
    """

    middle: float
    domain: float

    name: ClassVar[str] = "bits"
    shadowed: ClassVar[bool] = True
    by_mixing: ClassVar[bool] = False
    drawn: ClassVar[str] = "bit"
    two_valued: ClassVar[bool] = True
    noise_meaning: ClassVar[str] = "half the distance of the two values"
    meanings: ClassVar[Any] = {
        "middle": "an agent says middle ± noise",
        "domain": "the largest distance of two values",
    }

    if TYPE_CHECKING:

        def __init__(
            self, sigma: PerAgent | Motion, c: PerAgent, middle: PerAgent, domain: PerAgent
        ) -> None: ...

    def __post_init__(self) -> None:
        self.check(("sigma", "c", "domain"))
        if not isinstance(self.middle, np.ndarray):
            middle = number("middle", self.middle, "be a finite number", field="middle")
            object.__setattr__(self, "middle", middle + 0.0)
        if not np.all(2 * np.asarray(self.c) > self.domain):
            raise ParameterError(
                f"the noise of bits must be above half the domain, {self.domain / 2:g}, got {self.c}: both "
                "values must lie outside the range. `tacit design --law bits` finds the best.",
                "noise",
            )

    @property
    def whole_loss(self) -> float:
        """The loss of the one message, ln((c + h)/(c − h)), rounded up."""
        c, domain = Fraction(float(self.c)), Fraction(self.domain)
        return log_up((2 * c + domain) / (2 * c - domain))

    def deviation(self, u: Any) -> Any:
        """c: no start has a larger standard deviation."""
        return self.scale(u)

    def noise_of(self, unit: FloatArray, theta: FloatArray) -> FloatArray:
        """Return what is added to values, from Laplace draws of scale 1."""
        likely = np.where(unit < 0, np.exp(-np.abs(unit)) / 2, 1 - np.exp(-np.abs(unit)) / 2)
        high = likely < 0.5 + (theta - self.middle) / (2 * float(self.c))
        return np.asarray(self.middle + np.where(high, self.c, -float(self.c)) - theta)

    def require_range(self, low: float, components: int, *, one_hot: bool) -> None:
        """Refuse vectors, and a range that is not the law's."""
        super().require_range(low, components, one_hot=one_hot)
        if abs(low - (self.middle - self.domain / 2)) > 1e-9 * self.domain:
            raise ParameterError(
                f"the range of these bits must start at {self.middle - self.domain / 2:g}, got {low:g}: "
                f"middle ({self.middle:g}) and domain ({self.domain:g}) say where it is.",
                "middle",
            )

    def clamped(self, room: float, rounds: int) -> float:
        """Return 0: a lattice that is too narrow for the two values is refused."""
        return 0.0

    # ---- on a lattice -----------------------------------------------------------------------------------

    def ends(self, exponent: int) -> Ends:
        """Return the two values in steps of 2^exponent.

        They are rounded away from the middle, by so much that rounding costs no privacy.
        """
        step = Fraction(2) ** exponent
        c, domain, middle = Fraction(float(self.c)), Fraction(self.domain), Fraction(self.middle)
        slack = math.ceil(c / domain) + 1  # docs/proofs/bits.md, "On a lattice"
        return Ends(
            math.floor((middle - c) / step) - slack,
            math.ceil((middle + c) / step) + slack,
        )

    def loss_between(self, low: int, high: int, exponent: int, components: int) -> float:
        """Return the loss for values from low to high, in steps, rounded up.

        With several components one of them may fall from high to low while another one rises.
        """
        ends = self.ends(exponent)
        over, under = Fraction(high - ends.low, low - ends.low), Fraction(ends.high - low, ends.high - high)
        return log_up(max(over, under) if components == 1 else over * under)

    def said(self, basis: Any, draw: Any, exponent: int) -> Any:
        """Return the larger number if the draw is below basis − the smaller one."""
        ends = self.ends(exponent)
        if isinstance(basis, int):
            return ends.high if draw < basis - ends.low else ends.low
        larger = np.asarray(draw, dtype=object) < np.asarray(basis, dtype=object) - ends.low
        return np.where(larger, np.full(larger.shape, ends.high, object), ends.low)

    def may_say(self, numbers: Any, exponent: int) -> bool:
        """Whether every number is one of the two values."""
        ends = self.ends(exponent)
        return all(number in ends for number in numbers)

    def draw_below(self, exponent: int) -> int:
        """Return how many whole numbers a draw is one of."""
        ends = self.ends(exponent)
        return ends.high - ends.low

    @classmethod
    def best_of(cls, sigma: PerAgent | Motion, *, loss: float, low: float, domain: float) -> Self:
        """Return the least c with this loss: h·coth(loss/2)."""
        middle = low + domain / 2
        c = domain / 2 / math.tanh(loss / 2)
        while (2 * c <= domain) or (made := cls(sigma, c, middle, domain)).whole_loss > loss:
            c *= STEP
        return made

    @classmethod
    def located(cls, c: float, low: float, domain: float) -> dict[str, float]:
        """Return the parameters that follow from the domain."""
        return {"middle": low + domain / 2, "domain": domain}
