"""A ledger's position, stored outside of it, to detect a rollback.

There is one such file (a mark) beside each ledger, one with the keys that use the ledger, and one more if the
owner wants a witness elsewhere (`key_guard`). It has 1,536 bytes. It is written in place and never replaced,
because the lock (`flock`) is on it:

    0     text for people: who holds the lock, and for which ledger it was made
    512   the ledger's position, with a checksum
    1024  the same; writes alternate between the two, so that an interrupted write leaves the previous one

Each write has a number and goes to the slot that the write before did not use. So at any moment one slot
holds the newest position that was written completely.
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

from tacit.base.errors import InputError, LedgerError, LedgerInUse
from tacit.base.files import PRIVATE, require_private, sync_directory
from tacit.live.ledger.flush import flush_file

_SLOT = struct.Struct(">8s16sQ32sQ?Q")
_TOLD = struct.Struct(">16sQ32s")
TOLD_BYTES = _TOLD.size
_MAGIC, _OLD_MAGIC = b"tacit-m2", b"tacit-m1"
_SLOTS = (512, 1024)
_SUM = 16


@final
@dataclass(frozen=True)
class Position:
    """A ledger's identity, its number of records, and the last digest.

    The digest covers all records before it (`schema.digest`). So a ledger that has this digest at this
    number has the same history up to there.
    """

    generation: bytes
    count: int
    head: bytes
    inode: int
    born: bool
    """Whether the ledger was ever complete; before that nothing can have been sent."""

    def told(self) -> bytes:
        """Return what others may store of it, for `heard`: nothing private.

        The digests are of salted rows, so they reveal nothing about them. The number counts steps of
        sessions, which do not depend on the value.
        """
        return _TOLD.pack(self.generation, self.count, self.head)

    @classmethod
    def heard(cls, data: bytes) -> Position:
        """Read what `told` returned, when another one says it."""
        if len(data) != TOLD_BYTES:
            raise InputError(f"the mark of a ledger has {TOLD_BYTES} bytes.")
        generation, count, head = _TOLD.unpack(data)
        if count >= 1 << 63:
            raise InputError("the mark of a ledger must have a number below 2^63.")
        return cls(generation, count, head, inode=0, born=True)

    def pack(self, turn: int) -> bytes:
        """Return the bytes of one slot, for the write with this number."""
        body = _SLOT.pack(_MAGIC, self.generation, self.count, self.head, self.inode, self.born, turn)
        return body + hashlib.sha256(body).digest()[:_SUM]

    @classmethod
    def unpack(cls, data: bytes) -> tuple[int, Position] | None:
        """Return a slot's write number and position; None if incomplete."""
        body, checksum = data[: _SLOT.size], data[_SLOT.size : _SLOT.size + _SUM]
        if len(body) < _SLOT.size or hashlib.sha256(body).digest()[:_SUM] != checksum:
            return None
        magic, *fields, turn = _SLOT.unpack(body)
        return (turn, cls(*fields)) if magic == _MAGIC else None


@final
class Mark:
    """An open, locked mark.

    Parameters
    ----------
    ledger : path
        The ledger that it is for, as shown to people.
    create : bool
        Create the file if there is none.
    """

    def __init__(self, path: Path, ledger: Path, *, create: bool) -> None:
        self.path, self._ledger, self._turn = path, ledger, 0
        # A symbolic link here could point to another file of the owner, which would be overwritten.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
        made = not path.exists()
        self._file = os.open(path, flags, PRIVATE)
        try:
            # Lock before reading or writing anything, so that a process that uses the ledger is undisturbed.
            # flock belongs to the open file: the kernel releases it when the process dies, however it dies.
            self._lock()
            if made:
                os.fchmod(self._file, PRIVATE)  # the umask may have changed the mode
                # Without this a power cut could remove the new mark again, and with it the evidence of what
                # was sent meanwhile.
                sync_directory(path.parent)
            require_private(path, status := os.fstat(self._file))
            if status.st_nlink != 1 or not stat.S_ISREG(status.st_mode):
                raise LedgerError(f"{path} must be a plain file with one name, and is not: find out why.")
            self._tell(f"used by process {os.getpid()}")
        except BaseException:
            os.close(self._file)
            raise

    def _tell(self, how: str) -> None:
        """Write the lines for people."""
        lines = f"tacit ledger mark, {how}\n{self._ledger}\n".encode(errors="replace")
        os.pwrite(self._file, lines[: _SLOTS[0]].ljust(_SLOTS[0], b"\0"), 0)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerInUse(
                f"{self._ledger} is in use by {self._holder()}: two agents must never share a ledger. "
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
        """Return the stored position; None for a mark that was never written.

        Call it before the first `write`: it also finds the number of the last write. A writer that started
        from 0 would have lower numbers than an old slot, and the old position would win at the next start.
        """
        slots = [os.pread(self._file, 512, place) for place in _SLOTS]
        whole = [found for found in map(Position.unpack, slots) if found is not None]
        if any(slot.startswith(_OLD_MAGIC) for slot in slots):
            raise LedgerError(
                f"{self.path} was written by tacit 0.1, whose ledgers this version cannot use: use the tacit "
                "that wrote it, or start a new ledger and set its cap to what remains."
            )
        # Damage is refused, not read as "never written": otherwise an attacker could spoil the mark and then
        # put an old ledger back.
        if not whole and any(any(slot) for slot in slots):
            raise LedgerError(
                f"{self.path} is damaged, so it is unknown whether {self._ledger} is the newest. Do not "
                "restore them from a backup: start a new ledger, and count all caps in this one as spent."
            )
        if not whole:
            return None
        # One complete slot is enough. The other can be incomplete only if the power failed during its write,
        # and a guard is flushed before the message that it counts is sent.
        self._turn, newest = max(whole, key=lambda found: found[0])
        return newest

    def write(self, position: Position, *, durable: bool) -> None:
        """Store the ledger's position; `durable` waits for the disk."""
        # The slot follows the number of the write, not the number of records: an append of two records at a
        # time would always choose the same slot, and an interrupted write would then destroy the only one.
        self._turn += 1
        os.pwrite(self._file, position.pack(self._turn).ljust(512, b"\0"), _SLOTS[self._turn % 2])
        if durable:
            flush_file(self._file)

    def close(self) -> None:
        """Release the lock."""
        if self._file >= 0:
            with suppress(OSError):
                self._tell("not in use")
            os.close(self._file)
            self._file = -1


def told(path: Path) -> str | None:
    """Return the ledger for which a mark was made, if the mark can be read."""
    with suppress(OSError, IndexError):
        return path.read_bytes()[: _SLOTS[0]].split(b"\n")[1].decode(errors="replace")
    return None
