"""An agent whose session has keepers: it adds masks instead of noise.

Its message is its rounded state plus one mask for each keeper. Anyone who lacks one of these masks learns
nothing from it. So an update reveals only what the openings reveal, once: the agent's state plus the noise of
an honest keeper. Losses, caps and updates are the same as for every agent.

If noise is drawn once, there is only one exchange. From then on the agent moves towards its feedback without
further messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self, final

from tacit.errors import ParameterError
from tacit.mechanism.whole import Whole
from tacit.protocol.agent import AgentMachine
from tacit.protocol.codec import Sign, as_numbers
from tacit.protocol.effects import Refused, Send, Updated
from tacit.protocol.keyring import Keyring
from tacit.protocol.masks import mask, packed, total
from tacit.protocol.messages import COORDINATOR, Key, Masked, Message, Reason, Refusal, Report
from tacit.protocol.private_state import Budget, Cover, PrivateState
from tacit.protocol.records import Erasing, Keyed, Moved, Record
from tacit.protocol.session import Session
from tacit.protocol.tables import AgentPhase as P
from tacit.protocol.tables import On, Table, extended

_LISTENING = (P.WAITING, P.SPOKEN, P.SILENT)


@final
class MaskedAgentMachine(AgentMachine):
    """One agent of a session with keepers.

    Parameters
    ----------
    session, number, value, sign, budget
        As for every agent: `PrivateMachine`.
    private : bytes, optional
        Its ephemeral X25519 key, which must be on the disk already. None if it was erased.
    """

    _masks = True

    def __init__(
        self,
        session: Session,
        number: int,
        value: Any,
        *,
        sign: Sign,
        budget: Budget,
        private: bytes | None = None,
    ) -> None:
        super().__init__(session, number, value, sign=sign, budget=budget)
        self._begun: Keyed | None = self.keyring.unlock(private, sign)

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
    ) -> Self:
        """Rebuild it from its records."""
        agent = super().resume(session, number, records, sign=sign, budget=budget)
        agent._begun = agent.keyring.unlock(private, sign)
        return agent

    def _set_up(self, session: Session, number: int, sign: Sign, private: PrivateState) -> None:
        if not session.keepers:
            raise ParameterError(f"session {session.name} has no keepers: its agents add their own noise.")
        super()._set_up(session, number, sign, private)
        self.keyring = Keyring(self.codec, number)

    def _replay(self, record: Record) -> None:
        match record:
            case Keyed():
                self.keyring.replay(record)
            case Erasing():
                self.keyring.erase()
            case Moved() if not record.heard:
                return  # an update without new feedback, see `_move`; `resumed_state` has restored it
        super()._replay(record)

    @property
    def _others(self) -> tuple[int, ...]:
        return (COORDINATOR, *self.session.keeper_numbers)

    # ---- what happened? -----------------------------------------------------------------------------

    def _classify_message(self, message: Message) -> tuple[On, Any]:
        if message.sender == COORDINATOR:
            return super()._classify_message(message)
        if not isinstance(message.body, Key):
            return On.REFUSED, Refused(Refusal.NOT_FOR_ME, message.sender)
        return self.keyring.classify(message)

    def _classify_own(self, message: Message) -> tuple[On, Any]:
        # Another process made a key for this session, so it may also have spoken in it.
        if isinstance(message.body, Key) and self.keyring.digest(self.number) != message.digest:
            raise self._spoken_elsewhere(0)
        return super()._classify_own(message)

    def _due(self) -> On | None:
        if self._moves_alone:
            return On.MOVE
        return super()._due()

    @property
    def _moves_alone(self) -> bool:
        """Whether all feedback has arrived, but not all updates are made."""
        made = self.private.update
        return self.phase in _LISTENING and self.session.exchanges <= made < self.session.rounds

    def _turn(self) -> On | None:
        turn = super()._turn()
        if turn is On.TURN and not self.keyring.knows(self.session.keeper_numbers):
            # With the masks of some keepers, only these would protect the number. It waits for all keys: the
            # coordinator answers its own key with theirs.
            return None
        return turn

    # ---- what is done -------------------------------------------------------------------------------

    def _announce(self) -> None:
        super()._announce()
        # Recorded before it is sent. Without the record the driver makes a new key after a crash, which all
        # members that know the first one would refuse.
        if self._begun is not None:
            self._records.append(self._begun)
            self._begun = None
        self._say_key()

    def _say_key(self) -> None:
        self._messages.append(Send(COORDINATOR, self.keyring.frames[self.number]))

    def _take_key(self, message: Message) -> None:
        self._records.append(self.keyring.take(message))

    @property
    def _covers(self) -> tuple[Cover, ...]:
        return (self._masked,)

    def _masked(self, x: Whole, report: Report) -> Masked:
        """X = round(θ/g_u) + Σ_j mask_j, for the keepers j.

        It is made once per update, and `heard` is an input of the masks. So a rolled-back agent that is shown
        another history does not use one mask for two numbers, which would reveal their difference.
        """
        session, u, heard = self.session, report.update, report.heard
        assert session.mask_bytes is not None
        keepers, width, length = session.keeper_numbers, session.mask_bytes, session.masked_bytes
        masks = [mask(self.keyring.secret(j), u, heard, length) for j in keepers]
        keys = self.keyring.named((self.number, *keepers))
        return Masked(u, report.exponent, total([packed(as_numbers(x), width), *masks], width), heard, keys)

    def _speak(self, subject: Any) -> None:
        super()._speak(subject)
        # That was the last message. Repetitions need its bytes only, not the key.
        if self.private.update + 1 == self.session.exchanges:
            self._erase()

    def _move(self, subject: Any) -> None:
        if not self._moves_alone:
            super()._move(subject)
            if self.private.update == self.session.exchanges:  # it may have missed the last exchange
                self._erase()
            return
        # Noise is drawn once: there is one exchange, and all later updates move towards its feedback.
        t = self.private.update
        towards = self.private.feedback
        assert towards is not None
        self._records.append(self.private.move(towards, (), ()))
        self._notices.append(Updated(t, self._last_count))

    def _apply(self, heard: bytes, used: bytes, count: int) -> None:
        super()._apply(heard, used, count)
        self._last_count = count

    def _repeat_is_due(self) -> None:
        if self.phase in (P.WAITING, P.SPOKEN):
            self._say_key()
        super()._repeat_is_due()

    # ---- the end of the key ---------------------------------------------------------------------------

    def _erase(self) -> None:
        """Record, once, that the private key is not needed any more.

        The driver deletes the key then. From it and the messages on the wire anyone could compute the numbers
        without masks and without noise, so it is erased as early as possible, and at every kind of end.
        """
        if not self.keyring.erased:
            self.keyring.erase()
            self._records.append(Erasing(self.private.update))

    def _silence(self) -> bool:
        self._erase()
        return super()._silence()

    def _dispute(self, subject: Any) -> None:
        self._erase()
        super()._dispute(subject)

    def _record_end(self) -> None:
        self._erase()
        super()._record_end()

    def _record_stop(self, reason: Reason) -> None:
        self._erase()
        super()._record_stop(reason)

    # ---- the table ------------------------------------------------------------------------------------

    table: ClassVar[Table] = extended(
        "masked_agent",
        AgentMachine.table,
        {
            (P.WAITING, P.DRAWING, P.SPOKEN, P.SILENT): {On.KEY: _take_key},
            (P.FINISHED, P.STOPPED, P.DECLINED): {On.KEY: None},
        },
    )
