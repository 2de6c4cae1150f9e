"""Threads for blocking work (disk, long draws), shared by all nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TypeVar

from tacit.base.errors import InputError
from tacit.live.ledger.ledger import Ledger

T = TypeVar("T")
_THREADS = 8
"""A few are enough: they share the interpreter lock, and one flush serves all ledgers
(`ledger.group_commit`)."""


@cache
def pool() -> ThreadPoolExecutor:
    """Return the threads of this process."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="tacit-work")


async def in_worker(work: Callable[[], T]) -> T:
    """Run on another thread, and wait for its end even when cancelled."""
    return await finished(asyncio.get_running_loop().run_in_executor(pool(), work))


async def finished(future: asyncio.Future[T]) -> T:
    """Wait until a future is done, even if the caller is cancelled meanwhile."""
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        # A write to the ledger that has started must finish before the ledger is closed.
        await asyncio.wait([future])
        raise


async def opened_ledger(path: Path | str) -> Ledger:
    """Open a ledger on another thread; nothing stays open if cancelled."""
    if str(path).startswith(("postgresql:", "postgres:")):
        raise InputError("a ledger is a file of its owner, and never in a database: give the path of a file.")
    made: list[Ledger] = []
    try:
        await in_worker(lambda: made.append(Ledger(path)))
    except asyncio.CancelledError:
        for ledger in made:
            ledger.close()
        raise
    return made[0]
