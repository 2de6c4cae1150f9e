"""Plain consensus: no noise, no privacy, the least error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.lab.comparison.case import Case
from tacit.lab.comparison.method import Error, Guarantee, Method, Said


@final
@dataclass(frozen=True, eq=False)
class Plain(Method):
    """θ⁺ = Wθ with W = I − hL."""

    case: Case

    name: ClassVar[str] = "plain"
    title: ClassVar[str] = "plain consensus"
    source: ClassVar[str] = "DeGroot 1974; best equal weights: Xiao, Boyd 2004"
    needs: ClassVar[str] = "edge weight h"

    @classmethod
    def tuned(cls, case: Case) -> Self:
        """The edge weight is the only parameter."""
        return cls(case)

    @property
    def rounds(self) -> int:  # type: ignore[override]
        """All rounds of the case."""
        return self.case.rounds

    @property
    def guarantee(self) -> Guarantee:
        """None: the first message is the value."""
        return Guarantee("none", "nobody")

    @property
    def settings(self) -> dict[str, float]:
        """The edge weight h."""
        return {"h": self.case.edge_weight}

    @property
    def messages(self) -> int:
        """Both ways along every edge."""
        return 2 * self.case.graph.n_edges

    def run(self, theta: FloatArray, rng: np.random.Generator) -> Iterator[Said]:  # noqa: ARG002
        """One product with W per round."""
        for _ in range(self.rounds):
            x, theta = theta, np.asarray(self.case.gossip_matrix @ theta)
            yield Said(x, theta, theta)

    def error(self, failure_probability: float) -> Error:  # noqa: ARG002
        """The average never moves."""
        return Error(0.0, 0.0)

    def attack(self, agent: int, x: FloatArray, y: FloatArray) -> FloatArray:  # noqa: ARG002
        """The first message is the value."""
        return np.asarray(x[0])
