"""The coordinator of a series: closes each slot by the clock.

A slot is closed when all agents have sent a message, or at its deadline. The closing is recorded and sent to
the keepers. When all keepers have answered, the sum is recorded and sent to all. A slot is lost if fewer than
the quorum have sent, if a keeper has not answered when the next slot must be closed, or if the sum is
nonsense. A lost slot has feedback too, which names nobody. So everyone knows, and there is one history.

Agents may send for the next slot while keepers are still asked about the last one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, ClassVar, Self, final

from tacit.errors import LedgerError, ParameterError, StateError
from tacit.protocol.codec import Sign, combined, digest
from tacit.protocol.effects import (
    Finished,
    MeanPublished,
    Nonsense,
    Quiet,
    Refused,
    RoundClosed,
    Send,
    Waiting,
)
from tacit.protocol.ending import EndingCoordinator
from tacit.protocol.key_exchange import KeyExchange
from tacit.protocol.keyring import Keyring
from tacit.protocol.machine import BATCH, REMEMBERED, Machine
from tacit.protocol.masked_sum import opened_sum
from tacit.protocol.messages import (
    COORDINATOR,
    NOTHING_HEARD,
    Ask,
    Done,
    Feedback,
    Key,
    Masked,
    Message,
    Opening,
    Reason,
    Refusal,
    SeriesClosing,
    Stop,
)
from tacit.protocol.records import (
    Closed,
    Ended,
    Evidence,
    Keyed,
    Opened,
    Record,
    Shut,
    Unopened,
    require_order,
)
from tacit.protocol.series_clock import SlotClock
from tacit.protocol.session import Session
from tacit.protocol.tables import CoordinatorPhase as P
from tacit.protocol.tables import On, Short, Table, short


@final
class SeriesCoordinatorMachine(SlotClock, KeyExchange, EndingCoordinator):
    """The server of a series. Holds nothing private.

    Attributes
    ----------
    round : int
        The first slot that has no feedback yet.
    done : set of int
        The agents that have confirmed the last feedback, or have left.
    """

    def __init__(self, session: Session, *, sign: Sign) -> None:
        if session.series is None:
            raise ParameterError(f"session {session.name} is not a series.")
        super().__init__(session, COORDINATOR, sign)
        self.keyring = Keyring(self.codec, COORDINATOR)
        self.round = 0
        self.done: set[int] = set()
        self._gone: set[int] = set()  # agents that have left for good
        self._reports: dict[int, dict[int, Message]] = {}  # by slot, from `round` on
        self._past: deque[dict[int, bytes]] = deque(maxlen=REMEMBERED)
        self._closing = None  # of slot `round`, once it is shut
        self._openings = {}
        self._past_openings = {}
        self._feedback: list[bytes] = []  # the frames of all slots so far
        self._before = NOTHING_HEARD
        self._decoder = self.series.decoder(len(session.keepers))
        self._members = 0
        self._opened = False
        self._stop: bytes | None = None

    @classmethod
    def resume(cls, session: Session, records: Iterable[Record], *, sign: Sign) -> Self:
        """Rebuild a coordinator from its records; it repeats recorded frames."""
        coordinator = cls(session, sign=sign)
        shut: deque[Shut] = deque(maxlen=REMEMBERED)  # a year of reports is not read again
        for record in records:
            if isinstance(record, Shut):
                coordinator._require(record.round)
                shut.append(record)
            else:
                coordinator._replay(record)
        coordinator._remember({record.round: record for record in shut})
        return coordinator

    def _remember(self, shut: dict[int, Shut]) -> None:
        """Restore the reports of the last slots, and the open closing.

        A closing without feedback must be repeated with the same bytes: keepers open a slot only once.
        """
        for slot in range(max(0, self.round - REMEMBERED), self.round):
            record = shut.get(slot)
            said = {} if record is None else zip(record.used, map(digest, record.reports), strict=True)
            self._past[slot - self.round] = dict(said)
        if (last := shut.get(self.round)) is not None:
            self._closing = self._own(last.frame)
            self._reports[self.round] = {report.sender: report for report in map(self._own, last.reports)}

    def _replay(self, record: Record) -> None:
        match record:
            case Opened():
                if record.session != self.session.id:
                    raise StateError("these records belong to another session.")
                self._opened = True
            case Keyed():
                self.keyring.replay(record)
            case Closed():
                self._require(record.round)
                openings = map(self._own, record.openings)
                self._past_openings = {opening.sender: opening for opening in openings}
                self._keep(self._own(record.frame))
            case Unopened():
                pass
            case Evidence():
                self._evidence[record.sender, record.round] = record.second
            case Ended():
                self._ended = True
                if record.reason is not None:
                    self._stop = self._stop_frame(record.reason)
            case _:
                raise StateError("these are not a coordinator's records.")

    def _require(self, slot: int) -> None:
        require_order(self._opened and slot == self.round)

    @property
    def _others(self) -> range:
        return range(self.session.n + len(self.session.keepers))

    @property
    def heard(self) -> int:
        """How many messages have arrived for the slot that is closed next."""
        return len(self._reports.get(self.round, ()))

    def published(self) -> MeanPublished | None:
        """Return the last slot with its mean; None if there is none yet."""
        return MeanPublished.of(self._decoder) if self._feedback else None

    @property
    def incomplete(self) -> int:
        """In how many slots so far an agent was missing."""
        return self._decoder.incomplete(self.session.n)

    # ---- what happened? -----------------------------------------------------------------------------

    def _classify_start(self) -> On:
        return On.START if self._stop is None else On.ENDED

    def _classify_own(self, message: Message) -> tuple[On, Any]:
        """Stop if this key has signed something that the ledger does not have.

        A second closing of a slot would ask keepers for the difference of two sums, and a second feedback
        would split the agents into two histories.
        """
        body, known = message.body, None
        if isinstance(body, Feedback):
            known = digest(self._feedback[body.round]) if body.round < self.round else b""
        elif isinstance(body, SeriesClosing) and body.round >= self.round:
            closing = self._closing
            known = closing.digest if closing is not None and body.round == self.round else b""
        if known is not None and known != message.digest:
            raise LedgerError(
                f"the coordinator's key has signed a frame of session {self.session.name} that this ledger "
                "does not have: it is not the newest, or another process uses the key. Continue with the "
                "right ledger; without it the series is lost."
            )
        return On.REFUSED, Refused(Refusal.REPLAY, message.sender)

    def _classify_message(self, message: Message) -> tuple[On, Any]:
        body, keeper = message.body, message.sender >= self.session.n
        match body:
            case Key():
                return self._classify_key(message)
            case Opening():
                return self._classify_opening(message, body)
            case Masked():
                return self._classify_report(message, body)
        kinds = {Ask: On.ASKED, Done: On.DONE, Stop: On.WITHOUT_KEEPER if keeper else On.QUIET}
        return kinds[type(body)], message  # the codec refuses all other kinds from these senders

    def _classify_report(self, message: Message, body: Masked) -> tuple[On, Any]:
        u, who = body.update, message.sender
        known = self._known(u, who)
        if known is not None and known != message.digest:
            taken = self._reports.get(u, {}).get(who)
            first = b"" if taken is None else taken.frame
            return On.CONTRADICTED, Evidence(who, u, known, first, message.frame)
        wrong: Refusal | None = None
        if known is not None:
            wrong = Refusal.REPLAY
        elif u < self.round or (u == self.round and self._closing is not None):
            wrong = Refusal.LATE  # it is in no sum, and no keeper opens its masks
        elif u > self.slot + 1:  # clocks differ a little; the limit also bounds memory
            wrong = Refusal.AHEAD
        else:
            members = (who, *self.session.keeper_numbers)
            if not self.keyring.knows(members) or self.keyring.named(members) != body.keys:
                wrong = Refusal.OTHER_KEY
        return (On.REPORT, message) if wrong is None else (On.REFUSED, Refused(wrong, who))

    def _known(self, u: int, who: int) -> bytes | None:
        """Return the digest of an agent's message for a recent slot."""
        if u >= self.round:
            found = self._reports.get(u, {}).get(who)
            return None if found is None else found.digest
        back = self.round - u
        return self._past[-back].get(who) if back <= len(self._past) else None

    def _due(self) -> On | None:
        if self.phase is P.SERVING:
            return On.ALL_DONE if self._expired or len(self.done) == self.session.n else None
        if self.phase is not P.COLLECTING:
            return None
        if self.round == self.series.slots:
            return On.LAST
        if self._closing is None:
            return self._due_to_shut()
        # Every keeper must have answered: without one its masks stay in the sum.
        if len(self._openings) == len(self.session.keepers):
            limit = self.session.sum_limits[0]
            return On.MOVE if -limit <= self._sum <= limit else On.NONSENSE
        return On.SKIP if self._wall >= self._given_up_at else None

    def _due_to_shut(self) -> On | None:
        heard, here = self.heard, self.session.n - len(self._gone)
        if self._wall >= self._closes_at:
            enough = heard >= self.session.least_quorum
            # After a long stop the keepers could not answer before the slot is given up.
            return On.ENOUGH if enough and self._wall < self._given_up_at else On.SKIP
        return On.ENOUGH if heard >= max(here, self.session.least_quorum) else None

    @property
    def _closes_at(self) -> float:
        return self.series.begin_of(self.round) + self.session.deadlines.round

    @property
    def _given_up_at(self) -> float:
        return self._closes_at + self.series.interval

    @property
    def _sum(self) -> int:
        reports, openings = self._reports[self.round].values(), self._openings.values()
        (found,) = opened_sum(
            self.session,
            [report.body.numbers for report in reports],  # type: ignore[union-attr]
            [opening.body.numbers for opening in openings],  # type: ignore[union-attr]
        )
        return found

    def _next_due(self) -> float | None:
        if self.phase is not P.COLLECTING or self.round == self.series.slots:
            return None
        due = self._closes_at if self._closing is None else self._given_up_at
        # It also wakes when a slot begins, because messages far ahead of the current slot are refused.
        return min(due, self.series.begin_of(self.slot + 1)) if self.slot < self.series.slots else due

    # ---- who comes, asks and goes ---------------------------------------------------------------------

    def _enter(self, _: Any) -> None:
        if not self._opened:
            self._opened = True
            self._records.append(Opened(self.session.id, ()))
        if self._closing is not None:
            self._ask_keepers()
        if self._feedback:
            self._messages.append(Send(None, self._feedback[-1]))

    def _see(self, who: int) -> None:
        pass  # the clock closes slots, so it does not matter who is connected

    def _attend(self, who: int) -> None:
        if not self._may_answer(who):
            return
        if self.round == self.series.slots:
            self._messages.append(Send(who, self._feedback[-1]))
        elif self._closing is not None and who not in self._openings:
            self._messages.append(Send(who, self._closing.frame))

    def _nudge(self, who: int) -> None:
        """Tell a member that has just connected what it may have missed."""
        if who in self.session.keeper_numbers:
            self._attend(who)
        elif self._feedback and self._may_answer(who):
            self._messages.append(Send(who, self._feedback[-1]))

    def _answer(self, message: Message) -> None:
        who, body = message.sender, message.body
        assert isinstance(body, Ask)
        if not self._may_answer(who):
            return
        if who in self.session.keeper_numbers:
            if self._closing is not None:
                # Keys first: with them the keeper can answer the closing that follows.
                for i in self._reports[self.round]:
                    self._messages.append(Send(who, self.keyring.frames[i]))
                self._messages.append(Send(who, self._closing.frame))
            return
        if body.round + BATCH < self.round:  # the newest first: it tells the agent how far the series is
            self._messages.append(Send(who, self._feedback[-1]))
        for frame in self._feedback[body.round : body.round + BATCH]:
            self._messages.append(Send(who, frame))

    def _note_done(self, message: Message) -> None:
        self.done.add(message.sender)

    def _note_quiet(self, message: Message) -> None:
        who, body = message.sender, message.body
        assert isinstance(body, Stop)
        if who not in self._gone:
            self._gone.add(who)
            self._notices.append(Quiet(who, body.update))
        self.done.add(who)

    def _lose_keeper(self, _: Any) -> None:
        self._stop_all(Reason.KEEPER)

    # ---- slots ----------------------------------------------------------------------------------------

    def _take_report(self, message: Message) -> None:
        assert isinstance(message.body, Masked)
        self._reports.setdefault(message.body.update, {})[message.sender] = message

    def _shut(self, _: Any) -> None:
        """Decide whose messages are added up; record it, then ask keepers.

        The record comes first: after a crash another set of agents could be chosen, which keepers that have
        answered refuse. The slot would be lost.
        """
        reports = self._reports[self.round]
        used = tuple(sorted(reports))
        self._reports[self.round] = {i: reports[i] for i in used}
        bodies = [report.body for report in self._reports[self.round].values()]
        body = SeriesClosing(
            self.round,
            self.codec.bitmap(used),
            len(used),
            combined(reports[i].digest for i in used),
            self._before,
            self.keyring.named(used),
            # Keepers never see the messages, so the closing brings the salts that their masks need.
            b"".join(body.heard for body in bodies if isinstance(body, Masked)),
        )
        frame = self.codec.seal(COORDINATOR, body, self._sign)
        self._closing = self._own(frame)
        self._records.append(Shut(self.round, frame, used, tuple(reports[i].frame for i in used)))
        self._ask_keepers()

    def _ask_keepers(self) -> None:
        assert self._closing is not None
        self._openings = {}
        self._pass_on(self._closing.frame, self.session.keeper_numbers)
        self._again(fresh=True)

    def _take_opening(self, message: Message) -> None:
        self._openings[message.sender] = message

    def _unmask(self, _: Any) -> None:
        """Record the opened sum, then send it to all."""
        assert self._closing is not None
        openings = [self._openings[j] for j in self.session.keeper_numbers]
        basis = combined((self._closing.digest, *(opening.digest for opening in openings)))
        used = tuple(self._reports[self.round])
        self._end_slot(self._sum, used, basis, tuple(opening.frame for opening in openings))

    def _reject(self, _: Any) -> None:
        # Unlike other sessions a series goes on: agents' messages do not depend on feedback.
        frames = tuple(self._openings[j].frame for j in self.session.keeper_numbers)
        self._records.append(Unopened(self.round, frames))
        self._notices.append(Nonsense(self.round))
        self._lose(None)

    def _lose(self, _: Any) -> None:
        """Sign that this slot has no sum. Its messages stay masked."""
        self._end_slot(0, (), combined(()), ())

    def _end_slot(self, found: int, used: tuple[int, ...], basis: bytes, openings: tuple[bytes, ...]) -> None:
        slot, reports = self.round, self._reports.get(self.round, {})
        body = Feedback(slot, self.codec.pack(found), self.codec.bitmap(used), len(used), basis, self._before)
        frame = self.codec.seal(COORDINATOR, body, self._sign)
        # Saved before it is sent: a second feedback of this slot would split the agents into two histories.
        self._records.append(Closed(slot, frame, used, (), openings))
        self._messages.append(Send(None, frame))
        self._last = {(report.sender, slot): report.frame for report in reports.values()}
        self._past_openings = self._openings
        self._timers.off("repeat")
        self._keep(self._own(frame))
        missing = (i for i in range(self.session.n) if i not in used and i not in self._gone)
        self._notices.append(RoundClosed(slot, used, tuple(missing)))
        self._notices.append(MeanPublished.of(self._decoder))

    def _keep(self, message: Message) -> None:
        """Store the feedback of a slot, and go on to the next."""
        body = message.body
        assert isinstance(body, Feedback)
        self._feedback.append(message.frame)
        self._before = message.digest
        self._members |= int.from_bytes(body.used, "little")
        self._decoder.add(message.numbers[0], body.count, self._members.bit_count())
        reports = self._reports.pop(self.round, {})
        self._past.append({i: report.digest for i, report in reports.items()})
        self._closing, self._openings = None, {}
        self.round += 1

    def _repeat_is_due(self) -> None:
        if self.phase is P.COLLECTING and self._closing is not None:
            self._pass_on(
                self._closing.frame, (j for j in self.session.keeper_numbers if j not in self._openings)
            )
            self._again(fresh=False)
        elif self.phase is P.SERVING:
            known = (i for i in self.keyring.frames if i < self.session.n)
            self._pass_on(self._feedback[-1], (i for i in known if i not in self.done))
            self._again(fresh=False)

    def _waiting(self) -> Waiting | None:
        return None  # no slot waits for anyone beyond its deadline

    # ---- the end --------------------------------------------------------------------------------------

    def _serve(self, _: Any) -> None:
        """Keep running after the last slot until all have its feedback."""
        self._expired = False
        self._timers.set("deadline", self.session.deadlines.start)
        self._again(fresh=True)

    def _finish(self, _: Any) -> None:
        self._rest()
        if not self._ended:
            self._ended = True
            self._records.append(Ended(self.round, None))
        self._notices.append(Finished(self.series.slots))

    # ---- the table ------------------------------------------------------------------------------------

    _OPEN: ClassVar[Short] = {
        On.KEY: KeyExchange._take_key,
        On.ASKED: _answer,
        On.DONE: _note_done,
        On.QUIET: _note_quiet,
        On.JOINED: _nudge,
    }
    table: ClassVar[Table] = short(
        "series_coordinator",
        {
            P.IDLE: {
                On.START: (_enter, P.COLLECTING),
                On.ENDED: (EndingCoordinator._say_stopped, P.STOPPED),
                On.HALT: (EndingCoordinator._halt, P.STOPPED),
                On.EXPIRED: (EndingCoordinator._expire, P.STOPPED),
                (On.TICK, On.JOINED): None,
                On.CONTRADICTED: Machine._misplaced,
            },
            P.COLLECTING: {
                **_OPEN,
                On.REPORT: _take_report,
                On.OPENING: _take_opening,
                On.WITHOUT_KEEPER: (_lose_keeper, P.STOPPED),
                On.HALT: (EndingCoordinator._halt, P.STOPPED),
                On.EXPIRED: (EndingCoordinator._expire, P.STOPPED),
                On.ENOUGH: _shut,
                On.MOVE: _unmask,
                On.SKIP: _lose,
                On.NONSENSE: _reject,
                On.LAST: (_serve, P.SERVING),
            },
            P.SERVING: {
                **_OPEN,
                (On.WITHOUT_KEEPER, On.HALT): None,
                (On.EXPIRED, On.ALL_DONE): (_finish, P.FINISHED),
            },
            P.FINISHED: {**_OPEN, (On.WITHOUT_KEEPER, On.HALT, On.EXPIRED): None},
            P.STOPPED: {
                (On.REPORT, On.OPENING, On.KEY, On.ASKED, On.DONE, On.QUIET, On.WITHOUT_KEEPER, On.JOINED): (
                    EndingCoordinator._say_stopped
                ),
                (On.HALT, On.EXPIRED): None,
            },
        },
    )
