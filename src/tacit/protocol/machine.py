"""The base class of all machines: an event goes in, a table decides, a step comes out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Container
from typing import Any, ClassVar

from tacit.errors import ParameterError, TacitError
from tacit.protocol.codec import Codec, Sign
from tacit.protocol.effects import (
    Equivocated,
    Event,
    Expired,
    Halt,
    Heard,
    Joined,
    Left,
    NoiseReady,
    Notice,
    ReadingReady,
    Refused,
    Send,
    Start,
    Step,
    Tick,
    Waiting,
)
from tacit.protocol.messages import COORDINATOR, Body, Message, Refusal
from tacit.protocol.records import Evidence, Record
from tacit.protocol.session import Session
from tacit.protocol.tables import On, Phase, Table
from tacit.protocol.timers import MOST_BACKOFF, Timers

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
"""Maximum number of contradictions that are recorded; further ones are only counted."""


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
        self._evidence: dict[tuple[int, int], bytes] = {}
        self._last: dict[tuple[int, int], bytes] = {}  # the reports used last, by agent and round
        self._patience = 1
        self._telling = TELL_FIRST  # seconds until it is said again who is missing
        self._ended = False  # recorded that the session is over
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
        """When the next `Tick` is due, −∞ for at once, None for never. Earlier ticks do no harm."""
        return self._timers.wake

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
                raise ParameterError("a coordinator adds no noise.")
            case ReadingReady() if On.READING not in self.table.events:
                raise ParameterError("only an agent of a series takes readings.")
            case _:
                kind, subject = _KINDS[type(event)], event
        while kind is not None:
            row = self.table.rows[self.phase, kind]
            if row.action != "ignore":
                getattr(self, f"_{row.action}")(subject)
            self.phase = row.phase
            kind, subject = self._due(), None
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
        if message.sender == self.number:
            return self._classify_own(message)
        if message.sender not in self._others:
            return On.REFUSED, Refused(Refusal.NOT_FOR_ME, message.sender)
        return self._classify_message(message)

    def _classify_own(self, message: Message) -> tuple[On, Any]:
        """Classify a message that this machine's own key signed and someone else sent."""
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

    def _say(self, to: int | None, body: Body) -> None:
        self._messages.append(Send(to, self.codec.seal(self.number, body, self._sign)))

    def _may_answer(self, who: int) -> bool:
        """Whether a request may be answered now; otherwise it is counted."""
        if self._answered[who] >= ANSWERS_PER_TICK:
            self._refuse(Refused(Refusal.TOO_OFTEN, who))
            return False
        self._answered[who] += 1
        return True

    def _refuse(self, why: Refused) -> None:
        self.refused[why.reason] += 1
        self._notices.append(why)

    def _misplaced(self, _: Any) -> None:
        self._refuse(Refused(Refusal.OUT_OF_PLACE))

    def _impossible(self, _: Any) -> None:
        raise TacitError(f"{self!r} came where its table says it cannot. This is a bug of tacit.")

    def _accuse(self, evidence: Evidence) -> None:
        """Record a contradiction, once per sender and round; send the agent its first message.

        Another process may use the same key, and its owner has to learn of that.
        """
        self._refuse(Refused(Refusal.EQUIVOCATION, evidence.sender))
        place = evidence.sender, evidence.round
        if place not in self._evidence and len(self._evidence) < MOST_EVIDENCE:
            self._evidence[place] = evidence.second
            self._records.append(evidence)
            self._notices.append(Equivocated(evidence.sender, evidence.round))
        first = evidence.first or self._last.get(place)
        listens = evidence.sender != COORDINATOR and evidence.sender in self.session.neighbours(self.number)
        if first and listens and self._may_answer(evidence.sender):
            self._messages.append(Send(evidence.sender, first))

    # ---- time ---------------------------------------------------------------------------------------

    def _tick(self, tick: Tick) -> None:
        if tick.now >= self._answers_again:
            self._answered.clear()
            self._answers_again = tick.now + ANSWERS_EVERY
        for name in self._timers.tick(tick.now):
            getattr(self, f"_{name}_is_due")()

    @property
    def return_time(self) -> float:
        """Seconds to wait after a restart at the end: members that need something ask again by then."""
        deadlines = self.session.deadlines
        return min(deadlines.start, (MOST_BACKOFF + 2) * deadlines.repeat)

    def _tell_missing(self, seconds: float) -> None:
        """Report after this many seconds who is missing, then repeat with exponential backoff."""
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
