"""Threads that share work: plain Python threads around kernels.

The kernels release the interpreter lock. Numba's own threads are not used: they split the work into one fixed
share per core and wait for the slowest, are not always reentrant, and are a setting of the whole process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from tacit.base.arguments import whole
from tacit.base.arrays import IntArray

SHARES_PER_THREAD = 4  # so that the others can take over the shares of a slow thread


def thread_count(threads: int | None) -> int:
    """Return how many threads to use.

    The given number, or one per core available to this process.
    """
    if threads is None:
        allowed = getattr(os, "sched_getaffinity", None)
        return len(allowed(0)) if allowed else os.cpu_count() or 1
    return whole("threads", threads, 1)


class ThreadTeam:
    """A number of threads that wait for work."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tacit-simulation")

    def share(self, work: Callable[[int, int], object], bounds: IntArray) -> None:
        """Call ``work(lo, hi)`` for every share between two bounds.

        Return when all are done.
        """
        finish([self._pool.submit(work, lo, hi) for lo, hi in pairwise(bounds.tolist())])

    def submit(self, work: Callable[[], object]) -> Future[object]:
        """Start one piece of work."""
        return self._pool.submit(work)

    def dismiss(self) -> None:
        """Stop the threads, and return when their current work is done."""
        self._pool.shutdown(cancel_futures=True)


def finish(futures: Sequence[Future[Any]]) -> None:
    """Wait for all of them.

    On an interrupt or error cancel the work that has not started.
    """
    try:
        for future in futures:
            future.result()
    finally:
        for future in futures:
            future.cancel()


def even_shares(count: int, team: ThreadTeam | None) -> IntArray:
    """Bounds of equal shares of 0 … count − 1."""
    shares = 1 if team is None else min(count, SHARES_PER_THREAD * team.threads)
    return np.linspace(0, count, shares + 1).astype(np.int64)


def even_work(indptr: IntArray, team: ThreadTeam | None) -> IntArray:
    """Return bounds of shares of agents with about equal work.

    An agent's work is the number of messages that it reads: hubs take longer.
    """
    n = len(indptr) - 1
    if team is None:
        return np.array([0, n])
    shares = min(n, SHARES_PER_THREAD * team.threads)
    work = np.linspace(0, indptr[-1] + n, shares + 1)[1:-1]
    inner = np.searchsorted(indptr[1:] + np.arange(1, n + 1), work)
    return np.array([0, *inner, n], dtype=np.int64)
