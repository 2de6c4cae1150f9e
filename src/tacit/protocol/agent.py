"""An agent of the client-server mechanism (section 3 of the paper).

It sends its message when the coordinator has opened its round, and makes one update for the feedback of every
round, in order. So its updates are the session's rounds. An agent that was disconnected requests the feedback
it missed and catches up without sending, which costs nothing. No matter what the coordinator does, the
agent's loss is that of the messages it made, and stays within the cap.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from tacit.errors import ParameterError
from tacit.protocol.codec import Sign, digest
from tacit.protocol.effects import (
    Behind,
    DisputeFound,
    Finished,
    Forgotten,
    Refused,
    Send,
    Updated,
    Waiting,
    Weighed,
)
from tacit.protocol.ending import LeavingMember
from tacit.protocol.influence import Influence
from tacit.protocol.machine import AHEAD, BATCH, TELL_FIRST, TELL_IN_ROUND, Machine
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
    Stop,
)
from tacit.protocol.private_state import PrivateMachine, PrivateState
from tacit.protocol.records import Evidence, Moved, Record
from tacit.protocol.session import Session
from tacit.protocol.tables import AgentPhase as P
from tacit.protocol.tables import On, Short, Table, short
from tacit.theory.targets import weights


class AgentMachine(PrivateMachine, LeavingMember):
    """One agent of a session with a coordinator; holds its private state.

    Its parameters are those of `PrivateMachine`.
    """

    _audience = COORDINATOR
    _masks: ClassVar[bool] = False  # whether messages are masked; they carry no noise then

    def _set_up(self, session: Session, number: int, sign: Sign, private: PrivateState) -> None:
        if session.coordinator is None:
            raise ParameterError(f"session {session.name} has no coordinator: its agents are peers.")
        if session.keepers and not self._masks:
            raise ParameterError(f"session {session.name} has keepers: its agents are masked.")
        super()._set_up(session, number, sign, private)
        self._open = -1  # the newest round known to be open
        self._asked = -BATCH  # the round from which feedback was asked for last
        self._kept: dict[int, Message] = {}  # feedback from the own round on, at most AHEAD
        self._influence = Influence.of(session, number)
        self._newest: bytes | None = None  # the feedback that this agent has moved by last
        self._applied: list[bytes] = []  # digests of the feedback of all rounds before
        self._heard = NOTHING_HEARD  # the last of them
        self._claim: Message | None = None  # the newest feedback that names a message not made here
        self.disputed: int | None = None
        """The round whose feedback names a message that this agent did not make, if there is one."""

    def _replay(self, record: Record) -> None:
        super()._replay(record)
        if isinstance(record, Moved):
            feedback = self.codec.read(record.heard[0], own=True)
            assert isinstance(feedback, Message)
            assert isinstance(feedback.body, Feedback)
            self._newest = feedback.frame
            self._apply(feedback.digest, feedback.body.used, feedback.body.count)
        elif isinstance(record, Evidence) and record.first_digest == digest(record.second):
            # A dispute. It stays in force after a restart, which cannot tell who else used the key.
            self.disputed, self._stopped = record.round, True

    @property
    def _others(self) -> tuple[int, ...]:
        return (COORDINATOR,)

    # ---- what happened? -----------------------------------------------------------------------------

    def _classify_message(self, message: Message) -> tuple[On, Any]:
        if not isinstance(message.body, Feedback):
            return self._classify_word(message.body)
        t, u, first = message.body.round, self.private.update, b""
        known = self._applied[t] if t < u else None
        if t in self._kept:
            known, first = self._kept[t].digest, self._kept[t].frame
        if known == message.digest:
            return On.PAST, Refused(Refusal.REPLAY, COORDINATOR)
        if known is not None:
            return On.CONTRADICTED, Evidence(COORDINATOR, t, known, first, message.frame)
        # Later feedback cannot be compared yet: `_due` does that when its round comes.
        if t == u and message.body.before != self._heard:
            return On.CONTRADICTED, self._forked(message)
        return On.FEEDBACK, message

    def _classify_word(self, body: Body) -> tuple[On, Any]:
        match body:
            case Ask():
                return (On.FORGOTTEN if body.round < self.private.update else On.ASKED), body.round
            case Stop():
                return On.STOP, body
        return On.REFUSED, Refused(Refusal.NOT_FOR_ME, COORDINATOR)

    def _forked(self, message: Message) -> Evidence:
        """Return evidence of feedback that continues another history."""
        return Evidence(COORDINATOR, self.private.update, self._heard, b"", message.frame)

    def _due(self) -> On | None:
        private, here = self.private, self.phase
        if here is P.DRAWING:
            return On.READY if private.has_draw else None
        if here not in (P.WAITING, P.SPOKEN, P.SILENT):
            return None
        if private.update == self.session.rounds:
            return On.LAST
        # Before any move or turn: the next message must not be made if this key has spoken elsewhere.
        if self._is_misnamed():
            return On.MISNAMED
        # With one-shot noise an update needs the first message, so even a late agent makes that first.
        if private.update in self._kept and not private.lacks_shadow:
            before = cast(Feedback, self._kept[private.update].body).before
            return On.MOVE if before == self._heard else On.FORKED
        return self._turn() if here is P.WAITING else None

    def _is_misnamed(self) -> bool:
        """Whether relevant feedback names a message that this agent did not make.

        Feedback of a later round is checked when its round comes, because it may belong to another history.
        One-shot noise is an exception. It is drawn before that, and must not be drawn if this key may already
        have drawn it elsewhere.
        """
        if self.private.said is not None:
            return False
        message = self._claim if self.private.lacks_shadow else self._kept.get(self.private.update)
        if message is None:
            return False
        body = cast(Feedback, message.body)
        forked = body.round == self.private.update and body.before != self._heard
        return self._names_me(body.used) and not forked

    def _names_me(self, used: bytes) -> bool:
        return bool(used[self.number // 8] >> self.number % 8 & 1)

    def _turn(self) -> On | None:
        private = self.private
        if private.silent:
            return On.CAPPED
        # After a restart the message of this update may exist already: the same bytes go out, not new noise.
        if private.said is not None:
            return On.SAID
        # Without a shadow the agent cannot make an update. So it is drawn even if the round is over.
        if self._open == private.update or (private.lacks_shadow and self._open > private.update):
            return On.TURN if private.affords_next else On.CAPPED
        return None

    # ---- what is done -------------------------------------------------------------------------------

    def _enter(self, _: Any) -> None:
        self._announce()
        self._tell_missing(TELL_FIRST)

    def _waiting(self) -> Waiting | None:
        if self.phase in (P.FINISHED, P.STOPPED, P.DECLINED):
            return None
        return Waiting(self.private.update, (COORDINATOR,), 1)

    def _keep(self, message: Message) -> None:
        body = message.body
        assert isinstance(body, Feedback)
        # The limit bounds memory: the coordinator could sign feedback for every round of the session.
        if body.round < self.private.update + AHEAD:
            self._kept[body.round] = message
        # Without the limit: one-shot noise must not be drawn if any round, however far, names this agent.
        if self._names_me(body.used) and (body.round > self.private.update or self.private.said is None):
            self._claim = message
        self._learn(body.round + 1)

    def _opened(self, t: int) -> None:
        if t == self.private.update:
            # Unlike `_learn` this may lower `_open`: the coordinator still needs the message of this round.
            self._open = t
        else:
            self._learn(t)

    def _learn(self, t: int) -> None:
        """Note that round t is open; request the feedback missing up to it."""
        if t <= self._open:
            return
        self._open = t
        if self._ask_for_missed():
            self._notices.append(Behind(self.private.update, t))

    def _ask_for_missed(self) -> bool:
        """Request feedback from the own round on, if that is due.

        One answer brings up to `BATCH` rounds, so no second request is sent before these are used. If an
        answer is lost, the repeat timer asks again.
        """
        u = self.private.update
        if not u < self._open or u in self._kept or u < self._asked + BATCH:
            return False
        self._asked = u
        self._say(COORDINATOR, Ask(u))
        self._again(fresh=True)
        return True

    def _speak(self, subject: Any) -> None:
        super()._speak(subject)
        self._again(fresh=True)

    def _repeat(self, t: int) -> None:
        if t > self.private.update:
            self._learn(t)
        elif self._may_answer(COORDINATOR):
            self._say_again(None)

    def _say_again(self, _: Any, *, fresh: bool = True) -> None:
        """Send the same bytes again; without any, tell the own position."""
        private = self.private
        if private.said is not None:
            self._messages.append(Send(COORDINATOR, private.said))
        elif private.update < self._open:
            self._say(COORDINATOR, Ask(private.update))
        elif private.silent:
            self._say(COORDINATOR, Stop(private.update, Reason.CAP))
        else:
            self._say(COORDINATOR, Present(private.update))
        self._again(fresh=fresh)

    def _repeat_is_due(self) -> None:
        if self.phase in (P.WAITING, P.SPOKEN, P.SILENT):
            self._say_again(None, fresh=False)
        elif self.phase not in (P.FINISHED, P.STOPPED):
            self._again(fresh=False)

    def _move(self, _: Any) -> None:
        t = self.private.update
        message = self._kept.pop(t)
        body = message.body
        assert isinstance(body, Feedback)
        self._records.append(self.private.move(message.numbers, [message.frame], ()))
        self._newest = message.frame
        self._apply(message.digest, body.used, body.count)
        self._notices.append(Updated(t, body.count))
        if t + 1 < self.session.rounds:
            self._ask_for_missed()
        self._again(fresh=True)
        self._tell_missing(TELL_IN_ROUND)

    def _apply(self, heard: bytes, used: bytes, count: int) -> None:
        """Store the digest of applied feedback, and whose messages are in it."""
        self._heard = heard
        self._applied.append(heard)
        self._influence.hear(used, count)

    def _remind(self, asked: int) -> None:
        """Send the newest feedback to a coordinator that lost rounds.

        Its own key signed it. So a coordinator with an old ledger notices that, and stops before it signs a
        second feedback for a round.
        """
        self._refuse(Refused(Refusal.LATE, COORDINATOR))
        if self._newest is not None and self._may_answer(COORDINATOR):
            self._messages.append(Send(COORDINATOR, self._newest))
            self._notices.append(Forgotten(self.private.update, asked))

    def _dispute(self, _: Any) -> None:
        """Record feedback that names a message not made here, and stop.

        The coordinator may lie. Or another process uses the same key, or an old ledger was restored. Then
        noise drawn here would be drawn a second time for the same update. This agent cannot distinguish these
        cases, so it stops.
        """
        message = self._claim if self.private.lacks_shadow else self._kept[self.private.update]
        assert message is not None
        assert isinstance(message.body, Feedback)
        self.disputed, self._stopped = message.body.round, True
        # Equal digests of first and second mark a dispute: see `Evidence` and `_replay`.
        self._records.append(Evidence(COORDINATOR, self.disputed, message.digest, b"", message.frame))
        self._notices.append(DisputeFound(self.disputed))
        self._rest()

    def _drop(self, _: Any) -> None:
        message = self._kept.pop(self.private.update)
        self._accuse(self._forked(message))

    def _fall_silent(self, _: Any) -> None:
        self._silence()
        self._say(COORDINATOR, Stop(self.private.update, Reason.CAP))
        self._again(fresh=True)

    def _finish(self, _: Any) -> None:
        self._record_end()
        found = self._influence
        share = float(weights(self.session.mechanism)[self.number])
        self._notices.append(Weighed(found.weight, share, found.used, self.session.rounds))
        self._notices.append(Finished(self.session.rounds))
        self._rest()
        self._say(COORDINATOR, Done(self.session.rounds, self._heard))

    def _say_done(self, _: Any) -> None:
        if self._may_answer(COORDINATOR):
            self._say(COORDINATOR, Done(self.session.rounds, self._heard))

    @property
    def _reached(self) -> int:
        return self.private.update

    # ---- the table ------------------------------------------------------------------------------------

    _RUNNING: ClassVar[Short] = {
        On.FEEDBACK: _keep,
        On.ASKED: _opened,
        On.NOISE: PrivateMachine._take_noise,
        On.PAST: Machine._refuse,
        On.FORGOTTEN: _remind,
        On.JOINED: _say_again,
        On.STOP: (LeavingMember._end, P.STOPPED),
        On.HALT: (LeavingMember._leave, P.STOPPED),
        On.EXPIRED: (PrivateMachine._expire, P.STOPPED),
    }
    table: ClassVar[Table] = short(
        "agent",
        {
            P.IDLE: {
                On.START: (_enter, P.WAITING),
                On.OVER: (PrivateMachine._decline, P.DECLINED),
                (On.ENDED, On.HALT): P.STOPPED,
                On.EXPIRED: (PrivateMachine._expire, P.STOPPED),
                (On.TICK, On.JOINED): None,
                On.CONTRADICTED: Machine._misplaced,
            },
            P.WAITING: {
                **_RUNNING,
                On.SAID: (_say_again, P.SPOKEN),
                On.TURN: P.DRAWING,
                On.CAPPED: (_fall_silent, P.SILENT),
                On.MOVE: _move,
                On.FORKED: _drop,
                On.MISNAMED: (_dispute, P.STOPPED),
                On.LAST: (_finish, P.FINISHED),
            },
            P.DRAWING: {
                **_RUNNING,
                # Back to waiting, to choose again: the round may be over by now.
                On.FEEDBACK: (_keep, P.WAITING),
                On.ASKED: (_opened, P.WAITING),
                On.READY: (_speak, P.SPOKEN),
            },
            P.SPOKEN: {**_RUNNING, On.ASKED: _repeat, On.MOVE: (_move, P.WAITING), On.FORKED: _drop},
            P.SILENT: {
                **_RUNNING,
                On.MOVE: _move,
                On.FORKED: _drop,
                On.MISNAMED: (_dispute, P.STOPPED),
                On.LAST: (_finish, P.FINISHED),
            },
            P.FINISHED: {
                (On.PAST, On.JOINED): _say_done,
                On.FORGOTTEN: _remind,
                (On.STOP, On.HALT, On.EXPIRED): None,
                (On.FEEDBACK, On.ASKED): Machine._impossible,
            },
            P.STOPPED: {
                (On.FEEDBACK, On.ASKED, On.PAST, On.FORGOTTEN, On.JOINED): LeavingMember._say_stopped,
                (On.STOP, On.HALT, On.EXPIRED): None,
            },
            P.DECLINED: {
                (On.JOINED, On.HALT, On.EXPIRED): None,
                On.CONTRADICTED: Machine._misplaced,
            },
        },
    )
