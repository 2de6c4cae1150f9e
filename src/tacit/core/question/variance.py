"""The variance of numbers in a range, and their standard deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from tacit.base.arguments import number
from tacit.core.question.base import Answer, Encoded, Exact, MeanNoise, Part, Question, share_of
from tacit.core.question.mean import Mean


@final
@dataclass(frozen=True)
class Variance(Question):
    """The variance of one number per record, around their own mean.

    Parameters
    ----------
    low, high : float
        The range of every number. A number outside is clamped to it.
    stretch : float
        a ≥ ½, how much t² is stretched. With 2 the error is 30% less where the mean is near the middle.

    Notes
    -----
    With m the middle of the range and h half its length, t = (x − m)/h is in [−1, 1]. The vector is (t, at²).
    Two of them are at most (1 + 2a)²/(4a) apart: at t = 1 and t' = −1/(2a), where the distance
    (t − t') + a(t² − t'²) is largest.
    """

    low: float
    high: float
    stretch: float = 1.0

    kind: ClassVar[str] = "variance"
    components: ClassVar[int] = 2

    def __post_init__(self) -> None:
        self._mean  # noqa: B018 - refuses a range that is none
        number("the stretch of a variance", self.stretch, "be at least 1/2", least=0.5)

    @property
    def _mean(self) -> Mean:
        return Mean(self.low, self.high)

    @property
    def box(self) -> tuple[float, float]:
        """From −1 to 1, or to the stretch if that is more."""
        return -1.0, max(1.0, self.stretch)

    @property
    def diameter(self) -> Fraction:
        """(1 + 2a)²/(4a): 9/4 for a = 1."""
        a = Fraction(self.stretch)
        return (1 + 2 * a) ** 2 / (4 * a)

    @property
    def squared_distance(self) -> Fraction:
        """The largest u²(1 + a²(2 − u)²), where u = t − t': 4 for a ≤ √2.

        For a given u the numbers are furthest apart at an end of the range, where |t + t'| = 2 − u. If a² > 2
        there is a peak at u = (3 − √(1 − 2/a²))/2. It is flat there, so rounding it up covers the root.
        """
        a = Fraction(self.stretch)
        if a * a <= 2:
            return Fraction(4)
        u = Fraction((3 - math.sqrt(float(1 - 2 / (a * a)))) / 2)
        return max(Fraction(4), u * u * (1 + a * a * (2 - u) ** 2) * (1 + Fraction(1, 2**40)))

    @property
    def stand_in(self) -> tuple[Exact, ...]:
        """The middle of the range."""
        return (0, 0)

    @property
    def even(self) -> tuple[float, ...]:
        """The moments of numbers that fill the range evenly."""
        return (0.0, self.stretch / 3)

    def encode(self, record: Any) -> Encoded:
        """Return t and a·t², as fractions."""
        ((number,), changed) = self._mean.encode(record)
        half = (Fraction(self.high) - Fraction(self.low)) / 2
        t = (Fraction(number) - Fraction(self.low)) / half - 1
        return Encoded((t, Fraction(self.stretch) * t * t), changed)

    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,  # noqa: ARG002 - both parts say the same
    ) -> Answer:
        """Return variance and standard deviation, as of all records.

        The square of a noisy mean is too large by the variance of its noise, which is made up for. The
        interval is that of a box around both means, so it is never too narrow.
        """
        v, u = mean[0], mean[1] / self.stretch
        square = ((self.high - self.low) / 2) ** 2
        found = [u - v * v]
        if noise is not None:
            r = noise.radius(share_of(failure_probability, 2))
            high = max(abs(v) - r, 0.0) ** 2  # the least square of the mean
            low = min(abs(v) + r, 1.0) ** 2
            found = [u - v * v + noise.variance, u - r / self.stretch - low, u + r / self.stretch - high]
        variances = [square * min(max(x, 0.0), 1.0) for x in found]
        if noise is not None:
            variances[0] = min(max(variances[0], variances[1]), variances[2])
        return Answer((Part("variance", *variances), Part("deviation", *map(math.sqrt, variances))), records)
