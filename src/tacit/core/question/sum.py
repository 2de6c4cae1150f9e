"""The sum of numbers in a range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from tacit.core.question.base import Answer, Encoded, Exact, MeanNoise, Part, Question
from tacit.core.question.mean import Mean


@final
@dataclass(frozen=True)
class Sum(Question):
    """The sum of one number per record. The number of records is public.

    Parameters
    ----------
    low, high : float
        The range of every number. A number outside is clamped to it.
    """

    low: float
    high: float

    kind: ClassVar[str] = "sum"
    moves: ClassVar[bool] = True
    components: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self._mean  # noqa: B018 - refuses a range that is none

    @property
    def _mean(self) -> Mean:
        return Mean(self.low, self.high)

    @property
    def box(self) -> tuple[float, float]:
        """The range."""
        return self.low, self.high

    @property
    def diameter(self) -> Fraction:
        """The length of the range."""
        return self._mean.diameter

    @property
    def stand_in(self) -> tuple[Exact, ...]:
        """The middle of the range."""
        return self._mean.stand_in

    def unit(self, records: int) -> float:
        """Return the number of records."""
        return float(records)

    def encode(self, record: Any) -> Encoded:
        """Return the number, clamped to the range."""
        return self._mean.encode(record)

    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,
    ) -> Answer:
        """Return as many times the mean as there are records."""
        found = self._mean.decode(mean, records, noise, failure_probability, together=together)
        (_, *numbers) = found.parts[0]
        return Answer((Part("sum", *(records * x for x in numbers if x is not None)),), records)
