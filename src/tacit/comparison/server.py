"""The paper's client-server mechanism: fresh noise every round, with the best decay."""

from __future__ import annotations

from typing import ClassVar, final

from tacit.comparison.case import Case
from tacit.comparison.paper import Paper
from tacit.mechanism import ClientServer
from tacit.theory.optimum import best_fading


@final
class Server(Paper):
    """Section 3 of the paper, with q* = (1 − σ)^{1/3} and the least noise for these rounds."""

    name: ClassVar[str] = "server"
    title: ClassVar[str] = "fading, server"
    source: ClassVar[str] = "Huang, Mitra, Dullerud 2012, section 3"
    needs: ClassVar[str] = "a server, not trusted"

    @staticmethod
    def best(case: Case) -> ClientServer:
        """The best fading noise for the case."""
        return ClientServer(best_fading(case.mixing, case.epsilon, case.rounds), case.graph.n)
