"""A keeper: holds masks, adds noise, opens the sum of an update once.

It never gets the agents' messages. In a closing the coordinator names the agents whose messages it adds up.
The keeper answers with the sum of its masks of these agents, plus noise: an opening. Together with the
messages that opens their sum and nothing else. A second, different answer to the same update would open the
difference of two sums. So only one closing is answered per update, and a repeated request gets the same bytes
again.

In a series slots can be lost. No keeper opens them later: which updates may be opened is a part, chosen from
the session (`opening_order`).

The noise exists only inside the answer: anyone who learns it could undo this keeper's protection.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self, final

from tacit.base.errors import LedgerError, ParameterError, StateError
from tacit.core.mechanism.whole import as_whole
from tacit.core.protocol.codec import Sign, as_numbers, digest
from tacit.core.protocol.effects import NoiseReady, Send, Tick
from tacit.core.protocol.keyring import Keyring
from tacit.core.protocol.machine import TELL_FIRST, TELL_IN_ROUND, Machine
from tacit.core.protocol.masks import mask, packed, total
from tacit.core.protocol.messages import (
    COORDINATOR,
    DIGEST_BYTES,
    Ask,
    Closing,
    Feedback,
    Key,
    Message,
    Opening,
    Reason,
    Refusal,
    Stop,
)
from tacit.core.protocol.notices import Answered, Finished, LostHistory, Refused, Waiting
from tacit.core.protocol.opening_order import chosen_order
from tacit.core.protocol.records import Disclosed, Ended, Erasing, Evidence, Keyed, Record, require_order
from tacit.core.protocol.session import Session
from tacit.core.protocol.tables import KeeperPhase as P
from tacit.core.protocol.tables import On, Short, Table, short


@final
class KeeperMachine(Machine):
    """One keeper of a session or a series.

    Parameters
    ----------
    session : Session
        The session that all members agreed on; it has keepers.
    number : int
        The number of this keeper: keepers are numbered after the agents.
    sign : callable
        Signs with the keeper's own identity.
    private : bytes
        Its ephemeral X25519 key, which must be on the disk already. None if it was erased.

    Attributes
    ----------
    update : int
        The next update it will open; in a series the first slot that it may still open.
    """

    def __init__(self, session: Session, number: int, *, sign: Sign, private: bytes | None) -> None:
        self._set_up(session, number, sign)
        self._unlock(private)

    def _set_up(self, session: Session, number: int, sign: Sign) -> None:
        if number not in session.keeper_numbers:
            raise ParameterError(f"number {number} does not belong to a keeper of session {session.name}.")
        super().__init__(session, number, sign)
        self.keyring = Keyring(self.codec, number)
        self.update = 0
        self._order = chosen_order(session)
        self._answers: dict[int, Disclosed] = {}  # by update
        self._closing: Message | None = None  # the one that is to be answered now
        self._draw: tuple[int, ...] | None = None
        self._waited = False  # long enough for a coordinator that still needs the last answer

    @classmethod
    def resume(
        cls, session: Session, number: int, records: Iterable[Record], *, sign: Sign, private: bytes | None
    ) -> Self:
        """Rebuild a keeper from its records; it repeats recorded answers."""
        keeper = cls.__new__(cls)
        keeper._set_up(session, number, sign)
        for record in records:
            keeper._replay(record)
        keeper._unlock(private)
        return keeper

    def _unlock(self, private: bytes | None) -> None:
        if (keyed := self.keyring.unlock(private, self._sign)) is not None:
            # Recorded before it is sent. Without the record the driver makes a new key after a crash, which
            # all members that know the first one would refuse.
            self._unsaved.append(keyed)

    def _replay(self, record: Record) -> None:
        match record:
            case Keyed():
                self.keyring.replay(record)
            case Disclosed():
                own = self.codec.own(record.frame).sender == self.number
                require_order(own and self._order.classify(record.update, self.update) is On.CLOSING)
                self._answers[record.update] = record
                self.update = record.update + 1
            case Erasing():
                self.keyring.erase()
            case Ended():
                self._ended, self._stopped = True, record.reason is not None
                if record.reason is Reason.OPERATOR:
                    self._part()
            case Evidence():
                self._evidence[record.sender, record.round] = record.second
            case _:
                raise StateError("these are not a keeper's records.")

    @property
    def _others(self) -> range:
        return range(COORDINATOR, self.session.n)

    @property
    def wants_noise(self) -> int | None:
        """The update a draw is needed for now, if any."""
        return self.update if self.phase is P.DRAWING and self._draw is None else None

    # ---- what happened? -----------------------------------------------------------------------------

    def _classify_start(self) -> On:
        if self._stopped:
            return On.ENDED
        if self._ended:
            return On.DONE
        if self.update == self.session.exchanges:
            return On.COMPLETE
        return On.START

    def _classify_own(self, message: Message) -> tuple[On, Any]:
        """Stop if this key has opened something that the ledger does not have.

        The ledger may be an old copy. A second opening of that update, with new noise or for other agents,
        would reveal more than one may.
        """
        body = message.body
        if isinstance(body, Opening) and not self._has_said(body.round, message.digest):
            raise self._opened_elsewhere(body.round)
        if isinstance(body, Key) and self.keyring.digest(self.number) != message.digest:
            raise self._opened_elsewhere(0)
        return super()._classify_own(message)

    def _has_said(self, t: int, said: bytes) -> bool:
        return t in self._answers and digest(self._answers[t].frame) == said

    def _opened_elsewhere(self, t: int) -> LedgerError:
        return LedgerError(
            f"{self.session.member_name(self.number)} has opened update {t} or made a key, but not from this "
            "ledger: another process uses the same identity, or an old ledger was put back. A second answer "
            "could undo the protection of every agent, so nothing more is sent from here. Continue with the "
            "process or ledger that sent it."
        )

    def _classify_message(self, message: Message) -> tuple[On, Any]:
        body = message.body
        match body:
            case Key():
                return self.keyring.classify(message)
            case Closing():
                return self._classify_closing(message, body)
            case Feedback():
                return (On.FEEDBACK if self._order.is_last(body.round, self.update) else On.ASKED), message
            case Stop() if message.sender == COORDINATOR:
                return On.STOP, body
            case Ask() if message.sender == COORDINATOR:
                return On.ASKED, message
        return On.REFUSED, Refused(Refusal.NOT_FOR_ME, message.sender)

    def _classify_closing(self, message: Message, body: Closing) -> tuple[On, Any]:
        t = body.round
        # The first closing of an update is the only one, even while its answer still waits for noise. Only
        # the update counts here. Opening it for a second set of agents, or in another history, would reveal
        # the difference of two sums.
        known, first = self._first_closing(t)
        if known is not None and known != message.digest:
            return On.CONTRADICTED, Evidence(COORDINATOR, t, known, first, message.frame)
        if t in self._answers:
            return On.PAST, t
        if known is None:
            kind = self._order.classify(t, self.update, drawing=self._closing is not None)
            if kind is On.LOST:
                return kind, message
            if isinstance(kind, Refusal):
                return On.REFUSED, Refused(kind, COORDINATOR)
        return self._classify_used(message, body)

    def _first_closing(self, t: int) -> tuple[bytes | None, bytes]:
        """Return the digest of an update's closing, and its frame if it is kept."""
        if t in self._answers:
            opening = self.codec.own(self._answers[t].frame).body
            assert isinstance(opening, Opening)
            return opening.closing, self._answers[t].closing
        if self._closing is not None and self._closing.body.round == t:  # type: ignore[union-attr]
            return self._closing.digest, self._closing.frame
        return None, b""

    def _classify_used(self, message: Message, body: Closing) -> tuple[On, Any]:
        """Classify a closing that may be answered, by the keys of its agents."""
        used = self.codec.members(body.used)
        if not self.keyring.knows(used):
            return On.LACKING, message
        # With other keys the masks would not cancel. The opening would be used up and the sum be nonsense.
        if self.keyring.named(used) != body.keys:
            return On.REFUSED, Refused(Refusal.OTHER_KEY, COORDINATOR)
        return On.CLOSING, message

    def _due(self) -> On | None:
        match self.phase:
            case P.DRAWING:
                return On.READY if self._draw is not None else None
            case P.WAITING if self._order.is_over():
                return On.ALL_DONE
            case P.WAITING:
                return On.LAST if self.update == self.session.exchanges else None
            case P.SERVING:
                return On.ALL_DONE if self._waited else None
        return None

    # ---- what is done -------------------------------------------------------------------------------

    def _enter(self, _: Any) -> None:
        self._say_again(None)
        self._tell_missing(TELL_FIRST)

    def _say_again(self, _: Any) -> None:
        self._messages.append(Send(COORDINATOR, self.keyring.frames[self.number]))
        self._again(fresh=True)

    def _take_key(self, message: Message) -> None:
        self._records.append(self.keyring.take(message))

    def _ask_for_keys(self, message: Message) -> None:
        assert isinstance(message.body, Closing)
        if self._may_answer(COORDINATOR):
            self._say(COORDINATOR, Ask(message.body.round))

    def _take_closing(self, message: Message) -> None:
        assert isinstance(message.body, Closing)
        self._closing = message
        # Set before the noise is there: slots before it are lost, and stay shut.
        self.update = message.body.round

    def _take_noise(self, event: NoiseReady) -> None:
        # Only while a closing waits for it, and once: nobody may choose between two draws.
        if event.update != self.wants_noise:
            self._refuse(Refused(Refusal.SECOND_DRAW))
            return
        numbers = as_numbers(as_whole(event.draw, "noise"))
        if len(numbers) != self.session.components:
            raise StateError(f"noise must have {self.session.components} components.")
        self._draw = numbers

    def _disclose(self, _: Any) -> None:
        """Make the opening T: the masks of the agents in the closing plus noise.

        It is recorded before it is sent. After a crash the same bytes are repeated. Without the record the
        update would be opened again with another draw, and the average of two openings has less noise.
        """
        session, closing, draw = self.session, self._closing, self._draw
        assert closing is not None
        assert draw is not None
        assert session.mask_bytes is not None
        body = closing.body
        assert isinstance(body, Closing)
        u, width, length = self.update, session.mask_bytes, session.masked_bytes
        used = self.codec.members(body.used)
        salts = (body.salts[k : k + DIGEST_BYTES] for k in range(0, len(body.salts), DIGEST_BYTES))
        salted = zip(used, salts, strict=True)
        parts = [mask(self.keyring.secret(i), u, salt, length) for i, salt in salted]
        numbers = total([*parts, packed(draw, width)], width)
        own = self.keyring.digest(self.number)
        assert own is not None
        frame = self.codec.seal(self.number, Opening(u, numbers, closing.digest, own), self._sign)
        answer = Disclosed(u, frame, self._order.recorded(closing.frame))
        self._answers[u] = answer
        self._records.append(answer)
        # The draw exists only inside the opening from here on. Nothing else may keep it.
        self._closing = self._draw = None
        self.update += 1
        self._messages.append(Send(COORDINATOR, frame))
        self._notices.append(Answered(u, body.count))
        self._again(fresh=True)
        self._tell_missing(TELL_IN_ROUND)

    def _repeat(self, t: int) -> None:
        if self._may_answer(COORDINATOR):
            self._messages.append(Send(COORDINATOR, self._answers[t].frame))

    def _accuse(self, evidence: Evidence) -> None:
        """Record a contradiction, and show the coordinator its first frame.

        A coordinator with an old ledger learns from it that its key has signed another closing, and stops.
        """
        super()._accuse(evidence)
        # `first` is empty for an answered slot: the ledger has only the digest of its closing.
        if evidence.first and evidence.sender == COORDINATOR and self._may_answer(COORDINATOR):
            self._messages.append(Send(COORDINATOR, evidence.first))

    def _lost(self, message: Message) -> None:
        body = message.body
        assert isinstance(body, Closing)
        self._refuse(Refused(Refusal.AHEAD, COORDINATOR))
        self._notices.append(LostHistory(COORDINATOR, body.round))
        if self._may_answer(COORDINATOR):
            self._say(COORDINATOR, Ask(self.update))  # it answers with what this key has signed, if it can

    def _repeat_is_due(self) -> None:
        if self.phase in (P.WAITING, P.DRAWING):
            self._messages.append(Send(COORDINATOR, self.keyring.frames[self.number]))
            self._again(fresh=False)
        elif self.phase is P.SERVING:
            # The coordinator may lack the answer, or this keeper the last feedback, which is sent to a keeper
            # that repeats its key.
            self._messages.append(Send(COORDINATOR, self._answers[self.update - 1].frame))
            self._messages.append(Send(COORDINATOR, self.keyring.frames[self.number]))
            self._again(fresh=False)

    def _waiting(self) -> Waiting | None:
        if self.session.closes is not None and self.phase is P.WAITING:
            return None  # for hours, until it closes
        running = self.phase in (P.WAITING, P.DRAWING, P.SERVING)
        return Waiting(self.update, (COORDINATOR,), 1) if running else None

    # ---- time ---------------------------------------------------------------------------------------

    @property
    def wake(self) -> float | None:
        """When the next `Tick` is due, −∞ for at once, None for never."""
        wake = super().wake
        if self.phase not in (P.WAITING, P.DRAWING) or (over := self._order.wake()) is None:
            return wake
        return over if wake is None else min(wake, over)

    def _tick(self, tick: Tick) -> None:
        self._order.tick(tick)
        super()._tick(tick)

    # ---- the end ------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Erase the key when nothing more can be opened.

        The driver deletes its file after it has saved the record. From the key all masks of this keeper can
        be computed, so it should not outlive its use.
        """
        over = self._ended or self.update == self.session.exchanges
        if over and not self.keyring.erased:
            self._closing = self._draw = None
            self.keyring.erase()
            self._records.append(Erasing(self.update))

    def _serve_again(self, _: Any) -> None:
        self._messages.append(Send(COORDINATOR, self._answers[self.update - 1].frame))
        self._again(fresh=True)
        self._tell_missing(TELL_FIRST)
        # After a restart the session may be over for all others, and nobody would say so.
        self._timers.set("deadline", self.return_time)

    def _wait_for_return(self, _: Any) -> None:
        """Wait some time for a coordinator that left: it may need the answer."""
        self._timers.set("deadline", self.session.deadlines.start)

    def _deadline_is_due(self) -> None:
        self._waited = True

    def _finish(self, _: Any) -> None:
        self._rest()
        if not self._ended:
            self._ended = True
            self._records.append(Ended(self.update, None))
        self._notices.append(Finished(self.session.rounds))

    @property
    def _reached(self) -> int:
        return self.update

    # ---- the table ------------------------------------------------------------------------------------

    _RUNNING: ClassVar[Short] = {
        On.KEY: _take_key,
        On.LACKING: _ask_for_keys,
        On.LOST: _lost,
        On.PAST: _repeat,
        On.ASKED: None,
        On.NOISE: _take_noise,
        On.JOINED: _say_again,
        On.STOP: (Machine._end, P.STOPPED),
        On.HALT: (Machine._leave, P.STOPPED),
        On.EXPIRED: (Machine._expire, P.STOPPED),
        On.FEEDBACK: (_finish, P.FINISHED),  # of a series: the last slot is over, and may be lost
        On.COMPLETE: Machine._misplaced,
    }
    table: ClassVar[Table] = short(
        "keeper",
        {
            P.IDLE: {
                On.START: (_enter, P.WAITING),
                On.COMPLETE: (_serve_again, P.SERVING),
                On.DONE: P.FINISHED,
                (On.ENDED, On.HALT): P.STOPPED,
                On.EXPIRED: (Machine._expire, P.STOPPED),
                (On.TICK, On.JOINED): None,
                On.CONTRADICTED: Machine._misplaced,
            },
            P.WAITING: {
                **_RUNNING,
                On.CLOSING: (_take_closing, P.DRAWING),
                On.LAST: P.SERVING,  # it stays to repeat the last opening
                On.ALL_DONE: (_finish, P.FINISHED),  # of a series, by its clock
            },
            P.DRAWING: {**_RUNNING, On.CLOSING: None, On.READY: (_disclose, P.WAITING)},
            P.SERVING: {
                On.PAST: _repeat,
                On.JOINED: _serve_again,
                On.LEFT: _wait_for_return,
                On.STOP: (Machine._end, P.STOPPED),
                (On.FEEDBACK, On.HALT, On.EXPIRED, On.ALL_DONE): (_finish, P.FINISHED),
                (On.KEY, On.ASKED): None,
                On.COMPLETE: Machine._misplaced,
            },
            P.FINISHED: {
                On.PAST: _repeat,
                (On.KEY, On.ASKED, On.FEEDBACK, On.STOP, On.HALT, On.EXPIRED, On.JOINED): None,
                On.COMPLETE: Machine._misplaced,
            },
            P.STOPPED: {
                (On.PAST, On.CLOSING, On.LACKING, On.LOST, On.JOINED): Machine._say_stopped,
                (On.KEY, On.ASKED, On.FEEDBACK, On.STOP, On.HALT, On.EXPIRED): None,
                On.COMPLETE: Machine._misplaced,
            },
        },
    )
