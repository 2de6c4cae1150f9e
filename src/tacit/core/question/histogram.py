"""How many records fall into each bucket."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, final

from tacit.base.arguments import items, shown
from tacit.base.errors import ParameterError, StateError
from tacit.core.question.base import Answer, Encoded, Exact, MeanNoise, Part, Question, share_of

OTHER = "other"
"""The bucket of labels that a histogram does not name."""


@final
@dataclass(frozen=True)
class Histogram(Question):
    """How many records are in each bucket: of numbers, or of labels.

    Parameters
    ----------
    edges : sequence of numbers, or of str
        e_0 < e_1 < … < e_k make k buckets; e_0 may be −∞ and e_k may be ∞. A number belongs to the bucket
        that starts at it, and e_k to the last one. A number outside is clamped. Labels make one bucket each,
        and one more, `OTHER`, for every label that is not named.

    Notes
    -----
    A record is in one bucket, so two vectors differ in at most two places: the diameter is 2 for any number
    of buckets.

    Examples
    --------
    >>> Histogram([0, 1, 2, 5]).encode(1.5).vector
    (0, 1, 0)
    """

    edges: tuple[float, ...] | tuple[str, ...]

    kind: ClassVar[str] = "histogram"
    box: ClassVar[tuple[float, float]] = (0.0, 1.0)
    diameter: ClassVar[Fraction] = Fraction(2)
    squared_distance: ClassVar[Fraction] = Fraction(2)
    one_hot: ClassVar[bool] = True

    def __init__(self, edges: Sequence[float] | Sequence[str]) -> None:
        given = items("edges", edges, "numbers that increase, or labels")
        given = tuple(each.item() if hasattr(each, "item") else each for each in given)
        object.__setattr__(self, "edges", given)
        if given and all(isinstance(each, str) for each in given):
            if len(set(given)) < len(given) or OTHER in given:
                raise ParameterError(
                    f"labels of a histogram must differ from each other and from {OTHER!r}: {list(given)}."
                )
            return
        numbers = all(isinstance(each, int | float) for each in given)
        inner = numbers and all(map(math.isfinite, given[1:-1]))
        if len(given) < 2 or not inner or not all(a < b for a, b in pairwise(given)):
            named = ", ".join(map(shown, given)) or "none"
            raise ParameterError(
                "edges of a histogram must be two or more numbers that increase; only the first and the last "
                f"may be infinite. Got {named}."
            )

    @property
    def labelled(self) -> bool:
        """Whether the buckets have labels instead of edges."""
        return isinstance(self.edges[0], str)

    @property
    def names(self) -> tuple[str, ...]:
        """What the buckets are called."""
        if self.labelled:
            return (*map(str, self.edges), OTHER)
        ends = [f"{edge:g}" for edge in self.edges]
        return tuple(f"{a} to {b}" for a, b in pairwise(ends))

    @property
    def components(self) -> int:
        """As many as there are buckets."""
        return len(self.edges) + (1 if self.labelled else -1)

    @property
    def stand_in(self) -> tuple[Exact, ...]:
        """The zero vector: in no bucket."""
        return (0,) * self.components

    def unit(self, records: int) -> float:
        """Return the number of records."""
        return float(records)

    @property
    def even(self) -> tuple[float, ...]:
        """The same share in every bucket."""
        return (1 / self.components,) * self.components

    @property
    def fields(self) -> tuple[str, ...]:
        """A label, or a number."""
        return ("label" if self.labelled else "number",)

    def encode(self, record: Any) -> Encoded:
        """Return 1 in the record's bucket and 0 in all others."""
        plain = record.item() if hasattr(record, "item") else record
        edges: Any = self.edges
        if self.labelled:
            if not isinstance(plain, str):
                raise StateError("a record of this histogram must be a label.")
            place, changed = (edges.index(plain), False) if plain in edges else (len(edges), False)
        else:
            if isinstance(plain, str) or not hasattr(plain, "as_integer_ratio") or math.isnan(plain):
                raise StateError("a record of this histogram must be a number.")
            place = min(max(bisect_right(edges, plain) - 1, 0), self.components - 1)
            changed = not edges[0] <= plain <= edges[-1]
        return Encoded(tuple(int(j == place) for j in range(self.components)), changed)

    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,
    ) -> Answer:
        """Return the number of records of each bucket.

        Intervals are those of the noise, cut to [0, N]. Counts that are made to add up (`projected`) have no
        such intervals: 95% would cover less than 88%.
        """
        ends: tuple[float, ...] = ()
        if noise is not None:
            r = noise.radius(share_of(failure_probability, self.components if together else 1))
            ends = (-r, r)
        parts = []
        for name, share in zip(self.names, mean, strict=True):
            numbers = [records * min(max(x, 0.0), 1.0) for x in (share, *(share + end for end in ends))]
            parts.append(Part(name, *numbers))
        return Answer(tuple(parts), records)


def projected(counts: Sequence[float], records: int) -> tuple[float, ...]:
    """Return the nearest counts of at least 0 that add up to all records.

    They are for pictures. Negative counts, which noise makes, look wrong there.
    """
    rest, shift = sorted(counts, reverse=True), 0.0
    total = 0.0
    for many, count in enumerate(rest, 1):  # the largest counts stay positive, all shifted alike
        total += count
        if count - (total - records) / many <= 0:
            break
        shift = (total - records) / many
    return tuple(max(count - shift, 0.0) for count in counts)
