"""One simulated session with all that is promised of it: for the demo and its figure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit.arrays import FloatArray
from tacit.cli.options import Numbers
from tacit.cli.values import made_up_spread, read_values
from tacit.errors import StateError
from tacit.graph import Graph
from tacit.mechanism import Execution, Mechanism
from tacit.noise import SimulatedNoise
from tacit.plots.fan import Fan, fan
from tacit.theory import accuracy
from tacit.theory.design import Design, design


@dataclass(frozen=True, eq=False)
class Session:
    """A design, made-up or given values, and the noise that the seed leads to."""

    design: Design
    values: FloatArray
    noise: FloatArray

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that was designed."""
        return self.design.mechanism

    @property
    def rounds(self) -> int:
        """How many rounds are run."""
        return len(self.noise)

    @cached_property
    def execution(self) -> Execution:
        """Everything that happens."""
        return self.mechanism.execute(self.values, self.noise)

    @cached_property
    def fan(self) -> Fan:
        """Where the average was promised to be after each round."""
        return fan(self.mechanism, self.rounds, (0.5, self.design.promise.failure_probability))

    @property
    def target(self) -> float:
        """The (weighted) average of the values."""
        return float(accuracy.target(self.mechanism, self.values))

    def table(self) -> dict[str, Any]:
        """Return the average's path and the fan around its target, per round."""
        path = self.execution.theta @ accuracy.weights(self.mechanism)
        pairs = zip(self.fan.failure_probability, self.fan.radius, strict=True)
        return {
            "round": np.arange(self.rounds + 1),
            "deviation": path - path[0],
            "spread": np.ptp(self.execution.theta, axis=1),
            **{f"radius_{b:g}": row for b, row in pairs},
        }


def play(
    size: int | Graph, *, epsilon: float, mixing: Numbers, source: str, seed: int, rounds: int | None = None
) -> Session:
    """Design the best noise, make or read the values, and draw the noise."""
    n = size if isinstance(size, int) else size.n
    values = read_values(source, n, seed)
    if values.ndim != 1:
        raise StateError("a session is shown for values that are numbers: give one number per agent.")
    answer = design(
        agents=size if isinstance(size, int) else None,
        graph=None if isinstance(size, int) else size,
        epsilon=epsilon,
        mixing=mixing,
        spread=made_up_spread(source),
    )
    rounds = answer.promise.rounds if rounds is None else rounds
    return Session(answer, values, SimulatedNoise(seed).draw(answer.mechanism.parameters, rounds, n))
