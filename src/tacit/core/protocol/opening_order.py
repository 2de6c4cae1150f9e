"""Which updates a keeper opens, and until when: in turn, or by the clock.

In a session with rounds every update is opened, one after the other (`InTurn`). In a series slots can be
lost. A keeper opens them in rising order (`Rising`): once a slot is opened, no earlier one ever is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from tacit.core.protocol.effects import Tick
from tacit.core.protocol.messages import Refusal
from tacit.core.protocol.series import Series
from tacit.core.protocol.series_clock import SlotTime
from tacit.core.protocol.session import Session
from tacit.core.protocol.tables import On


class OpeningOrder(ABC):
    """Which closing is answered. `update` is the next one that may be."""

    @abstractmethod
    def classify(self, t: int, update: int, *, drawing: bool = False) -> On | Refusal:
        """Return `On.CLOSING` if update `t` may be opened now, or why not.

        It has no closing yet. `drawing` says whether another one waits for noise.
        """

    @abstractmethod
    def is_last(self, t: int, update: int) -> bool:
        """Whether nothing is left to do after feedback of round `t`."""

    @abstractmethod
    def recorded(self, closing: bytes) -> bytes:
        """Return what is recorded of a closing, beside the opening."""

    def tick(self, tick: Tick) -> None:  # noqa: B027
        """Take the time."""

    def wake(self) -> float | None:
        """When the clock ends the session; None for never."""
        return None

    def is_over(self) -> bool:
        """Whether the clock says that nothing can be opened any more."""
        return False


def chosen_order(session: Session) -> OpeningOrder:
    """Return in which order the updates of a session are opened."""
    return InTurn(session) if session.series is None else Rising(session, session.series)


@final
class InTurn(OpeningOrder):
    """Every update in turn, for sessions with rounds."""

    def __init__(self, session: Session) -> None:
        self._exchanges = session.exchanges

    def classify(self, t: int, update: int, *, drawing: bool = False) -> On:  # noqa: ARG002
        """Open the next update. A later one shows that this ledger is old."""
        return On.CLOSING if t == update else On.LOST

    def is_last(self, t: int, update: int) -> bool:
        """Whether everything was opened, and this was the last feedback."""
        return t + 1 == self._exchanges == update

    def recorded(self, closing: bytes) -> bytes:
        """Return all of it: it is evidence against a second closing."""
        return closing


@final
class Rising(OpeningOrder):
    """Slots in rising order, for series. Those before the newest stay shut."""

    def __init__(self, session: Session, series: Series) -> None:
        self._slots, self._clock = session.rounds, SlotTime(series)
        # The last slot was given up one interval after its deadline at the latest. A coordinator that needs
        # the last opening has the start deadline to ask for it.
        self._over_at = series.ends + series.interval + session.deadlines.start
        # A coordinator gives up a slot after its deadline and one interval. The second is for other clocks.
        self._begin_of, self._given_up_after = series.begin_of, session.deadlines.round + 2 * series.interval

    def classify(self, t: int, update: int, *, drawing: bool = False) -> On | Refusal:
        """Open one slot at a time, none before the newest, none that was given up.

        A keeper that was put back to an earlier state does not know what it has opened. By its clock no
        coordinator can have it open old slots again.
        """
        over = self._clock.wall >= self._begin_of(t) + self._given_up_after
        return Refusal.LATE if t < update or drawing or over else On.CLOSING

    def is_last(self, t: int, update: int) -> bool:  # noqa: ARG002
        """Whether it is of the last slot, which may be lost."""
        return t + 1 == self._slots

    def recorded(self, closing: bytes) -> bytes:  # noqa: ARG002
        """Return nothing: the opening has its digest.

        A closing is as long as there are agents, and a year of them would make every restart slow.
        """
        return b""

    def tick(self, tick: Tick) -> None:
        """Take the time."""
        self._clock.tick(tick)

    def wake(self) -> float:
        """When no slot can be opened any more."""
        return self._clock.wake(self._over_at)

    def is_over(self) -> bool:
        """Whether no slot can be opened any more."""
        return self._clock.wall >= self._over_at
