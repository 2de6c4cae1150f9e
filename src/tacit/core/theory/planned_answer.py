"""How exact the answer to a question will be, before anyone is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from tacit.base.errors import ParameterError
from tacit.base.report import Row, counted, down, near, up
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.question import Answer, MeanNoise, Own, Part, Question, short_form
from tacit.core.question.base import share_of
from tacit.core.theory.accuracy import reaches_average
from tacit.core.theory.mean_noise import ComponentNoise

_SHOWN = 12  # parts of an answer; JSON has all


@final
@dataclass(frozen=True)
class PlannedAnswer:
    """The intervals of an answer, for records that are spread evenly.

    Attributes
    ----------
    each, together : Answer
        With intervals for each part alone, and for all parts at once.
    radius, radius_all_parts : float or None
        Half their width, where it depends neither on the records nor on the part. They are in the unit of the
        answer, and before intervals are cut to what is possible.
    """

    question: Question
    each: Answer
    together: Answer
    radius: float | None
    radius_all_parts: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {
            "radius": self.radius,
            "radius_all_parts": self.radius_all_parts,
            "parts": [part._asdict() for part in self.each.parts],
            "together": [part._asdict() for part in self.together.parts],
        }

    def rows(self, failure_probability: float) -> list[Row]:
        """Return the widths for people."""
        missed = f"missed with probability {near(failure_probability)}"
        parts, joint = self.each.parts, {part.name: part for part in self.together.parts}
        many = len(parts)
        if self.radius is not None and self.radius_all_parts is not None:
            if self.question.components == 1:
                return [Row(parts[0].name, f"± {up(self.radius)}", missed)]
            every = f"all {counted(self.question.components, 'part')} at once"
            return [
                Row("any one part", f"± {up(self.radius)}", missed),
                Row("all parts", f"± {up(self.radius_all_parts)}", f"{every}, {missed}"),
            ]
        rows = [_row(part, joint.get(part.name)) for part in parts[:_SHOWN]]
        if many > _SHOWN:
            rows.append(Row("…", "", f"and {many - _SHOWN:,} more parts: --json has all"))
        return rows

    def notes(self) -> list[str]:
        """Say what the intervals are for."""
        if not self.each.parts:
            return [
                "There may be no answer: the noise is so large that nobody may be in it. Ask more agents, or "
                "take keepers or a larger loss."
            ]
        if self.radius is not None:
            return []
        return [
            "How wide these intervals are depends on the records: they are for records that are spread "
            "evenly over the domain. `tacit.ask` tries others."
        ]


def planned(
    mechanism: Mechanism, question: Question, failure_probability: float, rounds: int | None, spread: float
) -> PlannedAnswer:
    """Return how exact an answer will be.

    A question and a mechanism that do not fit together are refused.
    """
    require_fitting(mechanism, question)
    law = ComponentNoise.of(mechanism, rounds, spread)
    return planned_with(law, mechanism.n, question, failure_probability)


def planned_with(noise: MeanNoise, records: int, question: Question, b: float) -> PlannedAnswer:
    """Return how exact an answer of so many records will be with this noise.

    `b` is the failure probability of its intervals.
    """
    law, n = noise, records
    true = {part.name: part.estimate for part in question.decode(question.even, n).parts}
    each, together = (
        Answer(tuple(part._replace(estimate=true.get(part.name, part.estimate)) for part in found.parts), n)
        for found in (question.decode(question.even, n, law, b, together=joint) for joint in (False, True))
    )
    unit, radius, every = question.unit(n), None, None
    if unit is not None:
        radius, every = (unit * law.radius(share_of(b, k)) for k in (1, question.components))
    return PlannedAnswer(question, each, together, radius, every)


def require_fitting(mechanism: Mechanism, question: Question) -> None:
    """Refuse a mechanism that makes no sense for a question."""
    if isinstance(mechanism, Distributed):
        if not question.moves and not reaches_average(mechanism):
            raise ParameterError(
                f"a {question.kind} on a graph needs the true average, in which every record counts the "
                "same: give Metropolis weights and one mixing for all.",
                "weights",
            )
    elif not question.moves and not mechanism.shadowed:
        raise ParameterError(no_motion(question), "law")


def no_motion(question: Question) -> str:
    """Say why fading noise makes no sense for a question with a server."""
    return (
        f"a {question.kind} needs noise that is drawn once: its vectors are no quantities that must move "
        "smoothly, so with a server fresh noise in every round costs accuracy and gains nothing. Take "
        "one-shot noise."
    )


def question_word(question: Question) -> str:
    """Return a question in one word; one of your own is "own"."""
    return question.kind if isinstance(question, Own) else short_form(question)


def _row(part: Part, joint: Part | None) -> Row:
    if part.low is None or part.high is None:
        return Row(part.name, near(part.estimate), "your function of the mean vector has no interval")
    wider = ""
    if joint is not None and joint.low is not None and joint.high is not None and joint != part:
        wider = f"; all parts at once: {down(joint.low)} to {up(joint.high)}"
    return Row(part.name, f"{down(part.low)} to {up(part.high)}", f"if it is {near(part.estimate)}{wider}")
