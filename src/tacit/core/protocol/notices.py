"""Notices: what machines say happened, for people, logs and metrics.

A notice is described here and nowhere else. Its fields become the JSON of the log. Beside them stand its
sentence, its counter, and what it changes in the status. To add one, add a class to this file. Nothing
private may be in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, final, get_args, get_type_hints

from tacit.base.report.numbers import counted, near, up
from tacit.core.protocol.messages import COORDINATOR, Reason, Refusal
from tacit.core.protocol.standing import MOST_SHOWN, AnswerPart, Counted, Loss, Standing
from tacit.core.series import SeriesDecoder

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session

Who: TypeAlias = Annotated[int, "a member's number"]
"""Fields of this type become names in the log."""
Counts: TypeAlias = dict[str, dict[str, int]]
"""How often notices have raised each counter: by its name, and by the value of its label."""
_MOST_NAMES = 5
_ENDS = {
    Reason.NONSENSE: ": a sum was impossible",
    Reason.KEEPER: ": a keeper has left, and nobody can take its place",
}


class Notice:
    """Something that happened: subclasses say all that is shown of it.

    All methods but `facts` do nothing unless a subclass defines them. `session` is the notice's session; it
    has the names of members.
    """

    event: ClassVar[str]
    """Its name in the log: the name of the class, unless `event` is given with it."""
    counted: ClassVar[tuple[Counted, ...]] = ()
    """Counters that it raises."""
    logged: ClassVar[bool] = True
    """Whether it is logged; otherwise it is only counted."""
    often: ClassVar[int] = 100
    """How many of one cause are logged a day; then only at powers of two."""
    causes: ClassVar[int] = 100_000
    """How many causes are counted apart."""

    def __init_subclass__(cls, event: str = "") -> None:
        cls.event = event or _dashed(cls.__name__)

    def sentence(self, session: Any) -> str | None:
        """Return what to say to a person; None if people need not know it."""
        return None

    def progress(self, session: Any) -> tuple[int, str] | None:
        """Return the number of finished rounds, and the text beside the bar."""
        return None

    def show(self, now: Standing, session: Any) -> None:
        """Change how the session stands."""

    def cause(self) -> Hashable:
        """Return a key if others can cause it at will: see `often`."""
        return None

    def repeated(self) -> Hashable:
        """Return a key if a person need not read it twice in a row."""
        return None

    def facts(self, session: Any) -> dict[str, Any]:
        """Return it ready for JSON: its event and its fields."""
        kind: Any = type(self)  # mypy takes no class for hashable
        what: dict[str, Any] = {"event": self.event}
        for name, names_members in _fields(kind):
            value = getattr(self, name)
            if names_members and value is not None:
                many = isinstance(value, tuple)
                value = [session.member_name(i) for i in value] if many else session.member_name(value)
            what[name] = _dashed(value.name) if isinstance(value, Enum) else value
        return what

    def add_to(self, counts: Counts) -> None:
        """Raise its counters."""
        for one in self.counted:
            value = getattr(self, one.label) if one.label else ""
            label = value.name.lower() if isinstance(value, Enum) else str(value)
            known = counts.setdefault(one.name, {})
            known[label] = known.get(label, 0) + (getattr(self, one.by) if one.by else 1)


@cache
def _fields(kind: Any) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a class of notices, and which name members."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        (one.name, hints[one.name] is Who or Who in get_args(hints[one.name])) for one in fields(kind)
    )


def _dashed(name: str) -> str:
    if name.isupper():
        return name.lower().replace("_", "-")
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


@final
@dataclass(frozen=True)
class Refused(Notice):
    """A frame was refused. `sender` is None if no signature says who sent it."""

    reason: Refusal
    sender: Who | None = None

    counted = (Counted("refused", "frames refused, named as in the protocol", "reason"),)

    def cause(self) -> Hashable:
        return self


@final
@dataclass(frozen=True)
class Cost(Notice):
    """The session's maximum loss, the loss spent before, and the cap."""

    planned: float
    spent: float
    cap: float

    def sentence(self, session: Session) -> str:
        others = f"other sessions on this value count for {up(self.spent)}; the cap is {near(self.cap)}."
        if session.series is not None:
            return (
                f"This series costs at most {up(self.planned)} in all, except with probability "
                f"{near(session.series.delta)}, and hides {session.hidden}; {others}"
            )
        # If the session's adjacency is smaller than its range, the promise covers less.
        wide = session.adjacency < session.diameter
        far = f", though they may be {near(session.diameter)} apart" if wide else ""
        values = f"for values up to {near(session.adjacency)} apart{far}"
        return f"This session costs at most {up(self.planned)} {values}; {others}"

    def show(self, now: Standing, session: Session) -> None:
        now.loss = Loss(spent=self.spent, planned=self.planned, cap=self.cap)

    def facts(self, session: Session) -> dict[str, Any]:
        return super().facts(session) | {"adjacency": session.adjacency}


