"""The coordinator of the client-server mechanism: averages messages.

It receives nothing private. Agents check what they can, and keep what it signed. Each round's feedback, which
names the used messages, is recorded with their reports before it is sent. So a restarted coordinator repeats
the same bytes. Otherwise agents could get two different feedbacks for one round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from tacit.errors import LedgerError, ParameterError, StateError
from tacit.protocol.codec import Sign, as_numbers, combined, digest
from tacit.protocol.effects import (
    Finished,
    LostHistory,
    Quiet,
    Refused,
    RoundClosed,
    RoundOpened,
    Send,
    Waiting,
)
from tacit.protocol.ending import EndingCoordinator
from tacit.protocol.machine import BATCH, REMEMBERED, TELL_FIRST, TELL_IN_ROUND, Machine
from tacit.protocol.messages import (
    COORDINATOR,
    NOTHING_HEARD,
    Ask,
    Body,
    Done,
    Feedback,
    Message,
    Present,
    Reason,
    Refusal,
    Report,
    Stop,
)
from tacit.protocol.records import Closed, Ended, Evidence, Opened, Record, require_order
from tacit.protocol.session import Session
from tacit.protocol.tables import CoordinatorPhase as P
from tacit.protocol.tables import On, Short, Table, short


class CoordinatorMachine(EndingCoordinator):
    """The server. Holds nothing private.

    Attributes
    ----------
    round : int
        The round that is open, or is opened next.
    present : set of int
        The agents that a round waits for. An agent becomes present by a valid signature. It becomes absent if
        it misses a deadline, until its next message. After the start of round 0, a lost connection alone does
        not make it absent.
    silent : set of int
        The agents that announced that they send nothing more.
    """

    _masks: ClassVar[bool] = False  # whether messages are masked, and keepers open their sum

    def __init__(self, session: Session, *, sign: Sign) -> None:
        if session.coordinator is None:
            raise ParameterError(f"session {session.name} has no coordinator: its agents are peers.")
        if session.keepers and not self._masks:
            raise ParameterError(f"session {session.name} has keepers: its messages are masked.")
        super().__init__(session, COORDINATOR, sign)
        self.round = 0
        self.present: set[int] = set()
        self.silent: set[int] = set()
        self.done: set[int] = set()
        self._awaited: set[int] = set()  # present, not silent, not heard in this round
        self._reports: dict[int, Message] = {}
        self._past: deque[dict[int, bytes]] = deque(maxlen=REMEMBERED)
        self._feedback: list[bytes] = []  # the frames of all rounds so far
        self._before = NOTHING_HEARD  # the digest of the last of them
        self._stop: bytes | None = None
        self._opened = False
        self._hasty = False  # at the end, and no request has arrived since the restart

    @classmethod
    def resume(cls, session: Session, records: Iterable[Record], *, sign: Sign) -> Self:
        """Rebuild a coordinator from its records; it repeats recorded feedback."""
        coordinator = cls(session, sign=sign)
        for record in records:
            coordinator._replay(record)
        return coordinator

    def _replay(self, record: Record) -> None:
        match record:
            case Opened():
                if record.session != self.session.id:
                    raise StateError("these records belong to another session.")
                self._opened, self.present = True, set(record.present)
            case Closed():
                require_order(self._opened and record.round == self.round)
                # A report of a past round that differs from the recorded one is still a contradiction.
                self._past.append(dict(zip(record.used, map(digest, record.reports), strict=True)))
                self._keep(record.frame)
                self.present = set(record.used)
                self.round += 1
            case Ended():
                self._ended = True
                if record.reason is not None:
                    # Ed25519 is deterministic, and `round` is the recorded one: these are the same bytes.
                    self._stop = self._stop_frame(record.reason)
            case Evidence():
                self._evidence[record.sender, record.round] = record.second
            case _:
                raise StateError("these are not a coordinator's records.")

    @property
    def _others(self) -> range:
        return range(self.session.n)

    @property
    def heard(self) -> int:
        """How many messages of the open round have arrived."""
        return len(self._reports)

    @property
    def missing(self) -> tuple[int, ...]:
        """The agents whose message of the open round is missing."""
        return tuple(sorted(self._awaited))

    # ---- what happened? -----------------------------------------------------------------------------

    def _classify_start(self) -> On:
        return On.START if self._stop is None else On.ENDED

    def _classify_expiry(self) -> On:
        # A start after the expiry, with all rounds closed before: the session is complete, not cut off.
        if self.phase is P.IDLE and self.round == self.session.exchanges:
            return On.COMPLETE
        return On.EXPIRED

    def _classify_own(self, message: Message) -> tuple[On, Any]:
        """Stop if this key has signed feedback that the ledger does not have.

        Going on would sign a second feedback for that round, and split the agents into two histories.
        """
        body = message.body
        if not isinstance(body, Feedback):
            return super()._classify_own(message)
        if body.round >= self.round or digest(self._feedback[body.round]) != message.digest:
            raise LedgerError(
                f"the coordinator's key has signed feedback of round {body.round} of session "
                f"{self.session.name}, and this ledger does not have it: it is not the newest, or another "
                "process uses the key. Continue with the right ledger; without it the session is lost."
            )
        return On.REFUSED, Refused(Refusal.REPLAY, message.sender)

    def _classify_message(self, message: Message) -> tuple[On, Any]:
        body, t = message.body, self.round
        if isinstance(body, Report):
            return self._classify_report(message, body)
        # A member cannot be further than the feedback that this key signed: this ledger may be an old copy.
        if self._place(body) > t:
            return On.LOST, message
        kind = {Present: On.PRESENT, Ask: On.ASKED, Done: On.DONE, Stop: On.QUIET}[type(body)]
        return kind, message

    def _place(self, body: Body) -> int:
        """Return the round that a member is at, or requests.

        With one-shot noise and keepers agents make further updates after the last exchange. They all count as
        at the end.
        """
        u = body.round if isinstance(body, Ask) else getattr(body, "update", 0)
        return min(u, self.session.exchanges)

    def _classify_report(self, message: Message, body: Report) -> tuple[On, Any]:
        u, sender = body.update, message.sender
        if u > self.round:
            return On.LOST, message
        # Contradictions come first: a second message is evidence even if it is late.
        known = self._known(u, sender)
        if known is not None and known != message.digest:
            first = self._reports[sender].frame if u == self.round else b""
            return On.CONTRADICTED, Evidence(sender, u, known, first, message.frame)
        if u < self.round:
            return (On.LATE if known is None else On.PAST), message
        if known is not None:
            return On.REFUSED, Refused(Refusal.REPLAY, sender)
        # Its sender has moved by feedback that is not in this ledger. A mean of different histories would not
        # be the mechanism, and no verifier could recompute it.
        if body.heard != self._before:
            return On.REFUSED, Refused(Refusal.OTHER_HISTORY, sender)
        return On.REPORT, message

    def _known(self, u: int, sender: int) -> bytes | None:
        """Return the digest of an agent's report for a recent round."""
        if u == self.round:
            return self._reports[sender].digest if sender in self._reports else None
        back = self.round - u
        return self._past[-back].get(sender) if back <= len(self._past) else None

    def _keep(self, feedback: bytes) -> None:
        self._feedback.append(feedback)
        self._before = digest(feedback)

    def _due(self) -> On | None:
        if self.phase is P.GATHERING:
            return self._due_to_open()
        if self.phase is P.COLLECTING:
            return self._due_to_close()
        if self.phase is P.SERVING:
            return On.ALL_DONE if self._expired or len(self.done) == self.session.n else None
        return None

    def _due_to_open(self) -> On | None:
        if self._opened:
            return On.COMPLETE if self.round == self.session.exchanges else On.RESUMED
        here, n = len(self.present), self.session.n
        enough = here == n or (self._expired and here >= self.session.least_start)
        return On.ENOUGH if enough else None

    def _due_to_close(self) -> On | None:
        if len(self._reports) < self.session.least_quorum or (self._awaited and not self._expired):
            return None
        return self._next

    @property
    def _next(self) -> On:
        return On.LAST if self.round + 1 == self.session.exchanges else On.MOVE

    # ---- gathering ----------------------------------------------------------------------------------

    def _enter(self, _: Any) -> None:
        self._expired = False
        self._timers.set("deadline", self.session.deadlines.start)
        self._tell_missing(TELL_FIRST)

    def _open_first(self, _: Any) -> None:
        self._opened = True
        self._records.append(Opened(self.session.id, tuple(sorted(self.present))))
        self._open_round()
        self._say(None, Ask(0))

    def _reopen(self, _: Any) -> None:
        """Continue after a restart: repeat the last feedback.

        Reports of the open round were not recorded. Agents repeat them, with the same bytes, until the
        feedback comes.
        """
        self._open_round()
        if self._feedback:
            self._messages.append(Send(None, self._feedback[-1]))
        else:
            self._say(None, Ask(0))

    def _open_round(self) -> None:
        self._reports = {}
        self._awaited = self.present - self.silent
        self._expired = False
        self._timers.set("deadline", self.session.deadlines.round)
        self._tell_missing(TELL_IN_ROUND)
        self._notices.append(RoundOpened(self.round, len(self.present)))

    # ---- hearing ------------------------------------------------------------------------------------

    def _see(self, who: int) -> None:
        if who in self.present:
            return
        self.present.add(who)
        if who not in self.silent and who not in self._reports:
            self._awaited.add(who)

    def _arrived(self, message: Message) -> None:
        self._see(message.sender)
        assert isinstance(message.body, Present | Ask)
        if isinstance(message.body, Present) and message.body.update == self.session.rounds:
            self.done.add(message.sender)
        else:
            self._bring_up(message)

    def _take_report(self, message: Message) -> None:
        self._see(message.sender)
        self._reports[message.sender] = message
        self._awaited.discard(message.sender)

    def _early(self, message: Message) -> None:
        """Note the sender of a report before round 0; do not use the report."""
        self._see(message.sender)
        self._refuse(Refused(Refusal.OUT_OF_PLACE, message.sender))

    def _late(self, message: Message) -> None:
        """Answer a report for a closed round with the feedback it lacks."""
        self._refuse(Refused(Refusal.LATE, message.sender))
        self._see(message.sender)
        self._bring_up(message)

    def _past_report(self, message: Message) -> None:
        """Answer a report that was used before.

        It is a replay, or its sender missed the feedback.
        """
        self._refuse(Refused(Refusal.REPLAY, message.sender))
        self._bring_up(message)

    def _answer(self, message: Message) -> None:
        self._see(message.sender)
        self._bring_up(message)

    def _bring_up(self, message: Message) -> None:
        """Send the feedback that an agent needs to reach the open round."""
        who, u = message.sender, self._place(message.body)
        if self.phase is P.GATHERING or not self._may_answer(who):
            return
        # After a restart at the end it stays for a short time only. A request shows that someone is still
        # behind, so it stays as long as any coordinator at the end.
        if self._hasty:
            self._hasty = False
            self._timers.set("deadline", self.session.deadlines.start)
        if u == self.round:
            if who in self._reports:  # a sender that does not know this message uses another's key
                self._messages.append(Send(who, self._reports[who].frame))
            elif u < self.session.exchanges:
                self._say(who, Ask(u))
            return
        if u + BATCH < self.round:  # first tell it the open round: it need not send messages on the way
            self._messages.append(Send(who, self._feedback[-1]))
        for frame in self._feedback[u : u + BATCH]:
            self._messages.append(Send(who, frame))

    def _nudge(self, who: int) -> None:
        """Tell a member that has just connected which round the session is in."""
        if not self._may_answer(who):
            return
        if self._feedback:
            self._messages.append(Send(who, self._feedback[-1]))
        else:
            self._say(who, Ask(0))

    def _left(self, who: int) -> None:
        self.present.discard(who)
        self._awaited.discard(who)

    def _note_quiet(self, message: Message) -> None:
        who, body = message.sender, message.body
        assert isinstance(body, Stop)
        self._see(who)
        if who not in self.silent:
            self.silent.add(who)
            self._awaited.discard(who)
            self._notices.append(Quiet(who, body.update))
        if body.reason is not Reason.CAP:  # it has left for good
            self._left(who)
            self.done.add(who)
        else:
            self._bring_up(message)

    def _note_done(self, message: Message) -> None:
        self._see(message.sender)
        self.done.add(message.sender)

    def _lost(self, message: Message) -> None:
        self._refuse(Refused(Refusal.AHEAD, message.sender))
        self._notices.append(LostHistory(message.sender, self._place(message.body)))
        if self._may_answer(message.sender):
            # It answers with feedback that this key signed, if it has some: see `_classify_own`.
            self._say(message.sender, Ask(self.round))

    # ---- rounds -------------------------------------------------------------------------------------

    def _close(self, _: Any) -> None:
        """Phases (ii) and (iii): record the mean of the messages, then send it.

        If it were sent first, a crash in between could lead to a second feedback for this round, from other
        reports. Agents that heard different ones would move apart.
        """
        # In rising order, so that a verifier can recompute the digest of the reports.
        used = tuple(sorted(self._reports))
        reports = [self._reports[i] for i in used]
        y = as_numbers(self.session.lattice.mean([self.codec.lifted(report) for report in reports]))
        frame = self._feedback_frame(y, used, combined(report.digest for report in reports))
        self._records.append(Closed(self.round, frame, used, tuple(report.frame for report in reports)))
        self._end_round(frame, used)

    def _feedback_frame(self, y: tuple[int, ...], used: tuple[int, ...], basis: bytes) -> bytes:
        numbers, bits = self.codec.pack(y), self.codec.bitmap(used)
        body = Feedback(self.round, numbers, bits, len(used), basis, self._before)
        return self.codec.seal(COORDINATOR, body, self._sign)

    def _end_round(self, frame: bytes, used: tuple[int, ...]) -> None:
        """Send the feedback, which is recorded, and open the next round."""
        self._messages.append(Send(None, frame))
        without = (i for i in range(self.session.n) if i not in self._reports and i not in self.silent)
        self._notices.append(RoundClosed(self.round, used, tuple(without)))
        # The next round does not wait for those who missed this deadline, until their next message.
        self.present -= self._awaited
        reports = self._reports.values()
        self._past.append({report.sender: report.digest for report in reports})
        self._last = {(report.sender, self.round): report.frame for report in reports}
        self._keep(frame)
        self.round += 1
        if self.round < self.session.exchanges:
            self._open_round()
        else:
            self._serve(None)

    def _serve(self, _: Any) -> None:
        """Keep running after the last round until all have its feedback."""
        self._reports, self._awaited = {}, set()
        self._expired = False
        self._timers.off("missing")
        self._timers.set("deadline", self.session.deadlines.start)
        self._again(fresh=True)

    def _serve_again(self, _: Any) -> None:
        """Keep running after a restart at the end, for members that are behind."""
        self._serve(None)
        if self._ended:  # all agents had received the last feedback
            self.done = set(range(self.session.n))
        self._timers.set("deadline", self.return_time)
        self._hasty = True

    def _finish(self, _: Any) -> None:
        self._rest()
        # Only if all are done. Otherwise a restart serves those again that lack the last feedback.
        if not self._ended and len(self.done) == self.session.n:
            self._ended = True
            self._records.append(Ended(self.round, None))
        self._notices.append(Finished(self.session.rounds))

    def _waiting(self) -> Waiting | None:
        """Return who is missing: agents expected, or all if those are too few."""
        if self.phase is P.GATHERING:
            missing = [i for i in range(self.session.n) if i not in self.present]
            return Waiting(self.round, tuple(missing), max(0, self.session.least_start - len(self.present)))
        needed = max(0, self.session.least_quorum - self.heard)
        if self.phase is not P.COLLECTING or not (needed or self._awaited):
            return None
        absent = [i for i in range(self.session.n) if i not in self._reports and i not in self.silent]
        return Waiting(self.round, tuple(absent) if needed else self.missing, needed)

    def _repeat_is_due(self) -> None:
        """Repeat the last feedback to agents that have not confirmed it."""
        for who in sorted(self.present - self.done):
            self._messages.append(Send(who, self._feedback[-1]))
        self._again(fresh=False)

    # ---- the table ------------------------------------------------------------------------------------

    _OPEN: ClassVar[Short] = {
        On.PRESENT: _arrived,
        On.QUIET: _note_quiet,
        On.LOST: _lost,
        On.HALT: (EndingCoordinator._halt, P.STOPPED),
        On.EXPIRED: (EndingCoordinator._expire, P.STOPPED),
    }
    _ANSWERING: ClassVar[Short] = {
        On.LATE: _late,
        On.PAST: _past_report,
        On.ASKED: _answer,
        On.JOINED: _nudge,
    }
    table: ClassVar[Table] = short(
        "coordinator",
        {
            P.IDLE: {
                On.START: (_enter, P.GATHERING),
                On.ENDED: (EndingCoordinator._say_stopped, P.STOPPED),
                On.COMPLETE: (_finish, P.FINISHED),
                On.HALT: (EndingCoordinator._halt, P.STOPPED),
                On.EXPIRED: (EndingCoordinator._expire, P.STOPPED),
                (On.TICK, On.JOINED): None,
                On.CONTRADICTED: Machine._misplaced,
            },
            P.GATHERING: {
                **_OPEN,
                On.ASKED: _arrived,
                On.REPORT: _early,
                On.JOINED: None,
                On.LEFT: _left,
                On.ENOUGH: (_open_first, P.COLLECTING),
                On.RESUMED: (_reopen, P.COLLECTING),
                On.COMPLETE: (_serve_again, P.SERVING),
                (On.LATE, On.DONE, On.PAST): Machine._impossible,
            },
            P.COLLECTING: {
                **_OPEN,
                **_ANSWERING,
                On.REPORT: _take_report,
                On.MOVE: _close,
                On.LAST: (_close, P.SERVING),
                On.DONE: Machine._impossible,
            },
            P.SERVING: {
                **_OPEN,
                **_ANSWERING,
                On.DONE: _note_done,
                On.HALT: None,
                On.EXPIRED: (_finish, P.FINISHED),
                On.ALL_DONE: (_finish, P.FINISHED),
                On.REPORT: Machine._impossible,
            },
            P.FINISHED: {
                **_OPEN,
                **_ANSWERING,
                On.DONE: _note_done,
                On.HALT: None,
                On.EXPIRED: None,
                On.REPORT: Machine._impossible,
            },
            P.STOPPED: {
                (On.PRESENT, On.REPORT, On.LATE, On.ASKED, On.DONE, On.QUIET, On.PAST, On.LOST, On.JOINED): (
                    EndingCoordinator._say_stopped
                ),
                (On.HALT, On.EXPIRED): None,
            },
        },
    )
