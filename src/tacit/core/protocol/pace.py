"""What opens and closes a round of a coordinator: members, or the clock.

`Rounds` wait for members, with deadlines. A round closes when everyone who is present has sent its message,
or at its deadline with a quorum.

`Slots` follow the clock. A slot is closed when all agents have sent, or at its deadline. It is lost if fewer
than the quorum have sent, if a keeper has not answered when the next slot must be closed, or if its sum is
nonsense. Agents may send for the next slot while keepers are still asked about the last one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from math import inf
from typing import final

from tacit.core.protocol.codec import Codec
from tacit.core.protocol.course import Course
from tacit.core.protocol.effects import Tick
from tacit.core.protocol.keyring import Keyring
from tacit.core.protocol.messages import Ask, Body, Feedback, Message, Refusal, Report
from tacit.core.protocol.notices import MeanPublished, Notice, RoundOpened, Waiting
from tacit.core.protocol.records import Closed
from tacit.core.protocol.series import Series
from tacit.core.protocol.series_clock import SlotTime
from tacit.core.protocol.tables import CoordinatorPhase as P
from tacit.core.protocol.tables import On, Phase


class Pace(ABC):
    """What opens and closes a round. A pace says only what it needs to.

    Attributes
    ----------
    start, limit : float, optional
        Seconds to wait for members at the start, and for the messages of a round; None if the clock decides.
    first : tuple
        What agents are told to begin.
    nonsense : On
        What follows from a sum that is nonsense.
    tells : bool
        Whether the operator is told whom the session waits for.
    """

    start: float | None = None
    limit: float | None = None
    first: tuple[Body, ...] = ()
    nonsense: On
    tells: bool = True

    def __init__(self, codec: Codec, course: Course, keyring: Keyring) -> None:
        self._codec, self._session = codec, codec.session
        self._course, self._keyring = course, keyring

    # ---- what is due --------------------------------------------------------------------------------

    @abstractmethod
    def due_to_open(self, *, expired: bool) -> On | None:
        """Return how the first round is opened, once it can be."""

    @abstractmethod
    def due_to_shut(self, *, expired: bool) -> On | None:
        """Return how the open round ends, once its messages are decided."""

    def due_without_keeper(self) -> On | None:
        """Return what follows while a keeper has not answered: wait for it."""
        return None

    @abstractmethod
    def may_end(self) -> bool:
        """Whether nobody has to be served after a restart."""

    # ---- time and members ---------------------------------------------------------------------------

    def tick(self, tick: Tick) -> None:  # noqa: B027
        """Take the time."""

    def wake(self) -> float | None:
        """When the clock makes something due, while rounds are open."""
        return None

    def see(self, who: int) -> None:  # noqa: B027
        """Note that an agent is there."""

    def miss(self, who: int, *, gone: bool) -> None:  # noqa: B027
        """Note that an agent has sent all it will in this round, or has left."""

    def open(self) -> tuple[Notice, ...]:
        """Open a round; return what to tell of it."""
        return ()

    @abstractmethod
    def close(self, used: tuple[int, ...], y: tuple[int, ...]) -> tuple[Notice, ...]:
        """Close a round; return what to tell of it."""

    @abstractmethod
    def replay(self, closed: Closed) -> None:
        """Close a round as a ledger says."""

    # ---- what is heard, and who is told -------------------------------------------------------------

    def place(self, body: Body) -> int:
        """Return the round that a member is at, or requests.

        With one-shot noise and keepers agents make further updates after the last exchange. They all count as
        at the end.
        """
        u = body.round if isinstance(body, Ask) else getattr(body, "update", 0)
        return min(u, self._session.exchanges)

    @abstractmethod
    def classify(self, body: Report, *, known: bool) -> On | Refusal:
        """Classify a report that contradicts nothing, by its round."""

    def wanted(self, who: int) -> Ask | None:  # noqa: ARG002
        """Return the request for an agent's message of the open round, if any."""
        return None

    def opened_by(self, keeper: int, body: Body) -> Message | None:  # noqa: ARG002
        """Return the opening that a keeper should know of when it asks this."""
        return None

    @abstractmethod
    def behind(self) -> Iterable[int]:
        """Return the agents that may lack the last feedback."""

    def missing(self) -> tuple[int, ...]:
        """Return the agents that the open round waits for."""
        return ()

    def waiting(self, phase: Phase) -> Waiting | None:  # noqa: ARG002
        """Return whom the session waits for, to tell the operator."""
        return None

    def published(self) -> MeanPublished | None:
        """Return the last slot of a series with its mean, if there is one."""
        return None

    def incomplete(self) -> int | None:
        """In how many slots of a series an agent was missing."""
        return None


