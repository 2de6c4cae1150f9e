"""One-shot noise followed by plain consensus: the best of the Laplacian family."""

from __future__ import annotations

from typing import ClassVar, Self, final

from tacit.comparison.case import Case
from tacit.comparison.laplacian import Laplacian
from tacit.theory.optimum import best_one_shot


@final
class OneShotConsensus(Laplacian):
    """s = 1 and noise Lap(1/ε) in the first round only: variance 2/(ε²N), the least possible."""

    name: ClassVar[str] = "one-shot"
    title: ClassVar[str] = "one-shot, graph"
    source: ClassVar[str] = "Nozari, Tallapragada, Cortés 2017, their optimum"

    @classmethod
    def tuned(cls, case: Case) -> Self:
        """The one-shot noise with a loss of at most ε."""
        return cls(case, 1.0, float(best_one_shot(0.5, case.epsilon).c), 0.0)
