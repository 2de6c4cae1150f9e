"""Constant noise: as large in the last round as in the first, as in streaming counters."""

from __future__ import annotations

from typing import ClassVar, final

from tacit.comparison.case import Case
from tacit.comparison.paper import Paper
from tacit.law import Constant
from tacit.mechanism import Distributed
from tacit.theory.optimum import averaging_mixing


@final
class ConstantNoise(Paper):
    """The distributed mechanism with noise that does not fade; every round costs, so rounds are limited."""

    name: ClassVar[str] = "constant"
    title: ClassVar[str] = "constant, graph"
    source: ClassVar[str] = "Dwork, Naor, Pitassi, Rothblum 2010 (streaming counters), on the paper's motion"
    needs: ClassVar[str] = "largest degree, a last round"

    @staticmethod
    def best(case: Case) -> Distributed:
        """The least constant noise with a loss of at most ε over the rounds."""
        sigma = averaging_mixing(case.graph, case.mixing, case.rows)
        return Distributed(Constant.best(sigma, case.epsilon, case.rounds), case.graph, case.rows)
