"""A keeper, inside your own program: it holds masks and adds noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from tacit.base.errors import InputError, SessionOver
from tacit.base.report import Row, Shown, Summary
from tacit.core.protocol.keeper import KeeperMachine
from tacit.core.protocol.tables import KeeperPhase
from tacit.live.identity.identity import Identity
from tacit.live.ledger import key_guard
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime.noise import noise_ahead, noise_of_series
from tacit.live.runtime.participant import Participant

if TYPE_CHECKING:
    from tacit.core.protocol.records import Record
    from tacit.core.protocol.session import Session


@final
@dataclass(frozen=True)
class KeeperResult(Shown):
    """What a keeper did.

    Attributes
    ----------
    finished : bool
        Whether it opened every update, and the coordinator received the last opening.
    opened : int
        How many updates it has opened.
    """

    keeper: str
    finished: bool
    opened: int
    refused: dict[str, int]
    session: Session = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {name: fact for name, fact in vars(self).items() if name != "session"}

    def summary(self) -> Summary:
        """Return the result for people."""
        erased = "the private key of this session; nothing here opens a transcript any more"
        rows = [
            Row("opened", str(self.opened), f"sums of {self.session.exchanges}, each once"),
            Row("key", "erased", erased),
        ]
        return Summary(f"{self.keeper}: result", {"Keeper": rows})


@final
class Keeper(Participant):
    """One keeper. Parameters as for `Participant`.

    The key of one of the session's keepers must be the one in `identity`. The ledger stores its answers
    before they are sent. Its private ephemeral key is in a file beside it until the last answer.
    """

    _secretive = True  # masks and noise are in this process
    machine: KeeperMachine

    @staticmethod
    def _number_in(session: Session, identity: Identity) -> int:
        return keeper_number(session, identity)

    def _machine(self, ledger: Ledger, records: Sequence[Record]) -> KeeperMachine:
        session, sign = self.session, self.identity.sign
        if ledger.given_up(session.id):
            raise SessionOver(
                f"{self.name} has given up session {session.name}, or it had expired: its key is erased and "
                "nothing more is opened. Ask for a new session."
            )
        if not records and self._clock.wall() >= session.expires:
            raise InputError(f"session {session.name} expired on {session.expiry}: ask for a new one.")
        # With a ledger restored from a backup it would open updates a second time, with new noise.
        self._require_usable(ledger, key_guard.NEW_LEDGER)
        self._bind(ledger)
        private = ledger.ephemeral_key(session.id, self.number, session.expires)
        return KeeperMachine.resume(session, self.number, records, sign=sign, private=private)

    def _sources(self) -> dict[str, Any]:
        session = self.session
        # The session's noise is the same for all.
        noise = noise_ahead(session, 0) if session.series is None else noise_of_series(session)
        return {"noise": noise, "stopped_linger": self.machine.return_time}

    async def result(self) -> KeeperResult:
        """Wait for the end and return the result, or raise what stopped it."""
        await self.ended()
        done = self.machine.phase is KeeperPhase.FINISHED
        return KeeperResult(self.name, done, self.machine.update, self._refusals(), self.session)


def keeper_number(session: Session, identity: Identity) -> int:
    """Return the number of the keeper whose key this is."""
    for j in session.keeper_numbers:
        if session.key(j) == identity.public_key:
            return j
    raise InputError(
        f"the key of {identity.name} must be a keeper's of session {session.name}, and is not: use the "
        "keeper's keys, or ask for a session with this keeper (`tacit session new --keepers`)."
    )
