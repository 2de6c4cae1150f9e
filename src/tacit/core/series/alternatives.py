"""Alternatives to a series whose means would be useless.

Each is rounded as it is printed, and then tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from tacit.base.errors import Infeasible
from tacit.base.rounding import shown_up
from tacit.core.series.design import Hides, candidates
from tacit.core.series.vectors import Vectors

_DIGITS = 4
_MOST_LOSS = 20.0  # a larger loss protects nobody
_MOST_AGENTS = 10**12
_USUAL_KEEPERS = 2


@dataclass(frozen=True)
class AskedSeries:
    """A series that was asked for."""

    slots: int
    hides: Hides
    agents: int
    span: float
    keepers: int
    loss: float
    delta: float
    vectors: Vectors

    @property
    def deviation(self) -> float:
        """Standard deviation of the worst mean, with the best mechanism."""
        found = candidates(
            self.slots, self.hides, agents=self.agents, span=self.vectors, keepers=self.keepers,
            epsilon=self.loss, delta=self.delta,
        )  # fmt: skip
        return min(found.values())

    @property
    def useful(self) -> bool:
        """Whether a mean is better than guessing the middle of the range."""
        return self.deviation <= self.span / 2

    def refuse(self) -> NoReturn:
        """Raise `Infeasible` with the reason and the alternatives.

        It says why the means would be useless, and which single changes would help.
        """
        why = (
            f"no noise hides {self.hides} in {self.slots:,} means of {self.agents:,} agents at a loss of "
            f"{self.loss:g}: each mean would have a standard deviation of {self.deviation:.4g}, and the "
            f"middle of the range is never off by more than {self.span / 2:g}."
        )
        found = [way for way in _changes(self) if self._with(way).useful]
        ways = [f"{name} {value:g}" for way in found for name, value in way.items() if name != "agents"]
        ways += [f"agents {way['agents']:,}" for way in found if "agents" in way]
        if self.hides.kind != "reading" and replace(self, hides=Hides("reading", 1.0)).useful:
            ways.append("hides reading")
        if not ways:
            raise Infeasible(f"{why} Ask for fewer means, or hide less.")
        lead = "Any one of these would work" if len(ways) > 1 else "This would work"
        raise Infeasible(f"{why} {lead}: {'; '.join(ways)}.", alternatives=found)

    def _with(self, changes: dict[str, Any]) -> AskedSeries:
        return replace(self, **changes)


def _changes(asked: AskedSeries) -> Iterator[dict[str, float]]:
    """Yield changes of one side that could be enough."""
    if not asked.keepers:
        yield {"keepers": _USUAL_KEEPERS}
    if asked.loss < _MOST_LOSS and replace(asked, loss=_MOST_LOSS).useful:
        low, high = asked.loss, _MOST_LOSS
        while high > low * (1 + 1e-5):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if replace(asked, loss=middle).useful else (middle, high)
        yield {"loss": float(shown_up(high, _DIGITS))}
    share = asked.deviation / (asked.span / 2)
    # N agents divide the noise of keepers by N, and their own noise by √N.
    needed = asked.agents * (share if asked.keepers else share**2) * (1 + 1e-9)
    if needed <= _MOST_AGENTS:
        yield {"agents": math.ceil(needed)}
