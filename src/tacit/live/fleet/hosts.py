"""A hub on several hosts: one leads, the others stand by and name it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, final

from tacit.base.errors import LedgerError, LedgerInUse, StoreLost
from tacit.core.protocol.session import Session
from tacit.live.fleet.hub import DRAINING, SERVING, Hub
from tacit.live.fleet.hub_directory import KEYS, serving, share_register
from tacit.live.fleet.hub_notices import Drained, LeadTaken, LeadTroubled, SessionsGivenUp, StandingBy
from tacit.live.fleet.lease import CLOCKS_DIFFER, HostMark, Lease, LeaseState, clock_wrong, led
from tacit.live.fleet.messages import STANDS_BY, referral
from tacit.live.fleet.postgres import PostgresDatabase
from tacit.live.fleet.store import HubStore, host_setting
from tacit.live.identity.identity import Identity
from tacit.live.runtime.process_notices import ProcessNotice
from tacit.live.runtime.telling import Tell
from tacit.live.runtime.workers import in_worker
from tacit.live.transport.link import ConnectionRefused, Link
from tacit.live.transport.listener import Listener
from tacit.live.transport.tls import Channel, Credentials

if TYPE_CHECKING:
    from tacit.live.identity.certificates import Certificate

_LOOK = 0.5  # seconds between two looks at the lease, times 0.5 to 1.5 at random
_AGAIN = 1.0  # seconds until a host that lost the lead looks again
_HANDSHAKE, _MOST, _BYTES = 5.0, 256, 1 << 12


@final
class Standby:
    """Answers everyone that this host does not lead, and takes no member."""

    def __init__(self, identity: Identity, listen: str) -> None:
        self._credentials, self._listen = Credentials(identity.tls, bare=True), listen
        self.leader: str | None = None
        self._listener = Listener(
            self._answering, seconds=_HANDSHAKE, most=_MOST, most_per_address=_MOST // 2
        )

    async def open(self) -> None:
        """Listen."""
        await self._listener.open(self._listen)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _answering(self, address: str) -> Link:
        self._credentials.reload()
        channel = Channel(self._credentials.server)
        return Link(self, channel, frame_bytes=_BYTES, queue_bytes=_BYTES, address=address, bare=True)

    def admit(self, link: Link, certificate: Certificate | None, path: str | None) -> int:  # noqa: ARG002
        """Say where the leader is."""
        raise ConnectionRefused(STANDS_BY, referral(self.leader))

    def opened(self, link: Link) -> None:
        """Nobody is admitted."""

    def heard(self, link: Link, data: bytes) -> None:
        """Nobody is admitted."""

    def ended(self, link: Link, why: BaseException | None) -> None:
        """Forget the connection; the listener counts it."""

    def failed(self, link: Link, error: Exception) -> None:
        """Let the connection close."""


@final
class HubHost:
    """Leads a hub whenever no other host does, until it is drained.

    Whatever goes wrong with the database while it leads, it discards everything that it made from it, and
    begins again as a host that stands by.

    Parameters
    ----------
    make : callable
        Makes the hub that leads, with its lease.
    synchronous : bool
        The operator says that the database's standby has all that was ever saved.
    """

    def __init__(
        self,
        home: Path,
        make: Callable[[Lease], Hub],
        *,
        tell: Tell,
        listen: str | None = None,
        synchronous: bool = False,
    ) -> None:
        self._home, self._make, self._synchronous, self._tell = home, make, synchronous, tell
        self._address = host_setting(home, "address")
        self._listen = listen or host_setting(home, "listen")
        self._store: HubStore | None = None
        self._said: object = None
        self._new = True

    async def run(self) -> None:
        """Stand by and lead until the hub is drained."""
        with serving(self._home):
            mark = await in_worker(lambda: HostMark(self._home))
            try:
                while (lease := await self._stand_by(mark)) is not None:
                    if await self._lead(lease):
                        return
                    await asyncio.sleep(_AGAIN)
            finally:
                self._forget_store()
                mark.close()

    async def _lead(self, lease: Lease) -> bool:
        """Lead until the hub is drained (True), or the lead is lost."""
        self._say(LeadTaken(lease.epoch))
        if lease.gave_up is not None:
            self._tell(SessionsGivenUp(lease.gave_up), 0)
        try:
            await in_worker(lambda: share_register(self._home, self._now()))
            await self._make(lease).run()
        except LedgerInUse:
            raise
        except LedgerError as error:
            self._say(LeadTroubled(str(error)))
            return False
        finally:
            await in_worker(lease.give_back)
            self._forget_store()
        return True

    async def _stand_by(self, mark: HostMark) -> Lease | None:
        """Wait until this host leads; None if the hub is drained."""
        standby = Standby(Identity.load(self._home / KEYS), self._listen)
        await standby.open()
        try:
            while True:
                try:
                    lease, found = await in_worker(lambda: self._look(mark))
                except StoreLost as error:
                    standby.leader = None
                    self._say(LeadTroubled(str(error)))
                    self._forget_store()
                else:
                    if lease is not None:
                        return lease
                    if found is None:
                        self._tell(Drained(), 0)
                        return None
                    standby.leader = found.holder if found.led else None
                    self._say(StandingBy(referral(standby.leader)))
                await asyncio.sleep(_LOOK * random.uniform(0.5, 1.5))
        finally:
            standby.close()

    def _look(self, mark: HostMark) -> tuple[Lease | None, LeaseState | None]:
        """Take the lease, if it is free; no state if the hub is drained."""
        store = self._now()
        if store.setting("state", SERVING) == DRAINING:
            if self._new and not led(store.database):
                store.set_setting("state", SERVING)  # it was drained, and is started again on purpose
            elif not store.running_sessions():
                return None, None
        self._new = False
        assert isinstance(store.database, PostgresDatabase)
        return Lease.taken(
            store.database, mark, self._address, willing=self._willing, synchronous=self._synchronous
        )

    def _willing(self, found: LeaseState) -> bool:
        """Whether this host may lead: by its clock, if a series is under way."""
        if abs(found.clock_ahead) <= CLOCKS_DIFFER:
            return True
        rows = self._now().running_sessions()
        series = any(Session.decode(row["data"]).series is not None for row in rows)
        if series:
            self._say(LeadTroubled(clock_wrong(found.clock_ahead)))
        return not series

    def _now(self) -> HubStore:
        if self._store is None:
            self._store = HubStore(self._home)
        return self._store

    def _forget_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _say(self, notice: ProcessNotice) -> None:
        """Tell what has changed, and nothing twice in a row."""
        if notice != self._said:
            self._said = notice
            self._tell(notice, 0)
