"""Group commit: all ledgers of one process wait for the disk together.

A process with several agents has one ledger per agent, and each would wait for its own flush. Here all
records are written first, then flushed by one call for the file system, and only then reported as saved. A
single ledger flushes only its own file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tacit.live.ledger.flush import can_flush_file_system
from tacit.live.ledger.ledger import Ledger, flush_together
from tacit.live.ledger.log import Log

if TYPE_CHECKING:
    from tacit.core.protocol.records import Record


class Taker(Protocol):
    """Receives records once they are saved: a `TranscriptWriter`, a `Status`."""

    def take(self, records: Iterable[Record]) -> None:
        """Take records: all of the ledger at the start, then those of each step."""
        ...


class Saver(Protocol):
    """Has records of one session to save in one log, all or none: a `Node`."""

    ledger: Log

    def save(self, *, flush: bool) -> None:
        """Write the records, if any, to the ledger.

        Without `flush` this does not wait for the disk.
        """
        ...

    def tell(self) -> None:
        """Give the saved records to the takers."""
        ...


def save_all(batch: Sequence[Saver]) -> list[Exception | None]:
    """Save records durably; return the error of each item, or None.

    None means that its records are on the disk, so its messages may be sent. Call it on a thread that may
    wait.
    """
    # After a crash before the flush some ledgers may have the new records and others not. Each ledger is
    # right by itself: its marks have not moved, and none of the messages was sent.
    together = len(batch) > 1 and can_flush_file_system()
    errors = [_tried(partial(item.save, flush=not together)) for item in batch]
    if together:
        written = [item.ledger for item, error in zip(batch, errors, strict=True) if error is None]
        try:
            unflushed = flush_together([log for log in written if isinstance(log, Ledger)])
        except Exception as error:
            # A ledger was closed meanwhile, and it is unknown which records reached the disk. No messages are
            # sent, not even of the other ledgers; after a restart they send what is saved.
            return [error] * len(batch)
        errors = [error or unflushed.get(item.ledger) for item, error in zip(batch, errors, strict=True)]
    # The takers come last: a transcript or a status must not show a message that a crash could still undo,
    # because the agent would then send another one in its place.
    return [error or _tried(item.tell) for item, error in zip(batch, errors, strict=True)]


def _tried(work: Callable[[], None]) -> Exception | None:
    try:
        work()
    except Exception as error:
        return error
    return None
