"""The coordinator of the client-server mechanism: averages messages.

It receives nothing private. Agents check what they can, and keep what it signed. Each round's feedback, which
names the used messages, is recorded before it is sent. So a restarted coordinator repeats the same bytes.
Otherwise agents could get two different feedbacks for one round.

A round has two halves. First messages are collected, until the round is shut. Then keepers open its sum. They
are sent a closing, which says whose messages are added up. It is recorded before it is sent, so that nobody
can choose messages after seeing an opening. The closing stays valid: a keeper that was away answers it when
it is back. Without keepers there is nothing to ask, and the second half is over at once.

Two parts are chosen from the session: its `pace` says when rounds open and close, and its sum (`sums`) what
closing and feedback say. A slot of a series that is lost has feedback too, which names nobody. So everyone
knows, and there is one history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, ClassVar, Self, final

from tacit.base.errors import LedgerError, ParameterError, StateError
from tacit.core.protocol.codec import Sign, combined, digest
from tacit.core.protocol.course import Course
from tacit.core.protocol.effects import Joined, Left, Send, Tick
from tacit.core.protocol.keyring import Keyring
from tacit.core.protocol.machine import BATCH, REMEMBERED, TELL_FIRST, TELL_IN_ROUND, Machine
from tacit.core.protocol.messages import (
    COORDINATOR,
    Ask,
    Closing,
    Done,
    Feedback,
    Key,
    Message,
    Opening,
    Present,
    Reason,
    Receipt,
    Refusal,
    Report,
    Stop,
)
from tacit.core.protocol.notices import (
    Finished,
    LostHistory,
    MeanPublished,
    Nonsense,
    Quiet,
    Refused,
    RoundClosed,
    Waiting,
)
from tacit.core.protocol.pace import chosen_pace
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.records import (
    Closed,
    Ended,
    Evidence,
    Keyed,
    Opened,
    Record,
    Reported,
    Shut,
    Unopened,
    require_order,
)
from tacit.core.protocol.session import Session
from tacit.core.protocol.sums import chosen_sum
from tacit.core.protocol.tables import CoordinatorPhase as P
from tacit.core.protocol.tables import On, Short, Table, short


@final
class CoordinatorMachine(Machine):
    """The server. Holds nothing private.

    Attributes
    ----------
    course : Course
        Where the session is.
    keyring : Keyring
        The first key of each member; empty without keepers. It cannot replace keys: each is signed by its
        member. It can only withhold them, and then no sum opens.
    """

    def __init__(self, session: Session, *, sign: Sign) -> None:
        if session.coordinator is None:
            raise ParameterError(f"session {session.name} has no coordinator: its agents are peers.")
        super().__init__(session, COORDINATOR, sign)
        self.course = Course(LastUsed(session.n))
        self.keyring = Keyring(self.codec, COORDINATOR)
        self._pace = chosen_pace(self.codec, self.course, self.keyring)
        self._sum = chosen_sum(self.codec, self.keyring)
        self._places: dict[int, bytes] = {}  # those of the last feedback that were sent, by agent
        self._found: tuple[int, ...] | None = None  # the numbers of the feedback, once all is opened
        self._stop: bytes | None = None  # what it has signed, once it has stopped
        self._hasty = False  # at the end, and no request has arrived since the restart

    @classmethod
    def resume(cls, session: Session, records: Iterable[Record], *, sign: Sign) -> Self:
        """Rebuild a coordinator from its records; it repeats recorded frames."""
        coordinator = cls(session, sign=sign)
        # Only the last reports are read again: those of a year would take long.
        recent: deque[Closed | Shut] = deque(maxlen=REMEMBERED)
        shut: Shut | None = None  # with keepers the reports are in this record only
        used: dict[int, tuple[int, bytes]] = {}  # each agent's last report that was used, and its round
        for record in records:
            if isinstance(record, Shut | Closed):
                coordinator._require(record.round)
            if isinstance(record, Shut):
                shut = record
                continue
            coordinator._replay(record)
            if isinstance(record, Closed):
                coordinator.course.reports = {}
                recent.append(shut or record)
                if record.used:  # otherwise it is a slot that was lost
                    used |= {i: (record.round, frame) for i, frame in recent[-1].each()}
                shut = None
        coordinator.course.remember(recent)
        coordinator.course.state.take({i: (t, digest(frame)) for i, (t, frame) in used.items()})
        if shut is not None:
            coordinator._reshut(shut)
        return coordinator

    def _require(self, t: int) -> None:
        require_order(self.course.opened and t == self.round)

    def _replay(self, record: Record) -> None:
        match record:
            case Opened():
                if record.session != self.session.id:
                    raise StateError("these records belong to another session.")
                self.course.opened = True
                self.course.present.update(record.present)
            case Reported():
                report = self.codec.own(record.frame)
                require_order(self.course.opened and report.sender == record.agent)
                self.course.reports[record.agent] = report
            case Closed():
                self._pace.replay(record)
                self.course.replay(record, map(self.codec.own, record.openings))
            case Ended():
                self._ended = True
                if record.reason is not None:
                    # Ed25519 is deterministic, and `round` is the recorded one: these are the same bytes.
                    self._stop = self._stop_frame(record.reason)
            case Evidence():
                self._evidence[record.sender, record.round] = record.second
            case Keyed():
                self.keyring.replay(record)
            case Unopened():
                pass
            case _:
                raise StateError("these are not a coordinator's records.")

    def _reshut(self, shut: Shut) -> None:
        """Restore a closing without feedback: it is repeated with the same bytes.

        Keepers that have answered it refuse any other.
        """
        self.course.closing = self.codec.own(shut.frame)
        self.course.reports = {report.sender: report for report in map(self.codec.own, shut.reports)}

    @property
    def round(self) -> int:
        """The round, or slot, that is open, or is opened next."""
        return self.course.round

    @property
    def present(self) -> set[int]:
        """The agents that a round waits for.

        An agent becomes present by a valid signature. It becomes absent if it misses a deadline, until its
        next message. After the start of round 0, a lost connection alone does not make it absent.
        """
        return self.course.present

    @property
    def done(self) -> set[int]:
        """The agents that have confirmed the last feedback, or have left."""
        return self.course.done

    @property
    def heard(self) -> int:
        """How many messages of the open round have arrived."""
        return len(self.course.reports)

    def published(self) -> MeanPublished | None:
        """Return the last slot of a series with its mean, if there is one."""
        return self._pace.published()

    @property
    def incomplete(self) -> int | None:
        """In how many slots of a series so far an agent was missing."""
        return self._pace.incomplete()

    @property
    def _others(self) -> range:
        return range(self.session.n + len(self.session.keepers))

    # ---- what happened? -----------------------------------------------------------------------------

    def _classify_presence(self, event: Joined | Left) -> tuple[On, Any]:
        if isinstance(event, Left):
            self.course.connected.discard(event.who)
        elif event.who in range(self.session.n):
            self.course.connected.add(event.who)
        return super()._classify_presence(event)

    def _classify_start(self) -> On:
        return On.START if self._stop is None else On.ENDED

    def _classify_expiry(self) -> On:
        # A start after the expiry, with all rounds closed before: the session is complete, not cut off.
        if self.phase is P.IDLE and self.round == self.session.exchanges:
            return On.COMPLETE
        return On.EXPIRED

    def _classify_own(self, message: Message) -> tuple[On, Any]:
        """Stop if this key has signed something that the ledger does not have.

        Going on would sign a second feedback for that round, and split the agents into two histories. A
        second closing, for other agents, would ask keepers to open the difference of two sums.
        """
        body = message.body
        if not isinstance(body, Feedback | Closing):
            return super()._classify_own(message)
        if not self._has_signed(body, message.digest):
            what = "feedback" if isinstance(body, Feedback) else "a closing"
            raise LedgerError(
                f"the coordinator's key has signed {what} of round {body.round} of session "
                f"{self.session.name}, and this ledger does not have it: it is not the newest, or another "
                "process uses the key. Continue with the right ledger; without it the session is lost."
            )
        return On.REFUSED, Refused(Refusal.REPLAY, message.sender)

    def _has_signed(self, body: Feedback | Closing, said: bytes) -> bool:
        course, t = self.course, body.round
        if isinstance(body, Feedback):
            return t < self.round and digest(course.feedback[t]) == said
        if t == self.round:
            return course.closing is not None and course.closing.digest == said
        return t < self.round  # an older one: its feedback names it

    def _classify_message(self, message: Message) -> tuple[On, Any]:
        body = message.body
        match body:
            case Key():
                kind, subject = self.keyring.classify(message)
                # A repeated key is not refused: it is a request for the keys of others.
                return (On.KEY, message) if kind is On.REFUSED else (kind, subject)
            case Opening():
                return self._classify_opening(message, body)
            case Report():
                return self._classify_report(message, body)
            case Stop() if message.sender in self.session.keeper_numbers:
                return On.WITHOUT_KEEPER, message
        # A member cannot be further than the feedback that this key signed: this ledger may be an old copy.
        if self._pace.place(body) > self.round:
            return On.LOST, message
        kind = {Present: On.PRESENT, Ask: On.ASKED, Done: On.DONE, Stop: On.QUIET}[type(body)]
        return kind, message

    def _classify_report(self, message: Message, body: Report) -> tuple[On, Any]:
        u, sender = body.update, message.sender
        # Contradictions come first: a second message is evidence even if it is late.
        known = self.course.known(u, sender)
        if known is not None and known != message.digest:
            taken = self.course.report(u, sender)
            first = b"" if taken is None else taken.frame
            return On.CONTRADICTED, Evidence(sender, u, known, first, message.frame)
        kind = self._pace.classify(body, known=known is not None)
        if kind is On.REPORT and not self._sum.fits(message):
            kind = Refusal.OTHER_KEY
        return (kind, message) if isinstance(kind, On) else (On.REFUSED, Refused(kind, sender))

    def _classify_opening(self, message: Message, body: Opening) -> tuple[On, Any]:
        course, t, who = self.course, body.round, message.sender
        known = {t: course.openings, t + 1: course.past_openings}.get(self.round, {}).get(who)
        if known is not None and known.digest != message.digest:
            return On.CONTRADICTED, Evidence(who, t, known.digest, known.frame, message.frame)
        wrong: Refusal | None = None
        if known is not None:
            wrong = Refusal.REPLAY
        elif t < self.round:
            wrong = Refusal.LATE
        # An opening of another set of agents would leave masks in the sum.
        elif course.closing is None or t > self.round or body.closing != course.closing.digest:
            wrong = Refusal.OTHER_HISTORY
        elif body.key != self.keyring.digest(who):
            wrong = Refusal.OTHER_KEY
        return (On.OPENING, message) if wrong is None else (On.REFUSED, Refused(wrong, who))

    def _due(self) -> On | None:
        match self.phase:
            case P.GATHERING:
                return self._pace.due_to_open(expired=self._expired)
            case P.COLLECTING:
                return self._due_to_shut()
            case P.OPENING:
                return self._due_to_close()
            case P.SERVING:
                return On.ALL_DONE if self._expired or len(self.done) == self.session.n else None
        return None

    def _due_to_shut(self) -> On | None:
        if self.round == self.session.exchanges:
            return On.LAST
        if self.course.closing is not None:  # shut before a restart
            return On.SHUT
        return self._pace.due_to_shut(expired=self._expired)

    def _due_to_close(self) -> On | None:
        # Every keeper must have answered: without one its masks stay in the sum.
        if len(self.course.openings) < len(self.session.keepers):
            return self._pace.due_without_keeper()
        self._found = self._sum.result(self.course)
        return On.MOVE if self._found is not None else self._pace.nonsense

    # ---- gathering ----------------------------------------------------------------------------------

    def _enter(self, _: Any) -> None:
        self._wait(self._pace.start, TELL_FIRST)

    def _open_first(self, _: Any) -> None:
        self.course.opened = True
        self._records.append(Opened(self.session.id, tuple(sorted(self.present))))
        self._reopen(None)

    def _reopen(self, _: Any) -> None:
        """Open a round, first or after a restart: repeat the last feedback.

        Reports of the open round were not recorded. Agents repeat them, with the same bytes, until the
        feedback comes.
        """
        self._open_round()
        self._tell_round(None)

    def _open_round(self) -> None:
        self._wait(self._pace.limit, TELL_IN_ROUND)
        self._notices.extend(self._pace.open())

    def _wait(self, seconds: float | None, tell: float) -> None:
        self._expired = False
        if seconds is not None:
            self._timers.set("deadline", seconds)
        self._tell_missing(tell)

    def _tell_missing(self, seconds: float) -> None:
        if self._pace.tells:
            super()._tell_missing(seconds)

    def _tell_round(self, who: int | None) -> None:
        """Tell a member, or all, which round the session is in.

        Agents whose messages are not in the last feedback also get their place in it, and so do those that
        were restarted: they need it before they draw again. The others may ask for it.
        """
        course = self.course
        if not course.feedback:
            for body in self._pace.first:
                self._say(who, body)
            return
        self._messages.append(Send(who, course.feedback[-1]))
        for i in sorted(course.connected) if who is None else (who,):
            if self._lacks_place(i):
                self._tell_place(i)

    def _lacks_place(self, who: int) -> bool:
        course = self.course
        if who not in course.connected or who in course.silent:
            return False
        return who not in course.past[-1] or who in course.returned

    def _show_own(self, who: int) -> None:
        """Send a member what it has said that no place shows.

        Before anything that lets it draw. If its ledger lacks one of these, it stops instead.
        """
        self._messages.extend(Send(who, message.frame) for message in self.course.said_by(who))

    def _tell_place(self, who: int) -> None:
        """Send an agent its place in the last feedback; it is signed once."""
        if who not in self._places:
            body = self.course.state.place(self.round - 1, who)
            self._places[who] = self.codec.seal(COORDINATOR, body, self._sign)
        self._messages.append(Send(who, self._places[who]))

    # ---- hearing agents -----------------------------------------------------------------------------

    def _see(self, who: int) -> None:
        self.course.connected.add(who)
        if self._sum.admits(who):
            self._pace.see(who)

    def _arrived(self, message: Message) -> None:
        if message.sender in self.session.keeper_numbers:
            return  # it asks before round 0
        self._see(message.sender)
        assert isinstance(message.body, Present | Ask)
        if isinstance(message.body, Present) and message.body.update == self.session.rounds:
            self.done.add(message.sender)
        else:
            self._bring_up(message)

    def _take_report(self, message: Message) -> None:
        who, body = message.sender, message.body
        assert isinstance(body, Report)
        self._see(who)
        if body.update == self.round and self.course.closing is not None:
            # It is in no sum. No keeper opens its masks, so nobody ever learns its numbers.
            self._refuse(Refused(Refusal.LATE, who))
            self.course.late[who] = message
            return
        self.course.take(body.update, message)
        self._pace.miss(who, gone=False)
        if self.session.closes is not None:
            # Its agent leaves with the receipt, and says this never again.
            self._records.append(Reported(who, message.frame))
            self._give_receipt(message)

    def _give_receipt(self, report: Message) -> None:
        """Say that a report is recorded, and will be used."""
        self._say(report.sender, Receipt(self.round, report.digest))

    def _early(self, message: Message) -> None:
        """Note the sender of a report before round 0; do not use the report."""
        self._see(message.sender)
        self._refuse(Refused(Refusal.OUT_OF_PLACE, message.sender))

    def _late(self, message: Message) -> None:
        """Answer a report for a closed round with the feedback it lacks."""
        self._refuse(Refused(Refusal.LATE, message.sender))
        self.course.late[message.sender] = message
        self._see(message.sender)
        self._bring_up(message)

    def _past_report(self, message: Message) -> None:
        """Answer a report that was used before, or has a receipt.

        It is a replay, or its sender missed the answer.
        """
        self._refuse(Refused(Refusal.REPLAY, message.sender))
        if self._pace.place(message.body) < self.round:
            self._bring_up(message)
        elif self._may_answer(message.sender):
            self._give_receipt(message)

    def _answer(self, message: Message) -> None:
        if message.sender in self.session.keeper_numbers:
            self._answer_keeper(message)
            return
        self._see(message.sender)
        self._bring_up(message)

    def _bring_up(self, message: Message) -> None:
        """Send the feedback that an agent needs to reach the open round."""
        who, u = message.sender, self._pace.place(message.body)
        if self.phase is P.GATHERING or not self._may_answer(who):
            return
        # After a restart at the end it stays for a short time only. A request shows that someone is still
        # behind, so it stays as long as any coordinator at the end.
        if self._hasty:
            self._hasty = False
            self._timers.set("deadline", self.session.deadlines.start)
        if isinstance(message.body, Present):
            self._show_own(who)
            self.course.returned[who] = False
        feedback = self.course.feedback
        if u + BATCH < self.round:  # first tell it the open round: it need not send messages on the way
            self._messages.append(Send(who, feedback[-1]))
        for frame in feedback[u : u + BATCH]:
            self._messages.append(Send(who, frame))
        # One that has spoken in the last round needs no place, unless it asks.
        spoken = isinstance(message.body, Report) and who in self.course.past[-1]
        if 0 < self.round and u < self.session.exchanges and not spoken:
            self._tell_place(who)
        if u == self.round and (wanted := self._pace.wanted(who)) is not None:
            self._say(who, wanted)

    def _nudge(self, who: int) -> None:
        """Tell a member that has just connected what it may have missed."""
        if not self._may_answer(who):
            return
        self._show_own(who)
        if who in self.session.keeper_numbers:
            self._attend(who)
            return
        if self.course.feedback:
            self.course.returned[who] = False
        self._tell_round(who)

    def _left(self, who: int) -> None:
        self._pace.miss(who, gone=True)

    def _note_quiet(self, message: Message) -> None:
        who, body = message.sender, message.body
        assert isinstance(body, Stop)
        self._see(who)
        gone = body.reason is not Reason.CAP  # it has left for good
        if who not in self.course.silent:
            self.course.silent.add(who)
            self._notices.append(Quiet(who, body.update))
        self._pace.miss(who, gone=gone)
        if gone:
            self.done.add(who)
        else:
            self._bring_up(message)

    def _note_done(self, message: Message) -> None:
        self._see(message.sender)
        self.done.add(message.sender)

    def _lost(self, message: Message) -> None:
        self._refuse(Refused(Refusal.AHEAD, message.sender))
        self._notices.append(LostHistory(message.sender, self._pace.place(message.body)))
        if self._may_answer(message.sender):
            # It answers with feedback that this key signed, if it has some: see `_classify_own`.
            self._say(message.sender, Ask(self.round))

    # ---- keys, and hearing keepers ------------------------------------------------------------------

    def _take_key(self, message: Message) -> None:
        """Store a member's first key and pass it on.

        A member repeats its key while it lacks something, so a repetition is answered.
        """
        who, keepers, frames = message.sender, self.session.keeper_numbers, self.keyring.frames
        new = who not in frames
        if new:
            # Saved before it is passed on: a restarted coordinator must know whose key came first.
            self._records.append(self.keyring.take(message))
        if who not in keepers:
            self._see(who)
            if new:
                self._pass_on(message.frame, (j for j in keepers if j in frames))
            if new or self._may_answer(who):  # a first key comes once, so it needs no limit
                self._messages.extend(Send(who, frames[j]) for j in keepers if j in frames)
        elif new:
            agents = [i for i in frames if i not in keepers]
            self._pass_on(message.frame, agents)
            self._messages.extend(Send(who, frames[i]) for i in agents)
        else:
            self._attend(who)

    def _pass_on(self, frame: bytes, members: Iterable[int]) -> None:
        self._messages.extend(Send(i, frame) for i in members)

    def _attend(self, who: int) -> None:
        """Tell a keeper what it may have missed."""
        course = self.course
        if self.phase in (P.SERVING, P.FINISHED):
            if self._may_answer(who):
                self._messages.append(Send(who, course.feedback[-1]))
        elif course.closing is not None and who not in course.openings and self._may_answer(who):
            self._messages.append(Send(who, course.closing.frame))

    def _answer_keeper(self, message: Message) -> None:
        who, course = message.sender, self.course
        if not self._may_answer(who):
            return
        if (opened := self._pace.opened_by(who, message.body)) is not None:
            self._messages.append(Send(who, opened.frame))
        elif course.closing is not None:
            # Keys first: with them the keeper can answer the closing that follows.
            self._messages.extend(Send(who, self.keyring.frames[i]) for i in course.reports)
            self._messages.append(Send(who, course.closing.frame))

    def _take_opening(self, message: Message) -> None:
        self.course.openings[message.sender] = message

    def _lose_keeper(self, _: Any) -> None:
        self._stop_all(Reason.KEEPER)

    # ---- rounds -------------------------------------------------------------------------------------

    def _shut(self, _: Any) -> None:
        """Decide whose messages are added up; record it, then ask keepers.

        The record comes first. After a crash without it another set of agents could be chosen, and a keeper
        that has answered the first closing would never answer the second: the session would be stuck.
        """
        course = self.course
        course.reports = dict(sorted(course.reports.items()))
        body = self._sum.closing(course)
        if body is not None:
            course.closing = self.codec.own(self.codec.seal(COORDINATOR, body, self._sign))
            frames = tuple(report.frame for report in course.reports.values())
            self._records.append(Shut(self.round, course.closing.frame, tuple(course.reports), frames))
            self._ask_keepers(None)

    def _ask_keepers(self, _: Any) -> None:
        """Ask the keepers for their openings, first or after a restart.

        Openings are recorded only with the feedback. Keepers repeat them, with the same bytes.
        """
        self._timers.off("deadline")
        self._repeat_closing()
        self._again(fresh=True)
        self._tell_missing(TELL_IN_ROUND)

    def _repeat_closing(self) -> None:
        closing, openings = self.course.closing, self.course.openings
        if closing is not None:
            self._pass_on(closing.frame, (j for j in self.session.keeper_numbers if j not in openings))

    def _close(self, _: Any) -> None:
        """Phases (ii) and (iii): record the mean of the messages, then send it.

        If it were sent first, a crash in between could lead to a second feedback for this round, from other
        reports. Agents that heard different ones would move apart.
        """
        assert self._found is not None
        course, openings = self.course, self._opening_frames
        basis, reports = self._sum.basis(course), self._sum.recorded(course)
        self._end_round(self._found, tuple(course.reports), basis, reports, openings)

    def _lose(self, _: Any) -> None:
        """Sign that this slot has no sum. Its messages stay masked."""
        if self.course.closing is not None and len(self._opening_frames) == len(self.session.keepers):
            self._note_nonsense()
        self._end_round((0,) * self.session.components, (), combined(()), (), ())

    def _reject(self, _: Any) -> None:
        self._note_nonsense()
        self._stop_all(Reason.NONSENSE)

    def _note_nonsense(self) -> None:
        self._records.append(Unopened(self.round, self._opening_frames))
        self._notices.append(Nonsense(self.round))

    @property
    def _opening_frames(self) -> tuple[bytes, ...]:
        openings = self.course.openings
        return tuple(openings[j].frame for j in self.session.keeper_numbers if j in openings)

    def _end_round(
        self,
        y: tuple[int, ...],
        used: tuple[int, ...],
        basis: bytes,
        reports: tuple[bytes, ...],
        openings: tuple[bytes, ...],
    ) -> None:
        """Record the feedback, send it, and open the next round."""
        course, t = self.course, self.round
        course.state.use(t, {i: course.reports[i].digest for i in used})
        members, state = course.state.members, course.state.root
        body = Feedback(t, self.codec.pack(y), len(used), members, state, basis, course.before)
        frame = self.codec.seal(COORDINATOR, body, self._sign)
        self._records.append(Closed(t, frame, used, reports, openings))
        without = set(range(self.session.n)).difference(used, self.course.silent)
        self._notices.append(RoundClosed(t, used, tuple(sorted(without))))
        self._notices.extend(self._pace.close(used, y))
        self._last = {(i, t): report.frame for i, report in course.reports.items()}
        self._found = None
        self._timers.off("repeat")
        course.advance(frame)
        self._places = {}
        self._tell_round(None)
        course.welcome(used)
        if self.round < self.session.exchanges:
            self._open_round()

    def _waiting(self) -> Waiting | None:
        return self._pace.waiting(self.phase)

    def _repeat_is_due(self) -> None:
        """Repeat the closing to keepers, or the last feedback to agents.

        Each is repeated to those that have not answered.
        """
        if self.phase is P.OPENING:
            self._repeat_closing()
        else:
            self._pass_on(self.course.feedback[-1], self._pace.behind())
        self._again(fresh=False)

    # ---- time ---------------------------------------------------------------------------------------

    @property
    def wake(self) -> float | None:
        """When the next `Tick` is due, −∞ for at once, None for never."""
        wake = super().wake
        if self.phase not in (P.COLLECTING, P.OPENING) or (due := self._pace.wake()) is None:
            return wake
        return due if wake is None else min(wake, due)

    def _tick(self, tick: Tick) -> None:
        self._pace.tick(tick)
        super()._tick(tick)

    # ---- the end ------------------------------------------------------------------------------------

    def _serve(self, _: Any) -> None:
        """Keep running after the last round until all have its feedback."""
        self._expired = False
        self._timers.off("missing")
        self._timers.set("deadline", self.session.deadlines.start)
        self._again(fresh=True)

    def _serve_again(self, _: Any) -> None:
        """Keep running after a restart at the end, for members that are behind."""
        self._serve(None)
        if self._ended:  # all agents had received the last feedback
            self.done.update(range(self.session.n))
        self._timers.set("deadline", self.return_time)
        self._hasty = True

    def _finish(self, _: Any) -> None:
        self._rest()
        if not self._ended and self._pace.may_end():
            self._ended = True
            self._records.append(Ended(self.round, None))
        self._notices.append(Finished(self.session.rounds))

    def _halt(self, _: Any) -> None:
        self._stop_all(Reason.OPERATOR)

    def _expire(self, _: Any) -> None:
        self._stop_all(Reason.EXPIRED)

    def _stop_all(self, reason: Reason) -> None:
        self._stop = self._stop_frame(reason)
        # Recorded before the stop is sent: a restarted coordinator must not open rounds that members left.
        self._record_stop(reason)
        self._messages.append(Send(None, self._stop))

    @property
    def _reached(self) -> int:
        return self.round

    def _stop_frame(self, reason: Reason) -> bytes:
        return self.codec.seal(COORDINATOR, Stop(self.round, reason), self._sign)

    def _say_stopped(self, about: Any) -> None:
        """Tell a member that asks that the session was stopped.

        `about` is its message, or its number when it connects. After a restart it is None, and all are told.
        """
        assert self._stop is not None
        who = about.sender if isinstance(about, Message) else about
        if who is None or self._may_answer(who):
            self._messages.append(Send(who, self._stop))

    # ---- the table ------------------------------------------------------------------------------------

    _ENDING: ClassVar[Short] = {
        On.HALT: (_halt, P.STOPPED),
        On.EXPIRED: (_expire, P.STOPPED),
        On.WITHOUT_KEEPER: (_lose_keeper, P.STOPPED),
    }
    _HEARING: ClassVar[Short] = {
        On.PRESENT: _arrived,
        On.QUIET: _note_quiet,
        On.LOST: _lost,
        On.KEY: _take_key,
    }
    _ANSWERING: ClassVar[Short] = {
        **_HEARING,
        On.LATE: _late,
        On.PAST: _past_report,
        On.ASKED: _answer,
        On.DONE: _note_done,
        On.JOINED: _nudge,
    }
    table: ClassVar[Table] = short(
        "coordinator",
        {
            P.IDLE: {
                On.START: (_enter, P.GATHERING),
                On.ENDED: (_say_stopped, P.STOPPED),
                On.COMPLETE: (_finish, P.FINISHED),
                On.HALT: (_halt, P.STOPPED),
                On.EXPIRED: (_expire, P.STOPPED),
                (On.TICK, On.JOINED): None,
                On.CONTRADICTED: Machine._misplaced,
            },
            P.GATHERING: {
                **_HEARING,
                **_ENDING,
                On.ASKED: _arrived,
                On.REPORT: _early,
                On.JOINED: None,
                On.LEFT: _left,
                On.ENOUGH: (_open_first, P.COLLECTING),
                On.RESUMED: (_reopen, P.COLLECTING),
                On.COMPLETE: (_serve_again, P.SERVING),
                (On.LATE, On.DONE, On.PAST, On.OPENING): Machine._impossible,
            },
            P.COLLECTING: {
                **_ANSWERING,
                **_ENDING,
                On.REPORT: _take_report,
                On.ENOUGH: (_shut, P.OPENING),
                On.SHUT: (_ask_keepers, P.OPENING),
                On.SKIP: _lose,
                On.LAST: (_serve, P.SERVING),
                On.OPENING: Machine._impossible,
            },
            P.OPENING: {
                **_ANSWERING,
                **_ENDING,
                On.REPORT: _take_report,
                On.OPENING: _take_opening,
                On.MOVE: (_close, P.COLLECTING),
                On.SKIP: (_lose, P.COLLECTING),
                On.NONSENSE: (_reject, P.STOPPED),
            },
            P.SERVING: {
                **_ANSWERING,
                (On.REPORT, On.OPENING): Machine._impossible,
                (On.HALT, On.WITHOUT_KEEPER): None,
                (On.EXPIRED, On.ALL_DONE): (_finish, P.FINISHED),
            },
            P.FINISHED: {
                **_ANSWERING,
                (On.REPORT, On.OPENING): Machine._impossible,
                (On.HALT, On.WITHOUT_KEEPER, On.EXPIRED): None,
            },
            P.STOPPED: {
                (On.PRESENT, On.REPORT, On.LATE, On.ASKED, On.DONE, On.QUIET, On.PAST, On.LOST, On.JOINED): (
                    _say_stopped
                ),
                (On.KEY, On.OPENING, On.WITHOUT_KEEPER): _say_stopped,
                (On.HALT, On.EXPIRED): None,
            },
        },
    )
