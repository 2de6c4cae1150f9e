"""The variance within a group of private size: a block of a group by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from tacit.core.question.base import Answer, Encoded, Exact, MeanNoise, Part, Question, share_of
from tacit.core.question.count import Count
from tacit.core.question.variance import Variance


@final
@dataclass(frozen=True)
class GroupVariance(Question):
    """Size, variance and standard deviation of those who are in a group.

    The vector is (1, t, at²), and zero for those who are not in it. So its norm is at most 2 + a, and two
    vectors of different groups are at most twice that apart: 6 for a = 1. As a question of its own it has all
    records in one group.
    """

    of: Variance

    kind: ClassVar[str] = "variance of a group"
    components: ClassVar[int] = 3
    stand_in: ClassVar[tuple[Exact, ...]] = (0, 0, 0)

    @property
    def box(self) -> tuple[float, float]:
        """That of the variance."""
        return self.of.box

    @property
    def norm(self) -> Fraction:
        """The largest L1 norm of a vector, 2 + a."""
        return 2 + Fraction(self.of.stretch)

    @property
    def diameter(self) -> Fraction:
        """From the zero vector to t = ±1, or that of the variance if larger."""
        return max(self.norm, self.of.diameter)

    @property
    def squared_distance(self) -> Fraction:
        """From the zero vector to t = ±1, or that of the variance if larger."""
        return max(2 + Fraction(self.of.stretch) ** 2, self.of.squared_distance)

    @property
    def even(self) -> tuple[float, ...]:
        """Everyone is in the group."""
        return (1.0, *self.of.even)

    def encode(self, record: Any) -> Encoded:
        """Return 1, t and a·t², as fractions."""
        vector, changed = self.of.encode(record)
        return Encoded((1, *vector), changed)

    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,
    ) -> Answer:
        """Return the size of the group, and its variance if it has anyone.

        With s, v and u the means of the three components, the variance is h²(u/s − (v/s)²). Its interval has
        all values of this in a box around the means. If s could be 0, there is no variance.
        """
        s, v, u = mean[0], mean[1], mean[2] / self.of.stretch
        square = ((self.of.high - self.of.low) / 2) ** 2
        b = share_of(failure_probability, 3)
        size = Count().decode(mean[:1], records, noise, b if together else failure_probability).parts[0]
        parts = [size._replace(name="size")]
        r = 0.0 if noise is None else noise.radius(b)
        if s <= r:
            return Answer(tuple(parts), records)
        found = [u / s - (v * v - (0.0 if noise is None else noise.variance)) / (s * s)]
        if noise is not None:
            found += _ends(1 / min(s + r, 1.0), 1 / (s - r), (abs(v), r), (u, r / self.of.stretch))
        variances = [square * min(max(x, 0.0), 1.0) for x in found]
        if noise is not None:
            variances[0] = min(max(variances[0], variances[1]), variances[2])
        parts += [Part("variance", *variances), Part("deviation", *map(math.sqrt, variances))]
        return Answer(tuple(parts), records)


def _ends(least: float, most: float, v: tuple[float, float], u: tuple[float, float]) -> tuple[float, float]:
    """Return the least and the largest uw − (vw)² of a box.

    w = 1/s is from `least` to `most`. The others are a number and how far from it they may be. Nobody has
    |v| > s, so vw is at most 1.
    """
    most = max(least, most)
    near, far = max(v[0] - v[1], 0.0), v[0] + v[1]
    low, high = max(u[0] - u[1], 0.0), max(u[0] + u[1], 0.0)
    # For fixed v and u it is concave in w, so it is largest at its peak or at the end next to it.
    peak = min(max(high / (2 * near * near), least), most) if near else most
    # From w = 1/v on, vw is 1 and the rest grows. So it is least at an end, or where that begins.
    lowest = min(low * w - min(far * w, 1.0) ** 2 for w in (least, most, min(max(1 / far, least), most)))
    return lowest, high * peak - (near * peak) ** 2
