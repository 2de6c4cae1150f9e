"""A keeper of a series: opens each slot at most once, in rising order.

Lost slots are skipped: no keeper opens them later. Once a slot is opened, no earlier one is. Every opening
has one draw of discrete Gaussian noise, which exists only inside the opening.
"""

from __future__ import annotations

from typing import Any, ClassVar, final

from tacit.errors import ParameterError
from tacit.protocol.codec import Sign
from tacit.protocol.effects import Refused
from tacit.protocol.keeper import KeeperMachine
from tacit.protocol.machine import Machine
from tacit.protocol.messages import (
    COORDINATOR,
    DIGEST_BYTES,
    Ask,
    Closing,
    Feedback,
    Message,
    Opening,
    Refusal,
    SeriesClosing,
)
from tacit.protocol.records import Disclosed, Evidence
from tacit.protocol.series_clock import SlotClock
from tacit.protocol.session import Session
from tacit.protocol.tables import KeeperPhase as P
from tacit.protocol.tables import On, Table, extended


@final
class SeriesKeeperMachine(KeeperMachine, SlotClock):
    """One keeper of a series.

    Its parameters are those of `KeeperMachine`. `update` is the first slot it may still open. It ends with
    the last feedback, or by its clock when no slot can be opened any more.
    """

    def _set_up(self, session: Session, number: int, sign: Sign) -> None:
        if session.series is None:
            raise ParameterError(f"session {session.name} is not a series: its keepers are KeeperMachine.")
        super()._set_up(session, number, sign)

    def _may_open(self, update: int) -> bool:
        return update >= self.update

    def _classify_message(self, message: Message) -> tuple[On, Any]:
        body = message.body
        if isinstance(body, Feedback):
            # The last slot may be lost. Then there is nothing to open, but the series is over as well.
            return (On.FEEDBACK if body.round + 1 == self.session.rounds else On.ASKED), message
        return super()._classify_message(message)

    def _classify_closing(self, message: Message, body: Closing) -> tuple[On, Any]:
        t, known = body.round, self._answered_closing(body.round)
        if known is not None and known != message.digest:
            # Only the slot counts. Opening it for a second set of agents would reveal the difference of two
            # sums. `first` is empty for an answered slot: the ledger has only the digest of its closing.
            first = b"" if self._closing is None or t in self._answers else self._closing.frame
            return On.CONTRADICTED, Evidence(COORDINATOR, t, known, first, message.frame)
        if t in self._answers:
            return On.PAST, t
        # A slot before the newest one stays closed. One closing is answered at a time.
        if t < self.update or (self._closing is not None and known is None):
            return On.REFUSED, Refused(Refusal.LATE, COORDINATOR)
        return self._classify_used(message, body)

    def _answered_closing(self, t: int) -> bytes | None:
        """Return the digest of the closing that a slot is opened with."""
        if t in self._answers:
            opening = self.codec.read(self._answers[t].frame, own=True)
            assert isinstance(opening, Message)
            assert isinstance(opening.body, Opening)
            return opening.body.closing
        if self._closing is not None and isinstance(self._closing.body, Closing):
            return self._closing.digest if self._closing.body.round == t else None
        return None

    @property
    def _over_at(self) -> float:
        """When no slot can be opened any more, in seconds since 1970.

        The last slot was given up one interval after its deadline at the latest. A coordinator that needs
        the last opening has the start deadline to ask for it.
        """
        return self.series.ends + self.series.interval + self.session.deadlines.start

    def _next_due(self) -> float | None:
        return self._over_at if self.phase in (P.WAITING, P.DRAWING) else None

    def _due(self) -> On | None:
        if self.phase is P.WAITING and self.clock.wall >= self._over_at:
            return On.ALL_DONE
        return super()._due()

    def _take_closing(self, message: Message) -> None:
        super()._take_closing(message)
        assert isinstance(message.body, Closing)
        # Set before the noise is there: slots before it are lost, and stay closed.
        self.update = message.body.round

    def _ask_for_keys(self, message: Message) -> None:
        assert isinstance(message.body, Closing)
        if self._may_answer(COORDINATOR):
            self._say(COORDINATOR, Ask(message.body.round))

    def _salts(self, body: Closing) -> list[bytes]:
        assert isinstance(body, SeriesClosing)
        return [body.salts[k : k + DIGEST_BYTES] for k in range(0, len(body.salts), DIGEST_BYTES)]

    def _answer_to(self, _: Message, u: int, frame: bytes) -> Disclosed:
        # The opening has the closing's digest. The closing itself is as long as there are agents, and a year
        # of them would make every restart slow.
        return Disclosed(u, frame, b"")

    def _finish(self, subject: Any) -> None:
        self._closing = self._draw = None
        self._erase()
        super()._finish(subject)

    # ---- the table ------------------------------------------------------------------------------------

    table: ClassVar[Table] = extended(
        "series_keeper",
        KeeperMachine.table,
        {
            # The last slot is over, and may be lost.
            (P.WAITING, P.DRAWING): {On.FEEDBACK: (_finish, P.FINISHED)},
            (P.WAITING,): {On.ALL_DONE: (_finish, P.FINISHED)},  # by its clock
            # Slots can be skipped, so a closing of a slot before the last one may come at any time.
            (P.SERVING, P.FINISHED): {(On.CLOSING, On.LACKING, On.LOST): Machine._misplaced},
        },
    )