@final
@dataclass(frozen=True)
class OverCap(Notice):
    """The session would exceed the owner's cap: nothing is ever sent."""

    planned: float
    spent: float
    cap: float

    def show(self, now: Standing, session: Session) -> None:
        now.loss = Loss(spent=self.spent, planned=self.planned, cap=self.cap)
        now.phase = "refused"


@final
@dataclass(frozen=True)
class FellSilent(Notice):
    """Message `update` would exceed the cap, so no more messages are sent.

    The agent still receives feedback and makes its updates.
    """

    update: int
    spent: float
    cap: float

    def sentence(self, session: Session) -> str:
        return f"Message {self.update} would exceed the cap of {near(self.cap)}: nothing more is sent."

    def show(self, now: Standing, session: Session) -> None:
        now.loss = now.loss or Loss()
        now.loss.spent, now.loss.cap = self.spent, self.cap


@final
@dataclass(frozen=True)
class Spoken(Notice):
    """Message `update` is recorded and sent now.

    `spent` is the loss so far, including earlier sessions.
    """

    update: int
    spent: float

    def progress(self, session: Session) -> tuple[int, str]:
        return self.update, f"message {self.update} sent, loss so far {up(self.spent)}"

    def show(self, now: Standing, session: Session) -> None:
        now.phase, now.loss = "running", now.loss or Loss()
        now.loss.spent = self.spent


@final
@dataclass(frozen=True)
class Answered(Notice):
    """A keeper opened the sum of `count` messages of update `update`.

    The opening is recorded and sent now.
    """

    update: int
    count: int

    def progress(self, session: Session) -> tuple[int, str]:
        return self.update + 1, f"sum of {self.count} messages opened"

    def show(self, now: Standing, session: Session) -> None:
        now.phase, now.round, now.used, now.late = "running", self.update + 1, self.count, []


@final
@dataclass(frozen=True)
class Nonsense(Notice):
    """The sum of round `round` is impossible with honest members.

    A session stops then. A series loses the slot and goes on.
    """

    round: int

    def sentence(self, session: Session) -> str:
        return (
            f"The sum of round {self.round} is larger than honest agents and keepers could make it: one of "
            "them lied. All signed messages are kept."
        )

    def show(self, now: Standing, session: Session) -> None:
        now.trouble = f"the sum of round {self.round} is nonsense: someone lied"


@final
@dataclass(frozen=True)
class Updated(Notice):
    """An agent made its update of round `round`; `count` messages were used."""

    round: int
    count: int

    def progress(self, session: Session) -> tuple[int, str]:
        return self.round + 1, f"{self.count} of {session.n} messages used"

    def show(self, now: Standing, session: Session) -> None:
        now.phase, now.round, now.used, now.behind = "running", self.round + 1, self.count, None


