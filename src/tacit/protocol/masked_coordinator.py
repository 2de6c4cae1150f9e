"""A coordinator with keepers: adds up masked messages; keepers open it.

A round has two halves. First the coordinator collects masked reports and shuts the round. The closing says
whose messages are added up. It is recorded before it is sent, so that nobody can choose messages after seeing
an opening. Then it waits for every keeper's opening, and only then computes the feedback. The session waits
for a keeper that is disconnected, and nothing is lost: the closing stays valid, and the keeper answers it
when it is back.
"""

from __future__ import annotations

from typing import Any, ClassVar, final

import msgspec

from tacit.errors import LedgerError, ParameterError
from tacit.protocol.codec import Sign, combined
from tacit.protocol.coordinator import CoordinatorMachine
from tacit.protocol.effects import Nonsense, Refused, Send, Waiting
from tacit.protocol.key_exchange import KeyExchange
from tacit.protocol.keyring import Keyring
from tacit.protocol.machine import TELL_IN_ROUND, Machine
from tacit.protocol.masked_sum import is_nonsense, opened_mean, opened_sum
from tacit.protocol.messages import (
    COORDINATOR,
    Closing,
    Key,
    Masked,
    Message,
    Opening,
    Reason,
    Refusal,
    Report,
    Stop,
)
from tacit.protocol.records import Closed, Keyed, Record, Shut, Unopened, require_order
from tacit.protocol.session import Session
from tacit.protocol.tables import CoordinatorPhase as P
from tacit.protocol.tables import On, OpeningPhase, Table, extended

_DONE = (P.SERVING, P.FINISHED)


