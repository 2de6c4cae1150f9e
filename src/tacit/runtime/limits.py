"""What a process may do: how many files it may have open, and that it leaves no image of its memory."""

from __future__ import annotations

import ctypes
import resource
import sys
from contextlib import suppress

from tacit.errors import InputError

LEDGER_FILES = 5
"""The database, its write-ahead log, its mark, the mark with the keys and perhaps a witness."""
_PR_SET_DUMPABLE = 4
SPARE_FILES = 128
"""What Python, the logs and the status page need."""
_ENOUGH = 1 << 20


def leave_no_core() -> None:
    """Let no crash write this process's memory to a file: the value, the noise and the keys are in it.

    On Linux the process is also marked as not dumpable (PR_SET_DUMPABLE): then a handler that core files
    are piped to gets nothing either, and other processes of the same user cannot read its memory. It stays
    so until the process ends. Side effects: debuggers of the same user cannot attach, and its files in /proc
    belong to root.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # a C library without prctl: the limit above still holds
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def require_files(count: int, what: str) -> None:
    """Raise this process's limit of open files to this many and some spare ones, or fail."""
    needed = count + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise InputError(
            f"{what} need {needed:,} open files, and this process may have {hard:,}: raise the limit "
            f"(ulimit -n {needed}), or share them between more processes or machines."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def raise_files() -> int:
    """Allow this process as many open files as the system lets it have; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft
