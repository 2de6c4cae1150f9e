"""The paper's client-server mechanism with keepers that add the noise (docs/proofs/keepers.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, final

import numpy as np

from tacit.arrays import FloatArray
from tacit.comparison.case import Case
from tacit.comparison.method import Guarantee, Said, laplace
from tacit.comparison.paper import Paper
from tacit.mechanism import ClientServer
from tacit.theory.optimum import best_fading


@final
class Keepers(Paper):
    """Masked messages, and the best fading noise once per keeper instead of once per agent.

    In the attack all other agents and all keepers but one collude.
    """

    name: ClassVar[str] = "keepers"
    title: ClassVar[str] = "fading, keepers"
    source: ClassVar[str] = "docs/proofs/keepers.md"
    needs: ClassVar[str] = "a server, not trusted; keepers, of whom one is trusted"

    @staticmethod
    def best(case: Case) -> ClientServer:
        """The best fading noise for the case."""
        law = best_fading(case.mixing, case.epsilon, case.rounds)
        return ClientServer(law, case.graph.n, case.keepers)

    @property
    def guarantee(self) -> Guarantee:
        """Pure while one keeper is honest; computational, because masks are pseudo-random."""
        m = self.mechanism.keepers
        others = (
            "whoever hears everything, without the keeper"
            if m == 1
            else (f"whoever hears everything, with all but one of {m} keepers")
        )
        return Guarantee("one honest keeper", others, self.epsilon)

    @property
    def messages(self) -> int:
        """To the server and back, for agents and keepers."""
        return 2 * (self.mechanism.n + self.mechanism.keepers)

    def run(self, theta: FloatArray, rng: np.random.Generator) -> Iterator[Said]:
        """Step through the mechanism; the attacker sees an agent's state with one keeper's noise."""
        state, sigma = self.mechanism.start(theta), self._column(self.mechanism.law.sigma)
        for scale in self.scales():
            eta = laplace(rng, (self.mechanism.keepers, theta.shape[1])) * scale
            state, said = self.mechanism.step(state, eta)
            yield Said(said.x + eta[:1], sigma * np.atleast_2d(said.y), state.theta)
