"""The base class of questions: encode, diameter, decode.

A question turns a private record into a vector of a bounded set, and the mean of the vectors into an answer.
Everything between, from noise to ledger, sees vectors only. The largest L1 distance of two vectors of the set
is the adjacency with which a whole record may change: the default of every question.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from tacit.base.rounding import fraction_up

Exact: TypeAlias = int | float | Fraction
"""A number that is read exactly. A result of float arithmetic is not: its error could exceed a state step."""


class Encoded(NamedTuple):
    """A record as a vector; both parts are private.

    `changed` says whether the record was outside its domain, or could not be read. Only its owner is told.
    """

    vector: tuple[Exact, ...]
    changed: bool

    def __repr__(self) -> str:
        """Show nothing: a repr ends in logs and errors."""
        return "Encoded(private)"


class Missing(Enum):
    """A record that is missing or cannot be read: its stand-in counts."""

    MISSING = "missing"


class MeanNoise(Protocol):
    """The noise of the mean vector: independent and alike in each component."""

    @property
    def variance(self) -> float:
        """The variance of one component's noise."""

    def radius(self, failure_probability: float, weights: Sequence[float] = (1.0,)) -> float:
        """Return r with P(|Σ_j w_j·V_j| > r) ≤ b, for noise V_j of components."""


class Part(NamedTuple):
    """One number of an answer, with its interval where the noise is known."""

    name: str
    estimate: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Answer:
    """What a question found out; public.

    Attributes
    ----------
    parts : tuple of Part
        With intervals where the noise is known.
    records : int
        How many records were used.
    """

    parts: tuple[Part, ...]
    records: int

    @property
    def estimates(self) -> tuple[float, ...]:
        """The estimates alone, in the order of the parts."""
        return tuple(part.estimate for part in self.parts)


class Question(ABC):
    """What is asked: a mean of vectors, one per private record.

    Attributes
    ----------
    kind : str
        In session files and on the command line.
    moves : bool
        Whether a vector has the record's own quantities, such as positions, which may have to move smoothly.
        A vector of 0 and 1 has no such motion, so fading noise makes no sense for it.
    one_hot : bool
        Whether a vector is 0, but for a single 1 or none. Bits can then have one domain for all components.
    """

    kind: ClassVar[str]
    moves: ClassVar[bool] = False
    one_hot: ClassVar[bool] = False

    @property
    @abstractmethod
    def components(self) -> int:
        """How many numbers a vector has."""

    @property
    @abstractmethod
    def box(self) -> tuple[float, float]:
        """The range of every number of a vector, for the lattice."""

    @property
    @abstractmethod
    def diameter(self) -> Fraction:
        """The largest L1 distance of two vectors, exactly."""

    @property
    def adjacency(self) -> float:
        """The diameter, rounded up: two records of any kind are this close."""
        return fraction_up(self.diameter)

    @property
    def squared_distance(self) -> Fraction:
        """The largest squared L2 distance of two vectors, or a bound on it.

        Gaussian noise is as wide as its root. The square of the diameter bounds it: L2 is never above L1.
        """
        return self.diameter**2

    @property
    @abstractmethod
    def stand_in(self) -> tuple[Exact, ...]:
        """The vector of a record that is missing or cannot be read.

        It is declared, so that whether an agent takes part does not depend on its record.
        """

    @property
    def even(self) -> tuple[float, ...]:
        """A mean vector to plan with: that of records spread evenly.

        How wide an interval is can depend on the mean vector. The stand-in unless a question says more.
        """
        return tuple(map(float, self.stand_in))

    def unit(self, records: int) -> float | None:  # noqa: ARG002 - for those that count
        """Return how much of the answer one unit of a component is.

        None if parts of the answer are no multiples of components: then a radius in the answer's unit says
        nothing about the noise.
        """
        return None

    @property
    def fields(self) -> tuple[str, ...]:
        """What a record has, in order: "number", "yes or no" or "label"."""
        return ("number",)

    def record(self, fields: Sequence[Any]) -> Any:
        """Return the record with these fields: one alone, or several as a tuple."""
        return fields[0] if len(fields) == 1 else tuple(fields)

    @abstractmethod
    def encode(self, record: Any) -> Encoded:
        """Return a record as a vector; clamp it to its domain.

        A record of the wrong shape is refused. No error shows the record.
        """

    @abstractmethod
    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,
    ) -> Answer:
        """Return the answer for the mean vector of so many records.

        With the law of the noise, every part has an interval. It misses the truth with at most this
        probability; with `together`, this is the probability that any interval of the answer does.
        """


def share_of(failure_probability: float, parts: int) -> float:
    """Return the failure probability of each of several independent parts.

    One of them fails with the probability that was given. It is rounded down, so that intervals are never too
    narrow.
    """
    if parts == 1:
        return failure_probability
    return -math.expm1(math.log1p(-failure_probability) / parts) * (1 - 2.0**-50)
