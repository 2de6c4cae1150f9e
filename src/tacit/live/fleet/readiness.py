"""Whether a follower can take part: the reasons that it has of its own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, final

from tacit.core.question import Question
from tacit.live.fleet.sources import SourceFailed, ValueSource

SOURCE = "source"
OWN = frozenset({"clock", "expired", "ledger", "unable"})
"""Refusals because of this machine: its clock, its ledger, its disk.

A cap or a pause does what its owner wants, and a session of another range is not this machine's fault.
"""
_IN_A_ROW = 2


@final
class Readiness:
    """Counts failures in a row, by reason; two make a member not ready."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, str]] = {}

    @property
    def why_not(self) -> str | None:
        """Return what prevents this member from taking part, or None."""
        return next((sentence for count, sentence in self._rows.values() if count >= _IN_A_ROW), None)

    def failing(self, why: str) -> bool:
        """Whether the last attempt failed for this reason."""
        return why in self._rows

    def failed(self, why: str, sentence: str, times: int = 1) -> None:
        """Note a failure; the sentence must not contain the value."""
        before = self._rows.get(why, (0, ""))[0]
        self._rows[why] = (before + times, sentence)

    def refused(self, why: str, sentence: str) -> None:
        """Note a refusal, if its reason is this machine's own."""
        if why in OWN:
            self.failed(why, sentence)

    def worked(self, *reasons: str) -> None:
        """Note that these reasons are gone; without one, those of refusals."""
        for why in reasons or OWN:
            self._rows.pop(why, None)


@final
class WatchedSource(ValueSource):
    """A source of values whose failures make its agent not ready."""

    def __init__(self, source: ValueSource, readiness: Readiness) -> None:
        self._source, self._readiness = source, readiness

    async def content(self) -> tuple[Any, Hashable]:
        """Return what the source has."""
        return await self._source.content()

    async def read_marked(self, question: Question) -> tuple[Any, Hashable]:
        """Read the source, and note whether it works; the mark is the source's."""
        try:
            found = await self._source.read_marked(question)
        except SourceFailed as error:
            self._readiness.failed(SOURCE, str(error))
            raise
        self._readiness.worked(SOURCE)
        return found

    async def check(self, question: Question) -> None:
        """Check the source; if it fails, the agent is not ready at once."""
        try:
            await self._source.check(question)
        except SourceFailed as error:
            self._readiness.failed(SOURCE, str(error), _IN_A_ROW)
            raise
        self._readiness.worked(SOURCE)
