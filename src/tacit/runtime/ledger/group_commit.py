"""Many ledgers of one process wait for the disk together.

Whoever hosts several agents has as many ledgers, and each would wait for a flush of its own. Here all that
is to be saved at about the same time is written first, then brought to the disk by one flush of the file
system, and only then is anyone told. A ledger alone flushes its own file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final
from weakref import WeakKeyDictionary

from tacit.runtime.ledger.flush import can_flush_file_system
from tacit.runtime.ledger.ledger import Ledger, flush_together
from tacit.runtime.workers import in_worker, pool

if TYPE_CHECKING:
    from tacit.protocol.records import Record


class Book(Protocol):
    """Where records are kept: `Ledger`."""

    def append(self, session: bytes, records: Sequence[Record]) -> None:
        """Save, durably, all or none."""
        ...


@dataclass(eq=False, slots=True)
class _Waiting:
    ledger: Ledger
    session: bytes
    records: Sequence[Record]
    saved: asyncio.Future[None]
    over: bool = False
    left: asyncio.Future[None] | None = None  # of whoever was stopped while this was being saved


@final
class _Desk:
    """What waits to be saved in one event loop.

    Not a task: when a program ends all tasks are cancelled, and what is being saved must come to its end.
    """

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._busy = False

    def take(self, item: _Waiting) -> None:
        """Save it with whatever else is to be saved by then."""
        self._waiting.append(item)
        if not self._busy:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._gather, 0)

    def _gather(self, before: int) -> None:
        """Begin when a turn of the loop brought nothing more: what is heard together is saved together."""
        if len(self._waiting) > before:
            asyncio.get_running_loop().call_soon(self._gather, len(self._waiting))
        else:
            self._begin()

    def _begin(self) -> None:
        batch, self._waiting = self._waiting, []
        self._busy = bool(batch)
        if batch:
            saving = asyncio.get_running_loop().run_in_executor(pool(), _save_all, batch)
            saving.add_done_callback(lambda over: self._settle(batch, over))

    def _settle(self, batch: Sequence[_Waiting], over: asyncio.Future[list[Exception | None]]) -> None:
        for item, error in zip(batch, over.result(), strict=True):
            item.over = True
            if item.left is not None:
                item.left.set_result(None)
            elif item.saved.cancelled():
                continue
            elif error is None:
                item.saved.set_result(None)
            else:
                item.saved.set_exception(error)
        self._begin()


_DESKS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Desk] = WeakKeyDictionary()


async def save(book: Book, session: bytes, records: Sequence[Record]) -> None:
    """Save records; they are on the disk when this returns. Once begun it is waited for."""
    if not isinstance(book, Ledger):
        await in_worker(lambda: book.append(session, records))
        return
    loop = asyncio.get_running_loop()
    desk = _DESKS.setdefault(loop, _Desk())
    item = _Waiting(book, session, records, loop.create_future())
    desk.take(item)
    try:
        await item.saved
    except asyncio.CancelledError:
        if not item.over:  # the ledger must not be closed before
            item.left = loop.create_future()
            await asyncio.wait([item.left])
        raise


def _save_all(batch: Sequence[_Waiting]) -> list[Exception | None]:
    """Save for each ledger; return what went wrong for each. On a thread that may wait."""
    together = len(batch) > 1 and can_flush_file_system()
    errors = [_saved(item, flush=not together) for item in batch]
    if together:
        written = [item.ledger for item, error in zip(batch, errors, strict=True) if error is None]
        try:
            unflushed = flush_together(written)
        except Exception as error:  # someone closed a ledger meanwhile: nobody can say what is on the disk
            return [error] * len(batch)
        errors = [error or unflushed.get(item.ledger) for item, error in zip(batch, errors, strict=True)]
    return errors


def _saved(item: _Waiting, *, flush: bool) -> Exception | None:
    try:
        item.ledger.append(item.session, item.records, flush=flush)
    except Exception as error:
        return error
    return None
