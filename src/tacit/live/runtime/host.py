"""Drives all machines of one event loop: take arrivals, save, then send.

The order matters. Records that machines return are written to their ledgers first, and one flush brings all
of them to the disk. Only then are messages sent. If messages were sent first, a crash could lose the record
of a message, and the agent would draw new noise for it. If saving fails for a machine, none of its messages
are sent and it is never used again: the next run resumes from its ledger.

There is no task per machine. The network calls `stir`, and one callback of the event loop then handles all
machines that were stirred since. A process with one machine has the fewest steps between receiving and
sending: a callback, a thread that waits for the disk, a callback.

Frames that arrive during a flush are handled at once and saved by the next flush. Messages of a machine are
sent in order, and never before their records are saved.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeVar, final
from weakref import WeakKeyDictionary

from tacit.core.noise.ahead import refill_together
from tacit.core.protocol.codec import MOST_REMEMBERED
from tacit.live.ledger.group_commit import Saver, save_all
from tacit.live.runtime.workers import finished, pool

if TYPE_CHECKING:
    from tacit.core.noise.ahead import DrawnAhead
    from tacit.core.protocol.codec import Codec

T = TypeVar("T")
_CHECK_TOGETHER = 8
"""From this many frames on, signatures are checked by two threads."""


class Hosted(Saver, Protocol):
    """The interface of what a host drives: a `Node`.

    The host decides when a node acts, and never sees its records and messages. The node queues the steps of
    its machine. `save` makes a batch of them and writes it, `carry_out` sends it.
    """

    heavy: bool
    """Whether its machine computes so long that it must run on another thread."""

    def take(self) -> int:
        """Take everything that arrived, and return the number of arrivals."""
        ...

    def frames(self) -> Iterable[tuple[Codec, bytes]]:
        """Return the frames that were taken, each with its codec."""
        ...

    def handle(self) -> bool:
        """Let the machine handle what was taken; return whether to save.

        For heavy nodes this is called on another thread.
        """
        ...

    def carry_out(self) -> None:
        """Send the saved batch and report its notices; then plan the next step."""
        ...

    def fail(self, error: Exception) -> None:
        """Never use the machine again."""
        ...


@final
class Host:
    """The machines of one event loop; `here` returns that of the running one."""

    def __init__(self) -> None:
        # The loop itself is not kept: `_HOSTS` would then keep both for ever.
        self._nodes: set[Hosted] = set()
        self._stirred: dict[Hosted, None] = {}  # an ordered set: the order in which they were stirred
        self._turning = False
        self._seen = 0  # how many were stirred when the turn was put off
        self._busy: dict[Hosted, asyncio.Future[None]] = {}  # heavy ones that another thread handles now
        self._unsaved: dict[Hosted, None] = {}  # have steps that the save under way does not include
        self._saving: dict[Hosted, None] = {}
        self._saved: asyncio.Future[None] | None = None  # done when the save under way is on the disk
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
        """Stop driving a machine, and wait until no other thread uses it.

        The caller may close the machine's ledger next, so a save under way must be over by then.
        """
        self._nodes.discard(node)
        self._stirred.pop(node, None)
        # Steps that are not being saved yet are dropped. Nothing of them was sent. So after a restart the
        # machine may draw their noise anew: nobody has seen the first draw.
        self._unsaved.pop(node, None)
        if node in self._busy:
            await finished(self._busy[node])
        if node in self._saving and self._saved is not None:
            await finished(self._saved)

    # ---- hear, save, speak ---------------------------------------------------------------------------

    def stir(self, node: Hosted) -> None:
        """Handle a machine's arrivals soon, in one turn with other machines."""
        self._stirred[node] = None
        if not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        # What is sent to many machines arrives within moments. Handled in one turn it is saved by one flush,
        # so the turn waits while each look at the sockets finds another machine's, and no longer.
        if self._seen < len(self._stirred) < len(self._nodes):
            self._seen = len(self._stirred)
            asyncio.get_running_loop().call_soon(self._turn)
            return
        self._turning, self._seen = False, 0
        stirred, self._stirred = self._stirred, {}
        taken, frames = list[Hosted](), 0
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
        # All frames are taken before any is handled, so that the signatures of all are checked together.
        if frames >= _CHECK_TOGETHER:
            _check_together([frame for node in taken for frame in node.frames()])
        for node in taken:
            if node.heavy:
                self._work(node)
            else:
                self._handle(node)
        self._save()

    def _handle(self, node: Hosted) -> None:
        try:
            saves = node.handle()
        except Exception as error:
            self._fail(node, error)
        else:
            self._queue(node, saves)

    def _work(self, node: Hosted) -> None:
        """Let another thread handle a machine with long computations.

        In this thread they would delay all other machines, and answers to pings: others would take this
        process for dead. While the machine is in `_busy`, nothing else calls its `take` or `handle`.
        """
        self._busy[node] = asyncio.get_running_loop().create_future()
        _elsewhere(node.handle, lambda saves, error: self._worked(node, saves, error))

    def _worked(self, node: Hosted, saves: bool | None, error: Exception | None) -> None:
        self._busy.pop(node).set_result(None)
        if error is not None or saves is None:
            assert error is not None
            self._fail(node, error)
        elif node in self._nodes:
            self._queue(node, saves)
            self._save()
        if node in self._stirred:
            self.stir(node)

    def _queue(self, node: Hosted, saves: bool) -> None:
        """Queue a machine's steps for the next save, or send them at once."""
        # Steps without records also wait behind earlier steps that are not on the disk yet. Otherwise their
        # messages would overtake, and could show a state that a crash then undoes.
        if saves or node in self._unsaved or node in self._saving:
            self._unsaved[node] = None
        else:
            node.save(flush=False)  # writes nothing, but makes the batch that `carry_out` sends
            self._carry_out(node)

    def _carry_out(self, node: Hosted) -> None:
        try:
            node.carry_out()
        except Exception as error:
            self._fail(node, error)

    def _save(self) -> None:
        """Save the steps of all machines with one flush, one flush at a time.

        A flush takes milliseconds on a disk. Machines that step meanwhile share the next one, so a slow disk
        makes batches larger, and the queue does not grow.
        """
        if self._saving or not self._unsaved:
            return
        batch = self._saving = self._unsaved
        self._unsaved = {}
        self._saved = asyncio.get_running_loop().create_future()
        _elsewhere(lambda: save_all(list(batch)), lambda errors, error: self._settle(batch, errors, error))

    def _settle(
        self,
        batch: dict[Hosted, None],
        errors: Sequence[Exception | None] | None,
        failed: Exception | None,
    ) -> None:
        # `_saving` is emptied first: `carry_out` may stir machines, and their steps go into the next save.
        saved, self._saved, self._saving = self._saved, None, {}
        assert saved is not None
        saved.set_result(None)
        # If the save as a whole failed, nobody can say what is on the disk, so no machine may send.
        found = [failed] * len(batch) if errors is None else errors
        for node, error in zip(batch, found, strict=True):
            if node not in self._nodes:
                continue  # it was stopped or failed; its messages are saved, and sent when it resumes
            if error is None:
                self._carry_out(node)
            else:
                self._fail(node, error)
        self._save()

    def _fail(self, node: Hosted, error: Exception) -> None:
        self._nodes.discard(node)
        self._stirred.pop(node, None)
        self._unsaved.pop(node, None)  # its state is ahead of the disk, so nothing of it may be sent
        node.fail(error)

    # ---- noise ---------------------------------------------------------------------------------------

    def refill(self, draws: DrawnAhead) -> asyncio.Future[None]:
        """Fill a pool of draws soon, together with other pools that need draws.

        Pools are filled on another thread, one batch at a time: a draw takes longer than a turn of the loop,
        and many draws of one call are cheaper than many calls.
        """
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
    """Do work on another thread, then call `then` here with the outcome.

    A task or an executor's future is not used: when a program ends, all tasks are cancelled, but a save under
    way must finish. This way also takes one turn of the loop instead of three.
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
    """Check signatures on two threads; `Codec.open` remembers the results.

    A check releases the interpreter lock for most of its time, so two threads help.
    """
    checker = _checker()
    # A frame that several machines received is checked once. Frames beyond what a codec remembers would be
    # checked a second time when they are handled.
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
