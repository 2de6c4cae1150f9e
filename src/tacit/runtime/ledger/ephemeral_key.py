"""The private ephemeral key of an agent or keeper: a file of its own beside the ledger, and its end.

The ledger only grows, so a private key must not be in it. It is in a file of mode 600, on the disk before
its public half is recorded. When it is not needed any more the ledger says so first; then the file is
removed, and at every later start again. A file that is missing without that record is never made anew.

After that a stolen disk opens no transcript. Removing a name does not overwrite bytes: SSDs, snapshots and
backups may keep copies. Keep this file out of backups.
"""

from __future__ import annotations

from collections.abc import Iterable
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, final

from tacit.errors import FileError
from tacit.files import read_private, sync_directory, write_whole
from tacit.protocol.masks import KEY_BYTES
from tacit.protocol.records import Erasing, Keyed, Record

if TYPE_CHECKING:
    from tacit.protocol.session import Session


@final
class EphemeralKey:
    """The file of one member's ephemeral key in one session; told of records, it knows when to go."""

    def __init__(self, ledger: Path, session: Session, number: int) -> None:
        self.path = ledger.with_name(f"{ledger.name}.{session.id.hex()[:16]}.ephemeral")
        self._number = number

    def private(self, records: Iterable[Record]) -> bytes | None:
        """Return the key that these records go on with: a new one if they have none, None if it is gone."""
        records = list(records)
        if any(isinstance(record, Erasing) for record in records):
            self._remove()
            return None
        begun = any(isinstance(record, Keyed) and record.member == self._number for record in records)
        if not begun and not self.path.exists():
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

            write_whole(self.path, X25519PrivateKey.generate().private_bytes_raw())
        if not self.path.exists():
            return None  # the machine refuses it
        found = read_private(self.path)
        if len(found) != KEY_BYTES:
            raise FileError(f"{self.path} must hold an ephemeral key of {KEY_BYTES} bytes, and does not.")
        return found

    def take(self, records: Iterable[Record]) -> None:
        """Remove the file if these records, which are on the disk, say that it is not needed any more."""
        if any(isinstance(record, Erasing) for record in records):
            self._remove()

    def _remove(self) -> None:
        """Remove the file, and what a crash while it was being written may have left beside it."""
        folder = self.path.absolute().parent
        copies = [*folder.glob(f".{escape(self.path.name)}.*.part"), self.path]
        found = [path for path in copies if path.exists()]
        for path in found:
            path.unlink()
        if found:
            sync_directory(folder)
