"""One of two values from every agent, around a server, once.

Every agent says middle ± B, and takes the mean of all messages. Nobody can say anything else, so a liar moves
the mean by at most 2B/N. The loss is for any two values of the range (docs/proofs/bits.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError
from tacit.core.law import Bits
from tacit.core.theory.bounds import least_variance
from tacit.core.theory.once_sums import once_sum
from tacit.lab.comparison.case import Case
from tacit.lab.comparison.method import Error, Guarantee, Method, Said, laplace

_MIXING = 0.5  # of the law; agents take the mean itself, so it plays no part


@final
@dataclass(frozen=True, eq=False)
class OneBit(Method):
    """x = middle ± B with the mean θ, then θ⁺ = the mean of all x."""

    case: Case
    law: Bits
    rounds: int = 1

    name: ClassVar[str] = "bits"
    title: ClassVar[str] = "bits, server"
    source: ClassVar[str] = "docs/proofs/bits.md, after Duchi, Jordan, Wainwright 2018"
    needs: ClassVar[str] = "a server, not trusted; a range"

    @classmethod
    def tuned(cls, case: Case) -> Self:
        """Take the closest two values with this loss."""
        if case.span is None:
            raise ParameterError(
                "bits need the range of the values: ask a question of one number that has it, such as "
                "mean:0:10 (--ask mean:0:10).",
                "question",
            )
        low, high = case.span
        loss = case.epsilon * case.adjacency
        law = Bits.best_of(_MIXING, loss=loss, low=low, domain=high - low)
        law.require_domain(case.adjacency)
        return cls(case, law)

    @property
    def guarantee(self) -> Guarantee:
        """Pure, for any two values of the range."""
        epsilon = float(self.law.epsilons(1))
        return Guarantee("pure", "an eavesdropper on everything; liars: at most 2B/N each", epsilon)

    @property
    def settings(self) -> dict[str, float]:
        """B and the middle."""
        return {"B": float(self.law.c), "middle": self.law.middle}

    @property
    def messages(self) -> int:
        """To the server and back."""
        return 2 * self.case.graph.n

    def run(self, theta: FloatArray, rng: np.random.Generator) -> Iterator[Said]:
        """One round."""
        x = theta + self.law.noise_of(laplace(rng, theta.shape), theta)
        y = x.mean(axis=0, keepdims=True)
        yield Said(x, y, np.broadcast_to(y, theta.shape))

    def error(self, failure_probability: float) -> Error:
        """Both for the values for which they are largest."""
        law = once_sum(self.law, self.case.graph.n, 1.0)
        return Error(law.deviation, law.quantile(failure_probability).high)

    def least_error(self, agents: int) -> float:
        """The least deviation for the worst values.

        The guarantee is for the whole range, and not less for closer values.
        """
        given = float(self.law.epsilons(1))
        return math.sqrt(least_variance(given, agents, distance=self.case.adjacency))

    def attack(self, agent: int, x: FloatArray, y: FloatArray) -> FloatArray:  # noqa: ARG002
        """The end of the range on the side of the message."""
        half = self.law.domain / 2
        return np.where(x[0] > self.law.middle, self.law.middle + half, self.law.middle - half)
