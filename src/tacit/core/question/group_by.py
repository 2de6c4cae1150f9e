"""One answer for each label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from tacit.base.arguments import instance, items, shown
from tacit.base.errors import ParameterError, StateError
from tacit.core.question.base import Answer, Encoded, Exact, MeanNoise, Question, share_of
from tacit.core.question.count import Count
from tacit.core.question.group_variance import GroupVariance
from tacit.core.question.histogram import Histogram
from tacit.core.question.mean import Mean
from tacit.core.question.sum import Sum
from tacit.core.question.variance import Variance
from tacit.core.question.weighted_mean import WeightedMean


@final
@dataclass(frozen=True)
class GroupBy(Question):
    """A question for the records of each label; a record is (label, record).

    Parameters
    ----------
    labels : sequence of str
        The labels, public. A record with another label counts for none of them.
    question : Question
        `Count`, `Sum`, `Histogram`, `Mean` of one number, `WeightedMean` or `Variance`. Others are refused.

    Notes
    -----
    There is one block of components for each label, and a record is zero in all but its own. So two vectors
    are at most twice the largest L1 norm of a block apart: 1 for a count or a histogram, max(|a|, |b|) for a
    sum, 2 for means, 3 for a variance. With a single label, a block and the zero vector of all others are
    once that norm apart, or as far as two blocks. The size of a group is private, so the block of a mean has
    it, too: (1, t), which is a weighted mean of weight 1. That of a variance is (1, t, t²).
    """

    labels: tuple[str, ...]
    question: Question

    kind: ClassVar[str] = "group by"

    def __init__(self, labels: Sequence[str], question: Question) -> None:
        given = items("labels", labels, "different texts")
        instance("question", question, Question, "a question", "For example tacit.Mean(0, 10).")
        if not given or not all(isinstance(label, str) for label in given) or len(set(given)) < len(given):
            named = ", ".join(map(shown, given)) or "none"
            raise ParameterError(f"labels of groups must be different texts, got {named}.")
        object.__setattr__(self, "labels", given)
        object.__setattr__(self, "question", question)
        self._norms  # noqa: B018 - refuses what has no blocks

    @property
    def _sized(self) -> bool:
        """Whether the block of the question has the size of the group."""
        return isinstance(self.question, Mean)

    @property
    def _block(self) -> Question:
        asked = self.question
        if isinstance(asked, Variance):
            return GroupVariance(asked)
        return WeightedMean(asked.low, asked.high) if isinstance(asked, Mean) else asked

    @property
    def _norms(self) -> tuple[Fraction, Fraction]:
        """The largest L1 norm of a block, and the largest squared L2 norm."""
        asked = self.question
        if isinstance(asked, Sum):
            most = max(abs(Fraction(asked.low)), abs(Fraction(asked.high)))
            return most, most**2
        if isinstance(asked, Count | Histogram):
            return Fraction(1), Fraction(1)
        if isinstance(asked, WeightedMean) or (isinstance(asked, Mean) and asked.numbers == 1):
            return Fraction(2), Fraction(2)
        if isinstance(asked, Variance):
            return GroupVariance(asked).norm, 2 + Fraction(asked.stretch) ** 2
        raise ParameterError(
            "groups must ask for a count, a sum, a histogram, the mean of one number, a weighted mean or a "
            f"variance, got {getattr(asked, 'kind', asked)!r}."
        )

    @property
    def components(self) -> int:
        """The components of all blocks."""
        return len(self.labels) * self._block.components

    @property
    def box(self) -> tuple[float, float]:
        """The range of a block, and 0."""
        low, high = self._block.box
        return min(low, 0.0), max(high, 0.0)

    @property
    def diameter(self) -> Fraction:
        """Twice the largest norm of a block; with one label, or two blocks."""
        return max(min(len(self.labels), 2) * self._norms[0], self._block.diameter)

    @property
    def squared_distance(self) -> Fraction:
        """The squared L2 norms of two blocks, or the distance of two in one place."""
        return max(min(len(self.labels), 2) * self._norms[1], self._block.squared_distance)

    @property
    def stand_in(self) -> tuple[Exact, ...]:
        """The zero vector: in no group."""
        return (0,) * self.components

    @property
    def even(self) -> tuple[float, ...]:
        """Groups of one size, each with what its question has."""
        inner = self._block.even
        if self._sized:
            inner = (1.0, *inner[1:])
        return tuple(number / len(self.labels) for number in inner) * len(self.labels)

    @property
    def fields(self) -> tuple[str, ...]:
        """The label, and what the question has."""
        return ("label", *self.question.fields)

    def record(self, fields: Sequence[Any]) -> Any:
        """Return the label and the record of the question."""
        return fields[0], self.question.record(fields[1:])

    def encode(self, record: Any) -> Encoded:
        """Return the vector of the record in its label's block, zero elsewhere."""
        if not isinstance(record, list | tuple) or len(record) != 2 or not isinstance(record[0], str):
            raise StateError("a record of groups must be a label and a record.")
        label, inner = record
        block, changed = self._block.encode((1, inner) if self._sized else inner)
        if label not in self.labels:
            return Encoded(self.stand_in, True)
        place = self.labels.index(label) * len(block)
        rest = self.components - place - len(block)
        return Encoded((*(0,) * place, *block, *(0,) * rest), changed)

    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,
    ) -> Answer:
        """Return the parts of each label; of means and variances also its size.

        A mean or variance of a group that may be empty has no part: there is no answer.
        """
        block, asked = self._block, self.question
        if isinstance(asked, Sum):  # whoever is not in the group counts as 0, which may be off the range
            block = Sum(min(asked.low, 0.0), max(asked.high, 0.0))
        k, parts = block.components, []
        b = share_of(failure_probability, len(self.labels)) if together else failure_probability
        b = b / 2 if together and self._sized else b  # the size and the mean of a group have the same noise
        for i, label in enumerate(self.labels):
            own = mean[k * i : k * (i + 1)]
            found = list(block.decode(own, records, noise, b, together=together).parts)
            if self._sized:
                size = Count().decode(own[:1], records, noise, b).parts[0]
                found = [size._replace(name="size"), *(part._replace(name="mean") for part in found)]
            parts += [part._replace(name=f"{label}: {part.name}") for part in found]
        return Answer(tuple(parts), records)
