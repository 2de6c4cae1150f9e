"""How many files one process may have open: a connection is one, a ledger three."""

from __future__ import annotations

import resource

from tacit.errors import InputError

LEDGER_FILES = 3
"""The database, its write-ahead log and its mark."""
_SPARE = 128  # what Python, zenoh and the logs need


def require_files(count: int, what: str) -> None:
    """Allow this process so many open files and some spare ones, or say in one sentence that it may not."""
    needed = count + _SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise InputError(
            f"{what} need {needed:,} open files, and this process may have {hard:,}: raise the limit "
            f"(ulimit -n {needed}), or share them between more processes or machines."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
