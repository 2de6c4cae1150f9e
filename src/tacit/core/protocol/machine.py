"""Base class of all machines: event in, table lookup, step out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Container
from typing import Any, ClassVar

from tacit.base.errors import ParameterError, TacitError
from tacit.core.protocol.codec import Codec, Sign
from tacit.core.protocol.effects import (
    Event,
    Expired,
    Halt,
    Heard,
    Joined,
    Left,
    NoiseReady,
    ReadingReady,
    Send,
    Start,
    Step,
    Tick,
)
from tacit.core.protocol.messages import COORDINATOR, Body, Message, Reason, Refusal, Stop
from tacit.core.protocol.notices import Equivocated, Notice, Refused, Stopped, Waiting
from tacit.core.protocol.records import Ended, Evidence, Record
from tacit.core.protocol.session import Session
from tacit.core.protocol.tables import On, Phase, Table
from tacit.core.protocol.timers import MOST_BACKOFF, Timers

BATCH = 16
"""Maximum number of rounds in one answer, besides the newest round."""
AHEAD = 16
"""Maximum number of rounds ahead of the own one that are kept per sender."""
REMEMBERED = 64
"""Contradictions are detected this many rounds back; older ones show up in `tacit verify`."""
ANSWERS_PER_TICK, ANSWERS_EVERY = 8, 0.1
"""At most 8 answers per sender per 0.1 s. Without a limit a sender could amplify traffic: an answer can be a
thousand times as long as its request."""
TELL_FIRST, TELL_IN_ROUND, TELL_RARELY = 2.0, 10.0, 60.0
"""Seconds until missing members are reported: after the start, after a round began, and the longest pause."""
MOST_EVIDENCE = 16
"""After so many contradictions only the first one of each further sender is recorded; others are counted."""


_KINDS: dict[type[Event], On] = {Tick: On.TICK, NoiseReady: On.NOISE, Halt: On.HALT, ReadingReady: On.READING}


class Machine(ABC):
    """A deterministic machine: the same events lead to the same steps.

    Attributes
    ----------
    phase
        The current phase of its table.
    refused : Counter
        How often each `Refusal` occurred.
    """

    table: ClassVar[Table]

    def __init__(self, session: Session, number: int, sign: Sign) -> None:
        self.session, self.number = session, number
        self.codec = Codec(session)
        self.phase: Phase = self.table.first
        self.refused: Counter[Refusal] = Counter()
        self._sign = sign
        self._timers = Timers()
        self._answered: Counter[int] = Counter()
        self._answers_again = -math.inf
        self._owes_answers = False  # a request came too often, and was not answered
        self._evidence: dict[tuple[int, int], bytes] = {}
        self._last: dict[tuple[int, int], bytes] = {}  # the reports used last, by agent and round
        self._patience = 1
        self._telling = TELL_FIRST  # seconds until it is said again who is missing
        self._ended = False  # recorded that the session is over
        self._stopped = False  # and that it ended early
        self._parting: bytes | None = None  # what it has signed, once it has left
        self._expired = False  # the deadline of this round, or of the start, or of the end
        self._unsaved: list[Record] = []  # how it began: saved before everything else, with the first step
        self._records: list[Record] = []
        self._messages: list[Send] = []
        self._notices: list[Notice] = []

    def __repr__(self) -> str:
        name = self.session.member_name(self.number)
        return f"<{type(self).__name__} {name}, {self.phase.value}>"

    @property
    def ended(self) -> bool:
        """Whether it recorded that its session is over."""
        return self._ended

    @property
    def wake(self) -> float | None:
        """When the next `Tick` is due, −∞ for at once, None for never.

        Earlier ticks are harmless.
        """
        wake = self._timers.wake
        if not self._owes_answers:
            return wake
        # A finished machine has no timers. Without this tick it would never answer that sender again.
        return self._answers_again if wake is None else min(wake, self._answers_again)

    def handle(self, event: Event) -> Step:
        """Handle one event. Save the records of the step, then send its messages.

        If saving fails, discard the machine: its state is ahead of what is durable.
        """
        self._records, self._messages, self._notices = [], [], []
        kind: On | None
        match event:
            case Heard():
                kind, subject = self._classify_frame(event.frame)
            case Joined() | Left():
                kind, subject = self._classify_presence(event)
            case Start():
                kind, subject = self._classify_start(), None
            case Expired():
                kind, subject = self._classify_expiry(), event
            case NoiseReady() if On.NOISE not in self.table.events:
                # Not a refusal: only the driver makes this event, so it is a bug there.
                raise ParameterError("a coordinator adds no noise: pass it no NoiseReady.")
            case ReadingReady() if On.READING not in self.table.events:
                raise ParameterError("only an agent of a series takes readings: pass others no ReadingReady.")
            case _:
                kind, subject = _KINDS[type(event)], event
        # One event can make more transitions due: the last report closes the round, which opens the next one.
        # All of them are in one step. Their records are saved together, so a crash cannot separate them.
        while kind is not None:
            row = self.table.rows[self.phase, kind]
            if row.action != "ignore":
                getattr(self, f"_{row.action}")(subject)
            self.phase = row.phase
            kind, subject = self._due(), None
        self._settle()
        if self._unsaved and (self._records or self._messages):
            self._records[:0] = self._unsaved
            self._unsaved = []
        return Step(tuple(self._records), tuple(self._messages), tuple(self._notices))

    # ---- what happened? -----------------------------------------------------------------------------

    def _classify_presence(self, event: Joined | Left) -> tuple[On, Any]:
        if event.who not in self._others:
            return On.REFUSED, Refused(Refusal.NOT_FOR_ME)
        return (On.JOINED if isinstance(event, Joined) else On.LEFT), event.who

    def _classify_frame(self, frame: bytes) -> tuple[On, Any]:
        message = self.codec.open(frame)
        if isinstance(message, Refused):
            return On.REFUSED, message
        # Before the check of `_others`: a frame with the own signature matters, no matter who relayed it. It
        # may show that another process uses this key, or that this ledger is an old copy.
        if message.sender == self.number:
            return self._classify_own(message)
        if message.sender not in self._others:
            return On.REFUSED, Refused(Refusal.NOT_FOR_ME, message.sender)
        return self._classify_message(message)

    def _classify_own(self, message: Message) -> tuple[On, Any]:
        """Classify a message that this key signed and someone else sent."""
        return On.REFUSED, Refused(Refusal.NOT_FOR_ME, message.sender)

    @property
    @abstractmethod
    def _others(self) -> Container[int]:
        """Whom this machine exchanges messages with."""

    @abstractmethod
    def _classify_start(self) -> On: ...

    def _classify_expiry(self) -> On:
        return On.EXPIRED

    @abstractmethod
    def _classify_message(self, message: Message) -> tuple[On, Any]: ...

    @abstractmethod
    def _due(self) -> On | None:
        """Return what follows from the state alone, if anything does."""

    # ---- what is done -------------------------------------------------------------------------------

    def _settle(self) -> None:  # noqa: B027
        """Do what follows from the state after every step, whatever happened."""

    def _say(self, to: int | None, body: Body) -> None:
        self._messages.append(Send(to, self.codec.seal(self.number, body, self._sign)))

    def _may_answer(self, who: int) -> bool:
        """Whether a request may be answered now; otherwise it is counted."""
        if self._answered[who] >= ANSWERS_PER_TICK:
            self._refuse(Refused(Refusal.TOO_OFTEN, who))
            self._owes_answers = True
            return False
        self._answered[who] += 1
        return True

    def _refuse(self, why: Refused) -> None:
        self.refused[why.reason] += 1
        self._notices.append(why)

    def _misplaced(self, _: Any) -> None:
        self._refuse(Refused(Refusal.OUT_OF_PLACE))

    def _impossible(self, _: Any) -> None:
        raise TacitError(f"{self!r} made a transition that its table calls impossible: a bug in tacit.")

    def _accuse(self, evidence: Evidence) -> None:
        """Record a contradiction, once per sender and round.

        An agent gets its first message back. If another process uses the same key, its ledger lacks that
        message, so it stops and tells its owner.
        """
        self._refuse(Refused(Refusal.EQUIVOCATION, evidence.sender))
        place = evidence.sender, evidence.round
        # One pair is proof enough. A liar can sign any number of them, which would fill the disk.
        if place not in self._evidence and self._has_room(evidence.sender):
            self._evidence[place] = evidence.second
            self._records.append(evidence)
            self._notices.append(Equivocated(evidence.sender, evidence.round))
        # `first` is empty where an earlier record has the frame; only the last round's is still in memory.
        first = evidence.first or self._last.get(place)
        listens = evidence.sender != COORDINATOR and evidence.sender in self.session.neighbours(self.number)
        if first and listens and self._may_answer(evidence.sender):
            self._messages.append(Send(evidence.sender, first))

    def _has_room(self, sender: int) -> bool:
        """Whether another contradiction of a sender is recorded.

        The first one always is: otherwise a few liars could use up the room, and hide what others sign.
        """
        return len(self._evidence) < MOST_EVIDENCE or all(who != sender for who, _ in self._evidence)

    # ---- time ---------------------------------------------------------------------------------------

    def _tick(self, tick: Tick) -> None:
        # By time, not per tick: ticks may come at any rate, and each would allow more answers.
        if tick.now >= self._answers_again:
            self._answered.clear()
            self._owes_answers = False
            self._answers_again = tick.now + ANSWERS_EVERY
        for name in self._timers.tick(tick.now):
            getattr(self, f"_{name}_is_due")()

    @property
    def return_time(self) -> float:
        """How long to wait for requests after a restart at the end, in s.

        Members repeat a request after at most `MOST_BACKOFF` times `repeat`. So those that still need
        something have asked by then.
        """
        deadlines = self.session.deadlines
        return min(deadlines.start, (MOST_BACKOFF + 2) * deadlines.repeat)

    def _deadline_is_due(self) -> None:
        self._expired = True
        waiting = self._waiting()
        if waiting is not None and waiting.needed:
            self._note_waiting()
            self._tell_missing(TELL_IN_ROUND)

    def _tell_missing(self, seconds: float) -> None:
        """Report in `seconds` who is missing, then with exponential backoff."""
        self._telling = seconds
        self._timers.set("missing", seconds)

    def _missing_is_due(self) -> None:
        self._note_waiting()
        self._tell_missing(min(2 * self._telling, TELL_RARELY))

    def _note_waiting(self) -> None:
        waiting = self._waiting()
        if waiting is not None and waiting not in self._notices:
            self._notices.append(waiting)

    @abstractmethod
    def _waiting(self) -> Waiting | None:
        """Return the members that the machine waits for, if any."""

    def _rest(self) -> None:
        """Switch off all timers: the machine waits for nothing more."""
        for name in ("deadline", "repeat", "missing"):
            self._timers.off(name)

    def _again(self, *, fresh: bool) -> None:
        """Set the timer to repeat the last message, with exponential backoff."""
        self._patience = 1 if fresh else min(2 * self._patience, MOST_BACKOFF)
        self._timers.set("repeat", self._patience * self.session.deadlines.repeat)

    # ---- the end ------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _reached(self) -> int:
        """The update, round or slot that it is at."""

    def _record_stop(self, reason: Reason) -> None:
        """Record that the session ended early, and tell the owner."""
        self._rest()
        self._stopped = True
        if not self._ended:
            self._ended = True
            self._records.append(Ended(self._reached, reason))
        self._notices.append(Stopped(self._reached, reason))

    def _end(self, stop: Stop) -> None:
        self._record_stop(stop.reason)

    def _expire(self, _: Any) -> None:
        """Make no more messages in this session, and notify nobody.

        Messages that are not made cost nothing. A session that has not begun has nothing to record: the
        machine is over and never sends.
        """
        if self._unsaved:
            self._notices.append(Stopped(self._reached, Reason.EXPIRED))
            self._rest()
        elif not self._ended:
            self._record_stop(Reason.EXPIRED)

    def _leave(self, _: Any) -> None:
        """Leave the session of a coordinator."""
        # Recorded before it is told: a restarted member must not come back after the others go on without it.
        self._record_stop(Reason.OPERATOR)
        self._messages.append(Send(COORDINATOR, self._part()))

    def _part(self) -> bytes:
        self._parting = self.codec.seal(self.number, Stop(self._reached, Reason.OPERATOR), self._sign)
        return self._parting

    def _say_stopped(self, _: Any) -> None:
        """Tell a coordinator that still sends that this member has left."""
        if self._parting is not None and self._may_answer(COORDINATOR):
            self._messages.append(Send(COORDINATOR, self._parting))
