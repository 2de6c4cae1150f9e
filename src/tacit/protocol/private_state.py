"""An agent's private state, with one draw and one message per update.

Message u is made from the state after u updates. Two adjacent states are then at most D_u steps apart
(`tacit.noise.accounting`), and the noise is that of update u, whatever the round, the schedule or the
feedback. So the loss of message u is known beforehand. An update without a message costs nothing, and later
messages cost the same.

An update must move towards something public: feedback, or messages that were sent. If it used anything else
of the agent, two adjacent states would not approach each other as fast as the accounting assumes, and the
loss would be larger than promised.

`PrivateMachine` is the base class of agents and peers: this state, a cap, and noise from outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias, final

import numpy as np

from tacit.errors import LedgerError, ParameterError, StateError
from tacit.mechanism.whole import Whole, as_whole
from tacit.protocol.codec import Codec, Sign, as_array, digest
from tacit.protocol.effects import Cost, FellSilent, NoiseReady, OverCap, Refused, Send, Spoken, Stopped
from tacit.protocol.exact_loss import exact, up, within
from tacit.protocol.machine import Machine
from tacit.protocol.messages import Masked, Message, Present, Reason, Refusal, Report
from tacit.protocol.records import Began, Ended, Evidence, Moved, Record, Silenced, Spoke, require_order
from tacit.protocol.session import Session
from tacit.protocol.tables import AgentPhase, On, PeerPhase

Cover: TypeAlias = Callable[[Whole, Report], Report]
"""Takes the numbers of a message, and the message without them; returns the message to sign."""

DRAWS_AHEAD = 4
"""A draw is kept for at most this many updates ahead."""


@final
@dataclass(frozen=True)
class Budget:
    """What the owner allows.

    Parameters
    ----------
    cap : float
        The largest loss on this value, over all sessions together, for their adjacency.
    spent : float
        The loss of earlier sessions on it.
    partial : bool
        Whether to take part even if the whole session would exceed the cap, and stop sending in time.
        Otherwise such a session is refused before anything is sent.
    """

    cap: float
    spent: float = 0.0
    partial: bool = False

    def __post_init__(self) -> None:
        if not (self.cap >= 0 and 0 <= self.spent < math.inf):
            raise ParameterError(
                f"the cap and what was spent must be at least 0, got {self.cap} and {self.spent}."
            )


@final
class PrivateState:
    """The private part of an agent: its state, its messages, and their loss.

    Parameters
    ----------
    state : int or array of them
        In state steps, as `Lattice.start` gives it; a plain number if there is one component.
    clamped : bool
        Whether the value was outside the range; kept for the owner.
    """

    def __init__(
        self,
        codec: Codec,
        number: int,
        sign: Sign,
        budget: Budget,
        state: Whole,
        *,
        clamped: bool = False,
    ) -> None:
        session = codec.session
        if np.size(state) != session.components:
            raise StateError(f"a value must have {session.components} components in this session.")
        self._codec, self._sign = codec, sign
        self._agent = session.lattice_agent(number)
        self.number, self.budget = number, budget
        self.update = 0
        self.said: bytes | None = None
        """The bytes of message `update`, once it is made."""
        self.digests: dict[int, bytes] = {}
        """Digests of all messages made, by update."""
        self.silent = False
        self.feedback: tuple[int, ...] | None = None
        """The last feedback that it moved towards; public."""
        self.clamped = clamped
        self._state = state
        # One-shot noise: the shadow is the first message, moved like the state. Later messages report it, so
        # the noise of the first one protects them too. With keepers there is one exchange, and no shadow.
        self._shadow: Whole | None = None
        self._shadowed = session.mechanism.shadowed and not session.keepers
        self.draws: dict[int, Whole] = {}
        """Draws for this update and later ones; each is used in one message."""
        self._losses = session.account(number).per_message
        self._planned = session.planned(number)
        self._before, self._spent = exact(float(budget.spent)), 0  # exactly: see `exact`

    def __repr__(self) -> str:
        return f"<PrivateState of agent {self.number}, {self.update} updates>"

    # ---- what it costs ----------------------------------------------------------------------------

    @property
    def planned(self) -> float:
        """The loss of this session if every message is sent, rounded up."""
        return up(self._planned)

    @property
    def spent(self) -> float:
        """The loss on this value so far, including earlier sessions, rounded up."""
        return up(self._before + self._spent)

    @property
    def spent_here(self) -> float:
        """The loss of this session so far, rounded up."""
        return up(self._spent)

    @property
    def over_cap(self) -> bool:
        """Whether the whole session would exceed the cap."""
        return not within(self._before + self._planned, self.budget.cap)

    @property
    def affords_next(self) -> bool:
        """Whether message `update` can be sent without exceeding the cap."""
        cost = self._before + self._spent + exact(float(self._losses[self.update]))
        return within(cost, self.budget.cap)

    # ---- noise ------------------------------------------------------------------------------------

    @property
    def has_draw(self) -> bool:
        """Whether message `update` could be made now."""
        return not self.draws_own(self.update) or self.update in self.draws

    def draws_own(self, u: int) -> bool:
        """Whether message u carries noise of its own."""
        # With keepers, the keepers draw the noise, and the message is masked instead.
        return not self._codec.session.keepers and self._agent.speaks(u)

    def lacks_draw(self, u: int) -> bool:
        """Whether a draw for update u may be stored: only the first one may.

        Otherwise a driver that asks twice could pick one of two draws, and the noise would be biased. The
        draw of a message that was made is used up, even after a restart.
        """
        near = self.update <= u < self.update + DRAWS_AHEAD and not self.silent
        taken = u in self.draws or (u == self.update and self.said is not None)
        return near and not taken and self.draws_own(u)

    # ---- the paper's phases (i) and (iv) ------------------------------------------------------------

    @property
    def lacks_shadow(self) -> bool:
        """Whether one-shot noise must still be drawn before the agent moves."""
        return self._shadowed and self._shadow is None and not self.silent

    def speak(self, heard: bytes, cover: Cover | None = None) -> Spoke:
        """Make message `update`, once. `cover` masks it.

        `said` keeps its bytes for repetitions.
        """
        # Checked here and not only by callers: two messages of one update, with two draws, would reveal more
        # than the account says.
        if self.said is not None or self.silent or not self.affords_next:
            raise StateError("one message is made for each update, and none beyond the cap.")
        u = self.update
        # Removed from the store, so that no other message can carry the same noise.
        draw = self.draws.pop(u) if self.draws_own(u) else 0
        x = self._agent.report(self._state if self._shadow is None else self._shadow, u, draw)
        exponent = self._codec.session.exponent(self.number, u)
        if cover is not None:
            # Without its own noise, x is as private as the state, so it must never be sent without masks.
            body = cover(x, Report(u, exponent, b"", heard))
        else:
            body = Report(u, exponent, self._codec.pack(x), heard)
        if self._codec.session.keepers and not isinstance(body, Masked):
            raise StateError("a message to keepers must be masked: it carries no noise of its own.")
        self.said = self._codec.seal(self.number, body, self._sign)
        self.digests[u] = digest(self.said)
        # Counted when the message is made. Whether anyone receives it cannot be known.
        loss = float(self._losses[u])
        self._spent += exact(loss)
        if self.lacks_shadow:
            self._shadow = self._agent.lattice.lifted(x, exponent)
        return Spoke(u, self.said, loss)

    def move(self, y: tuple[int, ...], heard: Iterable[bytes], used: Iterable[int]) -> Moved:
        """Make an update towards y, which must be public; eq:upd and eq:upd_dis."""
        towards = as_array(y)
        self._state = self._agent.update(self._state, towards)
        if self._shadow is not None:
            self._shadow = self._agent.update(self._shadow, towards)
        pack = self._codec.pack
        shadow = b"" if self._shadow is None else pack(self._shadow)
        moved = Moved(self.update, tuple(heard), tuple(used), pack(y), pack(self._state), shadow)
        # An update without a message leaves its draw unused. It has this update's scale, so it fits no other.
        self.draws.pop(self.update, None)
        self.update, self.said, self.feedback = self.update + 1, None, y
        return moved

    def fall_silent(self, record: Silenced) -> Silenced:
        """Send nothing from here on."""
        self.silent = True
        self.draws.clear()
        return record

    def value(self) -> Any:
        """Return the private state as the nearest float, or one per component."""
        return self._agent.lattice.value(self._state)

    # ---- from a ledger and back ---------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """Apply a record from a ledger."""
        match record:
            case Spoke():
                require_order(record.update == self.update and self.said is None)
                # With the signature checked: bytes of a damaged ledger must not be sent as this message.
                message = self._codec.open(record.frame)
                require_order(isinstance(message, Message) and message.sender == self.number)
                assert isinstance(message, Message)
                assert isinstance(message.body, Report)
                self.said, self.digests[record.update] = record.frame, digest(record.frame)
                # The recorded loss counts, even if this version would compute another one.
                self._spent += exact(record.loss)
                if self.lacks_shadow:
                    exponent = message.body.exponent
                    self._shadow = self._agent.lattice.lifted(as_array(message.numbers), exponent)
            case Moved():
                require_order(record.update == self.update)
                self._state = as_array(self._codec.unpack(record.state))
                self._shadow = as_array(self._codec.unpack(record.basis)) if record.basis else None
                self.update, self.said = self.update + 1, None
                self.feedback = self._codec.unpack(record.y)
            case Silenced():
                self.silent = True
            case _:
                pass


def resumed_state(
    codec: Codec, number: int, sign: Sign, budget: Budget, records: Iterable[Record]
) -> tuple[PrivateState, list[Record]]:
    """Rebuild a private state from its records; return both."""
    kept = list(records)
    first = kept[0] if kept else None
    if not isinstance(first, Began):
        raise StateError("an agent's records must start with how it began.")
    if first.session != codec.session.id or first.agent != number:
        raise StateError("these records belong to another session or another agent.")
    state = as_array(codec.unpack(first.state))
    private = PrivateState(codec, number, sign, budget, state, clamped=first.clamped)
    for record in kept[1:]:
        private.replay(record)
    return private, kept


class PrivateMachine(Machine):
    """A machine that acts for the owner of a private value.

    Parameters
    ----------
    session : Session
        What all agreed on.
    number : int
        Which agent of the roster this is.
    value : number or vector
        θ(0), private.
    sign : callable
        Signs with the agent's own key.
    budget : Budget
        What the owner allows.
    """

    _audience: ClassVar[int | None] = None
    """The receiver of its messages: all neighbours, or the coordinator."""
    _first: Began | None
    """The record that must be saved before all others; None once it is made."""
    _heard: bytes
    """The digest that commits to everything its updates were made from."""

    def __init__(self, session: Session, number: int, value: Any, *, sign: Sign, budget: Budget) -> None:
        lattice, numbers = session.lattice, np.asarray(value, dtype=object)
        # A value outside the range is clamped, not refused: a refusal would show something of the value.
        state = lattice.start(numbers if numbers.size > 1 else numbers.reshape(())[()])
        clamped = not all(lattice.low <= v <= lattice.high for v in numbers.flat)
        private = PrivateState(Codec(session), number, sign, budget, state, clamped=clamped)
        self._set_up(session, number, sign, private)
        packed, cap = self.codec.pack(state), float(budget.cap)
        self._first = Began(session.id, number, packed, private.planned, budget.spent, cap, clamped)

    @classmethod
    def resume(
        cls, session: Session, number: int, records: Iterable[Record], *, sign: Sign, budget: Budget
    ) -> Self:
        """Rebuild it from its records.

        `budget.spent` is the loss before this session; the records say what was spent in it.
        """
        private, kept = resumed_state(Codec(session), number, sign, budget, records)
        machine = cls.__new__(cls)
        machine._set_up(session, number, sign, private)
        for record in kept:
            machine._replay(record)
        return machine

    def _set_up(self, session: Session, number: int, sign: Sign, private: PrivateState) -> None:
        super().__init__(session, number, sign)
        self.private = private
        self._first = None
        self._stopped = False

    def _replay(self, record: Record) -> None:
        if isinstance(record, Ended):
            self._ended = True
            self._stopped = record.reason is not None
        elif isinstance(record, Evidence):
            self._evidence[record.sender, record.round] = record.second

    @property
    def _covers(self) -> tuple[Cover, ...]:
        """What masks a message before it is signed; empty without keepers."""
        return ()

    @property
    def update(self) -> int:
        """How many updates this agent has made."""
        return self.private.update

    @property
    def wants_noise(self) -> int | None:
        """The update a draw is needed for now, if any."""
        drawing = self.phase in (AgentPhase.DRAWING, PeerPhase.DRAWING)
        return self.private.update if drawing and not self.private.has_draw else None

    def value(self) -> Any:
        """Return the private state as the nearest float, or one per component."""
        return self.private.value()

    def _classify_start(self) -> On:
        if self._stopped:
            return On.ENDED
        # Only for a new session. One that has begun goes on: `affords_next` still checks every message.
        over = self._first is not None and self.private.over_cap and not self.private.budget.partial
        return On.OVER if over else On.START

    def _classify_own(self, message: Message) -> tuple[On, Any]:
        """Stop if someone has a message of this agent that is not in its records.

        Its ledger is old, or another process uses its key. Going on would draw noise a second time.
        """
        body = message.body
        if isinstance(body, Report) and self.private.digests.get(body.update) != message.digest:
            raise self._spoken_elsewhere(body.update)
        return super()._classify_own(message)

    def _spoken_elsewhere(self, update: int) -> LedgerError:
        return LedgerError(
            f"{self.session.member_name(self.number)} sent message {update}, but not from this ledger: "
            "another process uses the same key, or an old ledger was put back. Noise drawn a second time "
            "could reveal the value, so nothing more is sent from here. Continue with the process or ledger "
            "that sent the message."
        )

    def _announce(self) -> None:
        """Announce that this agent is present.

        The record of its initial state is saved before anything is sent: `resume` continues from it, and the
        ledger can reserve the planned loss before others count on this agent.
        """
        private = self.private
        if self._first is not None:
            self._records.append(self._first)
            self._first = None
        self._notices.append(Cost(private.planned, private.spent, private.budget.cap))
        self._say(self._audience, Present(private.update))
        self._again(fresh=True)

    def _decline(self, _: Any) -> None:
        private = self.private
        self._notices.append(OverCap(private.planned, private.spent, private.budget.cap))

    def _take_noise(self, event: NoiseReady) -> None:
        if not self.private.lacks_draw(event.update):
            self._refuse(Refused(Refusal.SECOND_DRAW))
            return
        draw: Whole = event.draw
        if type(draw) is not int:
            whole = as_whole(draw, "noise")
            draw = whole if isinstance(whole, int) else as_array(whole)
        # One draw for several components would give them the same noise, and differences none.
        if np.size(draw) != self.session.components:
            raise StateError(f"noise must have {self.session.components} components, as the value has.")
        self.private.draws[event.update] = draw

    def _speak(self, _: Any) -> None:
        """Make message `update`, once, and send it."""
        spoke = self.private.speak(self._heard, *self._covers)
        # Saved before it is sent. If it were sent first, a crash in between would lose the draw: a second
        # message of this update, with new noise, would follow. After `resume` the same bytes are repeated.
        self._records.append(spoke)
        self._messages.append(Send(self._audience, spoke.frame))
        self._notices.append(Spoken(spoke.update, self.private.spent))

    def _silence(self) -> bool:
        """Record once that nothing more is sent; return whether that is new."""
        private = self.private
        if private.silent:
            return False
        # Recorded, so that a restart with a larger cap does not speak again: others may have been told.
        self._records.append(private.fall_silent(Silenced(private.update, Reason.CAP)))
        self._notices.append(FellSilent(private.update, private.spent, private.budget.cap))
        return True

    def _record_end(self) -> None:
        if not self._ended:
            self._ended = True
            self._records.append(Ended(self.session.rounds, None))

    def _record_stop(self, reason: Reason) -> None:
        self._ended = self._stopped = True
        self._records.append(Ended(self.private.update, reason))
        self._notices.append(Stopped(self.private.update, reason))
        self._rest()

    def _expire(self, _: Any) -> None:
        """Make no more messages in this session, and notify nobody.

        Messages that are not made cost nothing. A session that has not begun has nothing to record: the
        machine is over and never sends.
        """
        if self._first is not None:
            self._notices.append(Stopped(self.private.update, Reason.EXPIRED))
            self._rest()
        elif not self._ended:
            self._record_stop(Reason.EXPIRED)
