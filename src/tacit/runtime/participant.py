"""Base class of agents, peers, keepers and coordinators."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from tacit.errors import InputError
from tacit.protocol.notices import Notice, Refused
from tacit.runtime.identity.identity import Identity
from tacit.runtime.ledger.group_commit import Taker
from tacit.runtime.ledger.ledger import Ledger
from tacit.runtime.node import Driven, Node

if TYPE_CHECKING:
    from tacit.protocol.messages import Refusal
    from tacit.protocol.records import Record
    from tacit.protocol.session import Session
    from tacit.runtime.clock import Clock
    from tacit.runtime.transport.base import Network, Transport

Ends: TypeAlias = str | Sequence[str]
"""One endpoint, or several."""
_NOTICES = 10_000
"""Maximum number of notices queued for an iterator; the oldest are dropped first."""


class Participant(ABC):
    """One member of a session, running in the background of ``async with``.

    Iterate over it for its notices, or give `watch`; `result` waits for the end. Leaving the block before the
    end pauses the member: the same call later resumes it from its ledger.
    """

    identity: Identity
    number: int
    _transport: Transport
    _clock: Clock

    def __init__(
        self,
        session: Session,
        ledger: Ledger | Path | str,
        takers: Sequence[Taker],
        watch: Callable[[Notice], None] | None,
    ) -> None:
        self.session, self._takers = session, tuple(takers)
        self.refused: Counter[Refusal] = Counter()
        """How many received frames were refused, by reason."""
        self._ledger_at, self._watch = ledger, watch
        self._ledger: Ledger | None = None
        self._node: Node | None = None
        self._task: asyncio.Task[None] | None = None
        self._notices: deque[Notice] = deque(maxlen=_NOTICES)
        self._news: asyncio.Event | None = None
        self._raised = False

    async def __aenter__(self) -> Self:
        self._news = asyncio.Event()
        at = self._ledger_at
        self._ledger = at if isinstance(at, Ledger) else await _opened(self._ledger_path(Path(at)))
        # What a ledger refuses is refused here, before the network is opened: nothing was sent then.
        try:
            if self.session.keepers:
                self._ledger.require_keepers()
            if self.session.series is not None:
                self._ledger.require_series()
            self._node = self._made(self._ledger)
        except BaseException:
            self._close_ledger()
            raise
        self._task = asyncio.ensure_future(self._node.run())
        self._task.add_done_callback(self._tell)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])  # the node waits for a save under way, which needs the ledger
        self._close_ledger()
        if kind is None and not self._task.cancelled() and not self._raised:
            self._task.result()  # raises an error that nobody has seen yet

    async def __aiter__(self) -> AsyncIterator[Notice]:
        assert self._news is not None
        assert self._task is not None
        while True:
            while self._notices:
                yield self._notices.popleft()
            if self._task.done():
                await self.ended()
                return
            self._news.clear()
            await self._news.wait()

    def network(self) -> Network:
        """Return how this member is connected now."""
        return self._transport.network

    def halt(self) -> None:
        """Leave the session for good; a coordinator ends it for all."""
        assert self._node is not None
        self._node.halt()

    async def ended(self) -> None:
        """Wait until the machine is over, and raise its error, if any."""
        assert self._task is not None
        try:
            await asyncio.shield(self._task)
        except Exception:
            self._raised = True
            raise

    def _ledger_path(self, path: Path) -> Path:
        """Return the ledger's path, or refuse it before it is opened or created."""
        return path

    @abstractmethod
    def _made(self, ledger: Ledger) -> Node:
        """Return the node that drives this kind of member."""

    def _driven(self, machine: Driven, ledger: Ledger, **more: Any) -> Node:
        """Return the node of a machine; `more` depends on the kind of member."""
        return Node(
            self.session.id,
            machine,
            self._transport,
            ledger,
            takers=self._takers,
            clock=self._clock,
            watch=self._notice,
            **more,
        )

    def _websockets(self, listen: Ends, connect: Ends, trouble: Callable[[str], None]) -> Transport:
        """Return a transport over WebSockets, which is not opened yet."""
        from tacit.runtime.transport.websocket import WebsocketTransport

        return WebsocketTransport(
            self.session,
            self.number,
            self.identity.tls,
            listen=[listen] if isinstance(listen, str) else listen,
            connect=[connect] if isinstance(connect, str) else connect,
            trouble=trouble,
            revoked=self.identity.revoked,
        )

    def _tell_takers(self, records: Sequence[Record]) -> None:
        """Give earlier records to the takers; the node gives them the later ones."""
        for taker in self._takers:
            taker.take(records)

    def _notice(self, notice: Notice) -> None:
        if isinstance(notice, Refused):
            self.refused[notice.reason] += 1
        if self._watch is not None:
            self._watch(notice)
        self._notices.append(notice)
        self._tell()

    def _tell(self, _: object = None) -> None:
        if self._news is not None:
            self._news.set()

    def _close_ledger(self) -> None:
        if self._ledger is not None and not isinstance(self._ledger_at, Ledger):
            self._ledger.close()


async def _opened(path: Path | str) -> Ledger:
    from tacit.runtime.workers import in_worker

    return await in_worker(lambda: Ledger(path))


def loaded(identity: Identity | Path | str) -> Identity:
    """Return an identity whose certificate is valid now."""
    made = identity if isinstance(identity, Identity) else Identity.load(identity)
    made.require_current()
    return made


def number_of(session: Session, identity: Identity) -> int:
    """Return the number of the agent whose key this is.

    With a server its leaf must be under the root of the roster.
    """
    number = session.number_of_key(identity.public_key)
    if number is None:
        raise InputError(
            f"the key of {identity.name} must be in the roster of session {session.name}, and is not: "
            "ask for a session with it, or use the keys that are in it."
        )
    session.require_listed(number)
    return number
