"""An agent of a series: one reading and one masked message per slot.

Its messages depend on its readings and its own clock, and on nothing that it receives. A slot without a
reading holds the previous one if a step is hidden. If a reading or a window is hidden, nothing is sent in it:
a held reading would be in many messages, and its loss is counted once. Nothing is sent for a missed slot, and
a message that was not used is never sent in another form. So a hidden change moves its messages by at most
what the account says, whatever others do, and the noise of one honest keeper covers it.

It receives the sums of all slots, in order, and computes the published means from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self, final

from tacit.errors import LedgerError, ParameterError, StateError
from tacit.protocol.codec import Sign, digest
from tacit.protocol.effects import (
    Behind,
    Cost,
    DisputeFound,
    Finished,
    MeanPublished,
    ReadingReady,
    Refused,
    Send,
    SlotMissed,
    Spoken,
    Stopped,
    Tick,
    Waiting,
)
from tacit.protocol.ending import LeavingMember
from tacit.protocol.exact_loss import exact, within
from tacit.protocol.keyring import Keyring
from tacit.protocol.machine import AHEAD, BATCH, TELL_FIRST, TELL_IN_ROUND, Machine
from tacit.protocol.masks import mask, packed, total
from tacit.protocol.messages import (
    COORDINATOR,
    DIGEST_BYTES,
    NOTHING_HEARD,
    Ask,
    Done,
    Feedback,
    Key,
    Masked,
    Message,
    Reason,
    Refusal,
    Stop,
)
from tacit.protocol.private_state import Budget
from tacit.protocol.records import (
    Began,
    Ended,
    Erasing,
    Evidence,
    Keyed,
    Moved,
    Record,
    Sampled,
    Spoke,
    require_order,
)
from tacit.protocol.series_clock import SlotClock
from tacit.protocol.session import Session
from tacit.protocol.tables import AgentPhase as P
from tacit.protocol.tables import On, Table, short


@final
class SeriesAgentMachine(SlotClock, LeavingMember):
    """One agent of a series.

    Parameters
    ----------
    session : Session
        What all agreed on; with a series.
    number : int
        Which agent of the roster this is.
    sign : callable
        Signs with the agent's own key.
    budget : Budget
        What the owner allows; the loss of the whole series must be within it.
    private : bytes, optional
        Its ephemeral X25519 key, which must be on the disk already. None if it was erased.

    Attributes
    ----------
    sent : int
        How many messages it has made.
    """

    _first: Began | None
    _begun: Keyed | None

    def __init__(
        self, session: Session, number: int, *, sign: Sign, budget: Budget, private: bytes | None
    ) -> None:
        self._set_up(session, number, sign, budget)
        self._require_affordable()
        self._first = Began(session.id, number, b"", self.series.loss, budget.spent, float(budget.cap))
        self._begun = self.keyring.unlock(private, sign)

    def _set_up(self, session: Session, number: int, sign: Sign, budget: Budget) -> None:
        if session.series is None:
            raise ParameterError(f"session {session.name} is not a series.")
        session.require_agent(number)
        super().__init__(session, number, sign)
        self.budget = budget
        self.keyring = Keyring(self.codec, number)
        self.sent = 0
        self.disputed: int | None = None
        """The slot whose feedback names a message that this agent did not make, if there is one."""
        self._filter = self.series.agent()
        self._decoder = self.series.decoder(len(session.keepers))
        self._members = 0  # who was ever used, as bits
        self._first = self._begun = None
        self._said: bytes | None = None  # the last message, of slot `_said_slot`
        self._said_slot = -1
        self._digests: dict[int, bytes] = {}  # of all messages made, by slot
        self._applied: list[bytes] = []  # digests of the feedback of all slots so far
        self._kept: dict[int, Message] = {}  # feedback from the next slot on, at most AHEAD
        self._newest = -1  # the newest slot whose feedback was seen
        self._asked = -BATCH
        self._stopped = False

    @classmethod
    def resume(
        cls,
        session: Session,
        number: int,
        records: Iterable[Record],
        *,
        sign: Sign,
        budget: Budget,
        private: bytes | None,
    ) -> Self:
        """Rebuild it from its records: filter, messages and feedback."""
        agent = cls.__new__(cls)
        agent._set_up(session, number, sign, budget)
        began = False
        for record in records:
            if isinstance(record, Began):
                if record.session != session.id or record.agent != number:
                    raise StateError("these records belong to another session or another agent.")
                began = True
            else:
                agent._replay(record)
        if not began:
            raise StateError("an agent's records must start with how it began.")
        if not (agent.sent or agent._ended or agent._stopped):
            agent._require_affordable()  # the cap may have been lowered
        agent._begun = agent.keyring.unlock(private, sign)
        return agent

    def _require_affordable(self) -> None:
        """Refuse a budget that the series would exceed with its first message."""
        if not within(exact(float(self.budget.spent)) + exact(self.series.loss), self.budget.cap):
            raise StateError("the loss of the whole series must be within the cap, and is above it.")

    def _replay(self, record: Record) -> None:
        match record:
            case Sampled():
                # A filter without its past would send other numbers than the account assumes. The slot stays
                # used, even if the clock was set back.
                self._filter.restore(record.slot, record.reading)
                self.clock.slot = max(self.slot, record.slot)
            case Spoke():
                self._spoke(record.update, record.frame)
            case Moved():
                message = self.codec.read(record.heard[0], own=True)
                require_order(isinstance(message, Message) and record.update == len(self._applied))
                assert isinstance(message, Message)
                self._apply(message, restoring=True)
            case Keyed():
                self.keyring.replay(record)
            case Erasing():
                self.keyring.erase()
            case Evidence():
                self._evidence[record.sender, record.round] = record.second
                if record.first_digest == digest(record.second):
                    self.disputed, self._stopped = record.round, True
            case Ended():
                self._ended, self._stopped = True, record.reason is not None
            case _:
                raise StateError("these are not the records of an agent of a series.")

    @property
    def _others(self) -> tuple[int, ...]:
        return (COORDINATOR, *self.session.keeper_numbers)

    @property
    def wants_reading(self) -> int | None:
        """The slot a reading is needed for now, if any."""
        if self.phase is not P.WAITING or self.keyring.erased:
            return None
        return self.slot if self._filter.slot <= self.slot < self.series.slots else None

    @property
    def slots_heard(self) -> int:
        """How many slots are over, according to feedback."""
        return len(self._applied)

    @property
    def spent_here(self) -> float:
        """The loss of this series so far: all of it from the first message on."""
        return self.series.loss if self.sent else 0.0

    def published(self) -> MeanPublished | None:
        """Return the last slot with its mean; None if there is none yet."""
        return MeanPublished.of(self._decoder) if self._applied else None

    @property
    def incomplete(self) -> int:
        """In how many slots so far an agent was missing."""
        return self._decoder.incomplete(self.session.n)

    # ---- what happened? -----------------------------------------------------------------------------

    def _classify_start(self) -> On:
        return On.ENDED if self._stopped else On.START

    def _classify_message(self, message: Message) -> tuple[On, Any]:
        if isinstance(message.body, Key):
            return self.keyring.classify(message)
        if message.sender == COORDINATOR:
            match message.body:
                case Feedback():
                    return self._classify_feedback(message, message.body)
                case Ask():
                    return On.ASKED, message.body.round
                case Stop():
                    return On.STOP, message.body
        return On.REFUSED, Refused(Refusal.NOT_FOR_ME, message.sender)

    def _classify_feedback(self, message: Message, body: Feedback) -> tuple[On, Any]:
        t, first = body.round, b""
        known = self._applied[t] if t < len(self._applied) else None
        if t in self._kept:
            known, first = self._kept[t].digest, self._kept[t].frame
        if known == message.digest:
            return On.PAST, Refused(Refusal.REPLAY, COORDINATOR)
        if known is not None:
            return On.CONTRADICTED, Evidence(COORDINATOR, t, known, first, message.frame)
        return On.FEEDBACK, message

    def _classify_own(self, message: Message) -> tuple[On, Any]:
        """Stop if someone has a message of this agent that its records lack."""
        body = message.body
        spoken = isinstance(body, Masked) and self._digests.get(body.update) != message.digest
        if spoken or (isinstance(body, Key) and self.keyring.digest(self.number) != message.digest):
            raise LedgerError(
                f"{self.session.member_name(self.number)} has sent messages in this series, but not from "
                "this ledger: another process uses the same key, or an old ledger was put back. A filter "
                "without its state must not go on, so nothing more is sent from here. Continue with the "
                "process or ledger that sent them."
            )
        return super()._classify_own(message)

    def _due(self) -> On | None:
        if self.phase is not P.WAITING:
            return None
        t = len(self._applied)
        if t == self.series.slots:
            return On.LAST
        message = self._kept.get(t)
        if message is None:
            return None
        body = message.body
        assert isinstance(body, Feedback)
        if body.before != self._heard:
            return On.FORKED
        # Named for a slot in which it sent nothing: see `_dispute`.
        names_me = body.used[self.number // 8] >> self.number % 8 & 1
        return On.MISNAMED if names_me and t not in self._digests else On.MOVE

    @property
    def _heard(self) -> bytes:
        return self._applied[-1] if self._applied else NOTHING_HEARD

    # ---- speaking -----------------------------------------------------------------------------------

    def _enter(self, _: Any) -> None:
        # Both are saved before the key is sent: without them a restart would begin the series anew.
        if self._first is not None:
            self._records.append(self._first)
            self._first = None
        if self._begun is not None:
            self._records.append(self._begun)
            self._begun = None
        self._notices.append(Cost(self.series.loss, self.budget.spent, self.budget.cap))
        self._say_again(None)
        self._tell_missing(TELL_FIRST)

    def _tick(self, tick: Tick) -> None:
        super()._tick(tick)
        if self.phase is P.WAITING and self.slot >= self.series.slots:
            self._erase()  # no slot is left to send in

    def _next_due(self) -> float | None:
        running = self.phase is P.WAITING and self.slot < self.series.slots
        return self.series.begin_of(self.slot + 1) if running else None

    def _take_reading(self, event: ReadingReady) -> None:
        if event.slot != self.wants_reading or len(event.salt) != DIGEST_BYTES:
            self._refuse(Refused(Refusal.SECOND_DRAW))
            return
        slot = event.slot
        self._filter.pass_until(slot)  # the filter sees every slot once
        if numbers := self._filter.read(event.reading):
            # Recorded even if no message follows: after a restart the filter must not read this slot again.
            self._records.append(Sampled(slot, self._filter.last))
        if numbers and self.keyring.knows(self.session.keeper_numbers):
            self._speak(slot, numbers[0], event.salt)
        else:
            self._notices.append(SlotMissed(slot, unread=not numbers))
        if slot + 1 == self.series.slots:
            self._erase()

    def _speak(self, slot: int, number: int, salt: bytes) -> None:
        """Make and send X = round(w/h) + Σ_j mask_j.

        The salt is random and new, so even an agent that was rolled back never uses one mask twice. Two
        messages under one mask would reveal their difference. Record and message are in one step: if the
        message were sent first, a crash could lead to a second one for this slot.
        """
        session = self.session
        assert session.mask_bytes is not None
        keepers, width, length = session.keeper_numbers, session.mask_bytes, session.masked_bytes
        masks = [mask(self.keyring.secret(j), slot, salt, length) for j in keepers]
        keys = self.keyring.named((self.number, *keepers))
        numbers = total([packed((number,), width), *masks], width)
        body = Masked(slot, self.series.exponent, numbers, salt, keys)
        frame = self.codec.seal(self.number, body, self._sign)
        # The loss is that of the whole series: it counts once, with the first message.
        self._records.append(Spoke(slot, frame, 0.0 if self.sent else self.series.loss))
        self._spoke(slot, frame)
        self._messages.append(Send(COORDINATOR, frame))
        self._notices.append(Spoken(slot, self.budget.spent + self.spent_here))
        self._again(fresh=True)

    def _spoke(self, slot: int, frame: bytes) -> None:
        if slot in self._digests:
            raise StateError("one message is made for each slot, and there are two.")
        self._said, self._said_slot = frame, slot
        self._digests[slot] = digest(frame)
        self.sent += 1

    @property
    def _current(self) -> bytes | None:
        """The message of the current slot, until its feedback has come."""
        current = self._said_slot == self.slot and self._said_slot >= len(self._applied)
        return self._said if current else None

    def _repeat(self, t: int) -> None:
        if t == self._said_slot and self._said is not None and self._may_answer(COORDINATOR):
            self._messages.append(Send(COORDINATOR, self._said))

    def _say_again(self, _: Any, *, fresh: bool = True) -> None:
        """Repeat the key and the message, and ask for missed feedback."""
        if not self.keyring.erased:
            self._messages.append(Send(COORDINATOR, self.keyring.frames[self.number]))
        if self._current is not None:
            self._messages.append(Send(COORDINATOR, self._current))
        self._asked = len(self._applied)
        # An `Ask` beyond the last slot would be refused.
        self._say(COORDINATOR, Ask(min(self._asked, self.series.slots - 1)))
        self._again(fresh=fresh)

    def _repeat_is_due(self) -> None:
        if self.phase is not P.WAITING:
            return
        # Repeat only if something is missing. The feedback of the previous slot may still be on its way, so
        # an agent is behind only if it lacks an earlier one, or has seen a later one.
        lacking = not (self.keyring.erased or self.keyring.knows(self.session.keeper_numbers))
        behind = len(self._applied) <= max(self._newest, self.slot - 2)
        if lacking or behind or self._current is not None or self.slot >= self.series.slots:
            self._say_again(None, fresh=False)
        else:
            self._again(fresh=False)

    def _take_key(self, message: Message) -> None:
        self._records.append(self.keyring.take(message))

    def _waiting(self) -> Waiting | None:
        if self.phase is not P.WAITING or len(self._applied) > self.slot - 2:
            return None
        return Waiting(len(self._applied), (COORDINATOR,), 1)

    # ---- hearing ------------------------------------------------------------------------------------

    def _keep(self, message: Message) -> None:
        body = message.body
        assert isinstance(body, Feedback)
        t, following = body.round, len(self._applied)
        # The limit bounds memory: the coordinator could sign feedback for every slot.
        if t < following + AHEAD:
            self._kept[t] = message
        if t > self._newest:
            self._newest = t
            if t > following and following not in self._kept:
                self._ask_for_missed()
                self._notices.append(Behind(following, t))

    def _ask_for_missed(self) -> None:
        following = len(self._applied)
        if following <= self._newest and following not in self._kept and following >= self._asked + BATCH:
            self._asked = following
            self._say(COORDINATOR, Ask(following))

    def _move(self, _: Any) -> None:
        t = len(self._applied)
        message = self._kept.pop(t)
        self._records.append(Moved(t, (message.frame,), (), b"", b"", b""))
        self._apply(message)
        self._ask_for_missed()
        self._tell_missing(TELL_IN_ROUND)

    def _apply(self, message: Message, *, restoring: bool = False) -> None:
        """Take the sum of the next slot.

        While restoring no means are computed: a year of slots must load quickly.
        """
        body = message.body
        assert isinstance(body, Feedback)
        self._applied.append(message.digest)
        self._newest = max(self._newest, body.round)
        self._members |= int.from_bytes(body.used, "little")
        self._decoder.add(message.numbers[0], body.count, self._members.bit_count())
        if not restoring:
            self._notices.append(MeanPublished.of(self._decoder))

    def _forked(self, message: Message) -> Evidence:
        return Evidence(COORDINATOR, len(self._applied), self._heard, b"", message.frame)

    def _drop(self, _: Any) -> None:
        self._accuse(self._forked(self._kept.pop(len(self._applied))))

    def _dispute(self, _: Any) -> None:
        """Record feedback that names a message not made here, and stop.

        The coordinator may lie. Or another process uses the same key, or an old ledger was put back. Then a
        filter without its state would go on. This agent cannot distinguish these cases, so it stops.
        """
        message = self._kept[len(self._applied)]
        self.disputed, self._stopped = len(self._applied), True
        self._erase()
        # Equal digests of first and second mark a dispute: see `Evidence` and `_replay`.
        self._records.append(Evidence(COORDINATOR, self.disputed, message.digest, b"", message.frame))
        self._notices.append(DisputeFound(self.disputed))
        self._rest()

    # ---- the end ------------------------------------------------------------------------------------

    def _erase(self) -> None:
        """Record, once, that the private key is not needed any more.

        The driver deletes the key then. From it and the messages on the wire anyone could compute the numbers
        without masks and without noise.
        """
        if not self.keyring.erased:
            self.keyring.erase()
            self._records.append(Erasing(self._said_slot + 1))

    def _finish(self, _: Any) -> None:
        self._erase()
        if not self._ended:
            self._ended = True
            self._records.append(Ended(self.series.slots, None))
        self._notices.append(Finished(self.series.slots))
        self._rest()
        self._say(COORDINATOR, Done(self.series.slots, self._heard))

    def _say_done(self, _: Any) -> None:
        if self._may_answer(COORDINATOR):
            self._say(COORDINATOR, Done(self.series.slots, self._heard))

    @property
    def _reached(self) -> int:
        return len(self._applied)

    def _expire(self, _: Any) -> None:
        if self._first is not None:
            self._notices.append(Stopped(0, Reason.EXPIRED))
        elif not self._ended:
            self._record_stop(Reason.EXPIRED)

    def _record_stop(self, reason: Reason) -> None:
        self._erase()
        self._ended = self._stopped = True
        self._records.append(Ended(len(self._applied), reason))
        self._notices.append(Stopped(len(self._applied), reason))
        self._rest()

    # ---- the table ------------------------------------------------------------------------------------

    table: ClassVar[Table] = short(
        "series_agent",
        {
            P.IDLE: {
                On.START: (_enter, P.WAITING),
                (On.ENDED, On.HALT): P.STOPPED,
                On.EXPIRED: (_expire, P.STOPPED),
                (On.TICK, On.JOINED): None,
                On.CONTRADICTED: Machine._misplaced,
            },
            P.WAITING: {
                On.READING: _take_reading,
                On.FEEDBACK: _keep,
                On.PAST: Machine._refuse,
                On.ASKED: _repeat,
                On.KEY: _take_key,
                On.JOINED: _say_again,
                On.STOP: (LeavingMember._end, P.STOPPED),
                On.HALT: (LeavingMember._leave, P.STOPPED),
                On.EXPIRED: (_expire, P.STOPPED),
                On.MOVE: _move,
                On.FORKED: _drop,
                On.MISNAMED: (_dispute, P.STOPPED),
                On.LAST: (_finish, P.FINISHED),
            },
            P.FINISHED: {
                (On.PAST, On.JOINED): _say_done,
                (On.STOP, On.HALT, On.EXPIRED, On.KEY, On.ASKED): None,
                On.FEEDBACK: Machine._impossible,
            },
            P.STOPPED: {
                (On.FEEDBACK, On.PAST, On.JOINED): LeavingMember._say_stopped,
                (On.STOP, On.HALT, On.EXPIRED, On.KEY, On.ASKED): None,
            },
        },
    )
