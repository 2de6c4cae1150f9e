"""Wait for the disk: for one file, or for a whole file system.

The second is Linux's `syncfs`: one call for the ledgers of all agents in a process.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
from functools import cache
from typing import Any


@cache
def _call() -> Any:
    """Return `syncfs`, or None if it does not report errors of the disk.

    Linux reports failed pages since 5.8, and errors of a file system's own flush (its journal, a layer below)
    since 5.17. Earlier versions lose these errors, so a message could be sent that is not on the disk.
    """
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if os.uname().sysname != "Linux" or found is None or (int(found[1]), int(found[2])) < (5, 17):
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def flush_file(descriptor: int) -> None:
    """Flush one file to the disk; raises OSError."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync alone does not reach the disk there
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)  # leaves out times of access and change, which nobody reads here
    else:
        os.fsync(descriptor)


def can_flush_file_system() -> bool:
    """Whether `flush_file_system` can be used here."""
    return _call() is not None


def flush_file_system(descriptor: int) -> None:
    """Flush the descriptor's whole file system to the disk; raises OSError.

    The kernel reports an error once for each open file, counted from when it was opened. So the caller keeps
    one descriptor open while it writes: one that is opened just for this call would miss earlier errors.
    """
    if _call()(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
