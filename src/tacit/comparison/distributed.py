"""The paper's distributed mechanism: fresh noise every round on a graph, with the best decay."""

from __future__ import annotations

from typing import ClassVar, final

from tacit.comparison.case import Case
from tacit.comparison.paper import Paper
from tacit.mechanism import Distributed
from tacit.theory.optimum import averaging_mixing, best_fading


@final
class OnGraph(Paper):
    """Section 4 of the paper, with σ_i ∝ |N(i)| + 1 so that the target is the true average.

    If degrees differ, agents with few neighbours then move slowly, which needs more noise. With
    Metropolis weights all agents mix alike.
    """

    name: ClassVar[str] = "graph"
    title: ClassVar[str] = "fading, graph"
    source: ClassVar[str] = "Huang, Mitra, Dullerud 2012, section 4"
    needs: ClassVar[str] = "largest degree"

    @staticmethod
    def best(case: Case) -> Distributed:
        """The best fading noise for the case."""
        sigma = averaging_mixing(case.graph, case.mixing, case.rows)
        return Distributed(best_fading(sigma, case.epsilon, case.rounds), case.graph, case.rows)
