"""An agent of the client-server mechanism (section 3 of the paper).

It sends its message when its turn has come, and makes one update for the feedback of every round, in order.
So its updates are the session's rounds. An agent that was disconnected requests the feedback it missed and
catches up without sending, which costs nothing. No matter what the coordinator does, the agent's loss is that
of the messages it made, and stays within the cap.

Three parts are chosen from the session (`chosen_parts`). Its turns say when it speaks: in rounds, or by the
clock of a series (`turns`). Its private state says what it says, and moves: by mixing (`private_state`), or
not at all, with a filter (`filter_state`). Its cover hides that: with noise of its own, or with masks of
keepers (also `private_state`).

Feedback is read in three places: `_classify_message` compares it with what was heard before, `_keep` stores
it until its round has come, and `_move` makes the update. `_replay` reads it again after a restart.

If noise is drawn once and keepers add it, there is only one exchange. From then on the agent moves towards
its feedback without further messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Self, cast, final

import numpy as np

from tacit.base.errors import ParameterError, StateError
from tacit.core.protocol.codec import Sign, digest
from tacit.core.protocol.effects import Joined, Left, NoiseReady, ReadingReady, Send, Tick
from tacit.core.protocol.filter_state import FilterState
from tacit.core.protocol.keyring import Keyring
from tacit.core.protocol.machine import AHEAD, TELL_FIRST, TELL_IN_ROUND, Machine
from tacit.core.protocol.messages import (
    COORDINATOR,
    Ask,
    Done,
    Feedback,
    Key,
    Message,
    Place,
    Reason,
    Receipt,
    Refusal,
    Stop,
)
from tacit.core.protocol.moving import Moving
from tacit.core.protocol.notices import (
    Behind,
    DisputeFound,
    Finished,
    Forgotten,
    MeanPublished,
    NotUsed,
    ReceiptTaken,
    Refused,
    SlotMissed,
    Spoken,
    Waiting,
)
from tacit.core.protocol.places import OwnPlace
from tacit.core.protocol.private_state import (
    Budget,
    Cover,
    KeeperMasks,
    MixingState,
    OwnNoise,
    PrivateState,
    as_draw,
    require_began,
)
from tacit.core.protocol.records import (
    Ended,
    Erasing,
    Evidence,
    Keyed,
    Moved,
    Record,
    Sampled,
    Silenced,
    Spoke,
)
from tacit.core.protocol.session import Session
from tacit.core.protocol.tables import AgentPhase as P
from tacit.core.protocol.tables import On, Short, Table, short
from tacit.core.protocol.turns import FeedbackChain, RoundTurns, Said, SlotTurns, Turns

_LINK = attrgetter("before", "count", "members")
"""What ties feedback to the one before."""
_LISTENING = (P.WAITING, P.SPOKEN, P.SILENT)
_OVER = (P.FINISHED, P.STOPPED, P.DECLINED)


class AgentParts(NamedTuple):
    """What differs between the agents of different sessions."""

    cover: type[Cover]
    state: type[MixingState | FilterState]
    turns: type[Turns]


def chosen_parts(session: Session) -> AgentParts:
    """Return the parts of a session's agents. Nothing else distinguishes them."""
    if session.series is not None:
        return AgentParts(KeeperMasks, FilterState, SlotTurns)
    return AgentParts(KeeperMasks if session.keepers else OwnNoise, MixingState, RoundTurns)


