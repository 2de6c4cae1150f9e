"""The coordinator of a session, inside your own program.

It holds nothing private.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, final

from tacit.base.errors import InputError
from tacit.base.report import Row, Shown, Summary, each, result_row, up
from tacit.core.protocol.answer import SessionAnswer, session_answer, slot_answer
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.messages import Message
from tacit.core.protocol.notices import MeanPublished
from tacit.core.protocol.records import Closed
from tacit.core.protocol.roster import COORDINATOR
from tacit.core.theory.advice import NOT_COVERED
from tacit.live.identity.identity import Identity
from tacit.live.ledger import key_guard
from tacit.live.ledger.ledger import Ledger
from tacit.live.ledger.log import Log
from tacit.live.runtime.participant import Participant
from tacit.live.sessions.cancellation import is_cancelled

if TYPE_CHECKING:
    from tacit.core.protocol.records import Record
    from tacit.core.protocol.session import Session

_LOOK = 1.0
"""Seconds between two checks whether the session was cancelled."""


@final
@dataclass(frozen=True)
class CoordinatorResult(Shown):
    """The public result of a session.

    Attributes
    ----------
    feedback : float or list of float
        y of the last round, None if there was none. In a series the mean of the last slot, None if lost.
    used : tuple of tuple of str
        Whose messages were used in each round.
    deviation : float or None
        Of a series: the standard deviation of the noise in the last mean. What missing agents would have
        added is not in it.
    incomplete : int or None
        Of a series: in how many slots an agent was missing.
    """

    finished: bool
    rounds: int
    feedback: Any
    used: tuple[tuple[str, ...], ...]
    refused: dict[str, int]
    session: Session = field(repr=False)
    deviation: float | None = None
    incomplete: int | None = None
    slot: MeanPublished | None = field(default=None, repr=False)

    @cached_property
    def answer(self) -> SessionAnswer | None:
        """What the last feedback says to the question; None if that is the mean."""
        if self.slot is not None:
            return slot_answer(self.session, self.slot)
        if self.feedback is None or not self.used:
            return None
        mean = self.feedback if isinstance(self.feedback, list) else [self.feedback]
        return session_answer(self.session, mean, len(self.used[-1]))

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        facts = {name: fact for name, fact in vars(self).items() if name not in ("session", "answer", "slot")}
        inside = None if self.feedback is None else self.session.clamp(self.feedback)
        answer = {} if self.answer is None else {"answer": self.answer.as_dict()}
        return facts | {"feedback_in_range": inside} | answer

    def summary(self) -> Summary:
        """Return the result for people, clamped to the range."""
        session, counts = self.session, [float(len(names)) for names in self.used]
        rows = [Row("rounds", str(self.rounds), "all" if self.finished else "ended early")]
        if counts:
            rows.append(Row("messages used", each(counts), f"per round, of {session.n} agents"))
        if self.feedback is not None and self.answer is None:
            meaning = "the last feedback, which everyone received; public"
            if self.incomplete is not None:  # of a series
                meaning = "the mean of the last slot, which everyone can compute; public"
            rows.append(result_row("result", self.feedback, session.clamp(self.feedback), meaning))
        if self.deviation is not None:
            meaning = "of the noise in the mean of the last slot, for the agents used"
            rows.append(Row("deviation", up(self.deviation), meaning))
        if self.incomplete is not None:
            rows.append(Row("incomplete", str(self.incomplete), "slots in which an agent was missing"))
        if self.refused:
            refused = ", ".join(f"{count} {reason}" for reason, count in sorted(self.refused.items()))
            rows.append(Row("refused", str(sum(self.refused.values())), refused))
        title = "The session is over" if self.finished else "Ended early"
        asked = {} if self.answer is None else {"Answer": self.answer.rows()}
        return Summary(title, {"Session": rows, **asked}, (NOT_COVERED,) if self.incomplete else ())


@final
class Coordinator(Participant):
    """The server of the client-server mechanism.

    Parameters as for `Participant`. The key of the session's coordinator must be the one in `identity`. The
    ledger stores each round's feedback before it is sent.
    """

    _logs = Log  # it has no private value
    machine: CoordinatorMachine
    _cancelling: asyncio.Future[None] | None = None

    @staticmethod
    def _number_in(session: Session, identity: Identity) -> int:
        if session.coordinator != identity.public_key:
            raise InputError(
                f"the key of {identity.name} must be the coordinator's of session {session.name}, and "
                "is not: use the coordinator's keys, or `tacit join` a session without one."
            )
        return COORDINATOR

    def _machine(self, ledger: Log, records: Sequence[Record]) -> CoordinatorMachine:
        # With another ledger it would not know of rounds that agents have already completed. Whoever brings
        # another log looks after that.
        if isinstance(ledger, Ledger):
            if self.session.closes is not None:
                ledger.require_reports()
            self._bind(ledger, marked=False)
            if self._witness is not None:
                key_guard.take_witness(ledger, self._witness)
        return CoordinatorMachine.resume(self.session, records, sign=self.identity.sign)

    def _sources(self) -> dict[str, Any]:
        return {"stopped_linger": self.machine.return_time}

    async def __aenter__(self) -> Self:
        made = await super().__aenter__()
        self._cancelling = asyncio.ensure_future(self._watch_cancelled())
        return made

    async def __aexit__(self, *error: Any) -> None:
        if self._cancelling is not None:
            self._cancelling.cancel()
        await super().__aexit__(*error)

    async def _watch_cancelled(self) -> None:
        """End the session once it is cancelled (`tacit session cancel`).

        Another process writes the cancellation as a file, so this looks for it again and again. It looks at
        the start, too: a coordinator that was stopped when the session was cancelled ends it then.
        """
        while not is_cancelled(self.session, self.identity):
            await asyncio.sleep(_LOOK)
        self.halt()

    async def result(self) -> CoordinatorResult:
        """Wait for the end and return the result, or raise what stopped it."""
        await self.ended()
        assert self._ledger is not None
        records = self._ledger.records(self.session.id)
        closed = [record for record in records if isinstance(record, Closed)]
        last = self.machine.published()  # of a series
        feedback: Any = None if last is None else last.mean
        feedback = list(feedback) if isinstance(feedback, tuple) else feedback
        if last is None and closed:
            message = self.machine.codec.open(closed[-1].frame)
            assert isinstance(message, Message)
            found = [self.session.lattice.value(number) for number in message.numbers]
            feedback = float(found[0]) if self.session.components == 1 else [float(v) for v in found]
        name = self.session.member_name
        return CoordinatorResult(
            finished=len(closed) == self.session.exchanges,
            rounds=len(closed),
            feedback=feedback,
            used=tuple(tuple(name(i) for i in record.used) for record in closed),
            refused=self._refusals(),
            session=self.session,
            deviation=None if last is None else last.deviation,
            slot=last,
            incomplete=self.machine.incomplete,
        )
