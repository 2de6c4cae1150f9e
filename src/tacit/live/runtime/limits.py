"""Limits of a process: open files, core files, and memory of libraries."""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tacit.base.errors import InputError

LEDGER_FILES = 5
"""The database, its write-ahead log, its mark, the mark with the keys and perhaps a witness."""
_PR_SET_DUMPABLE = 4
SPARE_FILES = 128
"""Files for Python, the logs and the status page."""
_ENOUGH = 1 << 20
_MADV_DONTNEED = 4


def leave_no_core() -> None:
    """Forbid core files: this process holds the value, the noise and the keys.

    On Linux the process is also marked as not dumpable (PR_SET_DUMPABLE). Then a handler of core files gets
    nothing either, and other processes of the same user cannot read its memory. This holds until the process
    ends. Side effects: debuggers of the same user cannot attach, and its files in /proc belong to root.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # a C library without prctl: the limit above still holds
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def release_libraries() -> int:
    """Release unchanged pages of libraries from memory; return how many bytes.

    Loading a library reads all its tables of relocations and symbols once. A page that is needed again is
    mapped again from the system's file cache, as the system does when memory is short. Only read-only
    mappings without a page that differs from the file are released, so nothing can be lost. Linux only; on
    other systems nothing is done.
    """
    if sys.platform != "linux":
        return 0
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    released = 0
    with suppress(OSError):
        for start, end, resident in _unchanged_pages(Path("/proc/self/smaps").read_text()):
            if advise(start, end - start, _MADV_DONTNEED) == 0:
                released += resident
    return released


def _unchanged_pages(maps: str) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and resident bytes of unchanged read-only mappings."""
    head: list[str] = []
    sizes: dict[str, int] = {}
    for line in [*maps.splitlines(), "0-0 ---p 0 0 0"]:
        words = line.split()
        if not words[0].endswith(":"):
            # A page that was changed while a library was loaded is anonymous, or swapped out since then.
            # Fields that are missing count as changed.
            unchanged = sizes.get("Anonymous:", 1) == 0 and sizes.get("Swap:", 1) == 0
            if len(head) > 5 and head[5].startswith("/") and head[1] in ("r--p", "r-xp") and unchanged:
                start, end = (int(place, 16) for place in head[0].split("-"))
                yield start, end, sizes.get("Rss:", 0)
            head, sizes = words, {}
        elif words[-1] == "kB":
            sizes[words[0]] = int(words[1]) * 1024


def require_files(count: int, what: str) -> None:
    """Allow this process `count` open files and some spare ones, or fail."""
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
    """Raise the limit of open files to the system's maximum, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft
