"""How many files one process may have open: a connection is one, a ledger three."""

from __future__ import annotations

import resource

from tacit.errors import InputError

LEDGER_FILES = 3
"""The database, its write-ahead log and its mark."""
SPARE_FILES = 128
"""What Python, the logs and the status page need."""
_ENOUGH = 1 << 20


def require_files(count: int, what: str) -> None:
    """Allow this process so many open files and some spare ones, or say in one sentence that it may not."""
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
