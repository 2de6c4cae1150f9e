"""The design of a series as rows for people.

The command line, the studio and notebooks show these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.base.report import Row, Summary, up
from tacit.core.series import design as series
from tacit.core.series.design import accepted_as
from tacit.core.theory.planned_answer import question_word

if TYPE_CHECKING:
    from tacit.core.series.design import SeriesDesign

MECHANISMS = {
    "square-root": "square root of summation: agents send filtered readings, with fresh Gaussian noise",
    "tree": "binary tree over the increments, with Gaussian noise",
    "pure tree": "binary tree over the increments, with Laplace noise",
    "independent": "fresh Gaussian noise on every mean",
    "independent laplace": "fresh Laplace noise on every mean",
}
"""What each mechanism of a series does."""
_MISSED = 0.05  # failure probability of the intervals that are shown
_EXPOSED = 2.0  # a change is called not hidden if it moves the messages over this many times as far as a step


def series_summary(made: SeriesDesign, unit: str = "", slots_per_day: int = 96) -> Summary:
    """Return the error of each mean and the loss of the whole series.

    Also say what else is hidden, and what is not.
    """
    who = f"{made.keepers} keeper{'s' * (made.keepers != 1)}" if made.keepers else "every agent"
    failing = "" if made.delta == 0 else f", except with probability {made.delta:g}"
    measure = "standard deviation of the worst mean" + ("" if unit else ", in units of the values")
    sections = {
        **_answer(made),
        "Each mean": [
            Row("deviation", up(made.deviation), measure, unit),
            Row("noise", up(made.noise_deviation), f"standard deviation of one draw, by {who}", unit),
        ],
        "Whole series": [Row("loss", up(made.loss), f"for all {made.slots:,} means together{failing}")],
        "Mechanism": _mechanisms(made, unit),
    }
    if changes := _other_changes(made, slots_per_day):
        sections["Other changes"] = changes
    what = "means" if made.question is None else f"times {question_word(made.question)}"
    title = f"{made.slots:,} {what} of {made.agents:,} agents; hides {accepted_as(made.hides, made.question)}"
    return Summary(title, sections, tuple(_notes(made, slots_per_day)))


def _answer(made: SeriesDesign) -> dict[str, list[Row]]:
    """Return the intervals of each slot's answer, but of no mean."""
    found = None if made.question is None else made.answer(_MISSED)
    return {} if found is None else {"Answer of each slot": found.rows(_MISSED)}


def _mechanisms(made: SeriesDesign, unit: str) -> list[Row]:
    """Return the deviation that each mechanism would have, the least first."""
    others = series.candidates(
        made.slots, made.hides, agents=made.agents, span=made.vectors, keepers=made.keepers,
        epsilon=made.loss, delta=made.delta or 1e-6,
    )  # fmt: skip
    return [
        Row(name, up(off), ("chosen: " if name == made.mechanism else "") + MECHANISMS[name], unit)
        for name, off in sorted(others.items(), key=lambda item: item[1])
    ]


def _other_changes(made: SeriesDesign, slots_per_day: int) -> list[Row]:
    return [
        Row(
            name,
            up(made.loss_of(cost)),
            f"moves {up(cost)} × as far as a step" + (": NOT hidden" if cost > _EXPOSED else ""),
        )
        for name, cost in made.costs(slots_per_day).items()
        if name != "step"
    ]


def _notes(made: SeriesDesign, slots_per_day: int) -> list[str]:
    notes = []
    if made.hides.kind == "step" and made.question is not None and not made.question.moves:
        notes.append(
            "A lasting change of a record is hidden, from any vector to any other. A record that goes on "
            "changing counts once for every change."
        )
    elif made.hides.kind == "step":
        notes.append(
            f"A lasting change of up to {made.hides.size:g} is hidden. Other changes of that height have the "
            f"loss shown, for a day of {slots_per_day} slots."
        )
    if not made.keepers:
        notes.append(
            "Every agent adds its own noise; with one or two keepers the means are far more accurate."
        )
    return notes
