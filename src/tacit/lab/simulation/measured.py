"""Results of simulated runs, compared with the promise."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.report import Row, Shown, Summary, near, up
from tacit.core.mechanism import Mechanism
from tacit.core.question import Question
from tacit.core.theory import accuracy
from tacit.core.theory.endings import ending
from tacit.core.theory.promise import Promise
from tacit.core.theory.promise_rows import describe, privacy_rows, target_notes
from tacit.lab.simulation.answers_of_runs import Answers

if TYPE_CHECKING:
    import xarray as xr


@final
@dataclass(frozen=True)
class Errors:
    """How far runs ended from the target, and agents from each other.

    Attributes
    ----------
    of : "agents" or "average"
        With "agents" the error of a run is that of the agent furthest off, to which the radius applies. If
        not all agents were recorded, it is the error of the average, compared with the average's own radius.
    components : int
        How many numbers a value has: the largest error of any of them counts.
    radius : float
        The promised radius for `of`, for all components at once.
    error_median, error_quantile, error_max : float
        Over all runs. The quantile is the one to compare with the radius.
    outside_radius : float
        Share of runs whose error is larger than the radius.
    disagreement : float or None
        Largest difference between two agents at the end of any run; None if not all were recorded.
    within_spread : bool
        Whether the values have at most the spread that the promise assumes.
    """

    of: str
    components: int
    radius: float
    error_median: float
    error_quantile: float
    error_max: float
    outside_radius: float
    disagreement: float | None
    within_spread: bool


@final
@dataclass(frozen=True, eq=False)
class Measured(Shown):
    """Runs of one mechanism: the promise, and the errors that were measured."""

    promise: Promise
    errors: Errors
    runs: int
    answers: Answers | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        answers = {} if self.answers is None else {"answers": self.answers.as_dict()}
        return self.promise.as_dict() | {"runs": self.runs, "measured": asdict(self.errors)} | answers

    def summary(self) -> Summary:
        """Return promise and measurement for people."""
        made = self.promise
        ran = f"{self.runs:,} run{'s' * (self.runs != 1)} of {made.rounds:,} round{'s' * (made.rounds != 1)}"
        notes = target_notes(made)
        if not self.errors.within_spread:
            notes.append(
                f"The values spread over more than {near(made.spread)}, which the promise is for: "
                "give their range."
            )
        sections = {"Promised": self._promised(), "Measured": self._measured()}
        if self.answers is not None:
            sections["Answers"] = self.answers.rows(made.failure_probability)
        return Summary(f"{describe(made.mechanism)}; {ran}", sections, tuple(notes))

    def _promised(self) -> list[Row]:
        found, b = self.errors, near(self.promise.failure_probability)
        whose = "of every agent's state" if found.of == "agents" else "of the average of all states"
        every = f", for all {found.components} components at once" if found.components > 1 else ""
        radius = Row("radius", up(found.radius), f"{whose}, missed with probability {b}{every}")
        return [*privacy_rows(self.promise), radius]

    def _measured(self) -> list[Row]:
        made, found, b = self.promise, self.errors, self.promise.failure_probability
        off = "the agent furthest from" if found.of == "agents" else "distance of the average from"
        apart, agreed = "not recorded", "record final to see it"
        if found.disagreement is not None:
            apart = near(found.disagreement, 3)
            verdict = "within" if found.disagreement <= made.tolerance else "not within"
            agreed = f"largest difference between two agents at the end: {verdict} {near(made.tolerance)}"
        share = f"share of {self.runs:,} runs, promised {near(b)}"
        return [
            Row("median error", near(found.error_median), f"{off} the {made.target} target"),
            Row(f"{near(1 - b)}-quantile", near(found.error_quantile), "beside the radius"),
            Row("largest error", near(found.error_max)),
            Row("outside radius", near(found.outside_radius), share),
            Row("disagreement", apart, agreed),
        ]


def measure(
    found: xr.Dataset,
    mechanism: Mechanism,
    values: FloatArray,
    made: Promise,
    question: Question | None = None,
) -> Measured:
    """Compare simulated runs with the promise for the same number of rounds.

    Parameters
    ----------
    found : Dataset
        What `simulate` returned; the record must have all states, or the average, of the last round.
    values : array
        The initial values that were simulated.
    made : Promise
        The promise of the mechanism for the simulated number of rounds.
    question : Question, optional
        The one that was simulated; `values` are its vectors.
    """
    b, runs = made.failure_probability, found.sizes["run"]
    whole = "theta" in found and found.sizes["agent"] == mechanism.n
    last = (found["theta"] if whole else found["average"]).isel(round=-1).values
    errors = np.abs(last - accuracy.target(mechanism, values)).reshape(runs, -1).max(axis=1)
    components = 1 if np.ndim(values) == 1 else np.shape(values)[1]
    if whole:
        radius = ending(mechanism, b, made.horizon, made.spread, components=components).radius
    else:
        radius = accuracy.radius(mechanism, b, made.horizon, components=components)
    measured = Errors(
        of="agents" if whole else "average",
        components=components,
        radius=radius,
        error_median=float(np.median(errors)),
        error_quantile=float(np.quantile(errors, 1 - b)),
        error_max=float(errors.max()),
        outside_radius=float(np.mean(errors > radius)),
        disagreement=float((last.max(axis=1) - last.min(axis=1)).max()) if whole else None,
        within_spread=bool(np.max(np.ptp(values, axis=0)) <= made.spread * (1 + 1e-12)),
    )
    answers = None if question is None else Answers.of(found, question)
    return Measured(made, measured, runs, answers)