@final
@dataclass(frozen=True)
class MeanPublished(Notice):
    """The mean of a slot of a series; None if the slot is lost.

    It is public, and not clamped to the range. Of a question with several components it is a vector.

    Attributes
    ----------
    count, members : int
        How many messages are in it, and how many agents were used in any slot so far.
    deviation : float or None
        The standard deviation of the noise in it, for the messages that were used. What missing agents would
        have added is not in it.
    incomplete_before : int
        In how many earlier slots an agent was missing, if these slots still count in this mean.
    """

    slot: int
    mean: float | tuple[float, ...] | None
    count: int
    members: int
    deviation: float | None
    incomplete_before: int

    @classmethod
    def of(cls, decoder: SeriesDecoder) -> MeanPublished:
        """Return the last slot of a decoder."""
        mean, deviation, before = decoder.mean(), decoder.deviation(), decoder.incomplete_before
        return cls(decoder.slot - 1, mean, decoder.used, decoder.members, deviation, before)

    def sentence(self, session: Session) -> str | None:
        if self.mean is not None:
            return None
        return f"Slot {self.slot} is lost: too few messages, or a keeper did not answer."

    def progress(self, session: Session) -> tuple[int, str]:
        return self.slot + 1, f"{self.count} of {session.n} agents used"

    def show(self, now: Standing, session: Session) -> None:
        from tacit.core.theory.advice import absences

        now.phase, now.round, now.used, now.behind = "running", self.slot + 1, self.count, None
        if self.mean is None:
            now.lost += 1
            return
        now.deviation, vector = self.deviation, self.mean if isinstance(self.mean, tuple) else (self.mean,)
        if session.asked is None:
            now.feedback = session.clamp(vector[:MOST_SHOWN]).tolist()
        else:
            parts = session.asked.decode(vector, self.members).parts[:MOST_SHOWN]
            now.answer = [AnswerPart(part.name, part.estimate) for part in parts]
        now.absences = absences(self.count, session.n, self.incomplete_before) or None


@final
@dataclass(frozen=True)
class SlotMissed(Notice):
    """An agent of a series sends nothing in this slot.

    `unread` if it has no reading, and its series does not hold the last one. Otherwise a keeper's key is
    missing.
    """

    slot: int
    unread: bool = False

    def sentence(self, session: Session) -> str:
        why = "there is no reading" if self.unread else "a keeper's key is missing"
        return f"No message for slot {self.slot}: {why}."

    def show(self, now: Standing, session: Session) -> None:
        why = self.sentence(session).rstrip(".")
        now.trouble = why[0].lower() + why[1:]


@final
@dataclass(frozen=True)
class RoundOpened(Notice):
    """The coordinator opened a round."""

    round: int
    present: int

    def show(self, now: Standing, session: Session) -> None:
        now.phase, now.round, now.present = "running", self.round, self.present


@final
@dataclass(frozen=True)
class RoundClosed(Notice):
    """A round is over: whose messages were used, and who was missing.

    `missing` leaves out the members that announced that they send nothing more.
    """

    round: int
    used: tuple[Who, ...]
    missing: tuple[Who, ...]

    def sentence(self, session: Session) -> str | None:
        if not self.missing:
            return None
        return f"Round {self.round} closed without {_names(self.missing, session)}."

    def repeated(self) -> Hashable:
        return self.missing

    def progress(self, session: Session) -> tuple[int, str]:
        return self.round + 1, f"{len(self.used)} of {session.n} messages used"

    def show(self, now: Standing, session: Session) -> None:
        now.phase, now.round, now.used = "running", self.round + 1, len(self.used)
        now.late = [session.member_name(i) for i in self.missing]


@final
@dataclass(frozen=True)
class Waiting(Notice):
    """Round `round` waits for these members; it needs `needed` of them.

    The notice is repeated while the round waits. If `needed` is 0, the round continues without them at its
    deadline.
    """

    round: int
    missing: tuple[Who, ...]
    needed: int = 0

    def sentence(self, session: Session) -> str:
        if self.missing == (COORDINATOR,):
            where = "it cannot be reached, or is waiting for other agents"
            return f"Round {self.round} waits for the coordinator: {where}."
        start = f"Round {self.round} waits for {_names(self.missing, session)}"
        if not self.needed:
            return f"{start}. It continues without them at its deadline."
        if self.needed == len(self.missing):
            return f"{start}. It cannot continue without them."
        return f"{start}. At least {self.needed} of them must join."

    def show(self, now: Standing, session: Session) -> None:
        now.round, now.late = self.round, [session.member_name(i) for i in self.missing]


@final
@dataclass(frozen=True)
class Behind(Notice):
    """The member is at round `round` and catches up to round `open`."""

    round: int
    open: int

    def sentence(self, session: Session) -> str:
        return f"Catching up from round {self.round} to {self.open}."

    def show(self, now: Standing, session: Session) -> None:
        now.behind = self.open - self.round

    def cause(self) -> Hashable:
        return self.event  # others say which round is open


