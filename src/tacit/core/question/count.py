"""How many records say yes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from tacit.base.errors import StateError
from tacit.core.question.base import Answer, Encoded, Exact, MeanNoise, Part, Question


@final
@dataclass(frozen=True)
class Count(Question):
    """How many records say yes, and which share of all that is.

    Examples
    --------
    >>> Count().encode(True).vector, Count().encode(0).vector
    ((1,), (0,))
    """

    kind: ClassVar[str] = "count"
    components: ClassVar[int] = 1
    box: ClassVar[tuple[float, float]] = (0.0, 1.0)
    diameter: ClassVar[Fraction] = Fraction(1)
    stand_in: ClassVar[tuple[Exact, ...]] = (0,)
    even: ClassVar[tuple[float, ...]] = (0.5,)

    def unit(self, records: int) -> float:
        """Return the number of records."""
        return float(records)

    @property
    def fields(self) -> tuple[str, ...]:
        """Yes or no."""
        return ("yes or no",)

    def encode(self, record: Any) -> Encoded:
        """Return 1 for yes (True, 1) and 0 for no (False, 0)."""
        plain = record.item() if hasattr(record, "item") else record
        if not isinstance(plain, int | float) or plain not in (0, 1):
            raise StateError("a record to count must be yes or no: True or False, 1 or 0.")
        return Encoded((int(plain),), False)

    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,  # noqa: ARG002 - both parts say the same
    ) -> Answer:
        """Return the number of records that say yes, and their share."""
        (share,) = mean
        ends: tuple[float, ...] = ()
        if noise is not None:
            r = noise.radius(failure_probability)
            ends = (share - r, share + r)
        inside = [min(max(x, 0.0), 1.0) for x in (share, *ends)]
        counts = [records * x for x in inside]
        return Answer((Part("count", *counts), Part("share", *inside)), records)
