"""The answer of a session: what its mean vector says to its question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

from tacit.base.errors import MissingExtra
from tacit.base.report import Row, counted, down, near, up
from tacit.core.law import OneShot
from tacit.core.mechanism import ClientServer
from tacit.core.question import Answer, MeanNoise, Part, Question, short_form

if TYPE_CHECKING:
    from tacit.core.protocol.notices import MeanPublished
    from tacit.core.protocol.session import Session

_SHOWN = 20  # parts, for people
_MIXING = 0.5  # the mean of messages has all of the noise, whatever the mixing is: only states lag behind


@final
@dataclass(frozen=True)
class SessionAnswer:
    """What a session found out; public.

    It is decoded when it is first looked at: the law of the noise takes its time.

    Attributes
    ----------
    mean : tuple of float
        The last feedback, as it was signed. On a graph that of one agent.
    records : int
        How many records it is the mean of: those that were used. On a graph all agents'.
    failure_probability : float
        Of the intervals.
    deviation : float, optional
        Of a slot of a series: the standard deviation of the noise in each number of the mean. What missing
        agents would have added is not in it.
    """

    session: Session = field(repr=False)
    mean: tuple[float, ...]
    records: int
    failure_probability: float = 0.05
    deviation: float | None = None

    @property
    def question(self) -> Question:
        """What was asked."""
        return self.session.question

    @cached_property
    def each(self) -> Answer:
        """The parts, with an interval for each of them alone.

        There are no intervals if a package for the law of the noise is not installed.
        """
        return self._decoded(together=False)

    @cached_property
    def together(self) -> Answer:
        """The parts with wider intervals, for all of them at once."""
        return self._decoded(together=True)

    def _decoded(self, *, together: bool) -> Answer:
        b = self.failure_probability
        if self.deviation is None:
            b = self.session.besides_clamps(b)
        return self.question.decode(self.mean, self.records, self._noise, b, together=together)

    @cached_property
    def _noise(self) -> MeanNoise | None:
        try:
            if self.deviation is not None:
                from tacit.core.theory.mean_noise import NormalNoise

                return NormalNoise(self.deviation)
            return _noise(self.session, self.records)
        except MissingExtra:
            return None

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {
            "question": short_form(self.question),
            "records": self.records,
            "failure_probability": self.failure_probability,
            "parts": [part._asdict() for part in self.each.parts],
            "together": [part._asdict() for part in self.together.parts],
        }

    def rows(self) -> list[Row]:
        """Return the answer for people: a row for each part."""
        return answer_rows(self.as_dict())


def answer_rows(answer: dict[str, Any]) -> list[Row]:
    """Return the rows of an answer, from what `SessionAnswer.as_dict` wrote."""
    parts = [Part(**part) for part in answer["parts"]]
    joint = [Part(**part) for part in answer["together"]]
    alike = [part.name for part in joint] == [part.name for part in parts]
    wider: Sequence[Part | None] = joint if alike else [None] * len(parts)
    used = f"of {counted(answer['records'], 'record')}, the number of those that were used"
    rows = [Row("question", answer["question"], used)]
    rows += [_row(part, other) for part, other in zip(parts[:_SHOWN], wider, strict=False)]
    if len(parts) > _SHOWN:
        rows.append(Row("…", "", f"and {len(parts) - _SHOWN:,} more parts: --json has all"))
    if not parts:
        rows.append(Row("no answer", "", "the noise is so large that nobody may be in it"))
    elif parts[0].low is not None:
        b = near(answer["failure_probability"])
        rows.append(Row("missed", b, "the probability that an interval, or any of the wider ones, is wrong"))
    return rows


def _row(part: Part, joint: Part | None) -> Row:
    if part.low is None or part.high is None:
        return Row(part.name, near(part.estimate), "")
    said = f"from {down(part.low)} to {up(part.high)}"
    if joint is not None and joint.low is not None and joint.high is not None and joint != part:
        said += f"; all parts at once: from {down(joint.low)} to {up(joint.high)}"
    return Row(part.name, near(part.estimate), said)


def session_answer(
    session: Session, mean: Sequence[float], used: int, failure_probability: float = 0.05
) -> SessionAnswer | None:
    """Return what the mean of so many records says; None if a mean is asked."""
    return None if session.asked is None else SessionAnswer(session, tuple(mean), used, failure_probability)


def slot_answer(
    session: Session, slot: MeanPublished, failure_probability: float = 0.05
) -> SessionAnswer | None:
    """Return what a slot says; None if it is lost, or if a mean is asked.

    It is about all members: those whose messages were used at least once.
    """
    if session.asked is None or slot.mean is None:
        return None
    assert slot.deviation is not None
    mean = slot.mean if isinstance(slot.mean, tuple) else (slot.mean,)
    return kept_answer(session, mean, slot.members, slot.deviation, failure_probability)


def kept_answer(
    session: Session,
    mean: Sequence[float],
    members: int,
    deviation: float,
    failure_probability: float = 0.05,
) -> SessionAnswer:
    """Return what a mean of a slot says that was kept with its deviation."""
    return SessionAnswer(session, tuple(mean), members, failure_probability, deviation)


def _noise(session: Session, used: int) -> MeanNoise:
    from tacit.core.theory.mean_noise import ComponentNoise

    if session.edges is not None:
        span = session.lattice.high - session.lattice.low
        return ComponentNoise.heard(session.mechanism, session.rounds, span)
    # With noise of different sizes the largest counts for all: an interval must not be too narrow.
    law = OneShot(_MIXING, float(max(session.noise) if isinstance(session.noise, tuple) else session.noise))
    if session.mechanism.law.whole_domain:
        return ComponentNoise.of(ClientServer(session.mechanism.law.with_mixing(_MIXING), agents=used))
    return ComponentNoise.of(ClientServer(law, agents=used, keepers=len(session.keepers)))
