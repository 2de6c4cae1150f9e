"""Hospitals ask for the size of tumours; no patient's measurement shows.

The records are real: the mean radius of the cell nuclei of 569 tumours, spread over 25 hospitals by their
number. Four questions are asked: mean, variance, histogram and median. Whom a patient must trust decides how
exact the answers are: nobody, so that every patient adds noise; the own hospital, which adds it to the sum of
its patients' vectors; or also one of two keepers. The loss is that of one patient, whatever the record is
changed to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from shared import FAILURE, Found, options

from tacit import ClientServer, Histogram, Mean, OneShot, Quantile, Variance
from tacit.core.question import Answer, Question
from tacit.core.question.several import ScaledNoise
from tacit.core.theory.mean_noise import ComponentNoise
from tacit.lab.plots.style import BLUE, GREY, INK, ORANGE, PALE, canvas, save, styled
from tacit.lab.simulation.outcome import sample_outcome

HOSPITALS, KEEPERS, LOSS = 25, 2, 1.0
EDGES = (6.0, 10.0, 12.0, 14.0, 16.0, 20.0, 30.0)  # public, and chosen before anyone looked
FINE = np.linspace(6, 30, 49).tolist()  # steps of half a micrometre for the median
QUESTIONS: dict[str, Question] = {
    "mean": Mean(6, 30),
    "variance": Variance(6, 30),
    "histogram": Histogram(EDGES),
    "median": Quantile(FINE),
}
TRUST = {"nobody": (569, 0), "own hospital": (HOSPITALS, 0), "and 1 of 2 keepers": (HOSPITALS, KEEPERS)}
"""Who sends messages, and how many keepers add the noise instead of them."""


def radii() -> pd.Series:
    """Return the records: one column of the table that scikit-learn ships."""
    from sklearn.datasets import load_breast_cancer

    return pd.Series(load_breast_cancer(as_frame=True).frame["mean radius"])


def ask(question: Question, records: Sequence[float], senders: int, keepers: int, seed: int) -> Answer:
    """Answer a question with the noise of so many senders or keepers.

    A sender's vector is the sum of its patients' vectors. One patient changes it by at most the diameter of
    the question, so the noise is the same as for one patient alone. How many patients there are is public.
    """
    vectors = [[float(number) for number in question.encode(record).vector] for record in records]
    mechanism = ClientServer(OneShot(0.5, question.adjacency / LOSS), agents=senders, keepers=keepers)
    patients = senders / len(records)  # from a mean over senders to one over patients
    off = patients * sample_outcome(mechanism, question.components, seed=seed)
    noise = ScaledNoise(ComponentNoise.of(mechanism), patients)
    return question.decode((np.mean(vectors, axis=0) + off).tolist(), len(records), noise, FAILURE)


def truth(question: Question, records: pd.Series) -> dict[str, float]:
    """Return the exact answer, which nobody would see."""
    if isinstance(question, Quantile):
        return {"0.5": float(records.median())}
    vectors = [[float(number) for number in question.encode(record).vector] for record in records]
    found = question.decode(np.mean(vectors, axis=0).tolist(), len(records))
    return {part.name: part.estimate for part in found.parts}


def main(argv: Sequence[str] | None = None) -> Found:
    """Ask all questions of all, print the table, draw, and return the intervals."""
    seed, out = options(__doc__, argv, "hospitals.svg")
    records = radii()
    answers = {
        whom: {
            name: ask(question, records.tolist(), senders, keepers, seed + 5 * (1 + 4 * column + row))
            for row, (name, question) in enumerate(QUESTIONS.items())
        }
        for column, (whom, (senders, keepers)) in enumerate(TRUST.items())
    }
    true = {name: truth(question, records) for name, question in QUESTIONS.items()}
    print(f"{len(records)} patients of {HOSPITALS} hospitals, loss {LOSS:g}; radius of nuclei in µm\n")
    print("Whom must a patient trust?".ljust(28) + "truth".rjust(8), *(whom.rjust(20) for whom in TRUST))
    for name, parts in true.items():
        for part, number in parts.items():
            cells = [_interval(answers[whom][name], part) for whom in TRUST]
            label = name if part in ("mean", "variance", "0.5") else f"{name}: {part}"
            print(label.ljust(28) + f"{number:8.4g}", *(cell.rjust(20) for cell in cells))
    picture(answers, true, out)
    return {
        whom: {
            f"{name}: {part.name}: {end}": float(getattr(part, end) or 0)
            for name, answer in found.items()
            for part in answer.parts
            for end in ("low", "high")
        }
        for whom, found in answers.items()
    }


def _interval(answer: Answer, part: str) -> str:
    found = next(p for p in answer.parts if p.name == part)
    return f"{found.low:.4g} to {found.high:.4g}"


def picture(
    answers: Mapping[str, Mapping[str, Answer]], true: Mapping[str, Mapping[str, float]], out: Path
) -> None:
    """Draw the histogram with its intervals, and those of mean and median."""
    colours = dict(zip(TRUST, (GREY, ORANGE, BLUE), strict=True))
    with styled():
        figure = canvas(8.8, 3.9)
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        names, counts = list(true["histogram"]), list(true["histogram"].values())
        left.bar(range(len(names)), counts, color=PALE, width=0.9, label="truth")
        for shift, (whom, colour) in zip((-0.25, 0, 0.25), colours.items(), strict=True):
            parts = answers[whom]["histogram"].parts
            at = np.arange(len(parts)) + shift
            middle = np.array([part.estimate for part in parts])
            ends = [[p.estimate - (p.low or 0) for p in parts], [(p.high or 0) - p.estimate for p in parts]]
            left.errorbar(
                at, middle, yerr=ends, fmt="o", ms=3.5, color=colour, capsize=3, label=f"trust: {whom}"
            )
        left.set_xticks(range(len(names)), names)
        left.set(title="Histogram: patients in each bucket", xlabel="radius, µm", ylabel="patients")
        left.set_ylim(0, 460)
        left.legend(loc="upper center", ncols=2, columnspacing=1.5)
        rows = [("mean", "mean"), ("median", "0.5"), ("variance", "deviation")]
        for y, (name, part) in enumerate(rows):
            right.plot([true[name][part]] * 2, [y - 0.35, y + 0.35], color=INK, lw=1.5)
            for shift, (whom, colour) in zip((0.2, 0, -0.2), colours.items(), strict=True):
                one = next(p for p in answers[whom][name].parts if p.name == part)
                right.plot([one.low, one.high], [y + shift] * 2, color=colour, lw=3, solid_capstyle="butt")
                right.plot([one.estimate], [y + shift], "o", color=colour, ms=4)
        right.set_yticks(range(len(rows)), ["mean", "median", "standard\ndeviation"])
        right.set(title="Intervals (95%), and the truth", xlabel="µm", xlim=(0, 30))
        save(figure, out)


if __name__ == "__main__":
    main()
