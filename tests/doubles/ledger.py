"""A ledger in memory that can be told to fail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from tacit.core.protocol.records import Record, decode_record, encode_record


class SaveFailed(Exception):
    """Saving failed, because the test said that the disk is full."""


@final
class ListLedger:
    """Records in the order they were saved, as bytes, all of a step or none.

    Attributes
    ----------
    full : bool
        Whether saving fails from now on.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._saved = [encode_record(record) for record in records]
        self.full = False

    def __repr__(self) -> str:
        return f"<ListLedger of {len(self._saved)} records>"

    def save(self, records: Iterable[Record]) -> None:
        """Save all of these, or none and raise."""
        new = [encode_record(record) for record in records]
        if new and self.full:
            raise SaveFailed("no space left")
        self._saved += new

    def records(self) -> tuple[Record, ...]:
        """Read everything back."""
        return tuple(map(decode_record, self._saved))

    def __len__(self) -> int:
        return len(self._saved)
