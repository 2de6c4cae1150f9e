"""Trimmed means on a graph: the largest and smallest messages are ignored.

LeBlanc, Zhang, Koutsoukos and Sundaram (IEEE JSAC 2013, "W-MSR"): an agent drops the f largest messages of
its neighbours that are above its own, and the f smallest below its own, and averages the rest. The rule is
not private, so it is combined with the paper's fading noise. Agents compare with their own *message*, not
their state. So the feedback follows from public messages, and the loss is the one that holds for every
feedback (docs/proofs/privacy.md).

If at most f neighbours of an honest agent lie, every message it keeps is between two messages of honest
agents around it, itself included. For if one that it keeps were above all of these, so would be the f that it
dropped above, and that makes f + 1 liars. Without noise, honest agents agree in the end if the graph is
(2f+1)-robust. How far their average is from the true one is not known: the rule does not keep the average,
and that theorem has no noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self, final

import numpy as np

from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import ParameterError
from tacit.core.graph import Graph
from tacit.core.mechanism import Distributed
from tacit.core.theory.optimum import averaging_mixing, best_fading
from tacit.lab.comparison.case import Case
from tacit.lab.comparison.method import Guarantee, Said, laplace
from tacit.lab.comparison.paper import ANYONE, Paper

_CELLS = 1 << 20  # messages that are sorted at once


@final
@dataclass(frozen=True, eq=False)
class Trimmed(Paper):
    """Messages and noise as of `OnGraph`; the feedback is a trimmed mean."""

    liars: int
    mechanism: Distributed

    name: ClassVar[str] = "trimmed"
    title: ClassVar[str] = "trimmed, graph"
    source: ClassVar[str] = "LeBlanc, Zhang, Koutsoukos, Sundaram 2013, with fading noise"
    needs: ClassVar[str] = "largest degree, a robust graph"

    @classmethod
    def tuned(cls, case: Case) -> Self:
        """Take the noise of plain means, and drop as many as may lie."""
        require_robust(case.graph, case.liars)
        return cls(cls.best(case), case.rounds, case.liars)

    @staticmethod
    def best(case: Case) -> Distributed:
        """The best fading noise; messages count alike."""
        sigma = averaging_mixing(case.graph, case.mixing, "closed")
        return Distributed(best_fading(sigma, case.epsilon, case.rounds), case.graph, "closed")

    @property
    def guarantee(self) -> Guarantee:
        """Pure, against everyone, for each agent."""
        return Guarantee("pure", f"{ANYONE}; {lying(self.liars)}", self.epsilon)

    @property
    def settings(self) -> dict[str, float]:
        """σ, c, q and f."""
        return super().settings | {"f": self.liars}

    def run(self, theta: FloatArray, rng: np.random.Generator) -> Iterator[Said]:
        """The paper's motion, with trimmed feedback."""
        sigma = self._column(self.mechanism.law.sigma)
        for scale in self.scales():
            x = theta + laplace(rng, theta.shape) * self._column(scale)
            y = self.feedback(x)
            theta = self.mechanism.motion.move(theta, y)
            yield Said(x, sigma * y, theta)

    def feedback(self, x: FloatArray) -> FloatArray:
        """Return each agent's trimmed mean of messages, shape (n, runs)."""
        made = np.empty_like(x)
        for agents, heard in self._neighbours:
            step = max(1, _CELLS // (heard.shape[1] * x.shape[1]))
            for first in range(0, len(agents), step):
                some = agents[first : first + step]
                made[some] = _trimmed_mean(x[some], x[heard[first : first + step]], self.liars)
        return made

    @cached_property
    def _neighbours(self) -> list[tuple[IntArray, IntArray]]:
        """Agents of one degree, and a row of neighbours for each."""
        graph, found = self.mechanism.graph, []
        for degree in np.unique(graph.degrees):
            agents: IntArray = np.flatnonzero(graph.degrees == degree).astype(np.int64)
            heard = np.stack([graph.neighbours(int(i)) for i in agents]).astype(np.int64)
            found.append((agents, heard))
        return found

    def error(self, failure_probability: float) -> None:  # noqa: ARG002
        """None: the accuracy of trimmed means is not proved."""
        return

    def least_error(self, agents: int) -> None:  # noqa: ARG002
        """None: the bound is for unbiased results."""
        return


def _trimmed_mean(own: FloatArray, heard: FloatArray, f: int) -> FloatArray:
    """Average own messages (m, runs) and those kept of (m, degree, runs)."""
    degree = heard.shape[1]
    heard = np.partition(heard, (f - 1, degree - f), axis=1)
    kept = np.ones(heard.shape, dtype=bool)
    kept[:, :f] = heard[:, :f] >= own[:, None]
    kept[:, degree - f :] = heard[:, degree - f :] <= own[:, None]
    total = own + np.where(kept, heard, 0.0).sum(axis=1)
    return np.asarray(total / (1 + kept.sum(axis=1)))


def lying(liars: int) -> str:
    """Return how many neighbours may lie, in words."""
    return f"{liars} lying neighbour{'s' * (liars != 1)}"


def surely_robust(graph: Graph, liars: int) -> bool:
    """Whether so many neighbours suffice for a (2f+1)-robust graph.

    Of two disjoint groups one has at most ⌊N/2⌋ agents, so each of these has at least
    degree + 1 − ⌊N/2⌋ neighbours outside. Sparser graphs may be robust, too.
    """
    return int(graph.degrees.min()) + 1 - graph.n // 2 >= 2 * liars + 1


def require_robust(graph: Graph, liars: int) -> None:
    """Refuse a graph that cannot be (2f+1)-robust.

    An agent with fewer than 2f + 1 neighbours, against all others, is a counterexample, and so are two
    halves of fewer than 4f + 1 agents.
    """
    least = int(graph.degrees.min())
    if least < 2 * liars + 1 or graph.n < 4 * liars + 1:
        raise ParameterError(
            f"trimmed means that withstand {lying(liars)} of every agent need at least "
            f"{4 * liars + 1:,} agents with at least {2 * liars + 1:,} neighbours each, got {graph.n:,} "
            f"agents of which one has {least:,}: take a denser graph or fewer liars.",
            "liars",
        )
