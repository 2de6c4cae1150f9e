"""The mean of numbers in a range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from tacit.base import arguments
from tacit.base.errors import ParameterError, StateError
from tacit.core.question.base import Answer, Encoded, Exact, MeanNoise, Part, Question, share_of


@final
@dataclass(frozen=True)
class Mean(Question):
    """The mean of one number per record, or of several side by side.

    Parameters
    ----------
    low, high : float
        The range of every number. A number outside is clamped to it.
    numbers : int
        How many numbers a record has.

    Examples
    --------
    >>> vector, changed = Mean(0, 10).encode(11)
    >>> vector, changed
    ((10,), True)
    >>> Mean(0, 10, numbers=3).adjacency
    30.0
    """

    low: float
    high: float
    numbers: int = 1

    kind: ClassVar[str] = "mean"
    moves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, end in (("low", self.low), ("high", self.high)):
            arguments.number(name, end)
        arguments.whole("numbers", self.numbers, 1)
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            raise ParameterError(
                f"the range must be finite with low < high, got {self.low} to {self.high}.", "high"
            )

    @property
    def components(self) -> int:
        """As many as a record has numbers."""
        return self.numbers

    @property
    def box(self) -> tuple[float, float]:
        """The range."""
        return self.low, self.high

    @property
    def diameter(self) -> Fraction:
        """The distance of the two ends, in every number at once."""
        return self.numbers * (Fraction(self.high) - Fraction(self.low))

    @property
    def squared_distance(self) -> Fraction:
        """As for the diameter, with squares."""
        return self.numbers * (Fraction(self.high) - Fraction(self.low)) ** 2

    @property
    def stand_in(self) -> tuple[Exact, ...]:
        """The middle of the range."""
        return ((Fraction(self.low) + Fraction(self.high)) / 2,) * self.numbers

    def unit(self, records: int) -> float:  # noqa: ARG002 - the same for any number
        """Return 1: the answer is the mean vector."""
        return 1.0

    @property
    def fields(self) -> tuple[str, ...]:
        """As many numbers as a record has."""
        return ("number",) * self.numbers

    def encode(self, record: Any) -> Encoded:
        """Return the numbers, read exactly and clamped to the range.

        A number is an int, float, Fraction, Decimal or one of numpy's. Text is refused: only whoever read it
        knows what it means.
        """
        given = record.tolist() if hasattr(record, "tolist") else record
        many = list(given) if isinstance(given, list | tuple) else [given]
        numbers = [number.item() if hasattr(number, "item") else number for number in many]
        if len(numbers) != self.numbers:
            raise StateError(f"a value must have {self.numbers} components, got {len(numbers)}.")
        inside: list[Exact] = []
        for i, number in enumerate(numbers):
            where = f" at index {i}" if self.numbers > 1 else ""
            if not hasattr(number, "as_integer_ratio"):
                raise StateError(f"values must be numbers{where}.")
            try:
                number.as_integer_ratio()
            except (OverflowError, ValueError):
                raise StateError(f"values must be finite numbers, got NaN or infinity{where}.") from None
            # Clamped, not refused: whether an agent takes part must not depend on its value.
            inside.append(min(max(number, self.low), self.high))
        return Encoded(tuple(inside), inside != numbers)

    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,
    ) -> Answer:
        """Return the mean itself, clamped to the range.

        The true mean is inside, so the nearest number of the range is never further from it.
        """
        inside = self._inside
        names = [f"mean {i}" for i in range(self.numbers)] if self.numbers > 1 else ["mean"]
        if noise is None:
            parts = [Part(name, inside(number)) for name, number in zip(names, mean, strict=True)]
        else:
            r = noise.radius(share_of(failure_probability, self.numbers if together else 1))
            parts = [
                Part(name, inside(number), inside(number - r), inside(number + r))
                for name, number in zip(names, mean, strict=True)
            ]
        return Answer(tuple(parts), records)

    def _inside(self, number: float) -> float:
        return float(min(max(number, self.low), self.high))
