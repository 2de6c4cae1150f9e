"""What is read in a slot: a number, or the vector of a question.

A series of a question has one filter and one draw of noise for each component. What it hides is measured in
the L2 norm of the vectors, because Gaussian noise is (docs/proofs/series.md, section 9). Vectors are counted
from an origin that is public: the low end of the range for plain numbers, and the question's stand-in
otherwise. So an agent that has not read yet counts as the stand-in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from tacit.base.rounding import root_up
from tacit.core.question import Mean, Question

if TYPE_CHECKING:
    from tacit.core.series.codes import SeriesGrid


@final
@dataclass(frozen=True)
class Vectors:
    """How many numbers are read in a slot, and how far apart two readings are.

    Attributes
    ----------
    components : int
        How many numbers.
    distance, diameter : float
        The largest L2 and L1 distance of two readings, rounded up.
    """

    components: int
    distance: float
    diameter: float

    @classmethod
    def of(cls, question: Question) -> Vectors:
        """Return those of a question."""
        return cls(question.components, root_up(question.squared_distance), question.adjacency)


def vectors_of(span: float | Vectors) -> Vectors:
    """Return the vectors of plain numbers in a range of this length."""
    return span if isinstance(span, Vectors) else Vectors(1, span, span)


@final
class SlotVector:
    """Turns readings into numbers that count from an origin, and means back.

    Parameters
    ----------
    grid : SeriesGrid
        Has the range.
    asked : Question, optional
        What is asked; plain numbers of the range unless given.
    """

    def __init__(self, grid: SeriesGrid, asked: Question | None = None) -> None:
        self._grid = grid
        self._asked = None if isinstance(asked, Mean) and asked.numbers == 1 else asked
        numbers = (grid.low,) if self._asked is None else self._asked.stand_in
        self._origin = tuple(Fraction(number) for number in numbers)
        self.components = len(self._origin)

    @property
    def plain(self) -> bool:
        """Whether a reading is one number of the range, and nothing more."""
        return self._asked is None

    def read(self, reading: Any) -> tuple[float, ...]:
        """Return the numbers of a reading, each rounded once. Private."""
        if self._asked is None:
            return (self._grid.clamp(reading),)
        vector = self._asked.encode(reading).vector
        return tuple(float(Fraction(x) - zero) for x, zero in zip(vector, self._origin, strict=True))

    def mean(self, means: Sequence[float]) -> float | tuple[float, ...]:
        """Return the mean vector from means that count from the origin."""
        found = tuple(x + float(zero) for x, zero in zip(means, self._origin, strict=True))
        return found[0] if len(found) == 1 else found