def chosen_pace(codec: Codec, course: Course, keyring: Keyring) -> Pace:
    """Return what opens and closes the rounds of a session."""
    series = codec.session.series
    if codec.session.closes is not None:
        return OpenRound(codec.session.closes, codec, course, keyring)
    if series is None:
        return Rounds(codec, course, keyring)
    return Slots(series, codec, course, keyring)


def _of_open_round(course: Course, body: Report, *, known: bool) -> On | Refusal:
    """Classify a report by the round that is open."""
    u, t = body.update, course.round
    if u != t:
        return On.LOST if u > t else On.PAST if known else On.LATE
    if known:
        return Refusal.REPLAY
    # Its sender has moved by feedback that is not in this ledger. A mean of different histories would not
    # be the mechanism, and no verifier could recompute it.
    return On.REPORT if body.heard == course.before else Refusal.OTHER_HISTORY


@final
class Rounds(Pace):
    """Rounds that wait for members, with deadlines."""

    first: tuple[Body, ...] = (Ask(0),)
    # Someone lied, and masks hide who: another try would be another opening of the same messages.
    nonsense = On.NONSENSE

    def __init__(self, codec: Codec, course: Course, keyring: Keyring) -> None:
        super().__init__(codec, course, keyring)
        self.start, self.limit = self._session.deadlines.start, self._session.deadlines.round
        self._awaited: set[int] = set()  # present, not silent, not heard in this round

    # ---- what is due --------------------------------------------------------------------------------

    def due_to_open(self, *, expired: bool) -> On | None:
        """Open round 0 once enough agents and all keepers are there."""
        course, session = self._course, self._session
        if course.opened:
            return On.COMPLETE if course.round == session.exchanges else On.RESUMED
        here = len(course.present)
        enough = here == session.n or (expired and here >= session.least_start)
        return On.ENOUGH if enough and self._keyring.knows(session.keeper_numbers) else None

    def due_to_shut(self, *, expired: bool) -> On | None:
        """Shut the round when all present have sent, or late with a quorum."""
        enough = len(self._course.reports) >= self._session.least_quorum
        return On.ENOUGH if enough and (expired or not self._awaited) else None

    def may_end(self) -> bool:
        """Whether all are done; otherwise those that are behind are served."""
        return len(self._course.done) == self._session.n

    # ---- time and members ---------------------------------------------------------------------------

    def see(self, who: int) -> None:
        """Wait for this agent from now on."""
        course = self._course
        if who in course.present:
            return
        course.present.add(who)
        if who not in course.silent and who not in course.reports:
            self._awaited.add(who)

    def miss(self, who: int, *, gone: bool) -> None:
        """Wait for this agent no longer."""
        self._awaited.discard(who)
        if gone:
            self._course.present.discard(who)

    def open(self) -> tuple[Notice, ...]:
        """Wait for all that are present and not silent."""
        course = self._course
        self._awaited = course.present - course.silent
        return (RoundOpened(course.round, len(course.present)),)

    def close(self, _used: tuple[int, ...], _y: tuple[int, ...]) -> tuple[Notice, ...]:
        """Wait no longer for those who missed the deadline.

        They are absent until their next message.
        """
        self._course.present -= self._awaited
        self._awaited = set()
        return ()

    def replay(self, closed: Closed) -> None:
        """Expect those whose messages were used."""
        self._course.present = set(closed.used)

    # ---- what is heard, and who is told -------------------------------------------------------------

    def classify(self, body: Report, *, known: bool) -> On | Refusal:
        """Take the open round's reports of those who know its history."""
        return _of_open_round(self._course, body, known=known)

    def wanted(self, who: int) -> Ask | None:
        """Return a request, unless its message is there."""
        course = self._course
        return (
            Ask(course.round)
            if course.round < self._session.exchanges and who not in course.reports
            else None
        )

    def opened_by(self, keeper: int, body: Body) -> Message | None:
        """Return its last opening if it asks for an earlier round.

        A keeper whose ledger lacks it was rolled back, and stops.
        """
        behind = self.place(body) < self._course.round
        return self._course.past_openings.get(keeper) if behind else None

    def behind(self) -> Iterable[int]:
        """Return those that are present and have not confirmed."""
        return sorted(self._course.present - self._course.done)

    def missing(self) -> tuple[int, ...]:
        """Return the agents whose message of the open round is missing."""
        return tuple(sorted(self._awaited))

    def waiting(self, phase: Phase) -> Waiting | None:
        """Return who is missing: agents expected, or all if those are too few."""
        course, session, t = self._course, self._session, self._course.round
        if phase is P.GATHERING:
            missing = [i for i in range(session.n) if i not in course.present]
            away = [j for j in session.keeper_numbers if not self._keyring.knows((j,))]
            needed = max(0, session.least_start - len(course.present)) + len(away)
            return Waiting(t, (*missing, *away), needed)
        if phase is P.OPENING:
            left = tuple(j for j in session.keeper_numbers if j not in course.openings)
            return Waiting(t, left, len(left)) if left else None
        needed = max(0, session.least_quorum - len(course.reports))
        if phase is not P.COLLECTING or not (needed or self._awaited):
            return None
        absent = [i for i in range(session.n) if i not in course.reports and i not in course.silent]
        return Waiting(t, tuple(absent) if needed else self.missing(), needed)


