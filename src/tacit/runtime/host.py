"""Drives all machines of one event loop: everything that arrived is handled, saved once, then sent.

The order is the whole point. What machines return is written to their ledgers first and brought to the disk
by one flush for all of them. Only then do their messages leave. If saving fails for a machine, none of its
messages leave and it is never used again: the next run starts from what its ledger has.

There is no task per machine. The network calls `stir`, and one callback of the event loop then handles all
machines that were stirred meanwhile. A process with one machine has the fewest steps between hearing and
speaking: a callback, a thread that waits for the disk, a callback.

What arrives while the disk is waited for is handled at once and saved by the next flush. The messages of a
machine never overtake each other, nor any of its records.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeVar, final
from weakref import WeakKeyDictionary

from tacit.noise.ahead import refill_together
from tacit.protocol.codec import MOST_REMEMBERED
from tacit.runtime.ledger.group_commit import Saving, save_all
from tacit.runtime.workers import finished, pool

if TYPE_CHECKING:
    from tacit.noise.ahead import DrawnAhead
    from tacit.protocol.codec import Codec
    from tacit.protocol.effects import Step

T = TypeVar("T")
_CHECK_TOGETHER = 8
"""From so many frames on, signatures are checked by two threads."""


class Hosted(Protocol):
    """What a host drives: a `Node`."""

    heavy: bool
    """Whether its machine computes for so long that the event loop must go on meanwhile."""

    def take(self) -> Sequence[tuple[Codec, bytes]]:
        """Take all that arrived, and return the frames of it."""
        ...

    def handle(self) -> Sequence[Step]:
        """Let the machine handle what was taken. Heavy ones are called on another thread."""
        ...

    def saving(self, steps: Sequence[Step]) -> Saving:
        """Return what must be saved before these steps are carried out."""
        ...

    def carry_out(self, steps: Sequence[Step]) -> None:
        """Send and show what is saved by now."""
        ...

    def handled(self) -> None:
        """See what is to be done next: wait until some time, draw noise."""
        ...

    def fail(self, error: Exception) -> None:
        """Never use the machine again."""
        ...


@final
class Host:
    """The machines of one event loop; `Host.here()` returns the one of the running loop."""

    def __init__(self) -> None:
        # The loop itself is not kept: `_HOSTS` would then keep both for ever.
        self._nodes: set[Hosted] = set()
        self._stirred: dict[Hosted, None] = {}  # in the order in which they were
        self._turning = False
        self._busy: dict[Hosted, asyncio.Future[None]] = {}  # heavy ones that another thread handles now
        self._unsaved: dict[Hosted, list[Step]] = {}  # handled, and not being saved yet
        self._saving: dict[Hosted, list[Step]] = {}
        self._saved: asyncio.Future[None] | None = None  # done when what is being saved is on the disk
        self._to_draw: dict[DrawnAhead, None] = {}
        self._drawn: asyncio.Future[None] | None = None  # done when what waits now is drawn
        self._drawing = False

    @classmethod
    def here(cls) -> Host:
        """Return the host of the running event loop."""
        loop = asyncio.get_running_loop()
        host = _HOSTS.get(loop)
        if host is None:
            host = _HOSTS[loop] = cls()
        return host

    # ---- machines come and go ------------------------------------------------------------------------

    def add(self, node: Hosted) -> None:
        """Drive a machine from now on."""
        self._nodes.add(node)
        self.stir(node)

    async def remove(self, node: Hosted) -> None:
        """Drive a machine no longer. What is being saved is waited for: its ledger may be closed next."""
        self._nodes.discard(node)
        self._stirred.pop(node, None)
        self._unsaved.pop(node, None)
        if node in self._busy:
            await finished(self._busy[node])
        if node in self._saving and self._saved is not None:
            await finished(self._saved)

    # ---- hear, save, speak ---------------------------------------------------------------------------

    def stir(self, node: Hosted) -> None:
        """Handle a machine's arrivals soon, together with those of all others that are stirred by then."""
        self._stirred[node] = None
        if not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turning = False
        stirred, self._stirred = self._stirred, {}
        taken, frames = [], list[tuple["Codec", bytes]]()
        for node in stirred:
            if node in self._busy:
                self._stirred[node] = None  # `_worked` comes back to it
            elif node in self._nodes:
                try:
                    frames += node.take()
                except Exception as error:
                    self._fail(node, error)
                else:
                    taken.append(node)
        if len(frames) >= _CHECK_TOGETHER:
            _check_together(frames)
        for node in taken:
            if node.heavy:
                self._work(node)
            else:
                self._handle(node)
        self._save()

    def _handle(self, node: Hosted) -> None:
        try:
            steps = node.handle()
        except Exception as error:
            self._fail(node, error)
        else:
            self._queue(node, steps)

    def _work(self, node: Hosted) -> None:
        """Let another thread handle a machine that computes for long."""
        self._busy[node] = asyncio.get_running_loop().create_future()
        _elsewhere(node.handle, lambda steps, error: self._worked(node, steps, error))

    def _worked(self, node: Hosted, steps: Sequence[Step] | None, error: Exception | None) -> None:
        self._busy.pop(node).set_result(None)
        if error is not None or steps is None:
            assert error is not None
            self._fail(node, error)
        elif node in self._nodes:
            self._queue(node, steps)
            self._save()
        if node in self._stirred:
            self.stir(node)

    def _queue(self, node: Hosted, steps: Sequence[Step]) -> None:
        """Keep steps until they are saved; carry them out at once if there is nothing to wait for."""
        waits = node in self._unsaved or node in self._saving
        if waits or any(step.records for step in steps):
            self._unsaved.setdefault(node, []).extend(steps)
        else:
            self._carry_out(node, steps)

    def _carry_out(self, node: Hosted, steps: Sequence[Step]) -> None:
        try:
            node.carry_out(steps)
            node.handled()
        except Exception as error:
            self._fail(node, error)

    def _save(self) -> None:
        """Bring to the disk what was handled; one flush at a time, for all machines."""
        if self._saving or not self._unsaved:
            return
        batch = self._saving = self._unsaved
        self._unsaved = {}
        items = [node.saving(steps) for node, steps in batch.items()]
        self._saved = asyncio.get_running_loop().create_future()
        _elsewhere(lambda: save_all(items), lambda errors, error: self._settle(batch, errors, error))

    def _settle(
        self,
        batch: dict[Hosted, list[Step]],
        errors: Sequence[Exception | None] | None,
        failed: Exception | None,
    ) -> None:
        saved, self._saved, self._saving = self._saved, None, {}
        assert saved is not None
        saved.set_result(None)
        found = [failed] * len(batch) if errors is None else errors
        for (node, steps), error in zip(batch.items(), found, strict=True):
            if node not in self._nodes:
                continue  # it was stopped meanwhile: what it said is saved, and repeated when it resumes
            if error is None:
                self._carry_out(node, steps)
            else:
                self._fail(node, error)
        self._save()

    def _fail(self, node: Hosted, error: Exception) -> None:
        self._nodes.discard(node)
        self._stirred.pop(node, None)
        self._unsaved.pop(node, None)  # it is ahead of what is durable
        node.fail(error)

    # ---- noise ---------------------------------------------------------------------------------------

    def refill(self, draws: DrawnAhead) -> asyncio.Future[None]:
        """Fill a pool of draws soon, with those of all other machines that need some by then."""
        self._to_draw[draws] = None
        if self._drawn is None:
            self._drawn = asyncio.get_running_loop().create_future()
            if not self._drawing:
                asyncio.get_running_loop().call_soon(self._draw)
        return self._drawn

    def _draw(self) -> None:
        done, self._drawn = self._drawn, None
        if done is None:
            return
        batch, self._to_draw = tuple(self._to_draw), {}
        self._drawing = True
        _elsewhere(lambda: refill_together(batch), lambda _, error: self._have_drawn(done, error))

    def _have_drawn(self, done: asyncio.Future[None], error: Exception | None) -> None:
        self._drawing = False
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
        self._draw()


