"""Files: written completely or not at all.

Files with secrets are readable by their owner only. The only place that replaces a file, and the only journal
of lines. A crash, a full disk or a second writer leaves either the old file or the new one, never a part of
it. A journal keeps its complete lines; an incomplete last line is ignored.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, final

from tacit.base.errors import DiskFull, FileError

PRIVATE, PUBLIC, CLOSED = 0o600, 0o644, 0o700
_ROOM = 1 << 16  # bytes that a disk must have left
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a disk that takes no more data for now."""
LARGEST = 1 << 26
"""Maximum size of a file that is read at once, and of a line, in bytes."""


def private_directory(path: Path) -> Path:
    """Make a directory that only its owner can enter.

    Refuse an existing one that others can enter.
    """
    try:
        path.mkdir(mode=CLOSED, parents=True)
        path.chmod(CLOSED)  # the umask may have removed the owner's bits
        return path
    except FileExistsError:
        pass
    except OSError as error:
        raise refused(path, error) from None
    if not path.is_dir():
        raise FileError(f"{path} must be a directory, and is not one: choose another.")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise FileError(
            f"{path} must be closed to others (mode 700), but has mode {mode:o}: chmod 700 it, "
            "or choose a new directory."
        )
    return path


def write_whole(
    path: Path,
    data: bytes | memoryview,
    *,
    mode: int | None = PRIVATE,
    force: bool = False,
    durable: bool = True,
) -> None:
    """Write a file atomically: after a crash it is complete or absent.

    An existing file is refused unless `force`; of two writers only one succeeds. `durable` waits for the
    disk. With `mode` None the umask decides who may read it.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(part, flags, 0o666 if mode is None else mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                file.write(data)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            if force:
                os.replace(part, path)
            else:
                os.link(part, path)  # unlike a rename, it fails if the file exists
        finally:
            with suppress(FileNotFoundError):
                part.unlink()
        if durable:
            sync_directory(path.parent)
    except FileExistsError:
        raise FileError(
            f"{path} exists already: choose another place, or use --force to overwrite it."
        ) from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        kind = DiskFull if error.errno in FULL else FileError
        raise kind(f"{path} cannot be written: {why}. What was there is unchanged.") from None


def require_room(folder: Path) -> None:
    """Write, flush and remove a small file; `DiskFull` if that fails."""
    probe = folder / f".{secrets.token_hex(8)}.probe"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(bytes(_ROOM))
                file.flush()
                os.fsync(file.fileno())
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise DiskFull(f"nothing can be written into {folder}: {why}. Make room on its disk.") from None


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Let the body write a temporary file, and rename it at the end.

    It becomes `path` when it is complete. For libraries that write to a path themselves. The name keeps its
    suffix, which they depend on.
    """
    part = path.with_name(f".{path.stem}.{secrets.token_hex(8)}.part{path.suffix}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def open_own(path: Path) -> int:
    """Open a public file of our own for appending, or make it.

    Return its descriptor. An attacker who can create a link must not make us write to a key, a value or
    another file of the owner. So links are not followed, and the file must be a regular file of this user
    with one name. Callers also check its first bytes (`begins_as`).
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, PUBLIC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileError(f"{path} must be a plain file, and is a link: give the file itself.") from None
        raise refused(path, error) from None
    status = os.fstat(descriptor)
    why = None
    if not stat.S_ISREG(status.st_mode):
        why = "must be a plain file, and is not one"
    elif status.st_nlink != 1:
        why = f"must have one name only, but has {status.st_nlink} (hard links)"
    elif status.st_uid != os.geteuid():
        why = f"must belong to you, and belongs to user {status.st_uid}"
    if why is not None:
        os.close(descriptor)
        raise FileError(f"{path} {why}: choose another file.")
    return descriptor


def begins_as(descriptor: int, first: bytes) -> bool:
    """Whether a file begins with these bytes.

    It may also be empty, or cut short within them.
    """
    return first.startswith(os.pread(descriptor, len(first), 0))


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file.

    An incomplete last line, left by a crash, has no line feed. A line with zeros in it counts as incomplete:
    a power cut can leave the length of a line on the disk without its bytes. A line that is too long is
    yielded empty.
    """
    while line := file.readline(LARGEST):
        while not line.endswith(b"\n") and (rest := file.readline(LARGEST)):
            line = rest[-1:]
        if b"\0" in line and not file.peek(1):  # type: ignore[attr-defined]
            line = line.removesuffix(b"\n")
        yield line


@final
class LineJournal:
    """A file that grows by whole lines.

    It survives being stopped at any moment. One process writes it.

    Parameters
    ----------
    path : path
        Its name.
    descriptor : int
        The file, open to read and write. The caller that opened it must close it.
    durable : bool
        Whether every `append` waits for the disk.
    """

    def __init__(self, path: Path, descriptor: int, *, durable: bool = True) -> None:
        self.path, self.durable, self._descriptor = path, durable, descriptor
        self._length: int | None = None  # bytes of whole lines
        try:
            # flock, not lockf: that one lets go when anything in this process closes the file
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FileError(
                f"{path} is being written by another process: let it end first, or choose another file."
            ) from None

    def __iter__(self) -> Iterator[bytes]:
        """Yield what `read_lines` does."""
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(0)
            self._length = 0
            for line in read_lines(file):
                if line.endswith(b"\n"):
                    self._length = file.tell()
                yield line

    def begin(self, first: bytes) -> bool:
        """Write the first line if there is none.

        Return False if there is a different one.
        """
        if not begins_as(self._descriptor, first):
            return False
        if os.fstat(self._descriptor).st_size < len(first):
            self._length = 0
            self.append([first])
            if self.durable:
                sync_directory(self.path.absolute().parent)
        return True

    def append(self, lines: Iterable[bytes]) -> None:
        """Write lines after the last complete one; raises OSError."""
        if self._length is None:
            deque(self, maxlen=0)
        data, start = memoryview(b"".join(lines)), self._length or 0
        if os.fstat(self._descriptor).st_size > start:
            os.ftruncate(self._descriptor, start)  # what a crash or a full disk left of a last line
        written = 0
        while written < len(data):
            written += os.pwrite(self._descriptor, data[written:], start + written)
        if self.durable:
            os.fsync(self._descriptor)
        self._length = start + written


def sync_directory(path: Path) -> None:
    """Wait until the entries of a directory are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_private(path: Path) -> bytes:
    """Read a file with a secret.

    Refuse one that others could have read or written.
    """
    return _read(path, private=True)


def read_secret(path: Path) -> bytes:
    """Read a secret that others gave us; refuse one that everyone can read.

    Its group may read it: secrets that Kubernetes mounts are like that.
    """
    data = _read(path, private=False)
    if (mode := stat.S_IMODE(path.stat().st_mode)) & 0o007:
        raise FileError(
            f"{path} must be closed to others (mode 600), but has mode {mode:o}: whoever has read it can use "
            "it first. Ask for a new one, or chmod 600 it if you are sure that nobody did."
        )
    return data


def read_public(path: Path) -> bytes:
    """Read a file that anyone may read."""
    return _read(path, private=False)


def _read(path: Path, *, private: bool) -> bytes:
    try:
        # Without O_NONBLOCK, opening a named pipe would block. `open` closes a folder; `fdopen` does not.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FileError(f"{path} must be a plain file, and is not one.")
            if private:
                require_private(path, status)
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise refused(path, error) from None
    if len(data) > LARGEST:
        raise FileError(f"{path} must have at most {LARGEST >> 20} MiB, and is larger.")
    return data


def require_private(path: Path, status: os.stat_result) -> None:
    """Refuse a file with a secret that is not private.

    Another user owns it, or may read or write it.
    """
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise FileError(
            f"{path} must be closed to others (mode 600), but has mode {mode:o}: others may have read it. "
            "Make a new one, or chmod 600 it if you are sure that nobody did."
        )
    if status.st_uid not in (os.geteuid(), 0):
        raise FileError(f"{path} must belong to you or to root, and belongs to user {status.st_uid}.")


def refused(path: Path, error: OSError) -> FileError:
    """Return what the system said as one sentence."""
    return FileError(f"{path}: {error.strerror or type(error).__name__}.")
