"""A question of your own, with a bound that the agent enforces."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from tacit.base.errors import ParameterError, StateError
from tacit.core.question.base import Answer, Encoded, Exact, MeanNoise, Part, Question, share_of


@final
@dataclass(frozen=True)
class Own(Question):
    """A mean of vectors that a function of yours makes.

    Parameters
    ----------
    vector : callable
        Returns the numbers of a record. It may depend on nothing but the record.
    centre : sequence of numbers
        c, also the stand-in.
    radius : number
        ρ > 0: every vector v has |v − c|₁ ≤ ρ. One that is further away is moved towards c until it is at ρ.
        An agent can check this at its own record. It could not check a diameter, which is about pairs.
    answer : callable, optional
        Returns a number, or numbers by name, for the mean vector. By default the mean vector.

    Examples
    --------
    >>> Own(lambda x: [x, x * x], centre=[0, 0], radius=2).encode(3).vector
    (Fraction(1, 2), Fraction(3, 2))
    """

    vector: Callable[[Any], Sequence[Exact]]
    centre: tuple[Exact, ...]
    radius: Exact
    answer: Callable[[Sequence[float]], float | Mapping[str, float]] | None = None

    kind: ClassVar[str] = "own"

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", tuple(self.centre))
        if not self.centre or not all(map(math.isfinite, self.centre)) or not 0 < self.radius < math.inf:
            raise ParameterError(
                "a question of your own needs a centre of finite numbers and a radius above 0."
            )

    @property
    def components(self) -> int:
        """As many as the centre has."""
        return len(self.centre)

    @property
    def box(self) -> tuple[float, float]:
        """The radius around the numbers of the centre."""
        ends = [Fraction(number) + side * Fraction(self.radius) for number in self.centre for side in (-1, 1)]
        return math.nextafter(float(min(ends)), -math.inf), math.nextafter(float(max(ends)), math.inf)

    @property
    def diameter(self) -> Fraction:
        """2ρ."""
        return 2 * Fraction(self.radius)

    @property
    def stand_in(self) -> tuple[Exact, ...]:
        """The centre."""
        return self.centre

    def encode(self, record: Any) -> Encoded:
        """Return the function's numbers, moved to within the radius."""
        try:
            given = [Fraction(number) for number in self.vector(record)]
        except Exception:
            raise StateError("the function of this question must make finite numbers of a record.") from None
        if len(given) != self.components:
            raise StateError(
                f"the function of this question must make {self.components} numbers of a record."
            )
        centre = [Fraction(number) for number in self.centre]
        far = sum((abs(a - c) for a, c in zip(given, centre, strict=True)), start=Fraction(0))
        if far <= Fraction(self.radius):
            return Encoded(tuple(given), False)
        pull = Fraction(self.radius) / far
        return Encoded(tuple(c + pull * (a - c) for a, c in zip(given, centre, strict=True)), True)

    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,
    ) -> Answer:
        """Return what the function makes of the mean vector, without intervals.

        Without a function it is the mean vector itself, with intervals.
        """
        if self.answer is None:
            return _plain(mean, records, noise, failure_probability, together)
        found = self.answer(mean)
        named = found if isinstance(found, Mapping) else {"answer": found}
        return Answer(tuple(Part(name, float(number)) for name, number in named.items()), records)


def _plain(mean: Sequence[float], records: int, noise: MeanNoise | None, b: float, together: bool) -> Answer:
    if noise is None:
        return Answer(tuple(Part(f"mean {i}", number) for i, number in enumerate(mean)), records)
    r = noise.radius(share_of(b, len(mean) if together else 1))
    return Answer(tuple(Part(f"mean {i}", x, x - r, x + r) for i, x in enumerate(mean)), records)
