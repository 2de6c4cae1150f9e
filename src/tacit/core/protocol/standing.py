"""How a session stands: what notices add up to.

A status page shows a `Standing` for each session or series, whoever takes part in it. Nothing private is in
it. Notices change it (`Notice.show`). Its gauges are declared below it, and counters beside their notices;
the runtime writes both for Prometheus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, final

import msgspec

T = TypeVar("T")


@final
@dataclass(frozen=True)
class Counted:
    """A counter that each notice of a class raises by one.

    Parameters
    ----------
    name, meaning : str
        Its name without `tacit_` and `_total`, and what the page of metrics says.
    label : str
        A field of the notice that tells kinds apart. It must have few values: an enum, or a `Literal`.
    by : str
        A field with a number that is added in place of one.
    """

    name: str
    meaning: str
    label: str = ""
    by: str = ""


@final
@dataclass(frozen=True)
class Gauge(Generic[T]):
    """A number of a status: its name without `tacit_`, meaning, and value.

    `of` returns one number, or one for each value of `label`; None is left out.
    """

    name: str
    meaning: str
    of: Callable[[T], float | Mapping[str, float] | None]
    label: str = ""


class Loss(msgspec.Struct, omit_defaults=True):
    """The loss of an agent's value: so far, planned at most, and the cap."""

    spent: float | None = None
    planned: float | None = None
    cap: float | None = None


class AnswerPart(msgspec.Struct, omit_defaults=True):
    """A part of the answer to a question, with its interval where it is known."""

    name: str
    estimate: float
    low: float | None = None
    high: float | None = None


MOST_SHOWN = 32
"""How many components of a mean, or parts of an answer, are shown."""


class Standing(msgspec.Struct, kw_only=True):
    """How a session or a series stands, for one member or for its hub.

    Attributes
    ----------
    series : bool
        Whether it is a series. Its rounds are slots then.
    phase : str
        waiting, running, finished, stopped, refused (the cap) or failed.
    round, rounds : int
        The round that is open (or the updates an agent has made), and how many there are in all.
    present : int or None
        How many agents the coordinator saw when the round was opened.
    used : int or None
        How many messages are in the last feedback.
    late : list of str
        Members whose message is missing: it came too late in the last round, or the round waits for it.
    quiet : list of str
        Members that announced that they send nothing more.
    equivocated : list of str
        Members that signed two different messages for one round.
    behind : int or None
        How many rounds the others are ahead.
    loss : Loss or None
        Of an agent.
    feedback : list of float or None
        The last feedback, its first components, clamped to the session's range. Public.
    answer : list of AnswerPart or None
        What the last feedback says, its first parts, if more than a mean is asked. `feedback` is then None. A
        member shows no intervals while it runs: they take time. `used` is the number of records.
    radius : float or None
        Of a session of a hub that is over: the promised radius.
    deviation : float or None
        Of a series: the standard deviation of the noise in the last mean, for the messages used. What missing
        agents would have added is not in it.
    absences : str or None
        Of a series: who is missing from the last mean, and in how many earlier slots that still count.
    lost, incomplete : int
        Of a series: slots without a mean, and slots in which an agent was missing.
    ended : float or None
        When it ended, in seconds since 1970.
    trouble : str or None
        What is wrong, in one sentence.
    """

    name: str
    id: str = ""
    series: bool = False
    agents: int = 0
    rounds: int = 0
    phase: str = "waiting"
    round: int = 0
    present: int | None = None
    used: int | None = None
    late: list[str] = []
    quiet: list[str] = []
    equivocated: list[str] = []
    behind: int | None = None
    lost_history: bool = False
    loss: Loss | None = None
    feedback: list[float] | None = None
    answer: list[AnswerPart] | None = None
    radius: float | None = None
    deviation: float | None = None
    absences: str | None = None
    lost: int = 0
    incomplete: int = 0
    ended: float | None = None
    trouble: str | None = None


def _loss(name: str) -> Callable[[Standing], float | None]:
    return lambda now: None if now.loss is None else getattr(now.loss, name)


def _feedback(now: Standing) -> dict[str, float]:
    return {str(k): y for k, y in enumerate(now.feedback or [])}


def _answer(now: Standing) -> dict[str, float]:
    return {part.name: part.estimate for part in now.answer or []}


MEMBER_GAUGES: tuple[Gauge[Standing], ...] = (
    Gauge("round", "rounds that are over, or updates made", lambda now: now.round),
    Gauge("rounds", "rounds of the whole session", lambda now: now.rounds),
    Gauge("agents", "agents on the roster", lambda now: now.agents),
    Gauge("present", "agents present when the round was opened", lambda now: now.present),
    Gauge("messages_used", "messages that the last feedback is the mean of", lambda now: now.used),
    Gauge(
        "deviation",
        "in a series: standard deviation of the noise in the last mean, for the messages used; what missing "
        "agents would have added is not in it",
        lambda now: now.deviation,
    ),
    Gauge("late", "agents not waited for, or waited for now", lambda now: len(now.late)),
    Gauge("quiet", "agents that will not speak any more", lambda now: len(now.quiet)),
    Gauge("behind_rounds", "rounds that others are ahead", lambda now: now.behind or 0),
    Gauge(
        "lost_history",
        "1 if this ledger is not the newest: it was restored from a backup",
        lambda now: now.lost_history,
    ),
    Gauge("finished", "1 when all rounds are made", lambda now: now.phase == "finished"),
    Gauge("loss_spent", "privacy loss of this agent's value so far", _loss("spent")),
    Gauge("loss_planned", "what the session may cost it at most", _loss("planned")),
    Gauge("loss_cap", "its owner's cap", _loss("cap")),
    Gauge("feedback", "the last feedback, clamped to the range; public", _feedback, "component"),
    Gauge("answer", "the answer to the session's question; public", _answer, "part"),
)
"""Of a member's session; the labels `session` and `member` are added."""