@final
class MaskedCoordinatorMachine(CoordinatorMachine, KeyExchange):
    """The server of a session with keepers. Holds nothing private."""

    _masks = True

    def __init__(self, session: Session, *, sign: Sign) -> None:
        if not session.keepers:
            raise ParameterError(f"session {session.name} has no keepers: agents add their own noise.")
        super().__init__(session, sign=sign)
        self.keyring = Keyring(self.codec, COORDINATOR)
        self._closing = None  # of the round whose openings are waited for
        self._shut_reports: tuple[bytes, ...] = ()
        self._openings = {}
        self._past_openings = {}
        self._sum: tuple[int, ...] | None = None

    def _replay(self, record: Record) -> None:
        match record:
            case Keyed():
                self.keyring.replay(record)
            case Shut():
                require_order(self._opened and record.round == self.round)
                self._closing, self._shut_reports = self._own(record.frame), record.reports
                found = zip(record.used, record.reports, strict=True)
                self._reports = {i: self._own(frame) for i, frame in found}
            case Unopened():
                pass
            case Closed():
                # The reports are in the `Shut` record only: they are long, and would be stored twice.
                super()._replay(msgspec.structs.replace(record, reports=self._shut_reports))
                openings = map(self._own, record.openings)
                self._past_openings = {message.sender: message for message in openings}
                self._closing, self._reports = None, {}
            case _:
                super()._replay(record)

    @property
    def _others(self) -> range:
        return range(self.session.n + len(self.session.keepers))

    # ---- what happened? -----------------------------------------------------------------------------

    def _classify_own(self, message: Message) -> tuple[On, Any]:
        body = message.body
        # A second closing of a round, for other agents, asks keepers to open the difference of two sums.
        if isinstance(body, Closing) and not self._has_signed(body.round, message.digest):
            raise LedgerError(
                f"the coordinator's key has signed a closing of round {body.round} of session "
                f"{self.session.name}, and this ledger does not have it: it is not the newest, or another "
                "process uses the key. Continue with the right ledger; without it the session is lost."
            )
        return super()._classify_own(message)

    def _has_signed(self, t: int, said: bytes) -> bool:
        if t == self.round:
            return self._closing is not None and self._closing.digest == said
        return t < self.round  # an older one: its feedback names it

    def _classify_message(self, message: Message) -> tuple[On, Any]:
        body, keeper = message.body, message.sender >= self.session.n
        if isinstance(body, Key):
            return self._classify_key(message)
        if isinstance(body, Opening):
            return self._classify_opening(message, body)
        if keeper and isinstance(body, Stop):
            return On.WITHOUT_KEEPER, message
        return super()._classify_message(message)

    def _classify_opening(self, message: Message, body: Opening) -> tuple[On, Any]:
        kind, subject = super()._classify_opening(message, body)
        # The session may have stopped, or not started again, since the round was shut.
        if kind is On.OPENING and self.phase is not OpeningPhase.OPENING:
            return On.REFUSED, Refused(Refusal.OUT_OF_PLACE, message.sender)
        return kind, subject

    def _classify_report(self, message: Message, body: Report) -> tuple[On, Any]:
        kind, subject = super()._classify_report(message, body)
        if kind is not On.REPORT:
            return kind, subject
        assert isinstance(body, Masked)
        # With other keys its masks would not cancel, and the whole sum would be nonsense.
        members = (message.sender, *self.session.keeper_numbers)
        if not self.keyring.knows(members) or self.keyring.named(members) != body.keys:
            return On.REFUSED, Refused(Refusal.OTHER_KEY, message.sender)
        return kind, subject

    def _due(self) -> On | None:
        if self.phase is OpeningPhase.OPENING:
            return self._due_to_unmask()
        return super()._due()

    def _due_to_open(self) -> On | None:
        due = super()._due_to_open()
        if due is On.ENOUGH and not self.keyring.knows(self.session.keeper_numbers):
            return None
        return due

    def _due_to_close(self) -> On | None:
        # Shut before a restart: the same closing goes out again. Keepers that answered it refuse any other.
        if self._closing is not None:
            return On.SHUT
        return On.MOVE if super()._due_to_close() is not None else None

    def _due_to_unmask(self) -> On | None:
        if len(self._openings) < len(self.session.keepers):
            return None
        if self._sum is None:
            bodies = (message.body for message in self._openings.values())
            self._sum = opened_sum(
                self.session,
                [report.body.numbers for report in self._reports.values()],  # type: ignore[union-attr]
                [body.numbers for body in bodies],  # type: ignore[union-attr]
            )
        return On.NONSENSE if is_nonsense(self.session, self.round, self._sum) else self._next

    # ---- who is here ----------------------------------------------------------------------------------

    def _see(self, who: int) -> None:
        # An agent that has not sent its key cannot be in a sum, so the round does not wait for it.
        if self.keyring.knows((who,)):
            super()._see(who)

    # ---- keepers come, ask and go ---------------------------------------------------------------------

    def _attend(self, who: int) -> None:
        """Tell a keeper what it may have missed."""
        if self.phase in _DONE:
            if self._may_answer(who):
                self._messages.append(Send(who, self._feedback[-1]))
        elif self._closing is not None and who not in self._openings and self._may_answer(who):
            self._messages.append(Send(who, self._closing.frame))

    def _nudge(self, who: int) -> None:
        if who in self.session.keeper_numbers:
            self._attend(who)
        else:
            super()._nudge(who)

    def _answer(self, message: Message) -> None:
        if message.sender not in self.session.keeper_numbers:
            super()._answer(message)
            return
        who = message.sender
        if not self._may_answer(who):
            return
        if self._place(message.body) < self.round and who in self._past_openings:
            # The keeper's own opening: a keeper whose ledger lacks it was rolled back, and stops.
            self._messages.append(Send(who, self._past_openings[who].frame))
        elif self._closing is not None:
            # Keys first: with them the keeper can answer the closing that follows.
            for i in self._reports:
                self._messages.append(Send(who, self.keyring.frames[i]))
            self._messages.append(Send(who, self._closing.frame))

    def _arrived(self, message: Message) -> None:
        if message.sender in self.session.keeper_numbers:
            return  # it asks before round 0
        super()._arrived(message)

    def _lose_keeper(self, _: Any) -> None:
        self._stop_all(Reason.KEEPER)

    # ---- rounds ---------------------------------------------------------------------------------------

    def _open_round(self) -> None:
        # After a restart the shut round is opened again: its reports are decided, and must stay.
        kept = self._reports if self._closing is not None else {}
        super()._open_round()
        self._reports = kept

    def _shut(self, _: Any) -> None:
        """Decide whose messages are added up; record it, then ask keepers.

        The record comes first. After a crash without it another set of agents could be chosen, and a keeper
        that has answered the first closing would never answer the second: the session would be stuck.
        """
        used = tuple(sorted(self._reports))
        self._reports = {i: self._reports[i] for i in used}
        reports = self._reports.values()
        body = Closing(
            self.round,
            self.codec.bitmap(used),
            len(used),
            combined(report.digest for report in reports),
            self._before,
            self.keyring.named(used),
        )
        self._closing = self._own(self.codec.seal(COORDINATOR, body, self._sign))
        self._shut_reports = tuple(report.frame for report in reports)
        self._records.append(Shut(self.round, self._closing.frame, used, self._shut_reports))
        self._shut_again(None)

    def _shut_again(self, _: Any) -> None:
        """Ask the keepers for their openings, first or after a restart."""
        assert self._closing is not None
        # Openings are recorded only with the feedback. Keepers repeat them, with the same bytes.
        self._openings, self._sum = {}, None
        self._timers.off("deadline")
        self._pass_on(self._closing.frame, self.session.keeper_numbers)
        self._again(fresh=True)
        self._tell_missing(TELL_IN_ROUND)

    def _too_late(self, message: Message) -> None:
        """Refuse a report after the round was shut.

        It is in no sum. No keeper opens its masks, so nobody ever learns its numbers.
        """
        self._refuse(Refused(Refusal.LATE, message.sender))
        self._see(message.sender)

    def _take_opening(self, message: Message) -> None:
        self._openings[message.sender] = message

    def _unmask(self, _: Any) -> None:
        """Compute the sum S and the feedback y; record them, then send y to all."""
        assert self._sum is not None
        assert self._closing is not None
        used = tuple(self._reports)  # in rising order since `_shut`
        y = opened_mean(self.session, self.round, self._sum, len(used))
        openings = [self._openings[j] for j in self.session.keeper_numbers]
        basis = combined((self._closing.digest, *(opening.digest for opening in openings)))
        frame = self._feedback_frame(y, used, basis)
        kept = tuple(opening.frame for opening in openings)
        self._records.append(Closed(self.round, frame, used, (), kept))
        self._past_openings = self._openings
        self._closing, self._openings, self._sum = None, {}, None
        self._timers.off("repeat")
        self._end_round(frame, used)

    def _reject(self, _: Any) -> None:
        # Someone lied, and masks hide who: another try would be another opening of the same messages.
        frames = tuple(self._openings[j].frame for j in self.session.keeper_numbers)
        self._records.append(Unopened(self.round, frames))
        self._notices.append(Nonsense(self.round))
        self._stop_all(Reason.NONSENSE)

    def _repeat_is_due(self) -> None:
        if self.phase is OpeningPhase.OPENING:
            assert self._closing is not None
            self._pass_on(self._closing.frame, self.missing)
            self._again(fresh=False)
        elif self.phase in _DONE:
            super()._repeat_is_due()

    @property
    def missing(self) -> tuple[int, ...]:
        """The members whose report or opening of the open round is missing."""
        if self.phase is not OpeningPhase.OPENING:
            return super().missing
        return tuple(j for j in self.session.keeper_numbers if j not in self._openings)

    def _waiting(self) -> Waiting | None:
        if self.phase is OpeningPhase.OPENING:
            return Waiting(self.round, self.missing, len(self.missing)) if self.missing else None
        waiting = super()._waiting()
        if waiting is None or self.phase is not P.GATHERING:
            return waiting
        away = tuple(j for j in self.session.keeper_numbers if not self.keyring.knows((j,)))
        return Waiting(waiting.round, (*waiting.missing, *away), waiting.needed + len(away))

    # ---- the table ------------------------------------------------------------------------------------

    table: ClassVar[Table] = extended(
        "masked_coordinator",
        CoordinatorMachine.table,
        {
            (P.GATHERING,): {On.KEY: KeyExchange._take_key, On.WITHOUT_KEEPER: (_lose_keeper, P.STOPPED)},
            (P.COLLECTING,): {
                On.KEY: KeyExchange._take_key,
                On.WITHOUT_KEEPER: (_lose_keeper, P.STOPPED),
                On.MOVE: (_shut, OpeningPhase.OPENING),
                On.SHUT: (_shut_again, OpeningPhase.OPENING),
                On.LAST: Machine._impossible,
            },
            # Waiting for keepers is like collecting, with the round's messages decided.
            (OpeningPhase.OPENING,): {
                **CoordinatorMachine._OPEN,
                **CoordinatorMachine._ANSWERING,
                On.KEY: KeyExchange._take_key,
                On.WITHOUT_KEEPER: (_lose_keeper, P.STOPPED),
                # The closing is out: a report that is added now would be in no keeper's sum.
                On.REPORT: _too_late,
                On.OPENING: _take_opening,
                On.MOVE: (_unmask, P.COLLECTING),
                On.LAST: (_unmask, P.SERVING),
                On.NONSENSE: (_reject, P.STOPPED),
                On.DONE: Machine._impossible,
            },
            (P.SERVING, P.FINISHED): {On.KEY: KeyExchange._take_key, On.WITHOUT_KEEPER: None},
            (P.STOPPED,): {(On.KEY, On.WITHOUT_KEEPER): CoordinatorMachine._say_stopped},
            # Openings are heard while they are waited for, and classified as something else otherwise.
            (P.IDLE, P.GATHERING, P.COLLECTING, P.SERVING, P.FINISHED, P.STOPPED): {
                On.OPENING: Machine._impossible
            },
        },
    )
