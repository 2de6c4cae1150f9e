"""Run slow work in a thread, for the newest question only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from nicegui import run

Q = TypeVar("Q")
A = TypeVar("A")


class Latest(Generic[Q, A]):
    """Answers questions in a thread, one at a time.

    A question is dropped when a newer one arrives before its answer.

    Parameters
    ----------
    work : callable
        From a question to its answer; slow, and not to run on the event loop.
    show : callable
        Called with the answer to the newest question, on the event loop.
    """

    def __init__(self, work: Callable[[Q], A], show: Callable[[A], None]) -> None:
        self._work, self._show = work, show
        self._waiting: list[Q] = []
        self._busy = False

    async def ask(self, question: Q) -> None:
        """Answer this question, unless a newer one comes before it is answered."""
        self._waiting = [question]
        if self._busy:
            return
        self._busy = True
        try:
            while self._waiting:
                answer = await run.io_bound(self._work, self._waiting.pop())
                if answer is not None and not self._waiting:
                    self._show(answer)
        finally:
            self._busy = False