@final
class OpenRound(Pace):
    """One round that stays open until a time, for agents that come and leave.

    All of the roster may send until then. The round closes at once if all have sent; and later, once the
    quorum has sent, if it had not by then.
    """

    nonsense = On.NONSENSE

    def __init__(self, closes: int, codec: Codec, course: Course, keyring: Keyring) -> None:
        super().__init__(codec, course, keyring)
        self._closes, self._now, self._wall = closes, -inf, -inf

    @property
    def first(self) -> tuple[Body, ...]:  # type: ignore[override]
        """Return the request, while messages are taken; others cost for nothing."""
        return () if self._course.closing is not None else (Ask(0),)

    # ---- what is due --------------------------------------------------------------------------------

    def due_to_open(self, *, expired: bool) -> On | None:  # noqa: ARG002
        """Open round 0 once all keepers are there."""
        course, session = self._course, self._session
        if course.opened:
            return On.COMPLETE if course.round == session.exchanges else On.RESUMED
        return On.ENOUGH if self._keyring.knows(session.keeper_numbers) else None

    def due_to_shut(self, *, expired: bool) -> On | None:  # noqa: ARG002
        """Shut the round at its time with a quorum, or when all have sent."""
        heard, quorum = len(self._course.reports), self._session.least_quorum
        possible = self._session.n - len(self._course.silent - self._course.reports.keys())
        over = self._wall >= self._closes or heard >= possible
        return On.ENOUGH if over and heard >= quorum else None

    def may_end(self) -> bool:
        """Whether all are done; otherwise those that come back are served."""
        return len(self._course.done) == self._session.n

    # ---- time and members ---------------------------------------------------------------------------

    def tick(self, tick: Tick) -> None:
        """Take the time. A clock that is set back opens nothing again."""
        self._now, self._wall = tick.now, max(self._wall, tick.wall)

    def wake(self) -> float | None:
        """When the round closes, while messages are taken."""
        if self._course.closing is not None or self._wall >= self._closes:
            return None
        return self._now + (self._closes - self._wall) if self._now > -inf else -inf

    def see(self, who: int) -> None:
        """Note that an agent is there."""
        self._course.present.add(who)

    def miss(self, who: int, *, gone: bool) -> None:
        """Note that an agent has left."""
        if gone:
            self._course.present.discard(who)

    def open(self) -> tuple[Notice, ...]:
        """Open the round."""
        return (RoundOpened(self._course.round, len(self._course.present)),)

    def close(self, _used: tuple[int, ...], _y: tuple[int, ...]) -> tuple[Notice, ...]:
        """Wait for nobody: those that have left come back for the result."""
        return ()

    def replay(self, closed: Closed) -> None:
        """Expect those whose messages were used."""
        self._course.present = set(closed.used)

    # ---- what is heard, and who is told -------------------------------------------------------------

    def classify(self, body: Report, *, known: bool) -> On | Refusal:
        """Answer a repeated report of the open round with its receipt."""
        kind = _of_open_round(self._course, body, known=known)
        return On.PAST if kind is Refusal.REPLAY else kind

    def wanted(self, who: int) -> Ask | None:
        """Return a request, unless its message is there or comes too late."""
        course = self._course
        over = course.round == self._session.exchanges or course.closing is not None
        return None if over or who in course.reports else Ask(course.round)

    def opened_by(self, keeper: int, body: Body) -> Message | None:
        """Return its opening if it asks for the round that is over."""
        behind = self.place(body) < self._course.round
        return self._course.past_openings.get(keeper) if behind else None

    def behind(self) -> Iterable[int]:
        """Return those that are present and have not confirmed."""
        return sorted(self._course.present - self._course.done)

    def waiting(self, phase: Phase) -> Waiting | None:
        """Return which keepers are missing."""
        left = [j for j in self._session.keeper_numbers if j not in self._course.openings]
        if phase is P.GATHERING:
            left = [j for j in self._session.keeper_numbers if not self._keyring.knows((j,))]
        elif phase is not P.OPENING:
            return None
        return Waiting(self._course.round, tuple(left), len(left)) if left else None


