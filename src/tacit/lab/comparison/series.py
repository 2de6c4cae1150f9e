"""Mechanisms for the same series of means, with the same promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from tacit.base.report import Grid, near, up
from tacit.core.series import Hides, candidates, design_series
from tacit.lab.simulation.series import Readings, SeriesRuns, simulate_series

if TYPE_CHECKING:
    from tacit.core.series.design import Kind

SOURCES: Final[dict[Kind, str]] = {
    "square-root": "Fichtenberger, Henzinger, Upadhyay 2022",
    "tree": "Dwork, Naor, Pitassi, Rothblum 2010, Gaussian noise",
    "pure tree": "Dwork, Naor, Pitassi, Rothblum 2010",
    "independent": "fresh Gaussian noise in every slot",
    "independent laplace": "fresh Laplace noise in every slot",
}


@final
@dataclass(frozen=True, eq=False)
class SeriesComparison:
    """What each mechanism promises for a series, and its measured errors."""

    hides: Hides
    ran: tuple[SeriesRuns, ...]

    def grid(self) -> Grid:
        """Return one row per mechanism, the most accurate first."""
        rows = [
            (
                ran.design.mechanism,
                up(ran.design.deviation),
                near(ran.deviation),
                near(ran.last),
                up(ran.design.loss) + ("" if ran.design.pure else f", {ran.design.delta:g}"),
                SOURCES[ran.design.mechanism],
            )
            for ran in self.ran
        ]
        made = self.ran[0].design
        title = (
            f"{made.slots:,} means of {made.agents:,} agents; hides {self.hides}; {self.ran[0].runs:,} runs"
        )
        columns = ("mechanism", "promised", "measured", "last mean", "loss, δ", "source")
        return Grid(title, columns, rows, right=(1, 2, 3))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "hides": str(self.hides),
            "mechanisms": [
                {
                    "name": ran.design.mechanism,
                    "source": SOURCES[ran.design.mechanism],
                    "deviation": ran.design.deviation,
                    "loss": ran.design.loss,
                    "delta": ran.design.delta,
                    "measured": ran.as_dict(),
                }
                for ran in self.ran
            ],
        }


def compare_series(
    slots: int,
    hides: Hides | str,
    readings: Readings,
    *,
    agents: int,
    low: float,
    high: float,
    keepers: int = 0,
    loss: float = 1.0,
    delta: float = 1e-6,
    runs: int = 100,
    seed: int = 0,
    missing: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> SeriesComparison:
    """Simulate every mechanism that hides this, at the same loss.

    The loss is for the whole series.
    """
    what = Hides.parse(hides) if isinstance(hides, str) else hides
    asked: dict[str, Any] = {"agents": agents, "keepers": keepers}
    found = candidates(slots, what, span=high - low, epsilon=loss, delta=delta, **asked)
    kinds = sorted(found, key=lambda kind: found[kind])
    ran = []
    for done, kind in enumerate(kinds):
        made = design_series(slots, what, low=low, high=high, loss=loss, delta=delta, mechanism=kind, **asked)
        ran.append(simulate_series(made, readings, runs=runs, seed=seed, missing=missing))
        if progress is not None:
            progress(done + 1, len(kinds))
    return SeriesComparison(what, tuple(ran))
