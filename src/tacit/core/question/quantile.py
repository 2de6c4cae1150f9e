"""Quantiles: below which number a share of the records is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar, final

from tacit.base.arguments import inside_unit, items
from tacit.base.errors import ParameterError
from tacit.core.question.base import Answer, Encoded, Exact, MeanNoise, Part, Question
from tacit.core.question.histogram import Histogram


@final
@dataclass(frozen=True)
class Quantile(Question):
    """The q-quantiles of numbers, as exactly as the edges allow.

    Parameters
    ----------
    edges : sequence of numbers
        As of a histogram. Intervals begin and end at edges.
    shares : sequence of float
        q of each quantile, in (0, 1); ½ is the median.

    Notes
    -----
    Let S_j be the noisy number of records in the first j of k buckets. All N records are in buckets, so
    S_k − N is noise, and F_j = S_j + (j/k)(N − S_k) has less of it than S_j: its variance is proportional to
    j(k−j)/k. If J is the first bucket at whose end qN records are reached, then an interval misses it only if
    the noise of F_J is below −r, or that of F_{J−1} above r. So one radius for each edge is enough for one
    quantile. For all of them at once, P(max_j |noise of S_j| > r) ≤ 2·P(|noise of S_k| > r) (Lévy).
    """

    edges: tuple[float, ...]
    shares: tuple[float, ...]

    kind: ClassVar[str] = "quantile"
    box: ClassVar[tuple[float, float]] = Histogram.box
    diameter: ClassVar[Fraction] = Histogram.diameter
    squared_distance: ClassVar[Fraction] = Histogram.squared_distance

    def __init__(self, edges: Sequence[float], shares: Sequence[float] = (0.5,)) -> None:
        if Histogram(edges).labelled:
            raise ParameterError("a quantile needs edges that are numbers: labels have no order.")
        wanted = items("shares", shares, "one or more numbers in (0, 1)")
        if not wanted:
            raise ParameterError("shares must be one or more numbers in (0, 1), got none.")
        for share in wanted:
            inside_unit("a quantile", share)
        object.__setattr__(self, "edges", tuple(edges))
        object.__setattr__(self, "shares", wanted)

    @property
    def _histogram(self) -> Histogram:
        return Histogram(self.edges)

    @property
    def components(self) -> int:
        """As many as there are buckets."""
        return len(self.edges) - 1

    @property
    def stand_in(self) -> tuple[Exact, ...]:
        """The middle bucket: every record must be in one."""
        return tuple(int(j == self.components // 2) for j in range(self.components))

    @property
    def even(self) -> tuple[float, ...]:
        """The same share in every bucket."""
        return (1 / self.components,) * self.components

    def encode(self, record: Any) -> Encoded:
        """Return 1 in the record's bucket and 0 in all others."""
        return self._histogram.encode(record)

    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,
    ) -> Answer:
        """Return the quantiles, with intervals between edges."""
        k = self.components
        sums = [0.0, *accumulate(mean)]  # as shares of all records
        level = [*(s + j / k * (1 - sums[-1]) for j, s in enumerate(sums[:-1])), 1.0]
        reach, radii = level, [0.0] * (k + 1)
        if noise is not None and together:
            reach = [*sums[:-1], 1.0]
            radii = [0.0, *[noise.radius(failure_probability / 2, [1.0] * k)] * (k - 1), 0.0]
        elif noise is not None:
            radii = [noise.radius(failure_probability, _weights(j, k)) for j in range(k + 1)]
        parts = []
        for q in self.shares:
            found = self._at(level, q)
            if noise is None:
                parts.append(Part(f"{q:g}", found))
            else:
                low, high = self._interval(reach, radii, q)
                parts.append(Part(f"{q:g}", min(max(found, low), high), low, high))
        return Answer(tuple(parts), records)

    def _interval(self, reach: Sequence[float], radii: Sequence[float], q: float) -> tuple[float, float]:
        first = next(j for j, (f, r) in enumerate(zip(reach, radii, strict=True)) if f + r >= q)
        last = max(j for j, (f, r) in enumerate(zip(reach, radii, strict=True)) if f - r < q)
        low, high = max(first - 1, 0), min(last + 1, self.components)
        return self.edges[min(low, high)], self.edges[max(low, high)]

    def _at(self, level: Sequence[float], q: float) -> float:
        """Return the number at which the levels first reach q, between edges."""
        j = next((j for j, f in enumerate(level) if f >= q), len(level) - 1)
        low, high = self.edges[max(j - 1, 0)], self.edges[max(j, 1)]
        if abs(low) == float("inf"):
            return high
        if high == float("inf"):
            return low
        below, above = level[max(j - 1, 0)], level[max(j, 1)]
        part = (q - below) / (above - below) if above > below else 1.0
        return low + min(max(part, 0.0), 1.0) * (high - low)


def _weights(j: int, k: int) -> list[float]:
    """How much the noise of each bucket counts in F_j."""
    return [1 - j / k] * j + [j / k] * (k - j)
