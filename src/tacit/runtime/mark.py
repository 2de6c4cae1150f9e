"""The mark beside a ledger: who uses it now, and how far it had come.

A ledger that is older than its mark, or another file than the mark was made for, was copied back from
somewhere: messages that were sent since are not in it. The mark is a file of 1,536 bytes that is never
replaced, only written in place, because the lock (`flock`) is on it:

    0     a line for people, with the number of the process that holds the lock
    512   how far the ledger had come, with a checksum; and again at
    1024  in turns, so that a write cut short leaves the one before
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from tacit.errors import LedgerError
from tacit.runtime.files import PRIVATE, require_private, sync_directory

_SLOT = struct.Struct(">8s16sQ32sQ?")
_MAGIC = b"tacit-m1"
_SLOTS = (512, 1024)
_SUM = 16


@final
@dataclass(frozen=True)
class Position:
    """How far a ledger had come: its identity, how many records, and the digest of the last."""

    generation: bytes
    count: int
    head: bytes
    inode: int
    born: bool
    """Whether the ledger was ever whole; before that nothing can have been said."""

    def pack(self) -> bytes:
        """Return the bytes of one slot."""
        body = _SLOT.pack(_MAGIC, self.generation, self.count, self.head, self.inode, self.born)
        return body + hashlib.sha256(body).digest()[:_SUM]

    @classmethod
    def unpack(cls, data: bytes) -> Position | None:
        """Read a slot; None if it is not whole."""
        body, checksum = data[: _SLOT.size], data[_SLOT.size : _SLOT.size + _SUM]
        if len(body) < _SLOT.size or hashlib.sha256(body).digest()[:_SUM] != checksum:
            return None
        magic, *fields = _SLOT.unpack(body)
        return cls(*fields) if magic == _MAGIC else None


@final
class Mark:
    """An open, locked mark."""

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path
        # A link here could lead to a private file of the owner's, which would be overwritten.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
        made = not path.exists()
        self._file = os.open(path, flags, PRIVATE)
        try:
            self._lock()
            if made:
                os.fchmod(self._file, PRIVATE)
                sync_directory(path.parent)
            require_private(path, status := os.fstat(self._file))
            if status.st_nlink != 1 or not stat.S_ISREG(status.st_mode):
                raise LedgerError(f"{path} must be a plain file of one name, and is not: find out why.")
            held = f"tacit ledger mark, used by process {os.getpid()}\n".encode()
            os.pwrite(self._file, held.ljust(_SLOTS[0], b"\0"), 0)
        except BaseException:
            os.close(self._file)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            ledger = self.path.with_suffix("")
            raise LedgerError(
                f"{ledger} is in use by {self._holder()}: two agents must never share a ledger. "
                "Stop that one, or give this agent a ledger of its own."
            ) from None

    def _holder(self) -> str:
        with suppress(OSError, ValueError, IndexError):
            line = os.pread(self._file, _SLOTS[0], 0).split(b"\n")[0]
            return f"process {int(line.rsplit(b' ', 1)[1])}"
        return "another process"

    @property
    def descriptor(self) -> int:
        """The open file."""
        return self._file

    def read(self) -> Position | None:
        """Return how far the ledger had come; None for a mark that was never written."""
        found = [Position.unpack(os.pread(self._file, 512, place)) for place in _SLOTS]
        whole = [position for position in found if position is not None]
        if not whole and any(any(os.pread(self._file, 512, place)) for place in _SLOTS):
            raise LedgerError(
                f"{self.path} is damaged, so nobody can say whether the ledger beside it is the newest: "
                "restore both from no backup; start a new ledger, and count all caps in this one as spent."
            )
        return max(whole, key=lambda position: (position.born, position.count), default=None)

    def write(self, position: Position, *, durable: bool) -> None:
        """Keep how far the ledger has come; `durable` waits for the disk."""
        os.pwrite(self._file, position.pack().ljust(512, b"\0"), _SLOTS[(position.count + position.born) % 2])
        if durable:
            os.fsync(self._file)

    def close(self) -> None:
        """Let go of the lock."""
        if self._file >= 0:
            with suppress(OSError):
                os.pwrite(self._file, b"tacit ledger mark, not in use\n".ljust(_SLOTS[0], b"\0"), 0)
            os.close(self._file)
            self._file = -1