@final
@dataclass(frozen=True)
class LostHistory(Notice):
    """`who` is further than this machine's records: the ledger is old."""

    who: Who
    update: int

    def sentence(self, session: Session) -> str:
        name, rounds = session.member_name(self.who), counted(self.update, "round")
        return f"{name} has {rounds}, more than this ledger: the ledger is not the newest."

    def show(self, now: Standing, session: Session) -> None:
        now.lost_history = True

    def cause(self) -> Hashable:
        return self.who


@final
@dataclass(frozen=True)
class Forgotten(Notice):
    """The coordinator lost its ledger: it asks for an old round.

    It asks for round `asked`, but `round` rounds are over.
    """

    round: int
    asked: int

    def sentence(self, session: Session) -> str:
        return (
            f"The coordinator asks for round {self.asked}, but {self.round} of its rounds are over: it has "
            "lost its ledger. The session can continue only with that ledger."
        )

    def show(self, now: Standing, session: Session) -> None:
        now.trouble = f"the coordinator has lost its ledger: it asks for round {self.asked}"

    def cause(self) -> Hashable:
        return COORDINATOR


@final
@dataclass(frozen=True)
class NotUsed(Notice):
    """A message of this agent is not in the feedback of its round."""

    round: int

    def sentence(self, session: Session) -> str:
        return f"This agent's message of round {self.round} is not in the feedback: it came too late."


@final
@dataclass(frozen=True)
class ReceiptTaken(Notice):
    """The coordinator has recorded this agent's message: it may leave."""

    round: int

    def sentence(self, session: Session) -> str:
        return (
            f"The coordinator has recorded this agent's message and signed a receipt: it may leave, and come "
            f"back for the result until {session.expiry}."
        )


@final
@dataclass(frozen=True)
class Equivocated(Notice):
    """`sender` signed two different messages for one round.

    Both are recorded as evidence.
    """

    sender: Who
    round: int

    counted = (Counted("equivocations", "contradictions that were proved"),)

    def sentence(self, session: Session) -> str:
        name = session.member_name(self.sender)
        return f"{name} signed two different messages for round {self.round}."

    def show(self, now: Standing, session: Session) -> None:
        now.equivocated = sorted({*now.equivocated, session.member_name(self.sender)})


@final
@dataclass(frozen=True)
class DisputeFound(Notice):
    """Feedback has a message that this agent did not make; it stops."""

    round: int

    def sentence(self, session: Session) -> str:
        return (
            f"The feedback of round {self.round} contains a message in this agent's name that it did not "
            "send: the coordinator may lie, or the key is used elsewhere. Nothing more is sent."
        )

    def show(self, now: Standing, session: Session) -> None:
        now.phase, now.round, now.late = "stopped", self.round, []


@final
@dataclass(frozen=True)
class Quiet(Notice):
    """An agent announced that it sends nothing more."""

    who: Who
    update: int

    def sentence(self, session: Session) -> str:
        return f"{session.member_name(self.who)} sends nothing more, from round {self.update} on."

    def show(self, now: Standing, session: Session) -> None:
        now.quiet = sorted({*now.quiet, session.member_name(self.who)})


@final
@dataclass(frozen=True)
class Finished(Notice):
    """All rounds are over."""

    rounds: int

    def show(self, now: Standing, session: Session) -> None:
        now.phase, now.round, now.late = "finished", self.rounds, []


@final
@dataclass(frozen=True)
class Stopped(Notice):
    """The session ended early."""

    round: int
    reason: Reason

    def sentence(self, session: Session) -> str:
        if self.reason is Reason.EXPIRED:
            return f"The session expired on {session.expiry}, at round {self.round}."
        return f"The session ended at round {self.round}{_ENDS.get(self.reason, '')}."

    def show(self, now: Standing, session: Session) -> None:
        now.phase, now.round, now.late = "stopped", self.round, []


def _names(who: Sequence[int], session: Session) -> str:
    names = ", ".join(session.member_name(i) for i in who[:_MOST_NAMES])
    return names if len(who) <= _MOST_NAMES else f"{names} and {len(who) - _MOST_NAMES} more"
