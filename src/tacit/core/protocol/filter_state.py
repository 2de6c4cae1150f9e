"""The private state of an agent of a series: a filter of its readings.

A message is made from the readings so far and nothing else. A slot without a reading holds the previous one
if a step is hidden. If a reading or a window is hidden, nothing is sent in it: a held reading would be in
many messages, and its loss is counted once. Nothing is sent for a missed slot, and a message that was not
used is never sent in another form. So a hidden change moves the messages by at most what the account says,
whatever others do, and the noise of one honest keeper covers it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from tacit.base.errors import ParameterError, StateError
from tacit.core.protocol.codec import Codec, as_array, digest
from tacit.core.protocol.exact_loss import exact
from tacit.core.protocol.messages import NOTHING_HEARD
from tacit.core.protocol.notices import Cost
from tacit.core.protocol.private_state import Budget, Cover, PrivateState
from tacit.core.protocol.records import Began, Moved, Record, Sampled, Silenced, Spoke, require_order


@final
class FilterState(PrivateState):
    """The filter of an agent of a series; private.

    An update is a slot whose feedback was heard. It changes nothing private.

    Attributes
    ----------
    said_slot : int
        The slot of `said`; −1 if there is none.
    """

    def __init__(
        self,
        codec: Codec,
        number: int,
        budget: Budget,
        cover: Cover,
        value: Any = None,
        *,
        began: Began | None = None,
    ) -> None:
        session, series = codec.session, codec.session.series
        if series is None:
            raise ParameterError(f"session {session.name} is not a series.")
        if value is not None:
            raise ParameterError(f"session {session.name} is a series: its agents take readings, no value.")
        super().__init__(codec, number, budget, cover, exact(series.loss))
        if began is None:
            self.first = (Began(session.id, number, b"", series.loss, budget.spent, float(budget.cap)),)
        self.said_slot = -1
        self._loss, self._exponent = series.loss, series.exponent
        self._filter = series.agent(session.question)
        self._numbers: tuple[int, ...] = ()  # what the slot that was read last says, until it is said

    @property
    def next_slot(self) -> int:
        """The slot that is read next."""
        return self._filter.slot

    def require_affordable(self) -> None:
        """Refuse a cap that the whole series exceeds.

        Its loss counts with the first message, so a part of a series costs as much as all of it. After that
        message the series goes on, even if the cap was lowered.
        """
        if self.over_cap and not self.digests:
            raise StateError("the loss of the whole series must be within the cap, and is above it.")

    @property
    def affords_next(self) -> bool:
        """Return True: see `require_affordable`."""
        return True

    def cost(self) -> Cost:
        """Return what the owner is told at the start: what was spent before."""
        return Cost(self.planned, self.budget.spent, self.budget.cap)

    def read(self, slot: int, reading: Any) -> Sampled | None:
        """Take the reading of a slot; None if nothing is said in it."""
        self._filter.pass_until(slot)  # the filter sees every slot once
        self._numbers = self._filter.read(reading)
        return Sampled(slot, self._filter.last) if self._numbers else None

    def speak(self, heard: bytes) -> Spoke:  # noqa: ARG002
        """Make the message of the slot that was read last, once.

        It does not depend on anything that was heard.
        """
        slot, numbers = self._filter.slot - 1, self._numbers
        if not numbers or slot in self.digests:
            raise StateError("one message is made for each slot, after its reading.")
        self._numbers = ()
        frame = self._cover.sealed(slot, self._exponent, as_array(numbers), NOTHING_HEARD)
        # The loss is that of the whole series: it counts once, with the first message.
        loss = 0.0 if self.digests else self._loss
        self._keep(slot, frame, loss)
        return Spoke(slot, frame, loss)

    def _keep(self, slot: int, frame: bytes, loss: float) -> None:
        self.said, self.said_slot, self.digests[slot] = frame, slot, digest(frame)
        self._spent += exact(loss)

    def move(self, y: tuple[int, ...], heard: Iterable[bytes], used: Iterable[int]) -> Moved:
        """Note the sum of the next slot. Nothing private follows from it."""
        moved = Moved(self.update, tuple(heard), tuple(used), b"", b"", b"")
        self.update, self.feedback = self.update + 1, y
        return moved

    def replay(self, record: Record) -> None:
        """Apply a record from a ledger."""
        match record:
            case Sampled():
                # A filter without its past would send other numbers than the account assumes. The slot stays
                # used, even if the clock was set back.
                self._filter.restore(record.slot, record.reading)
            case Spoke():
                require_order(record.update not in self.digests)
                self._keep(record.update, record.frame, record.loss)
            case Moved():
                require_order(record.update == self.update)
                self.update += 1
            case Silenced():
                raise StateError("an agent of a series is never silenced: these are not its records.")
