"""Many ledgers of one process wait for the disk together.

Whoever hosts several agents has as many ledgers, and each would wait for a flush of its own. Here all that is
to be saved is written first, then brought to the disk by one flush of the file system, and only then is
anyone told. A ledger alone flushes its own file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

from tacit.runtime.ledger.flush import can_flush_file_system
from tacit.runtime.ledger.ledger import Ledger, flush_together

if TYPE_CHECKING:
    from tacit.protocol.records import Record


class Taker(Protocol):
    """Told of records once they are saved: a `TranscriptWriter`, a `Status`."""

    def take(self, records: Iterable[Record]) -> None:
        """Take all records of the ledger at the start, then each step's."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Saving:
    """Records of one session to be saved in one ledger, all or none; then told to `takers`."""

    ledger: Ledger
    session: bytes
    records: Sequence[Record]
    takers: Sequence[Taker] = ()


def save_all(batch: Sequence[Saving]) -> list[Exception | None]:
    """Save records, durably; return for each item what went wrong, None where it is on the disk.

    Call it on a thread that may wait.
    """
    writing = [item for item in batch if item.records]
    together = len(writing) > 1 and can_flush_file_system()
    errors = [_written(item, flush=not together) for item in batch]
    if together:
        written = [item.ledger for item, error in zip(batch, errors, strict=True) if error is None]
        try:
            unflushed = flush_together(written)
        except Exception as error:  # someone closed a ledger meanwhile: nobody can say what is on the disk
            return [error] * len(batch)
        errors = [error or unflushed.get(item.ledger) for item, error in zip(batch, errors, strict=True)]
    return [error or _told(item) for item, error in zip(batch, errors, strict=True)]


def _written(item: Saving, *, flush: bool) -> Exception | None:
    try:
        if item.records:
            item.ledger.append(item.session, item.records, flush=flush)
    except Exception as error:
        return error
    return None


def _told(item: Saving) -> Exception | None:
    try:
        for taker in item.takers if item.records else ():
            taker.take(item.records)
    except Exception as error:
        return error
    return None
