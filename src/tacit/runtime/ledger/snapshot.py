"""Read a ledger that another process uses, from a copy in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.errors import LedgerError
from tacit.runtime.ledger.ledger import Ledger

_MEMORY = Path("/dev/shm")
_TRIES = 10


@contextmanager
def open_snapshot(path: Path) -> Iterator[Ledger]:
    """Open a copy of a ledger, only to read it; it is removed at the end.

    The copy has the states of the value, as the ledger does. So it is in a directory that only its owner can
    enter, in memory where the system has such a file system, and never used to send anything.
    """
    path = path.resolve()
    memory = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else path.parent
    folder = Path(tempfile.mkdtemp(prefix=".tacit-", dir=memory))
    try:
        with _copy(path, folder / path.name) as ledger:
            yield ledger
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(path: Path, copy: Path) -> Ledger:
    # The two files are copied one after the other, while they change. A copy of two different moments has
    # broken checksums, and is refused: then it is copied again.
    for left in reversed(range(_TRIES)):
        for old in copy.parent.iterdir():
            old.unlink()
        for rest in ("", "-wal"):
            if (file := path.with_name(path.name + rest)).exists():
                shutil.copyfile(file, copy.with_name(copy.name + rest))
                copy.with_name(copy.name + rest).chmod(0o600)
        try:
            return Ledger(copy, create=False, copied=True)
        except LedgerError:
            if not left:
                raise
    raise AssertionError  # the last try has raised
