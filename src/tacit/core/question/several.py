"""Several questions about one record at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from tacit.base.arguments import items, positive
from tacit.base.errors import ParameterError, StateError
from tacit.base.rounding import fraction_up
from tacit.core.question.base import Answer, Encoded, Exact, MeanNoise, Part, Question, share_of


@final
@dataclass(frozen=True)
class Several(Question):
    """Several questions side by side; a record is a tuple, one for each.

    Parameters
    ----------
    questions : sequence of Question
    weights : sequence of float, optional
        How much the error of each one matters. By default all alike.

    Notes
    -----
    One noise scale serves all components, so each question's vector is scaled. Question i has the share p_i
    of the loss, and its noise is as wide as d_i/p_i with its diameter d_i. The weighted sum Σ_i w_i·k_i/p_i²
    of the variances of its k_i components, relative to d_i², is least for p_i ∝ (w_i·k_i)^⅓.

    Examples
    --------
    >>> from tacit.core.question import Count, Mean
    >>> Several([Count(), Mean(0, 10)]).encode((True, 5)).vector
    (Fraction(1, 2), Fraction(1, 4))
    """

    questions: tuple[Question, ...]
    weights: tuple[float, ...]

    kind: ClassVar[str] = "several"

    def __init__(self, questions: Sequence[Question], weights: Sequence[float] | None = None) -> None:
        given = items("questions", questions, "one or more questions")
        wanted = (1.0,) * len(given) if weights is None else items("weights", weights, "positive numbers")
        nested = any(isinstance(each, Several) for each in given)
        if not given or nested or not all(isinstance(each, Question) for each in given):
            raise ParameterError("several questions must be one or more questions, side by side.")
        if len(wanted) != len(given) or not all(positive("a weight", weight) for weight in wanted):
            raise ParameterError(f"there must be one positive weight for each question, got {list(wanted)}.")
        object.__setattr__(self, "questions", given)
        object.__setattr__(self, "weights", wanted)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The share of the loss of each question; they add up to 1."""
        sizes = zip(self.questions, self.weights, strict=True)
        parts = [_cube_root(each.components * Fraction(weight)) for each, weight in sizes]
        return tuple(Fraction(part, sum(parts)) for part in parts)

    @property
    def _factors(self) -> list[Fraction]:
        return [share / each.diameter for share, each in zip(self.shares, self.questions, strict=True)]

    @property
    def components(self) -> int:
        """All components together."""
        return sum(each.components for each in self.questions)

    @property
    def box(self) -> tuple[float, float]:
        """The range of all scaled components."""
        ends = [
            factor * Fraction(end)
            for factor, each in zip(self._factors, self.questions, strict=True)
            for end in each.box
        ]
        # Rounded outwards by less than anyone could notice: the box only sizes the lattice.
        return 0.0 - fraction_up(-min(ends)), fraction_up(max(ends))

    @property
    def diameter(self) -> Fraction:
        """The sum of the scaled diameters: 1."""
        return sum(self.shares, start=Fraction(0))

    @property
    def squared_distance(self) -> Fraction:
        """The sum of those of all questions, scaled."""
        pairs = zip(self._factors, self.questions, strict=True)
        return sum((factor**2 * each.squared_distance for factor, each in pairs), start=Fraction(0))

    @property
    def stand_in(self) -> tuple[Exact, ...]:
        """The stand-in of each question."""
        return self._scaled([each.stand_in for each in self.questions])

    @property
    def even(self) -> tuple[float, ...]:
        """What each question has."""
        return tuple(map(float, self._scaled([each.even for each in self.questions])))

    @property
    def fields(self) -> tuple[str, ...]:
        """Those of all questions, one after the other."""
        return tuple(field for each in self.questions for field in each.fields)

    def record(self, fields: Sequence[Any]) -> Any:
        """Return a record for each question."""
        rest = iter(fields)
        return tuple(each.record([next(rest) for _ in each.fields]) for each in self.questions)

    def encode(self, record: Any) -> Encoded:
        """Return all vectors side by side, scaled."""
        if not isinstance(record, list | tuple) or len(record) != len(self.questions):
            raise StateError(f"a record of {len(self.questions)} questions must be as many records.")
        found = [each.encode(part) for each, part in zip(self.questions, record, strict=True)]
        return Encoded(self._scaled([one.vector for one in found]), any(one.changed for one in found))

    def _scaled(self, vectors: Sequence[Sequence[Exact]]) -> tuple[Exact, ...]:
        pairs = zip(self._factors, vectors, strict=True)
        return tuple(factor * Fraction(number) for factor, vector in pairs for number in vector)

    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,
    ) -> Answer:
        """Return the parts of all answers, each named after its question."""
        b = share_of(failure_probability, len(self.questions)) if together else failure_probability
        parts: list[Part] = []
        first = 0
        for i, (each, factor) in enumerate(zip(self.questions, self._factors, strict=True)):
            own = [number / float(factor) for number in mean[first : first + each.components]]
            law = None if noise is None else ScaledNoise(noise, 1 / float(factor))
            found = each.decode(own, records, law, b, together=together)
            parts += [part._replace(name=f"{i} {each.kind}: {part.name}") for part in found.parts]
            first += each.components
        return Answer(tuple(parts), records)


@final
@dataclass(frozen=True)
class ScaledNoise:
    """The noise of components that are scaled back."""

    noise: MeanNoise
    factor: float

    @property
    def variance(self) -> float:
        """The variance of one component's noise."""
        return self.factor**2 * self.noise.variance

    def radius(self, failure_probability: float, weights: Sequence[float] = (1.0,)) -> float:
        """Return the radius of a sum of components, scaled back."""
        return self.factor * self.noise.radius(failure_probability, weights)


def _cube_root(number: Fraction) -> int:
    """Return 2^60 times the cube root, rounded down: the same everywhere."""
    whole = max((number.numerator << 180) // number.denominator, 1)
    root = 1 << -(-whole.bit_length() // 3)
    while (better := (2 * root + whole // root**2) // 3) < root:  # Newton's method, from above
        root = better
    return root
