"""What an agent with one value and an agent of a series do differently."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast, final

from tacit.base.errors import CapExceeded, InputError
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.answer import SessionAnswer, session_answer, slot_answer
from tacit.core.protocol.messages import Feedback
from tacit.core.protocol.peer import PeerMachine
from tacit.core.protocol.private_state import MixingState
from tacit.core.protocol.records import Sampled
from tacit.live.ledger.budget import Hidden
from tacit.live.runtime.agent_result import AgentResult, SeriesResult
from tacit.live.runtime.noise import noise_ahead
from tacit.live.runtime.readings import Readable, SlotReader

if TYPE_CHECKING:
    from tacit.core.protocol.records import Record
    from tacit.core.protocol.series import Series
    from tacit.core.protocol.session import Session


class AgentKind(ABC):
    """What an agent brings to its session, and what it takes home.

    Attributes
    ----------
    reads : bool
        Whether it is given a source that is read in every slot, and no value.
    other : str
        What to say if it is given the other one.
    hidden : Hidden, optional
        Which change of the readings is hidden; None if any two values are.
    """

    reads: ClassVar[bool]
    other: ClassVar[str]
    hidden: Hidden | None = None

    def __init__(self, session: Session) -> None:
        self._session = session

    def read_from(
        self,
        source: Readable,  # noqa: ARG002
        records: Sequence[Record],  # noqa: ARG002
        unread: Callable[[int, str], None],  # noqa: ARG002
    ) -> None:
        """Take the source of readings."""
        raise InputError(self.other.format(self._session.name))

    @abstractmethod
    def sources(self, number: int) -> dict[str, Any]:
        """Return what its machine needs besides: see `Node`."""

    @abstractmethod
    def over(self, name: str, update: int) -> str:
        """Return what to say if the session was over before."""

    @abstractmethod
    def result(self, machine: Any, **facts: Any) -> AgentResult | SeriesResult:
        """Return what came of the session for this agent."""


def chosen_kind(session: Session) -> AgentKind:
    """Return what the agents of a session do in their own way."""
    return WithValue(session) if session.series is None else WithReadings(session, session.series)


@final
class WithValue(AgentKind):
    """An agent with one private value."""

    reads = False
    other = "session {} is not a series: give `Agent` the value itself, not a source of readings."

    def sources(self, number: int) -> dict[str, Any]:
        """Return its noise; with keepers it only needs salts."""
        return {"salted": True} if self._session.keepers else {"noise": noise_ahead(self._session, number)}

    def over(self, name: str, update: int) -> str:
        """Return that nothing was computed now."""
        return (
            f"session {self._session.name} was over for {name} before, after {update} of "
            f"{self._session.rounds} rounds: nothing was computed now, and a value that was given now was "
            "not used. Ask for a new session."
        )

    def result(self, machine: AgentMachine | PeerMachine, **facts: Any) -> AgentResult:
        """Return the answer, and the private state."""
        phase, private = machine.phase.value, machine.private
        if phase == "declined":
            raise CapExceeded("the whole session would exceed the owner's cap: nothing was sent.")
        assert isinstance(private, MixingState)
        return AgentResult(
            value=private.value(),
            clamped=private.clamped,
            feedback=None if private.feedback is None else self._shown(private.feedback),
            finished=phase == "finished",
            rounds=private.update,
            loss=private.spent_here,
            session=self._session,
            answer=None if private.feedback is None else self._answer(machine, private.feedback),
            **facts,
        )

    def _heard(self, numbers: tuple[int, ...]) -> list[float]:
        return [float(self._session.lattice.value(number)) for number in numbers]

    def _shown(self, numbers: tuple[int, ...]) -> Any:
        """Return the last feedback, clamped to the range."""
        heard = self._heard(numbers)
        return self._session.clamp(heard[0] if len(heard) == 1 else heard)

    def _answer(self, machine: AgentMachine | PeerMachine, numbers: tuple[int, ...]) -> SessionAnswer | None:
        """Return what the last feedback says to the session's question."""
        used = self._session.n
        if isinstance(machine, AgentMachine):
            assert machine.chain.newest is not None
            used = cast(Feedback, machine.codec.own(machine.chain.newest).body).count
        return session_answer(self._session, self._heard(numbers), used)


@final
class WithReadings(AgentKind):
    """An agent of a series, which reads its source in every slot."""

    reads = True
    other = (
        "session {} is a series, which reads a value in every slot: give `Agent` a source of readings, or "
        "use `tacit join` with one."
    )

    def __init__(self, session: Session, series: Series) -> None:
        super().__init__(session)
        self._series = series
        hides = session.hidden
        assert hides is not None
        self.hidden = Hidden(hides, series.delta)

    def read_from(
        self, source: Readable, records: Sequence[Record], unread: Callable[[int, str], None]
    ) -> None:
        """Take the source of readings."""
        unsure = any(isinstance(record, Sampled) for record in records)
        self._reader = SlotReader(self._session, source, unsure=unsure, unread=unread)

    def sources(self, number: int) -> dict[str, Any]:  # noqa: ARG002
        """Return its source."""
        return {"readings": self._reader.read}

    def over(self, name: str, update: int) -> str:
        """Return how many slots it has."""
        session = self._session
        slots = f"{update} of {session.rounds} slots"
        return f"series {session.name} was over for {name} before, after {slots}: ask for a new one."

    def result(self, machine: AgentMachine, **facts: Any) -> SeriesResult:
        """Return the mean of the last slot."""
        last = machine.published()
        mean = None if last is None else last.mean
        return SeriesResult(
            finished=machine.phase.value == "finished",
            slots=machine.update,
            sent=len(machine.private.digests),
            mean=None if mean is None else self._session.shown(mean),
            answer=None if last is None else slot_answer(self._session, last),
            deviation=None if last is None else last.deviation,
            used=0 if last is None else last.count,
            agents=self._session.n,
            incomplete=machine.incomplete,
            loss=machine.private.spent_here,
            delta=self._series.delta,
            **facts,
        )
