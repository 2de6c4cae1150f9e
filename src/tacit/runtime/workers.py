"""Threads for what blocks: the disk and long draws. Shared by all nodes of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

T = TypeVar("T")
_THREADS = 32
"""Ledgers wait for the disk side by side, and one flush of the disk serves many of them."""


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="tacit-work")


async def in_worker(work: Callable[[], T]) -> T:
    """Run on another thread. Once begun it is waited for, even if whoever asked is stopped."""
    future = asyncio.get_running_loop().run_in_executor(_pool(), work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        # A write to the ledger that was begun must be over before the ledger is closed.
        await asyncio.wait([future])
        raise
