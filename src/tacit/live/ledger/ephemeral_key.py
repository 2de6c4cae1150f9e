"""The private ephemeral keys of a ledger's sessions, in files beside it.

The ledger is append-only, so a private key must not be in it. With a key and the messages on the wire anyone
can compute the numbers without masks. So the ledger owns its keys, and these rules hold for each of them:

- It is in a file of mode 600, which is on the disk before the public key is recorded.
- A key whose public half was not recorded is never used again. An image of the disk may have been taken in
  between, and two messages under one key would reveal their difference.
- When the ledger records that the key is not needed any more (`Erasing`), or that the session is over (ended,
  given up, expired), the file is overwritten and removed. If a crash comes in between, that is done when the
  ledger is opened next: only the files of sessions that can go on are kept.
- If the file is missing without such a record, no new key is made: it would not fit the masks of the others.

Overwriting does not reach all copies: SSDs, snapshots and backups may keep them. Keep these files out of
backups.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import final

from tacit.base.errors import FileError, LedgerError
from tacit.base.files import read_private, sync_directory, write_whole
from tacit.core.protocol.masks import KEY_BYTES


@final
class EphemeralKeys:
    """The files of one ledger's ephemeral keys, by session.

    A file's name has the session's id and its expiry, so that the keys of keepers, who reserve nothing in
    their ledgers, can be erased at the expiry, too.
    """

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._kept: dict[bytes, tuple[int, Path]] = {}  # on the disk: the expiry, and the file
        self._made: dict[bytes, tuple[int, int, bytes]] = {}  # not on the disk: member, expiry, key

    def __contains__(self, session: bytes) -> bool:
        return session in self._kept

    def sweep(self, needed: Callable[[bytes], bool]) -> None:
        """Find the files, and erase those that are not needed.

        Call it while no process uses the ledger: a session that runs now may not be recorded yet.
        """
        doomed = []
        for path, session, expires in self._found():
            if session is not None and needed(session):
                self._kept[session] = (expires, path)
            else:
                doomed.append(path)
        self._remove(doomed)

    def _found(self) -> Iterator[tuple[Path, bytes | None, int]]:
        """Yield each file with its session and expiry.

        There is no session for temporary copies that a crash has left, and for files of older versions.
        """
        name = re.escape(self._ledger.name)
        key = rf"{name}\.(?:([0-9a-f]{{64}})\.([0-9]+)|[0-9a-f]{{16}})\.ephemeral"
        file, part = re.compile(key), re.compile(rf"\.{key}\.[0-9a-f]+\.part")
        for entry in os.listdir(self._ledger.parent):
            if found := file.fullmatch(entry):
                session = None if found[1] is None else bytes.fromhex(found[1])
                yield self._ledger.with_name(entry), session, int(found[2] or 0)
            elif part.fullmatch(entry):
                yield self._ledger.with_name(entry), None, 0

    def read(self, session: bytes) -> bytes | None:
        """Return the key of a session; None if its file is gone."""
        if session not in self._kept or not self._kept[session][1].exists():
            return None
        path = self._kept[session][1]
        found = read_private(path)
        if len(found) != KEY_BYTES:
            raise FileError(f"{path} must hold an ephemeral key of {KEY_BYTES} bytes, and does not.")
        return found

    def make(self, session: bytes, member: int, expires: int) -> bytes:
        """Return a new key for a member; it is on the disk after `save`."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        key = X25519PrivateKey.generate().private_bytes_raw()
        self._made[session] = (member, expires, key)
        return key

    def save(self, session: bytes, member: int) -> None:
        """Write the new key of a member, if there is one, to the disk.

        Call it before the public key is recorded: if the power failed in between, the others would mask their
        messages with a key that nobody has.
        """
        if session not in self._made or self._made[session][0] != member:
            return
        _, expires, key = self._made.pop(session)
        path = self._ledger.with_name(f"{self._ledger.name}.{session.hex()}.{expires}.ephemeral")
        write_whole(path, key, force=True)
        self._kept[session] = (expires, path)

    def expired(self, now: float) -> list[bytes]:
        """Return the sessions with a key that have expired."""
        return [session for session, (expires, _) in self._kept.items() if expires <= now]

    def erase(self, sessions: Collection[bytes]) -> None:
        """Erase the keys of these sessions, from memory and disk."""
        doomed = []
        for session in sessions:
            self._made.pop(session, None)
            if session in self._kept:
                doomed.append(self._kept[session][1])
        self._remove(doomed)
        for session in sessions:
            self._kept.pop(session, None)

    def _remove(self, paths: Iterable[Path]) -> None:
        folder = None
        for path in paths:
            with suppress(OSError):  # removing it is what counts
                _overwrite(path)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise LedgerError(
                    f"{path} cannot be removed ({error.strerror}): it is the private key of a session that "
                    "is over, and opens its messages. Remove it yourself."
                ) from None
            folder = path.parent
        if folder is not None:
            sync_directory(folder)


def _overwrite(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.write(descriptor, bytes(KEY_BYTES))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