_HOSTS: WeakKeyDictionary[asyncio.AbstractEventLoop, Host] = WeakKeyDictionary()


def _elsewhere(work: Callable[[], T], then: Callable[[T | None, Exception | None], None]) -> None:
    """Do work on another thread, then call `then` in this event loop with its result or its error.

    Not a task or an executor's future: when a program ends all tasks are cancelled, and what is being saved
    must come to its end. It also takes one turn of the loop instead of three.
    """
    loop = asyncio.get_running_loop()

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as caught:
            error = caught
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(then, result, error)

    pool().submit(run)


@cache
def _checker() -> ThreadPoolExecutor | None:
    """Return a second thread for signatures, where there is a second core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(1, thread_name_prefix="tacit-check") if cores > 1 else None


def _check_together(frames: Sequence[tuple[Codec, bytes]]) -> None:
    """Check the signatures of frames by two threads; machines find what comes of it in `Codec.open`.

    Checking holds the interpreter's lock for a small part of its time only.
    """
    checker = _checker()
    each = list({frame: codec for codec, frame in frames}.items())[:MOST_REMEMBERED]
    if checker is None or len(each) < _CHECK_TOGETHER:
        return
    half = len(each) // 2
    other = checker.submit(_check, each[:half])
    _check(each[half:])
    other.result()


def _check(frames: Sequence[tuple[bytes, Codec]]) -> None:
    for frame, codec in frames:
        codec.open(frame)
