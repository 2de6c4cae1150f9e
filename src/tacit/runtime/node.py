"""One machine, driven: hear, save, then speak.

The order is the whole point. What a machine returns is saved first, and is on the disk when the ledger
says so; only then do its messages leave. If saving fails, nothing leaves, and the machine is never
used again: the next run starts from what the ledger has. What arrives together is saved together,
so a coordinator of a thousand waits for the disk once per burst.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, final

from tacit.protocol.effects import (
    Event,
    Expired,
    Halt,
    Heard,
    Joined,
    Left,
    NoiseReady,
    Notice,
    RoundClosed,
    Start,
    Step,
    Tick,
    Updated,
)
from tacit.runtime.clock import Clock, SystemClock
from tacit.runtime.ledger.group_commit import Book, save
from tacit.runtime.transport.base import Arrival, Frame, Transport

if TYPE_CHECKING:
    from tacit.protocol.session import Session
    from tacit.protocol.tables import Phase
    from tacit.runtime.noise import NoiseAhead

_BURST = 4096
"""So many arrivals are handled before the ledger is written and answers leave."""

LINGER = 1.0
_DAY = 86_400.0
_ROUND_ENDS = (RoundClosed, Updated)
_OVER = {"finished", "stopped", "declined"}


class Driven(Protocol):
    """What is driven: a machine of `tacit.protocol`."""

    phase: Phase
    session: Session

    @property
    def ended(self) -> bool:
        """Whether it has recorded that its session is over."""
        ...

    @property
    def wake(self) -> float | None:
        """When a tick is due; None for never."""
        ...

    def handle(self, event: Event) -> Step:
        """Take an event; return what to save, then what to send, then what to show."""
        ...


@final
class Node:
    """Drives one machine until it is over.

    Parameters
    ----------
    machine : Machine
        New, or made with `resume`.
    transport : Transport
        Not opened yet.
    book : Book
        The ledger.
    noise : NoiseAhead, optional
        For machines that need draws; these have `wants_noise`.
    watch : callable, optional
        Told of each notice, after what it is about is saved and sent.
    pace : float
        Rounds are at least so many seconds apart: who moves on sooner waits.
    linger : float
        So many seconds a machine that is over goes on answering, for others whose last word was lost.
    """

    def __init__(
        self,
        session_id: bytes,
        machine: Driven,
        transport: Transport,
        book: Book,
        *,
        noise: NoiseAhead | None = None,
        clock: Clock | None = None,
        watch: Callable[[Notice], None] = lambda _: None,
        linger: float = LINGER,
        stopped_linger: float | None = None,
        pace: float = 0.0,
    ) -> None:
        self._id, self.machine, self._transport, self._book = session_id, machine, transport, book
        self._noise, self._clock, self._watch = noise, clock or SystemClock(), watch
        self._linger, self._pace = linger, pace
        self._stopped_linger = linger if stopped_linger is None else max(linger, stopped_linger)
        self._last_round = -math.inf
        self._halting = False
        self._stirred = False  # a tick is due, or someone wants to leave
        self._waiting: asyncio.Timeout | None = None  # for what arrives
        self._alarm: asyncio.Future[None] | None = None
        self._alarm_at = math.inf
        self._over_since: float | None = None

    def halt(self) -> None:
        """Leave the session for good (coordinator: end it). To stop for now, cancel `run`."""
        self._halting = True
        self._stir()

    async def run(self) -> None:
        """Open the network and drive the machine until it is over."""
        try:
            if self._expired() and not self.machine.ended:
                await self._handle([Expired()])
                return
            if self._noise is not None:
                await self._noise.prime(self._update)
            await self._transport.open()
            await self._handle([Start()])
            while not self._over():
                events = [_event(arrival) for arrival in await self._arrivals()]
                if self._halting:
                    self._halting = False
                    events.append(Halt())
                for start in range(0, max(1, len(events)), _BURST):
                    await self._handle(events[start : start + _BURST])
        finally:
            if self._alarm is not None:
                self._alarm.cancel()
            await self._shut()

    @property
    def _update(self) -> int:
        return int(self.machine.voice.update)  # type: ignore[attr-defined]

    def _expired(self) -> bool:
        """Whether the session has expired, by this machine's clock."""
        return self._clock.wall() >= self.machine.session.expires

    @property
    def _last_words(self) -> float:
        """How many seconds others are still answered after the end: they may not have heard of it."""
        return self._stopped_linger if self.machine.phase.value == "stopped" else self._linger

    @property
    def _is_over(self) -> bool:
        return self.machine.phase.value in _OVER

    def _over(self) -> bool:
        """Whether the machine is over, and has been for a while."""
        if not self._is_over:
            return False
        if self._over_since is None:
            self._over_since = self._clock.now()
        return self._clock.now() >= self._over_since + self._last_words

    async def _arrivals(self) -> list[Arrival]:
        """Wait until something arrives, a tick is due or someone wants to leave; return what arrived."""
        wake = self._next_wake() if self._over_since is None else self._over_since + self._last_words
        if wake <= self._clock.now():
            self._stirred = True
        else:
            self._set_alarm(wake)
        try:
            async with asyncio.timeout(None) as self._waiting:
                if self._stirred:
                    self._waiting.reschedule(-math.inf)
                return await self._transport.receive()
        except TimeoutError:
            return []
        finally:
            self._waiting, self._stirred = None, False

    def _next_wake(self) -> float:
        """Return when the machine wants a tick, or when the session expires if that is sooner."""
        wake, left = self.machine.wake, self.machine.session.expires - self._clock.wall()
        end = self._clock.now() + min(max(left, 0.0), _DAY)
        return end if wake is None else min(wake, end)

    def _stir(self, _: object = None) -> None:
        """Wait no longer."""
        if self._waiting is not None and not self._stirred:
            self._waiting.reschedule(-math.inf)
        self._stirred = True

    def _set_alarm(self, wake: float) -> None:
        """Be stirred by then. An alarm that is set already may ring too early: that does no harm."""
        if self._alarm is not None and not self._alarm.done():
            if self._alarm_at <= wake:
                return
            self._alarm.cancel()
        self._alarm = None
        if wake < math.inf:
            self._alarm_at = wake
            self._alarm = asyncio.ensure_future(self._clock.sleep(wake - self._clock.now()))
            self._alarm.add_done_callback(self._stir)

    async def _handle(self, events: Sequence[Event]) -> None:
        """Let the machine take events and the noise it wants for them; save; send; show.

        The clock comes first: a machine whose session has expired must not answer what came in meanwhile.
        """
        if self._expired() and not self._is_over:
            events = [Expired(), *(event for event in events if not isinstance(event, Expired))]
        steps = [self.machine.handle(event) for event in events]
        steps = await self._with_noise(steps)
        steps.append(self.machine.handle(Tick(self._clock.now())))  # timers that were set start to run
        await self._carry_out(await self._with_noise(steps))
        if self._noise is not None:
            self._noise.refill()

    async def _with_noise(self, steps: list[Step]) -> list[Step]:
        """Let the machine take the noise it wants; what cannot wait for it is carried out first."""
        while self._noise is not None and (u := self._wanted()) is not None:
            if not self._noise.ready(u):
                await self._carry_out(steps)
                steps = []
            draw = await self._noise.draw(u)
            steps.append(self.machine.handle(NoiseReady(u, draw)))
        return steps

    def _wanted(self) -> int | None:
        wanted: int | None = self.machine.wants_noise  # type: ignore[attr-defined]
        return wanted

    async def _carry_out(self, steps: Sequence[Step]) -> None:
        records = [record for step in steps for record in step.records]
        if records:
            await save(self._book, self._id, records)
        else:
            await asyncio.sleep(0)  # others in this loop live too
        for step in steps:
            for message in step.messages:
                self._transport.send(message.to, message.frame)
        notices = [notice for step in steps for notice in step.notices]
        for notice in notices:
            self._watch(notice)
        if self._pace and any(isinstance(notice, _ROUND_ENDS) for notice in notices):
            await self._clock.sleep(max(0.0, self._last_round + self._pace - self._clock.now()))
            self._last_round = self._clock.now()

    async def _shut(self) -> None:
        with suppress(Exception):
            await self._transport.close()
        if self._noise is not None:
            with suppress(Exception):
                await self._noise.close()


def _event(arrival: Arrival) -> Event:
    if isinstance(arrival, Frame):
        return Heard(arrival.data, arrival.hint)
    return Joined(arrival.who) if arrival.here else Left(arrival.who)
