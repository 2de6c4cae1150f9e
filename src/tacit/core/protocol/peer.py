"""An agent of the distributed mechanism (section 4 of the paper).

There is no server. An agent sends its message to its neighbours. When the messages of all live neighbours
have arrived, or at the deadline with the quorum, it moves towards the mean of its own message and theirs. It
requests missed messages from its neighbours. If all of them are past a round, nobody would use its own
message there. So it sends none and moves towards the mean of theirs, which costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, ClassVar, Self, final

import numpy as np

from tacit.base.errors import ParameterError, StateError
from tacit.core.protocol.codec import Sign, as_numbers, digest, history
from tacit.core.protocol.effects import NoiseReady, Send
from tacit.core.protocol.keyring import Keyring
from tacit.core.protocol.machine import AHEAD, BATCH, REMEMBERED, TELL_FIRST, TELL_IN_ROUND, Machine
from tacit.core.protocol.messages import (
    NOTHING_HEARD,
    Ask,
    Done,
    Message,
    Present,
    Reason,
    Refusal,
    Report,
    Stop,
)
from tacit.core.protocol.moving import Moving
from tacit.core.protocol.notices import (
    Behind,
    Finished,
    Quiet,
    Refused,
    RoundClosed,
    Spoken,
    Updated,
    Waiting,
)
from tacit.core.protocol.private_state import Budget, MixingState, OwnNoise, as_draw, require_began
from tacit.core.protocol.records import Ended, Evidence, Moved, Record, Silenced, Spoke
from tacit.core.protocol.session import Session
from tacit.core.protocol.tables import On, Short, Table, short
from tacit.core.protocol.tables import PeerPhase as P


@final
class PeerMachine(Machine):
    """One agent of a graph; holds its private state.

    Parameters
    ----------
    session, number, value, sign, budget, motion
        As for `AgentMachine`.

    Attributes
    ----------
    private : MixingState
        Its state, its messages, and their loss.
    live : set of int
        The neighbours that a round waits for. A neighbour becomes live by a valid signature. It is no longer
        live if it misses a deadline, until its next message. After the start of round 0, a lost connection
        alone does not change this.
    done : set of int
        The neighbours that have made all their updates.
    """

    private: MixingState

    def __init__(
        self,
        session: Session,
        number: int,
        value: Any,
        *,
        sign: Sign,
        budget: Budget,
        motion: Moving | None = None,
    ) -> None:
        cover = self._set_up(session, number, sign)
        self.private = MixingState(self.codec, number, budget, cover, value, motion=motion)
        self._unsaved.extend(self.private.first)

    @classmethod
    def resume(
        cls,
        session: Session,
        number: int,
        records: Iterable[Record],
        *,
        sign: Sign,
        budget: Budget,
        motion: Moving | None = None,
    ) -> Self:
        """Rebuild it from its records.

        `budget.spent` is the loss before this session; the records say what was spent in it.
        """
        peer = cls.__new__(cls)
        cover = peer._set_up(session, number, sign)
        began, rest = require_began(peer.codec, number, records)
        peer.private = MixingState(peer.codec, number, budget, cover, began=began, motion=motion)
        peer.live = set(peer._neighbours)  # they were there: wait for them
        for record in rest:
            peer._replay(record)
        return peer

    def _set_up(self, session: Session, number: int, sign: Sign) -> OwnNoise:
        if session.edges is None:
            raise ParameterError(f"session {session.name} has a coordinator: its agents are not peers.")
        super().__init__(session, number, sign)
        self._neighbours = frozenset(session.neighbours(number))
        self.live: set[int] = set()
        self.done: set[int] = set()
        self._at = dict.fromkeys(self._neighbours, -1)  # the furthest update each is known to be at
        self._asked = dict.fromkeys(self._neighbours, -BATCH)  # from which round each was asked last
        self._silent: dict[int, int] = {}  # since which update a neighbour says nothing
        self._kept: dict[int, dict[int, Message]] = {}  # by round, from the own one on, at most AHEAD
        self._past: deque[dict[int, bytes]] = deque(maxlen=REMEMBERED)
        self._said: dict[int, bytes] = {}  # the own frames of all rounds
        self._heard = NOTHING_HEARD
        self._greeted = self._graced = False
        return OwnNoise(self.codec, number, sign, Keyring(self.codec, number))

    def _replay(self, record: Record) -> None:
        self.private.replay(record)
        match record:
            case Spoke():
                self._said[record.update] = record.frame
            case Moved():
                # The same chain of digests as before the restart: the next report commits to it.
                digests = [digest(frame) for frame in record.heard]
                self._past.append(dict(zip(record.used, digests, strict=True)))
                self._heard = history(self._heard, digests)
            case Evidence():
                self._evidence[record.sender, record.round] = record.second
            case Ended():
                self._ended, self._stopped = True, record.reason is not None
            case Silenced():
                pass
            case _:
                raise StateError("these are not a peer's records.")

    @property
    def update(self) -> int:
        """How many updates it has made."""
        return self.private.update

    @property
    def wants_noise(self) -> int | None:
        """The update a draw is needed for now, if any."""
        return self.private.update if self.phase is P.DRAWING and not self.private.has_draw else None

    @property
    def _others(self) -> frozenset[int]:
        return self._neighbours

    @property
    def missing(self) -> tuple[int, ...]:
        """The neighbours whose message of the own round is missing."""
        return tuple(sorted(filter(self._lacks, self.live)))

    @property
    def _now(self) -> dict[int, Message]:
        return self._kept.get(self.private.update, {})

    def _speaks(self, j: int) -> bool:
        return self.private.update < self._silent.get(j, self.session.rounds)

    # ---- what happened? -----------------------------------------------------------------------------

    def _classify_start(self) -> On:
        if self._stopped:
            return On.ENDED
        # Only for a new session. One that has begun goes on: every message is still checked.
        return On.OVER if self._unsaved and self.private.is_declined else On.START

    def _classify_own(self, message: Message) -> tuple[On, Any]:
        """Stop if this key has signed something that the ledger does not have."""
        self.private.require_own(message)
        return super()._classify_own(message)

    def _classify_message(self, message: Message) -> tuple[On, Any]:
        body = message.body
        if isinstance(body, Report):
            return self._classify_report(message, body)
        kind = {Present: On.PRESENT, Ask: On.ASKED, Done: On.DONE, Stop: On.QUIET}[type(body)]
        return kind, message

    def _classify_report(self, message: Message, body: Report) -> tuple[On, Any]:
        known = self._known(body.update, message.sender)
        if known == message.digest:
            return On.PAST, Refused(Refusal.REPLAY, message.sender)
        if known is not None:
            kept = self._kept.get(body.update, {}).get(message.sender)
            first = b"" if kept is None else kept.frame
            return On.CONTRADICTED, Evidence(message.sender, body.update, known, first, message.frame)
        if body.update < self.private.update:
            return On.PAST, Refused(Refusal.LATE, message.sender)
        return On.REPORT, message

    def _known(self, u: int, sender: int) -> bytes | None:
        back = self.private.update - u
        if back <= 0:
            kept = self._kept.get(u, {}).get(sender)
            return None if kept is None else kept.digest
        return self._past[-back].get(sender) if back <= len(self._past) else None

    def _due(self) -> On | None:
        match self.phase:
            case P.GATHERING:
                return On.ENOUGH if self._enough() else None
            case P.CHOOSING:
                return self._choice()
            case P.DRAWING:
                return On.READY if self.private.has_draw else None
            case P.COLLECTING | P.FOLLOWING:
                return On.MOVE if self._complete() else None
            case P.SERVING:
                return On.ALL_DONE if self._expired or self._neighbours <= self.done else None
        return None

    def _enough(self) -> bool:
        """Whether round 0 may begin.

        All neighbours are present, or enough of them at the deadline, or others have begun.
        """
        # After a restart: it had begun.
        if self.private.update or self.private.said is not None:
            return True
        here = len(self.live)
        enough = here == len(self._neighbours) or (self._expired and here + 1 >= self._least_start)
        return enough or self._graced

    @property
    def _least_start(self) -> int:
        """How many of the closed neighbourhood must be present before round 0."""
        return min(self.session.least_start, len(self._neighbours) + 1)

    @property
    def _least_messages(self) -> int:
        """How many messages of this agent and its neighbours a round must have."""
        return max(1, min(self.session.least_quorum, len(self._neighbours) + self._has_spoken))

    @property
    def _has_spoken(self) -> bool:
        return self.private.said is not None

    def _choice(self) -> On:
        private = self.private
        if private.update == self.session.rounds:
            return On.LAST
        if private.silent:
            return On.CAPPED
        # Made before a restart: the same bytes go out again, not a second draw.
        if private.said is not None:
            return On.SAID
        # Catching up costs nothing: nobody would use this message. But one-shot noise must be drawn once.
        if self._all_beyond() and not private.lacks_shadow:
            return On.SKIP
        return On.TURN if private.affords_next else On.CAPPED

    def _all_beyond(self) -> bool:
        """Whether all neighbours are past this round and need no message of it.

        At least one of them must have sent one, or there would be no mean to move to.
        """
        beyond = all(at > self.private.update for at in self._at.values())
        return beyond and any(map(self._speaks, self._neighbours))

    def _complete(self) -> bool:
        heard = self._now
        if len(heard) + self._has_spoken < self._least_messages:
            return False
        return self._expired or not any(j not in heard and self._speaks(j) for j in self.live)

    # ---- hearing ------------------------------------------------------------------------------------

    def _see(self, who: int, update: int) -> None:
        self.live.add(who)
        self._at[who] = max(self._at[who], update)
        if update > 0 and self.phase is P.GATHERING and not self._greeted:
            # Others have begun. Wait for all of them first: if all are past this round, send no message.
            self._greeted = True
            self._timers.set("grace", 2 * self.session.deadlines.repeat)

    def _grace_is_due(self) -> None:
        self._graced = True

    def _enter(self, _: Any) -> None:
        self._notices.append(self.private.cost())
        self._say(None, Present(self.private.update))
        self._again(fresh=True)
        self._timers.set("deadline", self.session.deadlines.start)
        self._tell_missing(TELL_FIRST)

    def _keep(self, message: Message) -> None:
        body = message.body
        assert isinstance(body, Report)
        behind = self._behind()
        self._see(message.sender, body.update)
        # The limit bounds memory: a neighbour could sign messages for every round. Later ones are requested.
        if body.update < self.private.update + AHEAD:
            self._kept.setdefault(body.update, {})[message.sender] = message
        self._note_behind(behind)

    def _behind(self) -> bool:
        return max(self._at.values()) > self.private.update

    def _note_behind(self, before: bool) -> None:
        """Request missing messages at once if neighbours turn out to be further."""
        if not before and self._behind():
            self._notices.append(Behind(self.private.update, max(self._at.values())))
            self._ask_for_missed()

    def _ask_for_missed(self) -> None:
        """Ask neighbours that must have sent, if that is due.

        One answer brings up to `BATCH` rounds, so nobody is asked again before these are used. The repeat
        timer asks again if an answer was lost.
        """
        u = self.private.update
        for j in sorted(self._neighbours):
            if self._lacks(j) and self._at[j] >= u >= self._asked[j] + BATCH:
                self._asked[j] = u
                self._say(j, Ask(u))

    def _lacks(self, j: int) -> bool:
        return j not in self._now and self._speaks(j)

    def _arrived(self, message: Message) -> None:
        body, behind = message.body, self._behind()
        assert isinstance(body, Present)
        new = message.sender not in self.live
        self._see(message.sender, body.update)
        if body.update == self.session.rounds:
            self.done.add(message.sender)
        elif new or self.phase is P.FINISHED:
            # A finished peer repeats nothing on its own. If its first answer was lost, this one is needed.
            self._greet(message.sender)
        self._note_behind(behind)

    def _greet(self, who: int) -> None:
        """Tell a neighbour that has just connected which update this agent is at."""
        if not self._may_answer(who):
            return
        if self.phase in (P.SERVING, P.FINISHED):
            self._say(who, Done(self.session.rounds, self._heard))
        elif self.private.said is not None:
            self._messages.append(Send(who, self.private.said))
        else:
            self._say(who, Present(self.private.update))

    def _answer(self, message: Message) -> None:
        """Repeat own messages from the requested round on, and the newest.

        The newest comes first: it tells the neighbour how far this agent is, so that the neighbour need not
        send messages for the rounds in between. All are recorded bytes; nothing is made anew.
        """
        body, who, behind = message.body, message.sender, self._behind()
        assert isinstance(body, Ask)
        self._see(who, body.round)
        if self._may_answer(who):
            frames = [self._said[u] for u in range(body.round, body.round + BATCH) if u in self._said]
            newest = self._said[max(self._said)] if self._said else None
            if newest is not None and newest not in frames and max(self._said) > body.round:
                self._messages.append(Send(who, newest))
            for frame in frames:
                self._messages.append(Send(who, frame))
            if not frames:
                self._say(who, self._position())
        self._note_behind(behind)

    def _position(self) -> Present | Stop:
        if self.private.silent:
            return Stop(self.private.update, Reason.CAP)
        return Present(self.private.update)

    def _left(self, who: int) -> None:
        self.live.discard(who)

    def _note_quiet(self, message: Message) -> None:
        body = message.body
        assert isinstance(body, Stop)
        self._see(message.sender, body.update)
        if message.sender not in self._silent:
            self._silent[message.sender] = body.update
            self._notices.append(Quiet(message.sender, body.update))
        if body.reason is not Reason.CAP:  # it has left for good
            self.live.discard(message.sender)
            self.done.add(message.sender)

    def _note_done(self, message: Message) -> None:
        behind = self._behind()
        self._see(message.sender, self.session.rounds)
        self.done.add(message.sender)
        self._note_behind(behind)
        if self.phase is P.FINISHED and self._may_answer(message.sender):
            self._say(message.sender, Present(self.session.rounds))  # it has not heard that we are done

    # ---- speaking and moving ------------------------------------------------------------------------

    def _take_noise(self, event: NoiseReady) -> None:
        if not self.private.lacks_draw(event.update):
            self._refuse(Refused(Refusal.SECOND_DRAW))
            return
        # One draw for several components would give them the same noise, and differences none.
        if np.size(event.draw) != self.session.components:
            raise StateError(f"noise must have {self.session.components} components, as the value has.")
        self.private.draws[event.update] = event.draw if type(event.draw) is int else as_draw(event.draw)

    def _speak(self, _: Any) -> None:
        """Make message `update`, once, and send it; saved first, as agents do."""
        spoke = self.private.speak(self._heard)
        self._records.append(spoke)
        self._messages.append(Send(None, spoke.frame))
        self._notices.append(Spoken(spoke.update, self.private.spent))
        self._said[spoke.update] = spoke.frame
        self._follow(None)

    def _say_again(self, _: Any) -> None:
        """Send the same bytes to all neighbours, and start to wait for theirs."""
        assert self.private.said is not None
        self._messages.append(Send(None, self.private.said))
        self._follow(None)

    def _follow(self, _: Any) -> None:
        """Wait for the neighbours' messages of the own round."""
        self._expired = False
        self._timers.set("deadline", self.session.deadlines.round)
        self._tell_missing(TELL_IN_ROUND)
        self._again(fresh=True)
        if self._behind():
            self._ask_for_missed()

    def _fall_silent(self, _: Any) -> None:
        if not self.private.silent:
            record, told = self.private.fall_silent()
            self._records.append(record)
            self._notices.append(told)
            self._say(None, Stop(self.private.update, Reason.CAP))
        self._follow(None)

    def _move(self, _: Any) -> None:
        """Phases (ii) to (iv): move to the mean of the messages; record both."""
        # Before the messages of this round are removed.
        t, missing = self.private.update, self.missing
        without = tuple(sorted(filter(self._lacks, self._neighbours)))
        used = self._kept.pop(t, {})
        # The own message counts as it was sent, with its noise. The private state must not enter the mean:
        # the update would then depend on more than public numbers, and the account would not hold.
        if self.private.said is not None:
            used[self.number] = self.codec.own(self.private.said)
        whose = tuple(sorted(used))
        messages = [used[i] for i in whose]
        counts = self.session.counts(self.number, whose)
        y = as_numbers(self.session.lattice.mean([self.codec.lifted(m) for m in messages], counts))
        self._records.append(self.private.move(y, [m.frame for m in messages], whose))
        self._heard = history(self._heard, (m.digest for m in messages))
        self._past.append({m.sender: m.digest for m in messages})
        self._last = {(m.sender, t): m.frame for m in messages}
        # The next round does not wait for those who missed this deadline, until their next message.
        self.live -= set(missing)
        self._notices += [RoundClosed(t, whose, without), Updated(t, len(whose))]

    # ---- time ---------------------------------------------------------------------------------------

    def _waiting(self) -> Waiting | None:
        """Return which neighbours are missing, and how many of them are needed."""
        if self.phase is P.GATHERING:
            here, needed = set(self.live), self._least_start - len(self.live) - 1
        elif self.phase in (P.COLLECTING, P.FOLLOWING):
            here, needed = set(self._now), self._least_messages - len(self._now) - self._has_spoken
        else:
            return None
        absent = tuple(sorted(j for j in self._neighbours if j not in here and self._speaks(j)))
        return Waiting(self.private.update, absent, max(0, needed)) if absent else None

    def _repeat_is_due(self) -> None:
        if self.phase is P.GATHERING:
            self._say(None, Present(self.private.update))
        elif self.phase in (P.COLLECTING, P.FOLLOWING):
            for j in sorted(filter(self._lacks, self._neighbours)):
                self._say(j, Ask(self.private.update))
        elif self.phase is P.SERVING:
            for j in sorted(self._neighbours - self.done):
                self._say(j, Done(self.session.rounds, self._heard))
        if self.phase not in (P.FINISHED, P.STOPPED):
            self._again(fresh=False)

    # ---- the end ------------------------------------------------------------------------------------

    def _serve(self, _: Any) -> None:
        """Keep running after the last update until the neighbours made theirs."""
        self._expired = False
        self._timers.off("missing")
        seconds = self.return_time if self._ended else self.session.deadlines.start
        self._timers.set("deadline", seconds)
        self._again(fresh=True)
        if not self._ended:
            self._ended = True
            self._records.append(Ended(self.session.rounds, None))
        self._say(None, Done(self.session.rounds, self._heard))

    def _finish(self, _: Any) -> None:
        self._rest()
        self._notices.append(Finished(self.session.rounds))

    def _decline(self, _: Any) -> None:
        self._notices.append(self.private.beyond_cap())

    def _leave(self, _: Any) -> None:
        self._record_stop(Reason.OPERATOR)
        self._say(None, Stop(self._silent_from, Reason.OPERATOR))

    @property
    def _reached(self) -> int:
        return self.private.update

    @property
    def _silent_from(self) -> int:
        # The message of this update may be out already: neighbours still wait for it and use it.
        return self.private.update + (self.private.said is not None)

    def _say_stopped(self, about: Any) -> None:
        """Tell a neighbour that sends that this agent has left.

        After a restart `about` is None, and all neighbours are told.
        """
        who = about.sender if isinstance(about, Message) else None
        if who is None or self._may_answer(who):
            self._say(who, Stop(self._silent_from, Reason.OPERATOR))

    # ---- the table ------------------------------------------------------------------------------------

    _THERE: ClassVar[Short] = {On.JOINED: _greet, On.ASKED: _answer, On.PAST: Machine._refuse}
    _LISTENING: ClassVar[Short] = {
        **_THERE,
        On.PRESENT: _arrived,
        On.DONE: _note_done,
        On.QUIET: _note_quiet,
    }
    _RUNNING: ClassVar[Short] = {
        **_LISTENING,
        On.REPORT: _keep,
        On.NOISE: _take_noise,
        On.HALT: (_leave, P.STOPPED),
        On.EXPIRED: (Machine._expire, P.STOPPED),
    }
    table: ClassVar[Table] = short(
        "peer",
        {
            P.IDLE: {
                On.START: (_enter, P.GATHERING),
                On.OVER: (_decline, P.DECLINED),
                On.ENDED: (_say_stopped, P.STOPPED),
                On.HALT: P.STOPPED,
                On.EXPIRED: (Machine._expire, P.STOPPED),
                (On.TICK, On.JOINED): None,
                On.CONTRADICTED: Machine._misplaced,
            },
            P.GATHERING: {**_RUNNING, On.LEFT: _left, On.ENOUGH: P.CHOOSING},
            P.CHOOSING: {  # never rests here: one of these holds
                On.TURN: P.DRAWING,
                On.SAID: (_say_again, P.COLLECTING),
                On.SKIP: (_follow, P.FOLLOWING),
                On.CAPPED: (_fall_silent, P.FOLLOWING),
                On.LAST: (_serve, P.SERVING),
                ...: Machine._impossible,
            },
            P.DRAWING: {**_RUNNING, On.READY: (_speak, P.COLLECTING)},
            P.COLLECTING: {**_RUNNING, On.MOVE: (_move, P.CHOOSING)},
            P.FOLLOWING: {**_RUNNING, On.MOVE: (_move, P.CHOOSING)},
            P.SERVING: {
                **_LISTENING,
                On.REPORT: Machine._impossible,
                On.HALT: None,
                (On.EXPIRED, On.ALL_DONE): (_finish, P.FINISHED),
            },
            P.FINISHED: {**_LISTENING, On.REPORT: Machine._impossible, (On.HALT, On.EXPIRED): None},
            P.STOPPED: {
                **_THERE,
                (On.REPORT, On.PRESENT, On.DONE, On.QUIET): _say_stopped,
                (On.HALT, On.EXPIRED): None,
            },
            P.DECLINED: {
                (On.TICK, On.JOINED, On.HALT, On.EXPIRED): None,
                On.CONTRADICTED: Machine._misplaced,
            },
        },
    )
