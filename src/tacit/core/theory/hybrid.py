"""Noise once together with fresh noise, for a measured plant.

Message t is C·z_t + M_t·ξ + η_t: noise ξ that is drawn once moves as the *model* would move it, and fresh
noise η_t of scale s_t hides by how much the plant may depart from the model. Shifting ξ by v and each η_t by
what is left keeps all messages, and is a shear, so volume is kept. So the loss is |v|/c + Σ b_t/s_t, with the
residuals b_t of the plant (docs/proofs/dynamics.md, T3′). Without the η_t two messages would give the start
away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.base.arguments import positive, whole
from tacit.base.arrays import FloatArray, frozen
from tacit.base.errors import ParameterError, StateError
from tacit.base.report import Row, Shown, Summary, some_rounds, up
from tacit.base.rounding import fraction_up, product_up
from tacit.core.law.base import STEP
from tacit.core.law.scheduled import best_schedule
from tacit.core.motion.plant import Plant
from tacit.core.theory.laplace_sum import LaplaceSum


@dataclass(frozen=True, eq=False)
class Hybrid(Shown):
    """Noise once of scale c, and fresh noise of scales s_t.

    For theory and simulation: sessions do not draw it.

    Parameters
    ----------
    plant : Plant
    c : float
        Scale of what is drawn once for the private component.
    table : array of shape (rounds,)
        Scales of the fresh noise. A scale of 0 is for a message in which plant and model agree.
    agents : int
        How many such agents there are around a server.
    """

    plant: Plant
    c: float
    table: FloatArray
    agents: int = 1
    adjacency: float = 1.0
    failure_probability: float = 0.05

    name = "hybrid"

    def __post_init__(self) -> None:
        positive("noise", self.c)
        whole("agents", self.agents, 1)
        table = np.array(self.table, dtype=np.float64)
        if table.ndim != 1 or not table.size or not np.all(np.isfinite(table) & (table >= 0)):
            raise ParameterError("scales must be one number of at least 0 per round.", "scales")
        frozen(table)
        object.__setattr__(self, "table", table)
        bare = np.flatnonzero((table == 0) & (self.residuals > 0))
        if bare.size:
            raise ParameterError(
                f"message {bare[0]} of the plant departs from its model, so it needs fresh noise: without it "
                "two messages would give the start away. Give it a scale.",
                "scales",
            )

    @classmethod
    def best(cls, plant: Plant, epsilon: float, rounds: int, **more: Any) -> Hybrid:
        """Return the hybrid of least variance for a loss of at most ε."""
        positive("epsilon", epsilon)
        rounds = whole("rounds", rounds, 1)
        half = plant.model.private[0][1]
        moved = plant.model.influence_rows(rounds)
        sum_ = abs(float(sum((row.fractions()[0] for row in moved), Fraction(0)))) / half
        if not sum_:
            raise ParameterError("noise once does not reach the value agreed on: take fresh noise.")
        weights = np.concatenate([[sum_**2], np.ones(rounds)])
        found = best_schedule(np.concatenate([[half], plant.residuals(rounds)]), weights).scales / epsilon
        while (made := cls(plant, float(found[0]), found[1:], **more)).epsilon > epsilon:
            found = found * STEP
        return made

    @property
    def rounds(self) -> int:
        """How many messages it covers."""
        return len(self.table)

    @cached_property
    def residuals(self) -> FloatArray:
        """b_t of the plant."""
        return self.plant.residuals(len(self.table))

    @cached_property
    def exact(self) -> Fraction:
        """|v|/c + Σ b_t/s_t per unit of adjacency."""
        total = Fraction(self.plant.model.private[0][1]) / Fraction(self.c)
        for apart, scale in zip(self.residuals.tolist(), self.table.tolist(), strict=True):
            total += Fraction(apart) / Fraction(scale) if apart else 0
        return total

    @property
    def epsilon(self) -> float:
        """The loss per unit of adjacency, rounded up."""
        return fraction_up(self.exact)

    @cached_property
    def _moved(self) -> FloatArray:
        """M_t for a unit of the private component."""
        half = self.plant.model.private[0][1]
        moved = [row.floats()[0] for row in self.plant.model.influence_rows(self.rounds)]
        return np.asarray(np.array(moved, dtype=np.float64) / half)

    @cached_property
    def deviation(self) -> LaplaceSum:
        """The law of the agreed value minus its target.

        It is for plants that move as their model.
        """
        share = abs(self.plant.model.lag) * self.agents
        scale = np.concatenate([[abs(float(self._moved.sum())) * self.c], self.table[self.table > 0]]) / share
        return LaplaceSum(scale, np.zeros_like(scale), np.full(len(scale), float(self.agents)), 1)

    @property
    def price(self) -> float:
        """How many times more deviation it has than noise once of the same loss.

        That is for a computed state.
        """
        half = float(self.plant.model.private[0][1])
        once = abs(float(self._moved.sum())) * half / self.epsilon
        return math.hypot(float(self._moved.sum()) * self.c, float(np.linalg.norm(self.table))) / once

    def noise(self, unit: npt.ArrayLike) -> FloatArray:
        """Return what is added to each message, of shape (rounds, agents).

        `unit` are independent Laplace draws of scale 1, of shape (rounds + 1, agents): one for all rounds,
        and one for each.
        """
        drawn = np.asarray(unit, dtype=np.float64)
        if drawn.ndim != 2 or len(drawn) != self.rounds + 1:
            raise StateError(f"draws must have shape ({self.rounds + 1}, agents), got {drawn.shape}.")
        return np.asarray(self._moved[:, None] * self.c * drawn[0] + self.table[:, None] * drawn[1:])

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {
            "law": self.name,
            "motion": self.plant.name,
            "agents": self.agents,
            "rounds": self.rounds,
            "adjacency": self.adjacency,
            "epsilon": self.epsilon,
            "loss": product_up(self.epsilon, self.adjacency),
            "noise": self.c,
            "scales": self.table.tolist(),
            "price": self.price,
            "variance": self.deviation.variance,
            "radius": self.deviation.quantile(self.failure_probability).high,
            "failure_probability": self.failure_probability,
            "rate": self.plant.rate,
            "assumptions": list(self.plant.assumptions),
        }

    def summary(self) -> Summary:
        """Return rows of the loss, the noise and what it costs."""
        told = self.as_dict()
        rows = [
            Row("epsilon", up(told["epsilon"]), f"ε per unit of adjacency, over {some_rounds(self.rounds)}"),
            Row("loss", up(told["loss"]), f"ε × adjacency {self.adjacency:g}"),
            Row("once", up(self.c), "scale of the noise that is drawn once, and moves as the model"),
            Row("fresh", up(float(self.table.max())), "largest scale of the noise that is drawn every round"),
        ]
        exact = [
            Row("price", up(self.price), "times the deviation of noise once, which needs a computed state"),
            Row("radius", up(told["radius"]), "of the value agreed on, if plants move as their model"),
        ]
        title = f"{self.agents:,} measured plants around a server, hybrid noise"
        return Summary(title, {"Privacy": rows, "Accuracy": exact}, self.plant.assumptions)
