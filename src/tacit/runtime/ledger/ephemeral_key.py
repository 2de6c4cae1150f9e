"""A member's private ephemeral key: a separate file beside the ledger.

The ledger is append-only, so a private key must not be in it. The key is in a file of mode 600, which is on
the disk before the public key is recorded. When the key is no longer needed, the ledger records that first.
Then the file is removed, and again at every later start in case a crash came in between. If the file is
missing without that record, no new key is made: it would not fit the masks of the others.

After the removal a stolen disk cannot unmask a transcript. But removing a file does not overwrite its bytes:
SSDs, snapshots and backups may keep copies. Keep this file out of backups.
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
    """The file of one member's ephemeral key in one session.

    It is removed when the records say that the key is no longer needed.
    """

    def __init__(self, ledger: Path, session: Session, number: int) -> None:
        self.path = ledger.with_name(f"{ledger.name}.{session.id.hex()[:16]}.ephemeral")
        self._number = number

    def private(self, records: Iterable[Record]) -> bytes | None:
        """Return the key for these records, a new one, or None if erased."""
        records = list(records)
        if any(isinstance(record, Erasing) for record in records):
            self._remove()  # a crash came after the record was saved and before the file was removed
            return None
        begun = any(isinstance(record, Keyed) and record.member == self._number for record in records)
        # A file without a record is a crash between the two: the public key was never sent, so this key is
        # used now. A second one is made only if there is neither.
        if not begun and not self.path.exists():
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

            # On the disk before the public key is recorded and sent: if the power failed in between, the
            # others would have masked their messages with a key that nobody has.
            write_whole(self.path, X25519PrivateKey.generate().private_bytes_raw())
        if not self.path.exists():
            return None  # recorded but lost: the machine refuses to resume
        found = read_private(self.path)
        if len(found) != KEY_BYTES:
            raise FileError(f"{self.path} must hold an ephemeral key of {KEY_BYTES} bytes, and does not.")
        return found

    def take(self, records: Iterable[Record]) -> None:
        """Remove the file if these records say that the key is not needed.

        They are saved already. Removed first, the key would be missing without a reason after a crash.
        """
        if any(isinstance(record, Erasing) for record in records):
            self._remove()

    def _remove(self) -> None:
        """Remove the file, and temporary copies that a crash may have left."""
        folder = self.path.absolute().parent
        copies = [*folder.glob(f".{escape(self.path.name)}.*.part"), self.path]
        found = [path for path in copies if path.exists()]
        for path in found:
            path.unlink()
        if found:
            sync_directory(folder)