@final
class AgentMachine(Machine):
    """One agent of a session with a coordinator; holds its private state.

    Parameters
    ----------
    session : Session
        What all agreed on.
    number : int
        Which agent of the roster this is.
    value : number or vector
        θ(0), private. None in a series, whose agents take readings.
    sign : callable
        Signs with the agent's own key.
    budget : Budget
        What the owner allows.
    private : bytes, optional
        Its ephemeral X25519 key, which must be on the disk already. None without keepers, or if it was
        erased.
    motion : Moving, optional
        How it moves, if the session leaves that to its agents.

    Attributes
    ----------
    private : PrivateState
        What it says and what that costs.
    chain : FeedbackChain
        What it has heard.
    keyring : Keyring
        The first key of itself and of each keeper; empty without keepers.
    """

    private: PrivateState
    _turns: Turns

    def __init__(
        self,
        session: Session,
        number: int,
        value: Any = None,
        *,
        sign: Sign,
        budget: Budget,
        private: bytes | None = None,
        motion: Moving | None = None,
    ) -> None:
        parts = self._set_up(session, number, sign)
        own: dict[str, Any] = {} if motion is None else {"motion": motion}
        self.private = parts.state(self.codec, number, budget, self._cover, value, **own)
        self._turns = parts.turns(session, number, self.private, self.chain, self._cover)
        self._unsaved.extend(self.private.first)
        self._unlock(private)

    @classmethod
    def resume(
        cls,
        session: Session,
        number: int,
        records: Iterable[Record],
        *,
        sign: Sign,
        budget: Budget,
        private: bytes | None = None,
        motion: Moving | None = None,
    ) -> Self:
        """Rebuild it from its records.

        `budget.spent` is the loss before this session; the records say what was spent in it.
        """
        agent = cls.__new__(cls)
        parts = agent._set_up(session, number, sign)
        began, rest = require_began(agent.codec, number, records)
        own: dict[str, Any] = {} if motion is None else {"motion": motion}
        agent.private = parts.state(agent.codec, number, budget, agent._cover, began=began, **own)
        agent._turns = parts.turns(session, number, agent.private, agent.chain, agent._cover)
        for record in rest:
            agent._replay(record)
        agent.chain.place.found = max(agent.private.digests, default=-1)
        agent._unlock(private)
        return agent

    def _set_up(self, session: Session, number: int, sign: Sign) -> AgentParts:
        if session.coordinator is None:
            raise ParameterError(f"session {session.name} has no coordinator: its agents are peers.")
        session.require_agent(number)
        super().__init__(session, number, sign)
        self.chain = FeedbackChain(OwnPlace(number, session.n))
        self.keyring = Keyring(self.codec, number)
        self._wall = -math.inf
        self._received = False  # a receipt, since it was connected last
        parts = chosen_parts(session)
        self._cover = parts.cover(self.codec, number, sign, self.keyring)
        return parts

    def _unlock(self, private: bytes | None) -> None:
        if not self._stopped and not self._ended:
            self.private.require_affordable()
        if (keyed := self._cover.unlock(private)) is not None:
            # Recorded before it is sent. Without the record the driver makes a new key after a crash, which
            # all members that know the first one would refuse.
            self._unsaved.append(keyed)

    def _replay(self, record: Record) -> None:
        self.private.replay(record)
        match record:
            case Moved() if record.heard:
                message = self.codec.own(record.heard[0])
                body = cast(Feedback, message.body)
                self.private.feedback, self.chain.newest = message.numbers, message.frame
                self.chain.place.feedback, self.chain.place.heard = message, body.round
                self._apply(message.digest, body.count, body.members)
            case Keyed():
                self.keyring.replay(record)
            case Erasing():
                self.keyring.erase()
            case Evidence():
                self._evidence[record.sender, record.round] = record.second
                if self.codec.is_place(record.second):
                    # A dispute. It stays in force after a restart, which cannot tell who else used the key.
                    self.chain.disputed, self._stopped = record.round, True
            case Ended():
                self._ended, self._stopped = True, record.reason is not None
            case Spoke() | Moved() | Silenced() | Sampled():
                pass
            case _:
                raise StateError("these are not an agent's records.")

    @property
    def update(self) -> int:
        """How many updates it has made; in a series, how many slots are over."""
        return self.private.update

    @property
    def disputed(self) -> int | None:
        """The round whose feedback has a message that was not made here."""
        return self.chain.disputed

    @property
    def rests(self) -> bool:
        """Whether it may leave, and come back for the result.

        The coordinator has said, over this connection, that its message is recorded.
        """
        return self._received and self.phase is P.SPOKEN

    @property
    def wants_noise(self) -> int | None:
        """The update a draw is needed for now, if any."""
        return self.private.update if self.phase is P.DRAWING and not self.private.has_draw else None

    @property
    def wants_reading(self) -> int | None:
        """The slot a reading is needed for now, if any."""
        return self._turns.reading() if self.phase is P.WAITING else None

    def published(self) -> MeanPublished | None:
        """Return the last slot of a series with its mean, if there is one."""
        return self._turns.published()

    @property
    def incomplete(self) -> int:
        """In how many slots of a series so far an agent was missing."""
        return self._turns.incomplete()

    @property
    def _others(self) -> tuple[int, ...]:
        return (COORDINATOR, *self.session.keeper_numbers)

    # ---- what happened? -----------------------------------------------------------------------------

    def _classify_presence(self, event: Joined | Left) -> tuple[On, Any]:
        self._received = False
        return super()._classify_presence(event)

    def _classify_start(self) -> On:
        if self._stopped:
            return On.ENDED
        # Only for a new session. One that has begun goes on: every message is still checked.
        return On.OVER if self._unsaved and self.private.is_declined else On.START

    def _classify_message(self, message: Message) -> tuple[On, Any]:
        """Tell what a message means. Feedback is compared with the chain here."""
        if not isinstance(message.body, Feedback):
            return self._classify_word(message)
        t = message.body.round
        known, first = self.chain.known(t)
        if known == message.digest:
            return On.PAST, Refused(Refusal.REPLAY, COORDINATOR)
        if known is not None:
            return On.CONTRADICTED, Evidence(COORDINATOR, t, known, first, message.frame)
        # Later feedback cannot be compared yet: `_due` does that when its round comes.
        if t == self.private.update and not self.chain.continues(*_LINK(message.body)):
            return On.CONTRADICTED, self._forked(message)
        return On.FEEDBACK, message

    def _classify_word(self, message: Message) -> tuple[On, Any]:
        match message.body:
            case Key():
                return self.keyring.classify(message)
            case Ask() if message.sender == COORDINATOR:
                return self._turns.classify(message.body.round), message.body.round
            case Place():
                return self._classify_place(message, message.body)
            case Receipt(round=t, report=said) if self.private.digests.get(t) == said:
                return On.RECEIPT, message
            case Stop() if message.sender == COORDINATOR:
                return On.STOP, message.body
        return On.REFUSED, Refused(Refusal.NOT_FOR_ME, message.sender)

    def _classify_place(self, message: Message, place: Place) -> tuple[On, Any]:
        if (wrong := self.chain.place.wrong(place)) is not None:
            return On.REFUSED, Refused(wrong, COORDINATOR)
        mine = place.last < 0 or self.private.digests.get(place.last) == place.digest
        return On.PLACE if mine else On.MISNAMED, message

    def _classify_own(self, message: Message) -> tuple[On, Any]:
        """Stop if this key has signed something that the ledger does not have."""
        self.private.require_own(message)
        # Another process made a key for this session, so it may also have spoken in it.
        if isinstance(message.body, Key) and self.keyring.digest(self.number) != message.digest:
            raise self.private.spoken_elsewhere(0)
        return super()._classify_own(message)

    def _forked(self, message: Message) -> Evidence:
        """Return evidence of feedback that continues another history."""
        return Evidence(COORDINATOR, self.private.update, self.chain.heard, b"", message.frame)

    def _due(self) -> On | None:
        if self.phase is P.DRAWING:
            return On.READY if self.private.has_draw else None
        if self.phase not in _LISTENING:
            return None
        if self.private.update == self.session.rounds:
            return On.LAST
        if (heard := self._due_by_feedback()) is not None:
            return heard
        return self._turns.turn() if self.phase is P.WAITING else None

    def _due_by_feedback(self) -> On | None:
        """Return what follows from the feedback that is kept."""
        u = self.private.update
        if self._moves_alone:
            return On.MOVE
        # With one-shot noise an update needs the first message, so even a late agent makes that first.
        if u not in self.chain.kept or self.private.lacks_shadow:
            return None
        return On.MOVE if self.chain.continues(*_LINK(self.chain.kept[u].body)) else On.FORKED

    @property
    def _moves_alone(self) -> bool:
        """Whether all feedback has arrived, but not all updates are made."""
        return self.session.exchanges <= self.private.update < self.session.rounds

    # ---- speaking -----------------------------------------------------------------------------------

    def _enter(self, _: Any) -> None:
        """Tell that this agent is there.

        How it began is saved first (`_unsaved`): `resume` continues from it, and the ledger can reserve the
        planned loss before others count on this agent.
        """
        self._notices.append(self.private.cost())
        self._send(self._turns.greeting())
        self._again(fresh=True)
        self._tell_missing(TELL_FIRST)

    def _decline(self, _: Any) -> None:
        self._notices.append(self.private.beyond_cap())

    def _send(self, said: Iterable[Said]) -> None:
        for one in said:
            if isinstance(one, bytes):
                self._messages.append(Send(COORDINATOR, one))
            else:
                self._say(COORDINATOR, one)

    def _take_noise(self, event: NoiseReady) -> None:
        if not self.private.lacks_draw(event.update):
            self._refuse(Refused(Refusal.SECOND_DRAW))
            return
        if not self._cover.draws:
            self._cover.take_salt(event.draw)
            return
        # One draw for several components would give them the same noise, and differences none.
        if (1 if type(event.draw) is int else np.size(event.draw)) != self.session.components:
            raise StateError(f"noise must have {self.session.components} components, as the value has.")
        self.private.draws[event.update] = event.draw if type(event.draw) is int else as_draw(event.draw)

    def _take_reading(self, event: ReadingReady) -> None:
        if event.slot != self.wants_reading:
            self._refuse(Refused(Refusal.SECOND_DRAW))
            return
        sampled = self.private.read(event.slot, event.reading)
        if sampled is not None:
            # Recorded even if no message follows: after a restart the filter must not read this slot again.
            self._records.append(sampled)
        if sampled is not None and self._cover.ready:
            self._cover.take_salt(event.salt)
            self._speak(None)
        else:
            self._notices.append(SlotMissed(event.slot, unread=sampled is None))

    def _speak(self, _: Any) -> None:
        """Make the next message, once, and send it."""
        spoke = self.private.speak(self.chain.heard)
        # Saved before it is sent. If it were sent first, a crash in between would lose the draw: a second
        # message of this update, with new noise, would follow. After `resume` the same bytes are repeated.
        self._records.append(spoke)
        self._messages.append(Send(COORDINATOR, spoke.frame))
        self._notices.append(Spoken(spoke.update, self.private.spent))
        self._again(fresh=True)

    def _fall_silent(self, _: Any) -> None:
        if not self.private.silent:
            record, told = self.private.fall_silent()
            self._records.append(record)
            self._notices.append(told)
        self._say(COORDINATOR, Stop(self.private.update, Reason.CAP))
        self._again(fresh=True)

    def _say_again(self, _: Any) -> None:
        self._send(self._turns.position())
        self._again(fresh=True)

    def _repeat(self, t: int) -> None:
        """Repeat the message of the own round, or learn of a later one."""
        if t > self.private.update:
            self._opened(t)
        elif self._may_answer(COORDINATOR):
            self._say_again(None)

    def _repeat_slot(self, t: int) -> None:
        """Repeat the last message, if it is of this slot."""
        said = self.private.said
        right = said is not None and self.private.digests.get(t) == digest(said)
        if right and said is not None and self._may_answer(COORDINATOR):
            self._messages.append(Send(COORDINATOR, said))

    def _repeat_is_due(self) -> None:
        if self.phase not in _OVER:
            self._send(self._turns.repeated(self.phase))
            self._again(fresh=False)

    def _take_key(self, message: Message) -> None:
        self._records.append(self.keyring.take(message))

    # ---- hearing ------------------------------------------------------------------------------------

    def _keep(self, message: Message) -> None:
        """Keep feedback of the next round, or of a later one, until its turn."""
        body = cast(Feedback, message.body)
        # The limit bounds memory: the coordinator could sign feedback for every round of the session.
        if body.round < self.private.update + AHEAD:
            self.chain.kept[body.round] = message
        # Without the limit: it is the newest that tells whether this key has spoken elsewhere.
        if body.round > self.chain.place.heard:
            self.chain.place.feedback, self.chain.place.heard = message, body.round
        self._follow(self._turns.kept(body.round))

    def _opened(self, t: int) -> None:
        self._follow(self._turns.opened(t))

    def _follow(self, found: Iterable[Ask | Behind]) -> None:
        """Ask for missed feedback, and tell the owner."""
        for one in found:
            if isinstance(one, Behind):
                self._notices.append(one)
                continue
            self._say(COORDINATOR, one)
            if self._turns.restarts:
                self._again(fresh=True)

    def _move(self, _: Any) -> None:
        """Apply the feedback of the next round: here it becomes an update."""
        private, t = self.private, self.private.update
        if self._moves_alone:
            # Noise is drawn once: there is one exchange, and all later updates move towards its feedback.
            assert private.feedback is not None
            self._records.append(private.move(private.feedback, (), ()))
            self._notices.append(self._turns.updated(t))
            return
        message = self.chain.kept.pop(t)
        body = cast(Feedback, message.body)
        self._records.append(private.move(message.numbers, [message.frame], ()))
        self.chain.newest = message.frame
        self._apply(message.digest, body.count, body.members)
        self._notices.append(self._turns.updated(t))
        self._follow(self._turns.missed())
        if self._turns.restarts:
            self._again(fresh=True)
        self._tell_missing(TELL_IN_ROUND)

    def _apply(self, heard: bytes, count: int, members: int) -> None:
        """Store the digest of applied feedback, and how many messages it has."""
        self.chain.applied.append(heard)
        self.chain.members = members
        self._turns.hear(count, members)

    def _take_receipt(self, message: Message) -> None:
        """Say nothing more until the session closes: the message is recorded."""
        assert self.session.closes is not None
        if not self._received:
            self._received = True
            self._notices.append(ReceiptTaken(cast(Receipt, message.body).round))
        left = self.session.closes - self._wall if self._wall > -math.inf else 0.0
        self._timers.set("repeat", max(left, 0.0) + self.session.deadlines.round)

    def _note_place(self, message: Message) -> None:
        """Note that this key has not spoken elsewhere so far."""
        place = cast(Place, message.body)
        first = place.round > self.chain.place.proved
        self.chain.place.note(place)
        if first and place.last < place.round and place.round in self.private.digests:
            self._notices.append(NotUsed(place.round))

    def _remind(self, asked: int) -> None:
        """Send the newest feedback to a coordinator that lost rounds.

        Its own key signed it. So a coordinator with an old ledger notices that, and stops before it signs a
        second feedback for a round.
        """
        self._refuse(Refused(Refusal.LATE, COORDINATOR))
        if self.chain.newest is not None and self._may_answer(COORDINATOR):
            self._messages.append(Send(COORDINATOR, self.chain.newest))
            self._notices.append(Forgotten(self.private.update, asked))

    def _drop(self, _: Any) -> None:
        message = self.chain.kept.pop(self.private.update)
        self.chain.place.drop(message)
        self._accuse(self._forked(message))

    def _dispute(self, place: Message) -> None:
        """Record a place with a message that was not made here, and stop.

        The coordinator may lie. Or another process uses the same key, or an old ledger was restored. Then
        noise drawn here would be drawn a second time for the same update, or a filter without its past would
        go on. This agent cannot distinguish these cases, so it stops. The feedback and the place in it are
        the evidence.
        """
        feedback = self.chain.place.feedback
        assert feedback is not None
        t = self.chain.place.heard
        self.chain.disputed, self._stopped = t, True
        self._records.append(Evidence(COORDINATOR, t, feedback.digest, feedback.frame, place.frame))
        self._notices.append(DisputeFound(t))
        self._rest()

    # ---- time ---------------------------------------------------------------------------------------

    def _tick(self, tick: Tick) -> None:
        self._wall = tick.wall
        self._turns.tick(tick)
        super()._tick(tick)

    @property
    def wake(self) -> float | None:
        """When the next `Tick` is due, −∞ for at once, None for never."""
        wake = super().wake
        if self.phase is not P.WAITING or (due := self._turns.wake()) is None:
            return wake
        return due if wake is None else min(wake, due)

    def _waiting(self) -> Waiting | None:
        return None if self.phase in _OVER or self.rests else self._turns.waiting()

    # ---- the end ------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Record, once, that the private key is not needed any more.

        The driver deletes the key then. From it and the messages on the wire anyone could compute the numbers
        without masks and without noise, so it is erased as early as possible, and at every kind of end.
        """
        over = self._ended or self._stopped or self.private.silent
        if not over and self.phase not in (P.IDLE, *_OVER):
            over = not self._turns.is_left()
        if over and self._cover.holds_key:
            self.keyring.erase()
            self._records.append(Erasing(self._turns.keyless_from()))

    def _finish(self, _: Any) -> None:
        if not self._ended:
            self._ended = True
            self._records.append(Ended(self.session.rounds, None))
        self._notices.append(Finished(self.session.rounds))
        self._rest()
        self._say(COORDINATOR, self._done)

    @property
    def _done(self) -> Done:
        return Done(self.session.rounds, self.chain.heard)

    def _say_done(self, _: Any) -> None:
        if self._may_answer(COORDINATOR):
            self._say(COORDINATOR, self._done)

    @property
    def _reached(self) -> int:
        return self.private.update

    # ---- the table ------------------------------------------------------------------------------------

    _RUNNING: ClassVar[Short] = {
        On.FEEDBACK: _keep,
        On.ASKED: _opened,
        On.PLACE: _note_place,
        On.RECEIPT: None,
        On.MISNAMED: (_dispute, P.STOPPED),
        On.NOISE: _take_noise,
        On.KEY: _take_key,
        On.PAST: Machine._refuse,
        On.FORGOTTEN: _remind,
        On.JOINED: _say_again,
        On.STOP: (Machine._end, P.STOPPED),
        On.HALT: (Machine._leave, P.STOPPED),
        On.EXPIRED: (Machine._expire, P.STOPPED),
    }
    table: ClassVar[Table] = short(
        "agent",
        {
            P.IDLE: {
                On.START: (_enter, P.WAITING),
                On.OVER: (_decline, P.DECLINED),
                (On.ENDED, On.HALT): P.STOPPED,
                On.EXPIRED: (Machine._expire, P.STOPPED),
                (On.TICK, On.JOINED): None,
                On.CONTRADICTED: Machine._misplaced,
            },
            P.WAITING: {
                **_RUNNING,
                On.READING: _take_reading,  # of a series: it stays here, whatever it hears and says
                On.AGAIN: _repeat_slot,
                On.SAID: (_say_again, P.SPOKEN),
                On.TURN: P.DRAWING,
                On.CAPPED: (_fall_silent, P.SILENT),
                On.MOVE: _move,
                On.FORKED: _drop,
                On.LAST: (_finish, P.FINISHED),
            },
            P.DRAWING: {
                **_RUNNING,
                # Back to waiting, to choose again: the round may be over by now.
                On.FEEDBACK: (_keep, P.WAITING),
                On.ASKED: (_opened, P.WAITING),
                On.READY: (_speak, P.SPOKEN),
            },
            P.SPOKEN: {
                **_RUNNING,
                On.ASKED: _repeat,
                On.RECEIPT: _take_receipt,
                On.MOVE: (_move, P.WAITING),
                On.FORKED: _drop,
            },
            P.SILENT: {
                **_RUNNING,
                On.MOVE: _move,
                On.FORKED: _drop,
                On.LAST: (_finish, P.FINISHED),
            },
            P.FINISHED: {
                (On.PAST, On.JOINED): _say_done,
                On.FORGOTTEN: _remind,
                (On.PLACE, On.MISNAMED, On.KEY, On.AGAIN, On.STOP, On.HALT, On.EXPIRED, On.RECEIPT): None,
                (On.FEEDBACK, On.ASKED): Machine._impossible,
            },
            P.STOPPED: {
                (On.FEEDBACK, On.ASKED, On.PAST, On.FORGOTTEN, On.JOINED): Machine._say_stopped,
                (On.PLACE, On.MISNAMED, On.KEY, On.AGAIN, On.STOP, On.HALT, On.EXPIRED, On.RECEIPT): None,
            },
            P.DECLINED: {
                (On.KEY, On.JOINED, On.HALT, On.EXPIRED): None,
                On.CONTRADICTED: Machine._misplaced,
            },
        },
    )
