"""An agent of a series: it reads a source of values in every slot.

::

    async with SeriesMember(session, source, accepts=Hidden(Hides.parse("step:2"), 1e-6), **mine) as me:
        async for notice in me:
            if isinstance(notice, MeanPublished):
                print(notice.slot, notice.mean)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final

from tacit.errors import InputError, SessionOver
from tacit.protocol.agent import AgentMachine
from tacit.protocol.records import Ended, Sampled
from tacit.report import Row, Shown, Summary, near, up
from tacit.runtime.agent import PrivateMember
from tacit.runtime.ledger.budget import Hidden
from tacit.runtime.ledger.ledger import Ledger
from tacit.runtime.node import Node
from tacit.theory.advice import NOT_COVERED

if TYPE_CHECKING:
    from tacit.protocol.session import Session

_LONGEST = 10.0
"""Maximum seconds that a source is waited for, or half a slot if that is less."""


class Readable(Protocol):
    """Where readings come from: `tacit.runtime.fleet.sources` has several."""

    async def read(self, components: int) -> Any:
        """Return the current value, or raise `InputError` that does not show it."""
        ...

    async def read_marked(self, components: int) -> tuple[Any, Hashable]:
        """Return the value with a mark that changes when the reading is new.

        None as the mark: each call gives a new reading.
        """
        ...


@final
@dataclass(frozen=True)
class SeriesResult(Shown):
    """The result of a series for one agent.

    All of it is public except `spent` and `cap`, which are the owner's.

    Attributes
    ----------
    finished : bool
        Whether the feedback of all slots was heard.
    slots : int
        How many slots are over, by what was heard.
    sent : int
        How many messages this agent has made.
    mean : float or None
        The published mean of the last slot, clamped to the range; None if it is lost.
    deviation : float or None
        The standard deviation of the noise in it, for the messages that were used. What missing agents would
        have added is not in it.
    used, agents : int
        How many messages the last slot has, and how many agents are on the roster.
    incomplete : int
        In how many slots an agent was missing. If a step is hidden, they count in later means, too.
    loss, delta : float
        What the whole series costs, and its failure probability.
    spent, cap : float
        What all sessions on the value have cost and may still cost, and the owner's cap.
    """

    agent: str
    finished: bool
    slots: int
    sent: int
    mean: float | None
    deviation: float | None
    used: int
    agents: int
    incomplete: int
    loss: float
    delta: float
    spent: float
    cap: float
    refused: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return dict(vars(self))

    def summary(self) -> Summary:
        """Return the result for people."""
        mean = "lost" if self.mean is None else near(self.mean)
        rows = [
            Row("mean", mean, "of the last slot, clamped to the range; public"),
            *(
                ()
                if self.deviation is None
                else [Row("deviation", up(self.deviation), "of the noise in it, for the agents used")]
            ),
            Row("agents", f"{self.used} of {self.agents}", "are in it"),
            Row("slots", str(self.slots), "all" if self.finished else "ended early"),
            Row("incomplete", str(self.incomplete), "slots in which an agent was missing"),
            Row("messages", str(self.sent), "sent, one for each slot at most"),
            Row("loss", up(self.loss), f"of the whole series, except with probability {near(self.delta)}"),
            Row("spent", up(self.spent), f"on this value in all sessions; the cap is {near(self.cap)}"),
        ]
        notes = (NOT_COVERED,) if self.incomplete else ()
        return Summary(f"{self.agent}: result", {"Series": rows}, notes)


def series_meaning(session: Session, accepts: Hidden | None) -> dict[str, Any]:
    """Return how a ledger counts a series: once, if the owner accepts it."""
    series = session.series
    assert series is not None
    hidden = Hidden(series.hides, series.delta)
    return {"diameter": session.adjacency, "hidden": hidden, "accepts": accepts}


@final
class SeriesMember(PrivateMember):
    """One agent of a series. Parameters as for `Agent`, except these.

    Parameters
    ----------
    value : Readable
        Where readings come from. It is read in every slot, and only the ledger stores what it gave. If the
        series hides a reading or a window, a reading that was there in an earlier slot counts as none.
    accepts : Hidden, optional
        Which change the owner wants hidden, and the failure probability that the owner accepts, for all
        series on this value. None if the ledger knows.
    unread : callable, optional
        Called with how often the source gave no reading, and why and what follows this time; never with what
        it gave.
    """

    machine: AgentMachine
    _topology = "server"

    def __init__(
        self,
        session: Session,
        value: Readable,
        *,
        accepts: Hidden | None = None,
        unread: Callable[[int, str], None] = lambda *_: None,
        **rest: Any,
    ) -> None:
        super().__init__(session, value, **rest)
        self._accepts, self._unread = accepts, unread
        self.failures = 0
        """How often the source gave no reading."""
        self._mark: Hashable = None  # of the last reading
        self._unsure = False  # whether an earlier process may have sent the first reading that comes

    def _require_kind(self) -> None:
        if self.session.series is None:
            raise InputError(f"session {self.session.name} is not a series: use `Agent`.")

    @property
    def _disputed(self) -> int | None:
        return self.machine.disputed

    def _meaning(self) -> dict[str, Any]:
        return series_meaning(self.session, self._accepts)

    def _made(self, ledger: Ledger) -> Node:
        session, records = self.session, ledger.records(self.session.id)
        self._require_open(ledger, records)
        budget, sign = self._set_aside(ledger).budget, self.identity.sign
        self._over_before = any(isinstance(record, Ended) for record in records)
        self._unsure = any(isinstance(record, Sampled) for record in records)
        private = ledger.ephemeral_key(session.id, self.number, session.expires)
        kind = AgentMachine
        if records:
            self.machine = kind.resume(
                session, self.number, records, sign=sign, budget=budget, private=private
            )
        else:
            self.machine = kind(session, self.number, sign=sign, budget=budget, private=private)
        self._tell_takers(records)
        self._require_undisputed()
        return self._driven(self.machine, ledger, readings=self._read)

    async def _read(self) -> float | None:
        """Read the source; no error shows what it gave."""
        assert self.session.series is not None
        patience = min(_LONGEST, self.session.series.interval / 2)
        try:
            async with asyncio.timeout(patience):
                return float(await (self._value.read(1) if self._holds else self._new_reading()))
        except InputError as error:
            why = str(error)
        except TimeoutError:
            why = f"the source gave no value within {patience:g} s."
        self.failures += 1
        so = "the last one counts again" if self._holds else "nothing is sent in this slot"
        self._unread(self.failures, f"no reading, so {so}: {why}")
        return None

    @property
    def _holds(self) -> bool:
        assert self.session.series is not None
        return self.session.series.holds

    async def _new_reading(self) -> Any:
        """Read the source; refuse a reading that an earlier slot may have had.

        The same reading in two slots would have two draws of noise, and its loss is counted once.
        """
        reading, mark = await self._value.read_marked(1)
        known = mark is not None and (self._unsure or mark == self._mark)
        self._mark, self._unsure = mark, False
        if known:
            raise InputError("the source has no new reading since the last one.")
        return reading

    async def result(self) -> SeriesResult:
        """Wait for the end and return the result, or raise what stopped it."""
        await self.ended()
        self._require_undisputed()
        if self._over_before:
            raise SessionOver(
                f"series {self.session.name} was over for {self.name} before, after "
                f"{self.machine.update} of {self.session.rounds} slots: ask for a new one."
            )
        return self._result()

    def _result(self) -> SeriesResult:
        assert self._ledger is not None
        assert self.session.series is not None
        balance, machine = self._ledger.balance(self._label), self.machine
        last = machine.published()
        mean = None if last is None else last.mean
        return SeriesResult(
            agent=self.name,
            finished=machine.phase.value == "finished",
            slots=machine.update,
            sent=len(machine.private.digests),
            mean=None if mean is None else self.session.clamp(mean),
            deviation=None if last is None else last.deviation,
            used=0 if last is None else last.count,
            agents=self.session.n,
            incomplete=machine.incomplete,
            loss=machine.private.spent_here,
            delta=self.session.series.delta,
            spent=balance.spent,
            cap=balance.cap,
            refused={reason.name.lower(): count for reason, count in self.refused.items()},
        )
