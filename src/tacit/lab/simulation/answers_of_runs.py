"""The answer to a question in every simulated run, beside the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tacit.base.arguments import instance
from tacit.base.arrays import FloatArray
from tacit.base.errors import StateError
from tacit.base.report import Row, near
from tacit.core.mechanism import Mechanism
from tacit.core.question import Question
from tacit.core.theory.mean_noise import ComponentNoise
from tacit.core.theory.planned_answer import require_fitting
from tacit.lab.simulation.asking import encoded

if TYPE_CHECKING:
    import xarray as xr

_SHOWN = 12  # parts; JSON has all


def started(mechanism: Mechanism, records: Any, question: Question) -> FloatArray:
    """Return the vectors that the agents start from; one per record."""
    instance("question", question, Question, "a question", "Take one, like tacit.Mean(0, 10).")
    require_fitting(mechanism, question)
    vectors, _, _ = encoded(records, question)
    if len(vectors) != mechanism.n:
        raise StateError(
            f"there must be one record for each of the {mechanism.n:,} agents, got {len(vectors):,}."
        )
    return vectors


def with_answers(
    found: xr.Dataset, mechanism: Mechanism, vectors: FloatArray, question: Question, b: float
) -> xr.Dataset:
    """Decode the last average of every run, for each part and for all."""
    true = question.decode(vectors.mean(axis=0).tolist(), len(vectors)).parts
    names = [part.name for part in true] or [p.name for p in question.decode(question.even, 1).parts]
    law = ComponentNoise.of(mechanism, int(found["round"].values[-1]))
    columns = {
        word: np.full((found.sizes["run"], len(names)), np.nan)
        for word in ("estimate", "low", "high", "low_all", "high_all")
    }
    for run, mean in enumerate(found["average"].isel(round=-1).values.reshape(found.sizes["run"], -1)):
        for joint in (False, True):
            parts = {
                p.name: p for p in question.decode(mean.tolist(), len(vectors), law, b, together=joint).parts
            }
            for place, name in enumerate(names):
                if (part := parts.get(name)) is None:
                    continue  # no answer in this run
                columns["low_all" if joint else "low"][run, place] = part.low
                columns["high_all" if joint else "high"][run, place] = part.high
                if not joint:
                    columns["estimate"][run, place] = part.estimate
    truth = {part.name: part.estimate for part in true}
    return found.assign_coords(part=names).assign(
        {word: (("run", "part"), column) for word, column in columns.items()}
        | {"truth": (("part",), [truth.get(name, np.nan) for name in names])}
    )


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """How the answers of many runs compare with the truth.

    Attributes
    ----------
    outside : array
        The share of runs in which the interval of a part misses the truth.
    outside_any : float
        The share in which any of the wider ones does.
    """

    question: str
    parts: tuple[str, ...]
    truth: FloatArray
    error: FloatArray
    width: FloatArray
    outside: FloatArray
    outside_any: float

    @classmethod
    def of(cls, found: xr.Dataset, question: Question) -> Answers:
        """Compare what `simulate` returned."""
        truth, estimate = found["truth"].values, found["estimate"].values
        missed, wider = (
            (found[f"low{more}"].values - _slack(truth) > truth)
            | (found[f"high{more}"].values + _slack(truth) < truth)
            for more in ("", "_all")
        )
        answered = np.maximum((~np.isnan(estimate)).sum(axis=0), 1)
        error = np.sqrt(np.nansum((estimate - truth) ** 2, axis=0) / answered)
        width = np.nansum(found["high"].values - found["low"].values, axis=0) / (2 * answered)
        names = tuple(map(str, found["part"].values.tolist()))
        outside, every = missed.mean(axis=0), float(wider.any(axis=1).mean())
        return cls(question.kind, names, truth, error, width, outside, every)

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        rows = zip(self.parts, self.truth, self.error, self.width, self.outside, strict=True)
        words = ("name", "truth", "error", "half_width", "outside")
        return {
            "kind": self.question,
            "parts": [dict(zip(words, (name, *map(float, rest)), strict=True)) for name, *rest in rows],
            "outside_any": self.outside_any,
        }

    def rows(self, b: float) -> list[Row]:
        """Return a row per part for people; the truth is not shown."""
        rows = [
            Row(
                name,
                f"± {near(width)}",
                f"mean half width; error {near(error)}; {near(out)} of the runs miss it",
            )
            for name, width, error, out in list(
                zip(self.parts, self.width, self.error, self.outside, strict=True)
            )[:_SHOWN]
        ]
        if len(self.parts) > _SHOWN:
            rows.append(Row("…", "", f"and {len(self.parts) - _SHOWN:,} more parts: --json has all"))
        every = f"share of the runs in which any of the intervals for all parts misses, promised {near(b)}"
        return [*rows, Row("any part", near(self.outside_any), every)]


def _slack(truth: FloatArray) -> FloatArray:
    """Rounding errors of sums over all agents."""
    return np.asarray(1e-9 * np.maximum(np.abs(truth), 1e-3))