@final
class Slots(Pace):
    """The slots of a series, which follow the clock."""

    # Unlike other sessions a series goes on: agents' messages do not depend on feedback.
    nonsense = On.SKIP
    tells = False

    def __init__(self, series: Series, codec: Codec, course: Course, keyring: Keyring) -> None:
        super().__init__(codec, course, keyring)
        self._series = series
        self._clock = SlotTime(series)
        self._decoder = series.decoder(len(self._session.keepers), self._session.question)

    # ---- what is due --------------------------------------------------------------------------------

    def due_to_open(self, *, expired: bool) -> On:  # noqa: ARG002
        """Go on at once: the clock waits for nobody."""
        return On.RESUMED if self._course.opened else On.ENOUGH

    def due_to_shut(self, *, expired: bool) -> On | None:  # noqa: ARG002
        """Shut the slot when all have sent, or at its end; else lose it."""
        heard, here = len(self._course.reports), self._session.n - len(self._course.silent)
        wall, quorum = self._clock.wall, self._session.least_quorum
        if wall >= self._closes_at:
            # After a long stop the keepers could not answer before the slot is given up.
            return On.ENOUGH if heard >= quorum and wall < self._given_up_at else On.SKIP
        return On.ENOUGH if heard >= max(here, quorum) else None

    def due_without_keeper(self) -> On | None:
        """Lose the slot when the next one must be closed."""
        return On.SKIP if self._clock.wall >= self._given_up_at else None

    @property
    def _closes_at(self) -> float:
        return self._series.begin_of(self._course.round) + self._session.deadlines.round

    @property
    def _given_up_at(self) -> float:
        return self._closes_at + self._series.interval

    def may_end(self) -> bool:
        """Return True: after the deadline nobody is waited for."""
        return True

    # ---- time and members ---------------------------------------------------------------------------

    def tick(self, tick: Tick) -> None:
        """Take the time."""
        self._clock.tick(tick)

    def wake(self) -> float | None:
        """When a slot begins, must be closed, or is given up."""
        slots, slot = self._series.slots, self._clock.slot
        if self._course.round == slots:
            return None
        due = self._closes_at if self._course.closing is None else self._given_up_at
        # It also wakes when a slot begins, because messages far ahead of the current slot are refused.
        return self._clock.wake(min(due, self._series.begin_of(slot + 1)) if slot < slots else due)

    def close(self, used: tuple[int, ...], y: tuple[int, ...]) -> tuple[Notice, ...]:
        """Decode the sum of the slot."""
        self._decoder.add(y, len(used), self._course.state.members)
        return (MeanPublished.of(self._decoder),)

    def replay(self, closed: Closed) -> None:
        """Decode a recorded sum."""
        feedback = self._codec.own(closed.frame)
        assert isinstance(feedback.body, Feedback)
        self._decoder.add(feedback.numbers, feedback.body.count, feedback.body.members)

    # ---- what is heard, and who is told -------------------------------------------------------------

    def place(self, body: Body) -> int:
        """Return the slot that a member requests.

        It may be later than the one that is open here: clocks differ a little.
        """
        return min(super().place(body), self._course.round)

    def classify(self, body: Report, *, known: bool) -> On | Refusal:
        """Take reports of this slot and the next."""
        u, t = body.update, self._course.round
        if known:
            return Refusal.REPLAY
        if u < t or (u == t and self._course.closing is not None):
            return Refusal.LATE  # it is in no sum, and no keeper opens its masks
        # Clocks differ a little; the limit also bounds memory.
        return On.REPORT if u <= self._clock.slot + 1 else Refusal.AHEAD

    def behind(self) -> Iterable[int]:
        """Return the agents that have sent a key and have not confirmed."""
        n, done = self._session.n, self._course.done
        return [i for i in self._keyring.frames if i < n and i not in done]

    def published(self) -> MeanPublished | None:
        """Return the last slot with its mean; None if there is none yet."""
        return MeanPublished.of(self._decoder) if self._course.feedback else None

    def incomplete(self) -> int:
        """In how many slots so far an agent was missing."""
        return self._decoder.incomplete(self._session.n)
