"""A keeper, inside your own program: it holds masks and adds noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tacit.errors import InputError, SessionOver
from tacit.protocol.keeper import KeeperMachine
from tacit.protocol.notices import Notice
from tacit.protocol.tables import KeeperPhase
from tacit.report import Row, Shown, Summary
from tacit.runtime.clock import Clock, SystemClock
from tacit.runtime.identity.identity import Identity
from tacit.runtime.ledger import key_guard
from tacit.runtime.ledger.group_commit import Taker
from tacit.runtime.ledger.ledger import Ledger
from tacit.runtime.limits import leave_no_core
from tacit.runtime.node import Node
from tacit.runtime.noise import noise_ahead, noise_of_series
from tacit.runtime.participant import Ends, Participant, loaded
from tacit.runtime.transport.base import Transport

if TYPE_CHECKING:
    from tacit.protocol.session import Session


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
    """One keeper.

    Parameters
    ----------
    session : Session
        The session that all members agreed on. The key of one of its keepers must be the one in `identity`.
    ledger : Ledger or path
        Stores its answers before they are sent; never restored from a backup. Its private ephemeral key is in
        a file beside it until the last answer.
    witness : path, optional
        A file on another file system or host that also stores the ledger's position, as for `Agent`.
    connect : str or sequence of str
        The coordinator's endpoint.
    """

    def __init__(
        self,
        session: Session,
        *,
        ledger: Ledger | Path | str,
        identity: Identity | Path | str,
        witness: Path | str | None = None,
        connect: Ends = (),
        takers: Sequence[Taker] = (),
        transport: Transport | None = None,
        clock: Clock | None = None,
        watch: Callable[[Notice], None] | None = None,
        trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(session, ledger, takers, watch)
        leave_no_core()  # masks and noise are in this process from here on
        self.identity = loaded(identity)
        self.number = keeper_number(session, self.identity)
        self.name = session.member_name(self.number)
        self._clock = clock or SystemClock()
        self._witness = None if witness is None else Path(witness)
        self._transport = transport or self._websockets((), connect, trouble)

    def _made(self, ledger: Ledger) -> Node:
        session, records = self.session, ledger.records(self.session.id)
        keys, now = self.identity.directory, self._clock.wall()
        if ledger.given_up(session.id):
            raise SessionOver(
                f"{self.name} has given up session {session.name}, or it had expired: its key is erased and "
                "nothing more is opened. Ask for a new session."
            )
        if not records and now >= session.expires:
            raise InputError(f"session {session.name} expired on {session.expiry}: ask for a new one.")
        # With a ledger restored from a backup it would open updates a second time, with new noise.
        key_guard.require_usable(
            keys, ledger, session.id, session.expires, now, words=key_guard.NEW_LEDGER, witness=self._witness
        )
        key_guard.take(keys, ledger)
        key_guard.bind(keys, session.id, ledger, session.expires)
        private, sign = ledger.ephemeral_key(session.id, self.number, session.expires), self.identity.sign
        self.machine = KeeperMachine.resume(session, self.number, records, sign=sign, private=private)
        # The session's noise is the same for all.
        noise = noise_ahead(session, 0) if session.series is None else noise_of_series(session)
        self._tell_takers(records)
        return self._driven(self.machine, ledger, noise=noise, stopped_linger=self.machine.return_time)

    async def result(self) -> KeeperResult:
        """Wait for the end and return the result, or raise what stopped it."""
        await self.ended()
        refused = {reason.name.lower(): count for reason, count in self.refused.items()}
        done = self.machine.phase is KeeperPhase.FINISHED
        return KeeperResult(self.name, done, self.machine.update, refused, self.session)


def keeper_number(session: Session, identity: Identity) -> int:
    """Return the number of the keeper whose key this is."""
    for j in session.keeper_numbers:
        if session.key(j) == identity.public_key:
            return j
    raise InputError(
        f"the key of {identity.name} must be a keeper's of session {session.name}, and is not: use the "
        "keeper's keys, or ask for a session with this keeper (`tacit session new --keepers`)."
    )
