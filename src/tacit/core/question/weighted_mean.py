"""A mean in which some records count more than others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from tacit.base.arguments import positive
from tacit.base.errors import StateError
from tacit.core.question.base import Answer, Encoded, Exact, MeanNoise, Part, Question
from tacit.core.question.mean import Mean

_FINE = 2.0**-20  # how exactly the ends of an interval are found, in halves of the range


@final
@dataclass(frozen=True)
class WeightedMean(Question):
    """Σwx/Σw, where a record is a weight w and a number x; both are private.

    Parameters
    ----------
    low, high : float
        The range of the numbers.
    most : float
        The largest weight, W > 0. The least one is 0.

    Notes
    -----
    With t = (x − m)/h as for a variance, the vector is (w/W, (w/W)·t). These vectors are a triangle with the
    corners (0, 0), (1, 1) and (1, −1), each two of which are 2 apart.
    """

    low: float
    high: float
    most: float = 1.0

    kind: ClassVar[str] = "weighted mean"
    components: ClassVar[int] = 2
    box: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    diameter: ClassVar[Fraction] = Fraction(2)
    stand_in: ClassVar[tuple[Exact, ...]] = (0, 0)
    even: ClassVar[tuple[float, ...]] = (0.5, 0.0)

    def __post_init__(self) -> None:
        Mean(self.low, self.high)  # refuses a range that is none
        positive("the largest weight", self.most)

    @property
    def fields(self) -> tuple[str, ...]:
        """The weight, and the number."""
        return ("number", "number")

    def encode(self, record: Any) -> Encoded:
        """Return w/W and (w/W)·t, as fractions; a record is (w, x)."""
        given = record.tolist() if hasattr(record, "tolist") else record
        if not isinstance(given, list | tuple) or len(given) != 2:
            raise StateError("a record of a weighted mean must be a weight and a number.")
        ((weight,), heavy) = Mean(0, self.most).encode(given[0])
        ((number,), outside) = Mean(self.low, self.high).encode(given[1])
        w, low = Fraction(weight) / Fraction(self.most), Fraction(self.low)
        t = (Fraction(number) - low) / ((Fraction(self.high) - low) / 2) - 1
        return Encoded((w, w * t), heavy or outside)

    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,  # noqa: ARG002 - there is one part
    ) -> Answer:
        """Return m + h·v/u for the means u and v of the vector.

        The interval has every ρ with |v − ρu| ≤ r(ρ), where r is the radius of that sum's noise (Fieller). If
        the weights could all be 0, there is no answer: no part. So with at most the failure probability there
        is an answer whose interval is wrong.
        """
        u, v = mean
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        ends: tuple[float, ...] = ()
        if noise is None:
            if u <= 0:
                return Answer((), records)
        else:
            if u <= noise.radius(failure_probability, (1.0,)):
                return Answer((), records)
            ends = _possible(u, v, noise, failure_probability)
            if not ends:
                return Answer((), records)
        ratio = min(max(v / u, -1.0), 1.0)
        if ends:
            ratio = min(max(ratio, ends[0]), ends[1])
        return Answer((Part("weighted mean", *(middle + half * x for x in (ratio, *ends))),), records)


def _possible(u: float, v: float, noise: MeanNoise, b: float) -> tuple[float, ...]:
    """Return an interval with every ρ of [−1, 1] that the noise allows."""

    def excluded(low: float, high: float) -> bool:
        """Whether no ρ from low to high is possible."""
        # r(ρ) grows with |ρ|, because more independent symmetric noise is less peaked.
        widest = noise.radius(b, (1.0, max(abs(low), abs(high))))
        near, far = v - low * u, v - high * u
        return min(abs(near), abs(far)) > widest and (near > 0) == (far > 0)

    def first(low: float, high: float, *, left: bool) -> float | None:
        """Return the outer end of the outermost part that is not excluded."""
        if excluded(low, high):
            return None
        if high - low <= _FINE:
            return low if left else high
        middle = (low + high) / 2
        halves = [(low, middle), (middle, high)]
        for half in halves if left else reversed(halves):
            if (found := first(*half, left=left)) is not None:
                return found
        return None

    low, high = first(-1.0, 1.0, left=True), first(-1.0, 1.0, left=False)
    return () if low is None or high is None else (low, high)
