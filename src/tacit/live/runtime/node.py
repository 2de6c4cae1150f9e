"""One machine with its transport, ledger, noise and clock, for a `Host`.

A crash at any point is safe, because records reach the disk before messages are sent. Before the save,
nothing was sent and nothing counts. After it, the machine resumes from its records, and repeats the same
bytes.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias, final

from tacit.core.protocol.effects import (
    Event,
    Expired,
    Halt,
    Heard,
    Joined,
    Left,
    NoiseReady,
    ReadingReady,
    Start,
    Step,
    Tick,
)
from tacit.core.protocol.messages import DIGEST_BYTES
from tacit.core.protocol.notices import Notice, RoundClosed, Updated
from tacit.live.ledger.group_commit import Taker
from tacit.live.runtime.clock import Clock, SystemClock
from tacit.live.runtime.host import Host
from tacit.live.runtime.noise import GRID
from tacit.live.runtime.workers import finished
from tacit.live.transport.base import Frame, Transport

if TYPE_CHECKING:
    from tacit.core.noise.ahead import DrawnAhead
    from tacit.core.protocol.codec import Codec
    from tacit.core.protocol.session import Session
    from tacit.core.protocol.tables import Phase
    from tacit.live.ledger.log import Log

_BURST = 4096
"""Maximum number of arrivals handled before the ledger is written and answers are sent."""
_HEAVY = 4096
"""Machines with more components than this compute on another thread."""

LINGER = 1.0
_DAY = 86_400.0
_ROUND_ENDS = (RoundClosed, Updated)
_OVER = {"finished", "stopped", "declined"}


Readings: TypeAlias = Callable[[], Awaitable[float | None]]


class Driven(Protocol):
    """The interface of a machine of `tacit.core.protocol`.

    Machines that need noise also have `wants_noise` and `update`, agents of a series `wants_reading`.
    """

    phase: Phase
    session: Session
    codec: Codec

    @property
    def ended(self) -> bool:
        """Whether it recorded that its session is over."""
        ...

    @property
    def wake(self) -> float | None:
        """When a tick is due; None for never."""
        ...

    def handle(self, event: Event) -> Step:
        """Handle an event; return records, messages and notices, in this order."""
        ...


@final
class Node:
    """Runs one machine until it is over.

    Parameters
    ----------
    machine : Machine
        New, or made with `resume`.
    transport : Transport
        Not opened yet.
    ledger : Log
        Its records are saved here before its messages are sent.
    replayed : int
        The number of records that the machine was resumed from.
    takers : sequence
        Called with records once they are saved.
    noise : DrawnAhead, optional
        For machines that need draws; these have `wants_noise` and `update`.
    salted : bool
        Whether the machine's draws are salts of masks: 32 random bytes, drawn when they are needed.
    watch : callable, optional
        Called with each notice, after its records are saved and its messages are sent.
    readings : callable, optional
        For agents of a series: reads the agent's value as it is now, None if that is not possible.
    pace : float
        Minimum seconds between rounds; a faster machine waits.
    linger : float
        Seconds that a finished machine keeps answering, for members that lost its last message.
    """

    def __init__(
        self,
        session_id: bytes,
        machine: Driven,
        transport: Transport,
        ledger: Log,
        *,
        replayed: int = 0,
        takers: Sequence[Taker] = (),
        noise: DrawnAhead | None = None,
        salted: bool = False,
        readings: Readings | None = None,
        clock: Clock | None = None,
        watch: Callable[[Notice], None] = lambda _: None,
        linger: float = LINGER,
        stopped_linger: float | None = None,
        pace: float = 0.0,
    ) -> None:
        self._id, self.machine, self._transport = session_id, machine, transport
        self.ledger, self._takers = ledger, tuple(takers)
        self._records = replayed
        self._noise, self._clock, self._watch = noise, clock or SystemClock(), watch
        self._salted = salted
        self._readings = readings
        self._reading: asyncio.Future[None] | None = None
        self._linger, self._pace = linger, pace
        self._stopped_linger = linger if stopped_linger is None else max(linger, stopped_linger)
        self.heavy = machine.session.components > _HEAVY
        self._arrived: deque[Event] = deque()
        # The machine's steps that are not carried out yet. This list is never replaced: a heavy machine
        # appends to it on another thread while the first `_leaving` steps are being saved.
        self._steps: list[Step] = []
        self._leaving = 0
        self._open = False
        self._halting = False
        self._last_round = self._resting = -math.inf
        self._alarm: asyncio.Future[None] | None = None
        self._alarm_at = math.inf
        self._drawing: asyncio.Future[None] | None = None
        self._refilling: asyncio.Future[None] | None = None
        self._over_since: float | None = None
        self._host: Host | None = None
        self._done: asyncio.Future[None] | None = None

    def halt(self) -> None:
        """Leave the session for good; a coordinator ends it for all.

        To stop for now, cancel `run`.
        """
        self._halting = True
        self._stir()

    async def run(self) -> None:
        """Open the network and let the host drive the machine until it is over."""
        self._host, self._done = Host.here(), asyncio.get_running_loop().create_future()
        try:
            if self._expired() and not self.machine.ended:
                # The network stays closed. The machine records that it has ended. Nobody has to be told: all
                # members have the same expiry date.
                self._linger = self._stopped_linger = 0.0
            else:
                # The pool is full before the first frame can arrive. Otherwise the delay of the first message
                # would show how long its noise took to draw.
                if self._noise is not None:
                    self._noise.begin(self._update)
                    await finished(self._host.refill(self._noise))
                await self._transport.open(self._stir)
                self._open = True
                self._arrived.append(Start())
            self._host.add(self)
            await self._done
        finally:
            await self._shut()

    # ---- what the host calls -------------------------------------------------------------------------

    def take(self) -> int:
        """Take all that arrived, and return how many arrivals there are to handle."""
        # While the machine rests (`pace`), frames stay in the transport. It then stops reading from senders
        # with many frames, so nobody can fill the memory of a slow member.
        if self._open and self._clock.now() >= self._resting:
            for arrival in self._transport.take():
                if isinstance(arrival, Frame):
                    self._arrived.append(Heard(arrival.data, arrival.hint))
                else:
                    self._arrived.append(Joined(arrival.who) if arrival.here else Left(arrival.who))
        return len(self._arrived)

    def frames(self) -> list[tuple[Codec, bytes]]:
        """Return the frames that were taken, and what reads them."""
        return [(self.machine.codec, event.frame) for event in self._arrived if isinstance(event, Heard)]

    def handle(self) -> bool:
        """Give the machine what was taken and draws; return whether to save.

        Expiry is checked first: a machine whose session has expired must not answer frames that arrived
        meanwhile. Only draws that were already complete are given to the machine; `carry_out` starts to wait
        for others. While it waits (`_drawing`), no draw is given, even if it is complete by now: it must
        leave on the time grid of `_catch_up`.
        """
        now, machine, arrived, noise = self._clock.now(), self.machine, self._arrived, self._noise
        if now < self._resting:
            return False
        events: list[Event] = [Expired()] if self._expired() and not self._is_over else []
        # The rest waits for the next turn, so that a flood cannot put off saving and sending for ever.
        events += [arrived.popleft() for _ in range(min(len(arrived), _BURST))]
        if self._halting:
            self._halting = False
            events.append(Halt())
        steps = list[Step]()
        for some in (
            events,
            [Tick(now, self._clock.wall())],
        ):  # a tick last: timers that were set start to run
            steps += [machine.handle(event) for event in some]
            while noise is not None and self._drawing is None:
                u = self._wanted()
                if u is None or not noise.ready(u):
                    break
                steps.append(machine.handle(NoiseReady(u, noise.take(u))))
            if self._salted and (u := machine.wants_noise) is not None:  # type: ignore[attr-defined]
                # Not drawn ahead: a salt in the image of a machine would be used twice.
                steps.append(machine.handle(NoiseReady(u, secrets.token_bytes(DIGEST_BYTES))))
        # One call adds all: the thread that saves may read this list now.
        self._steps.extend(steps)
        return any(step.records for step in steps)

    def save(self, *, flush: bool) -> None:
        """Make a batch of all steps so far, and write its records.

        With `flush` this waits for the disk, on another thread: `handle` may add steps meanwhile,
        which are in the next batch.
        """
        self._leaving = len(self._steps)
        records = [record for step in self._steps[: self._leaving] for record in step.records]
        if records:
            self.ledger.append(self._id, records, after=self._records, flush=flush)
            self._records += len(records)

    def tell(self) -> None:
        """Give the saved records of the batch to the takers."""
        if self._takers:
            records = [record for step in self._steps[: self._leaving] for record in step.records]
            for taker in self._takers if records else ():
                taker.take(records)

    def carry_out(self) -> None:
        """Send the saved batch, then report its notices and plan the next step."""
        steps = self._steps[: self._leaving]
        del self._steps[: self._leaving]
        # All messages leave before the first notice: `watch` is the owner's code, which may be slow or fail.
        # A crash here loses messages, not records: others ask again, and get the same bytes from the ledger.
        send, watch, ended = self._transport.send, self._watch, False
        for step in steps:
            for message in step.messages:
                send(message.to, message.frame)
        for step in steps:
            for notice in step.notices:
                watch(notice)
                ended = ended or isinstance(notice, _ROUND_ENDS)
        if self._noise is not None and self._noise.low():
            self._refill()  # after sending: drawing is never between receiving and sending
        if self._pace and ended:
            now = self._clock.now()
            self._resting = self._last_round = max(now, self._last_round + self._pace)
        self._go_on()

    def _go_on(self) -> None:
        """Plan the next step: end, continue at once, wake up later, or draw noise."""
        now = self._clock.now()
        if self._is_over and self._over_since is None:
            self._over_since = now
        wake = self._next_wake() if self._over_since is None else self._over_since + self._last_words
        if self._over_since is not None and wake <= now:
            self._end()
            return
        if self._drawing is None and self._wanted() is not None:
            self._drawing = asyncio.ensure_future(self._catch_up())
            self._drawing.add_done_callback(self._caught_up)
        if self._readings is not None and self._reading is None and (slot := self._unread()) is not None:
            self._reading = asyncio.ensure_future(self._read(slot, self._readings))
            self._reading.add_done_callback(self._was_read)
        wake = max(wake, self._resting)
        if wake <= now or (self._arrived and now >= self._resting):
            self._stir()
        else:
            self._set_alarm(wake)

    def fail(self, error: Exception) -> None:
        """Never use the machine again; `run` raises the error."""
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)

    # ---- noise ---------------------------------------------------------------------------------------

    @property
    def _update(self) -> int:
        return int(self.machine.update)  # type: ignore[attr-defined]

    def _wanted(self) -> int | None:
        if self._noise is None:
            return None
        wanted: int | None = self.machine.wants_noise  # type: ignore[attr-defined]
        return wanted

    def _refill(self) -> None:
        """Draw noise for the next updates in the background."""
        assert self._host is not None
        assert self._noise is not None
        self._refilling = self._host.refill(self._noise)
        self._refilling.add_done_callback(self._refilled)

    def _refilled(self, refilling: asyncio.Future[None]) -> None:
        error = None if refilling.cancelled() else refilling.exception()
        if isinstance(error, Exception):
            self.fail(error)

    async def _catch_up(self) -> None:
        """Wait for a draw: updates were skipped, or came too fast.

        The draw is used at the next point of a coarse time grid, so that the time of the message does not
        reveal how long sampling took.
        """
        assert self._host is not None
        assert self._noise is not None
        if self._refilling is not None:
            await finished(self._refilling)
        u = self._wanted()
        if u is not None and not self._noise.ready(u):
            # Draws of skipped updates are discarded. They were never used, so no update has a second draw.
            self._noise.begin(u)
            await finished(self._host.refill(self._noise))
        await self._clock.sleep(GRID - self._clock.now() % GRID)

    def _caught_up(self, drawing: asyncio.Future[None]) -> None:
        self._drawing = None
        error = None if drawing.cancelled() else drawing.exception()
        if isinstance(error, Exception):
            self.fail(error)
        else:
            self._stir()

    # ---- readings ------------------------------------------------------------------------------------

    def _unread(self) -> int | None:
        wanted: int | None = self.machine.wants_reading  # type: ignore[attr-defined]
        return wanted

    async def _read(self, slot: int, readings: Readings) -> None:
        """Read the value of a slot; a reading that comes after the slot is unused."""
        reading = await readings()
        self._arrived.append(ReadingReady(slot, reading, secrets.token_bytes(DIGEST_BYTES)))

    def _was_read(self, reading: asyncio.Future[None]) -> None:
        self._reading = None
        error = None if reading.cancelled() else reading.exception()
        if isinstance(error, Exception):
            self.fail(error)
        elif not reading.cancelled():
            self._stir()

    # ---- time ----------------------------------------------------------------------------------------

    def _expired(self) -> bool:
        """Whether the session has expired, by this machine's clock."""
        return self._clock.wall() >= self.machine.session.expires

    @property
    def _last_words(self) -> float:
        """Seconds to keep answering after the end.

        Members that did not receive the last message ask for it.
        """
        return self._stopped_linger if self.machine.phase.value == "stopped" else self._linger

    @property
    def _is_over(self) -> bool:
        return self.machine.phase.value in _OVER

    def _next_wake(self) -> float:
        """Return when the machine wants a tick or the session expires.

        The expiry is a date, and the clock of the machine may be set meanwhile. So it is looked at again each
        day at the latest.
        """
        wake, left = self.machine.wake, self.machine.session.expires - self._clock.wall()
        end = self._clock.now() + min(max(left, 0.0), _DAY)
        return end if wake is None else min(wake, end)

    def _stir(self, _: object = None) -> None:
        if self._host is not None and self._done is not None and not self._done.done():
            self._host.stir(self)

    def _set_alarm(self, wake: float) -> None:
        """Wake no later than `wake`; spurious wake-ups are harmless."""
        if self._alarm is not None and not self._alarm.done():
            if self._alarm_at <= wake:
                return
            self._alarm.cancel()
        self._alarm = None
        if wake < math.inf:
            self._alarm_at = wake
            self._alarm = asyncio.ensure_future(self._clock.sleep(wake - self._clock.now()))
            self._alarm.add_done_callback(self._stir)

    # ---- the end -------------------------------------------------------------------------------------

    def _end(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    async def _shut(self) -> None:
        assert self._host is not None
        for waiting in (self._alarm, self._drawing, self._reading):
            if waiting is not None:
                waiting.cancel()
        # First the host, which waits for a save under way; only then may the caller close the ledger.
        await self._host.remove(self)
        with suppress(Exception):
            await self._transport.close()
        if self._noise is not None:
            if self._refilling is not None:  # it would put more draws into the pool after it was emptied
                with suppress(Exception):
                    await finished(self._refilling)
            self._noise.close()
