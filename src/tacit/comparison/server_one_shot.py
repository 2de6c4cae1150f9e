"""One-shot noise with a server: public shadows start noisy and move without noise."""

from __future__ import annotations

from typing import ClassVar, final

from tacit.comparison.case import Case
from tacit.comparison.paper import Paper
from tacit.mechanism import ClientServer
from tacit.theory.optimum import best_one_shot


@final
class ServerOneShot(Paper):
    """Noise Lap(1/ε) once per agent (docs/proofs/one-shot.md)."""

    name: ClassVar[str] = "server-one-shot"
    title: ClassVar[str] = "one-shot, server"
    source: ClassVar[str] = "docs/proofs/one-shot.md, after Nozari, Tallapragada, Cortés 2017"
    needs: ClassVar[str] = "a server, not trusted"

    @staticmethod
    def best(case: Case) -> ClientServer:
        """One-shot noise with a loss of at most ε."""
        return ClientServer(best_one_shot(case.mixing, case.epsilon), case.graph.n)
