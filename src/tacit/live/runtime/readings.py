"""How an agent of a series reads its source, once in every slot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, Protocol, final, runtime_checkable

from tacit.base.errors import InputError, TacitError
from tacit.core.protocol.session import Session
from tacit.core.question import Mean, Missing, Question

_LONGEST = 10.0
"""Maximum seconds that a source is waited for, or half a slot if that is less."""


@runtime_checkable
class Readable(Protocol):
    """Where readings come from: `tacit.live.fleet.sources` has several."""

    async def read(self, question: Question) -> Any:
        """Return the current value, or raise `InputError` that does not show it."""
        ...

    async def read_marked(self, question: Question) -> tuple[Any, Hashable]:
        """Return the value with a mark that changes when the reading is new.

        None as the mark: each call gives a new reading.
        """
        ...


@final
class SlotReader:
    """Reads the source of one agent; no error shows what it gave.

    Parameters
    ----------
    unsure : bool
        Whether an earlier process may have sent the reading that the source has now.
    unread : callable
        Called with how often there was no reading, and why and what follows this time.
    """

    def __init__(
        self, session: Session, source: Readable, *, unsure: bool, unread: Callable[[int, str], None]
    ) -> None:
        assert session.series is not None
        self._series, self._source, self._unsure, self._unread = session.series, source, unsure, unread
        self._asked = session.question
        self._failures = 0
        self._mark: Hashable = None  # of the last reading

    async def read(self) -> Any:
        """Return the value as it is now, None if there is no new one."""
        patience = min(_LONGEST, self._series.interval / 2)
        holds = self._series.holds
        try:
            async with asyncio.timeout(patience):
                return self._checked(await (self._source.read(self._asked) if holds else self._new_reading()))
        except InputError as error:
            why = str(error)
        except TimeoutError:
            why = f"the source gave no value within {patience:g} s."
        self._failures += 1
        so = "the last one counts again" if holds else "nothing is sent in this slot"
        self._unread(self._failures, f"no reading, so {so}: {why}")
        return None

    def _checked(self, reading: Any) -> Any:
        """Refuse what is no record of the question, before the filter has it.

        A slot without a record is like one without a reading: whether an agent goes on must not depend on
        what it reads.
        """
        if isinstance(self._asked, Mean) and self._asked.numbers == 1:
            return float(reading)
        if isinstance(reading, Missing):
            raise InputError("the source gave no record.")
        try:
            self._asked.encode(reading)
        except TacitError as error:
            raise InputError(str(error)) from None
        return reading

    async def _new_reading(self) -> Any:
        """Read the source; refuse a reading that an earlier slot may have had.

        The same reading in two slots would have two draws of noise, and its loss is counted once.
        """
        reading, mark = await self._source.read_marked(self._asked)
        known = mark is not None and (self._unsure or mark == self._mark)
        self._mark, self._unsure = mark, False
        if known:
            raise InputError("the source has no new reading since the last one.")
        return reading
