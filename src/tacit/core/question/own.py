"""A question of your own, with a bound that the agent enforces."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar, final

from tacit.base.arguments import items, number, positive, shown
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
    vertices : sequence of vectors, optional
        Instead of centre and radius: all vectors that there are. Any other becomes the nearest one. The
        first is the stand-in.

    Examples
    --------
    >>> Own(lambda x: [x, x * x], centre=[0, 0], radius=2).encode(3).vector
    (Fraction(1, 2), Fraction(3, 2))
    """

    vector: Callable[[Any], Sequence[Exact]]
    centre: tuple[Exact, ...] = ()
    radius: Exact = 0
    answer: Callable[[Sequence[float]], float | Mapping[str, float]] | None = None
    vertices: tuple[tuple[Exact, ...], ...] = ()

    kind: ClassVar[str] = "own"
    moves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not callable(self.vector):
            raise ParameterError(f"vector must be a function of a record, got {shown(self.vector)}.")
        vectors = [
            items("a vertex", each, "a vector") for each in items("vertices", self.vertices, "vectors")
        ]
        object.__setattr__(self, "centre", items("centre", self.centre, "a vector"))
        object.__setattr__(self, "vertices", tuple(vectors))
        for each in (*self.centre, *(one for vertex in self.vertices for one in vertex)):
            number("a number of the centre or of a vertex", each)
        if self.vertices:
            sizes = {len(vertex) for vertex in self.vertices}
            if self.centre or len(set(self.vertices)) < 2 or len(sizes) > 1 or 0 in sizes:
                raise ParameterError(
                    "vertices of a question of your own must be two or more different vectors of finite "
                    "numbers, all of one length, and then there is no centre."
                )
        elif not self.centre:
            raise ParameterError(
                "a question of your own needs a centre of finite numbers and a radius above 0, or vertices."
            )
        else:
            positive("the radius of a question of your own", self.radius)

    @property
    def components(self) -> int:
        """As many as the centre has, or a vertex."""
        return len(self.stand_in)

    @property
    def box(self) -> tuple[float, float]:
        """The radius around the numbers of the centre, or those of the vertices."""
        ends = [Fraction(number) + side * Fraction(self.radius) for number in self.centre for side in (-1, 1)]
        ends += [Fraction(number) for vertex in self.vertices for number in vertex]
        return math.nextafter(float(min(ends)), -math.inf), math.nextafter(float(max(ends)), math.inf)

    @property
    def diameter(self) -> Fraction:
        """2ρ, or the largest distance of two vertices."""
        return _largest_distance(self.vertices) if self.vertices else 2 * Fraction(self.radius)

    @property
    def stand_in(self) -> tuple[Exact, ...]:
        """The centre, or the first vertex."""
        return self.vertices[0] if self.vertices else self.centre

    @property
    def even(self) -> tuple[float, ...]:
        """The centre, or the mean of the vertices."""
        among = self.vertices or (self.centre,)
        return tuple(float(sum(map(Fraction, column)) / len(among)) for column in zip(*among, strict=True))

    def unit(self, records: int) -> float | None:  # noqa: ARG002 - the same for any number
        """Return 1 unless a function makes the answer."""
        return 1.0 if self.answer is None else None

    def encode(self, record: Any) -> Encoded:
        """Return the function's numbers, moved to within the radius.

        With vertices, the nearest one.
        """
        try:
            given = [Fraction(number) for number in self.vector(record)]
        except Exception:
            raise StateError("the function of this question must make finite numbers of a record.") from None
        if len(given) != self.components:
            raise StateError(
                f"the function of this question must make {self.components} numbers of a record."
            )
        if self.vertices:
            nearest = min(self.vertices, key=lambda vertex: _distance(given, vertex))
            return Encoded(tuple(Fraction(number) for number in nearest), _distance(given, nearest) != 0)
        centre = [Fraction(number) for number in self.centre]
        far = _distance(given, centre)
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


def _distance(one: Sequence[Exact], other: Sequence[Exact]) -> Fraction:
    """Return the L1 distance of two vectors, exactly."""
    pairs = zip(one, other, strict=True)
    return sum((abs(Fraction(a) - Fraction(b)) for a, b in pairs), start=Fraction(0))


@lru_cache(maxsize=16)
def _largest_distance(vertices: tuple[tuple[Exact, ...], ...]) -> Fraction:
    return max(_distance(a, b) for a, b in combinations(vertices, 2))


def _plain(mean: Sequence[float], records: int, noise: MeanNoise | None, b: float, together: bool) -> Answer:
    if noise is None:
        return Answer(tuple(Part(f"mean {i}", number) for i, number in enumerate(mean)), records)
    r = noise.radius(share_of(b, len(mean) if together else 1))
    return Answer(tuple(Part(f"mean {i}", x, x - r, x + r) for i, x in enumerate(mean)), records)
