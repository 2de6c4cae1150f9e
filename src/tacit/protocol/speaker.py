"""What agents and peers share: a private state, a cap, and noise that is brought to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from tacit.errors import LedgerError
from tacit.protocol.codec import Codec, Sign
from tacit.protocol.effects import Cost, FellSilent, NoiseReady, OverCap, Refused, Spoken, Stopped
from tacit.protocol.machine import Machine
from tacit.protocol.messages import Message, Present, Reason, Report
from tacit.protocol.records import Ended, Evidence, Record, Silenced, Spoke
from tacit.protocol.session import Session
from tacit.protocol.tables import AgentPhase, On, PeerPhase
from tacit.protocol.voice import Budget, Cover, Voice, resumed_voice, start_state


class Speaker(Machine):
    """A machine that speaks for an owner of a private value.

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

    def __init__(self, session: Session, number: int, value: Any, *, sign: Sign, budget: Budget) -> None:
        codec = Codec(session)
        state, clamped = start_state(codec, value), session.lattice.clamps(value)
        self._set_up(session, number, sign, Voice(codec, number, sign, budget, state, clamped=clamped))

    @classmethod
    def resume(
        cls, session: Session, number: int, records: Iterable[Record], *, sign: Sign, budget: Budget
    ) -> Self:
        """Rebuild it from its records. `budget.spent` is what was spent before this session."""
        voice, kept = resumed_voice(Codec(session), number, sign, budget, records)
        speaker = cls.__new__(cls)
        speaker._set_up(session, number, sign, voice)
        speaker._new = False
        for record in kept:
            speaker._replay(record)
        return speaker

    def _set_up(self, session: Session, number: int, sign: Sign, voice: Voice) -> None:
        super().__init__(session, number, sign)
        self.voice = voice
        self._new = True
        self._stopped = False

    def _replay(self, record: Record) -> None:
        if isinstance(record, Ended):
            self._ended = True
            self._stopped = record.reason is not None
        elif isinstance(record, Evidence):
            self._evidence[record.sender, record.round] = record.second

    @property
    def _covers(self) -> tuple[Cover, ...]:
        """What is put on a message before it is signed, if anything is."""
        return ()

    @property
    def update(self) -> int:
        """How many updates this agent has made."""
        return self.voice.update

    @property
    def wants_noise(self) -> int | None:
        """The update a draw is needed for now, if any."""
        drawing = self.phase in (AgentPhase.DRAWING, PeerPhase.DRAWING)
        return self.voice.update if drawing and not self.voice.has_draw else None

    def value(self) -> Any:
        """Return the agent's own state as the nearest floats: one, or one per component. Private."""
        return self.voice.value()

    def _sorted_start(self) -> On:
        if self._stopped:
            return On.ENDED
        over = self._new and self.voice.over_cap and not self.voice.budget.partial
        return On.OVER if over else On.START

    def _sorted_own(self, message: Message) -> tuple[On, Any]:
        """Go no further where a message of this agent is about that its records do not have."""
        body = message.body
        if isinstance(body, Report) and self.voice.digests.get(body.update) != message.digest:
            raise self._spoken_elsewhere(body.update)
        return super()._sorted_own(message)

    def _spoken_elsewhere(self, update: int) -> LedgerError:
        return LedgerError(
            f"{self.session.member_name(self.number)} has said message {update}, but not from this ledger: "
            "another process uses the same key, or an old ledger was put back. Noise drawn again would give "
            "the value away, so nothing more is said here; let the one go on that said it."
        )

    def _announce(self, to: int | None) -> None:
        """Say that this agent is here; before its first word, record how it began."""
        voice = self.voice
        if self._new:
            self._records.append(voice.began())
            self._new = False
        self._notices.append(Cost(voice.planned, voice.spent, voice.budget.cap))
        self._say(to, Present(voice.update))
        self._again(fresh=True)

    def _decline(self, _: Any) -> None:
        voice = self.voice
        self._notices.append(OverCap(voice.planned, voice.spent, voice.budget.cap))

    def _take_noise(self, event: NoiseReady) -> None:
        refusal = self.voice.offer(event.update, event.draw)
        if refusal is not None:
            self._refuse(Refused(refusal))

    def _make_message(self, heard: bytes) -> Spoke:
        spoke = self.voice.speak(heard, *self._covers)
        self._records.append(spoke)
        self._notices.append(Spoken(spoke.update, self.voice.spent))
        return spoke

    def _silence(self) -> bool:
        """Record that nothing more is said, once; returns whether that is new."""
        voice = self.voice
        if voice.silent:
            return False
        self._records.append(voice.fall_silent(Silenced(voice.update, Reason.CAP)))
        self._notices.append(FellSilent(voice.update, voice.spent, voice.budget.cap))
        return True

    def _record_end(self) -> None:
        if not self._ended:
            self._ended = True
            self._records.append(Ended(self.session.rounds, None))

    def _record_stop(self, reason: Reason) -> None:
        self._ended = self._stopped = True
        self._records.append(Ended(self.voice.update, reason))
        self._notices.append(Stopped(self.voice.update, reason))
        self._rest()

    def _expire(self, _: Any) -> None:
        """Say nothing more in this session, and tell nobody: what was not said is not lost.

        One that has not begun has nothing to record: it never speaks, because it is over.
        """
        if self._new:
            self._notices.append(Stopped(self.voice.update, Reason.EXPIRED))
            self._rest()
        elif not self._ended:
            self._record_stop(Reason.EXPIRED)
