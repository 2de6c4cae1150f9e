"""What came of a session, or of a series, for one agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tacit.base.errors import MissingExtra, MotionError, installing
from tacit.base.report import Row, Shown, Summary, near, up
from tacit.core.theory.advice import NOT_COVERED

if TYPE_CHECKING:
    from tacit.core.protocol.answer import SessionAnswer
    from tacit.core.protocol.session import Session


@final
@dataclass(frozen=True)
class AgentResult(Shown):
    """The result of a session for one agent.

    Tables and `as_dict` have only its public part.

    Attributes
    ----------
    value : float or array
        The agent's final state. Private: together with the public feedback it reveals the agent's value.
    clamped : bool
        Whether the agent's value was outside the range and was clamped to it. Private.
    feedback : float, array or None
        The last feedback, clamped to the range. Public: with a server all agents receive the same one.
    answer : SessionAnswer or None
        What it says to the session's question, if that is not the mean. Public.
    finished : bool
        Whether all rounds were completed.
    loss : float
        The loss of this session, for the session's adjacency, rounded up.
    spent, cap : float
        The loss of all sessions on the value, including what they may still spend, and the owner's cap.
    """

    agent: str
    value: Any = field(repr=False)
    clamped: bool = field(repr=False)
    feedback: Any
    finished: bool
    rounds: int
    loss: float
    spent: float
    cap: float
    refused: dict[str, int]
    session: Session = field(repr=False)
    answer: SessionAnswer | None = None

    @property
    def radius(self) -> float | None:
        """The radius that the session promised.

        It is None if a package to compute it is not installed, if A, B and C are each agent's own, and if
        more than a mean is asked: then `answer` has intervals.
        """
        if self.session.asked is not None:
            return None
        try:
            return self.session.promise().theory.radius
        except (MissingExtra, MotionError):
            return None

    def as_dict(self) -> dict[str, Any]:
        """Return the public part for programs.

        The private part is left out because standard output often ends up in a log.
        """
        private = ("value", "clamped", "session", "answer")
        public = {name: fact for name, fact in vars(self).items() if name not in private}
        answer = {} if self.answer is None else {"answer": self.answer.as_dict()}
        return public | {"radius": self.radius} | answer

    def summary(self) -> Summary:
        """Return the public part for people."""
        heard = "none"
        if self.feedback is not None:
            one = isinstance(self.feedback, float) or np.ndim(self.feedback) == 0
            heard = f"{self.feedback:.6g}" if one else f"{len(self.feedback):,} numbers"
        radius = self.radius
        if radius is None and self.session.motion is not None:
            promised = Row("radius", "not known", "A, B and C are each agent's own")
        elif radius is None:
            promised = Row("radius", "not known", f"on a graph this needs an extra; {installing('theory')}")
        else:
            meaning = "promised if all took part in every round; tacit verify shows who did"
            promised = Row("radius", up(radius), meaning)
        public = "the last, clamped to the range; public (--state-file for your own state)"
        asked = {} if self.answer is None else {"Answer": self.answer.rows()}
        rows = [
            *([] if asked else [Row("feedback", heard, public), promised]),
            Row("rounds", str(self.rounds), "all" if self.finished else "ended early"),
            Row("loss", up(self.loss), "of this session, for its adjacency"),
            Row("spent", up(self.spent), f"on this value in all sessions; the cap is {near(self.cap)}"),
        ]
        return Summary(f"{self.agent}: result", {**asked, "Result": rows})


@final
@dataclass(frozen=True)
class SeriesResult(Shown):
    """The result of a series for one agent.

    All of it is public except `spent` and `cap`, which are the owner's.

    Attributes
    ----------
    finished : bool
        Whether the feedback of all slots was heard.
    slots : int
        How many slots are over, by what was heard.
    sent : int
        How many messages this agent has made.
    mean : float, list of float or None
        The published mean of the last slot, clamped to the range; None if it is lost.
    answer : SessionAnswer or None
        What it says to the question of the series, if that is not the mean of a number.
    deviation : float or None
        The standard deviation of the noise in it, for the messages that were used. What missing agents would
        have added is not in it.
    used, agents : int
        How many messages the last slot has, and how many agents are on the roster.
    incomplete : int
        In how many slots an agent was missing. If a step is hidden, they count in later means, too.
    loss, delta : float
        What the whole series costs, and its failure probability.
    spent, cap : float
        What all sessions on the value have cost and may still cost, and the owner's cap.
    """

    agent: str
    finished: bool
    slots: int
    sent: int
    mean: float | list[float] | None
    deviation: float | None
    used: int
    agents: int
    incomplete: int
    loss: float
    delta: float
    spent: float
    cap: float
    refused: dict[str, int]
    answer: SessionAnswer | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        found = {name: fact for name, fact in vars(self).items() if name != "answer"}
        return found if self.answer is None else found | {"answer": self.answer.as_dict()}

    def summary(self) -> Summary:
        """Return the result for people."""
        mean = f"{len(self.mean):,} numbers" if isinstance(self.mean, list) else "lost"
        mean = near(self.mean) if isinstance(self.mean, float) else mean
        asked = {} if self.answer is None else {"Answer of the last slot": self.answer.rows()}
        rows = [
            *([] if asked else [Row("mean", mean, "of the last slot, clamped to the range; public")]),
            *(
                ()
                if self.deviation is None
                else [Row("deviation", up(self.deviation), "of the noise in it, for the agents used")]
            ),
            Row("agents", f"{self.used} of {self.agents}", "are in it"),
            Row("slots", str(self.slots), "all" if self.finished else "ended early"),
            Row("incomplete", str(self.incomplete), "slots in which an agent was missing"),
            Row("messages", str(self.sent), "sent, one for each slot at most"),
            Row("loss", up(self.loss), f"of the whole series, except with probability {near(self.delta)}"),
            Row("spent", up(self.spent), f"on this value in all sessions; the cap is {near(self.cap)}"),
        ]
        notes = (NOT_COVERED,) if self.incomplete else ()
        return Summary(f"{self.agent}: result", {**asked, "Series": rows}, notes)
