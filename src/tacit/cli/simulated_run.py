"""One simulated session with its promise, for figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.base.errors import StateError
from tacit.cli.options import Numbers
from tacit.cli.values import made_up_spread, read_values
from tacit.core.graph import Graph
from tacit.core.history import History
from tacit.core.mechanism import Mechanism
from tacit.core.theory import accuracy
from tacit.core.theory.answers import Design, design
from tacit.lab.plots.fans import Fan, fan
from tacit.lab.simulation import Record, history_of, simulate

if TYPE_CHECKING:
    import xarray as xr

_FADED = 0.01


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """A design, and everything that happened in one run of it."""

    design: Design
    dataset: xr.Dataset

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that was designed."""
        return self.design.mechanism

    @property
    def rounds(self) -> int:
        """How many rounds are run."""
        return int(self.dataset.attrs["rounds"])

    @cached_property
    def history(self) -> History:
        """Everything that happened."""
        return history_of(self.dataset, self.mechanism)

    @cached_property
    def fan(self) -> Fan:
        """Where the average was promised to be after each round."""
        return fan(self.mechanism, self.rounds, (0.5, self.design.promise.failure_probability))

    @property
    def target(self) -> float:
        """The (weighted) average of the values."""
        return float(accuracy.target(self.mechanism, self.history.theta[0]))

    def table(self) -> dict[str, Any]:
        """Return the average's path and the fan around its target, per round."""
        path = self.history.theta @ accuracy.weights(self.mechanism)
        pairs = zip(self.fan.failure_probability, self.fan.radius, strict=True)
        return {
            "round": np.arange(self.rounds + 1),
            "deviation": path - path[0],
            "spread": np.ptp(self.history.theta, axis=1),
            **{f"radius_{b:g}": row for b, row in pairs},
        }


def play(
    size: int | Graph,
    *,
    epsilon: float,
    mixing: Numbers,
    source: str,
    seed: int,
    rounds: int | None = None,
    keepers: int = 0,
    weights: str | None = None,
) -> SimulatedRun:
    """Design the best noise, and run the mechanism once."""
    n = size if isinstance(size, int) else size.n
    values = read_values(source, n, seed)
    if values.ndim != 1:
        raise StateError("a session is shown for values that are numbers: give one number per agent.")
    answer = design(
        agents=size if isinstance(size, int) else None,
        graph=None if isinstance(size, int) else size,
        keepers=keepers,
        epsilon=epsilon,
        mixing=mixing,
        spread=made_up_spread(source),
        weights=weights,
    )
    rounds = settled(answer) if rounds is None else rounds
    found = simulate(answer.mechanism, values, rounds, seed=seed, record=Record(everything=True))
    return SimulatedRun(answer, found)


def settled(answer: Design) -> int:
    """Return the rounds until agents agree and noise is down to 1%."""
    law = answer.mechanism.law
    if law.ratio is None:
        raise law.undefined("ratio", "the number of rounds until the noise has faded")
    faded = np.log(_FADED) / np.log(np.max(law.ratio))
    return max(answer.promise.rounds, int(np.ceil(faded)))
