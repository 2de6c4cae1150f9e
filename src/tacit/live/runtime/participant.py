"""One member of a session, whatever its role: agent, keeper, coordinator.

`Participant` opens the ledger, lets the role make its machine, and has it driven until it is over. A role
says whose key it is (`_number_in`), checks what must hold before anything is sent and makes its machine
(`_machine`), and brings what the machine needs besides (`_sources`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast

from tacit.base.errors import InputError
from tacit.core.protocol.notices import Notice, Refused
from tacit.live.identity.identity import Identity
from tacit.live.ledger import key_guard
from tacit.live.ledger.group_commit import Taker
from tacit.live.ledger.ledger import Ledger
from tacit.live.ledger.log import Log
from tacit.live.runtime.clock import Clock, SystemClock
from tacit.live.runtime.limits import leave_no_core
from tacit.live.runtime.node import Driven, Node
from tacit.live.runtime.workers import opened_ledger
from tacit.live.transport.schemes import transport_to

if TYPE_CHECKING:
    from tacit.core.protocol.messages import Refusal
    from tacit.core.protocol.records import Record
    from tacit.core.protocol.session import Session
    from tacit.live.transport.base import Network, Transport

Ends: TypeAlias = str | Sequence[str]
"""One endpoint, or several."""
_NOTICES = 10_000
"""Maximum number of notices queued for an iterator; the oldest are dropped first."""


class Participant(ABC):
    """One member of a session, running in the background of ``async with``.

    Iterate over it for its notices, or give `watch`; `result` waits for the end. Leaving the block before the
    end pauses the member: the same call later resumes it from its ledger.

    Parameters
    ----------
    session : Session
        The session that all members agreed on.
    ledger : Log or path
        Stores its records before its messages are sent; one per member, never restored from a backup. An
        agent and a keeper need a `Ledger`.
    identity : Identity or path
        Its keys.
    witness : path, optional
        A file on another file system or host that also stores the ledger's position; see
        `tacit ledger witness`. It is read before joining, and flushed to disk before each message is sent.
    listen, connect : str or sequence of str
        Endpoints such as ``wss://192.0.2.1:7447``. The coordinator listens; agents and keepers connect to it.
    takers : sequence
        Called with records once they are saved: a `TranscriptWriter`, a `Status`.
    transport : Transport, optional
        Carries the frames, instead of one to `listen` and `connect`.
    pace : float
        Minimum seconds between rounds.
    watch : callable, optional
        Called with every notice.
    trouble : callable, optional
        Called with one sentence that says why there is no connection, or who was refused and why.
    """

    machine: Driven
    _secretive: ClassVar[bool] = False  # whether other processes must not read this one's memory
    _logs: ClassVar[type[Log]] = Ledger  # a value's loss and an ephemeral key are in a file of their owner

    def __init__(
        self,
        session: Session,
        *,
        ledger: Log | Path | str,
        identity: Identity | Path | str,
        witness: Path | str | None = None,
        listen: Ends = (),
        connect: Ends = (),
        takers: Sequence[Taker] = (),
        transport: Transport | None = None,
        clock: Clock | None = None,
        pace: float = 0.0,
        watch: Callable[[Notice], None] | None = None,
        trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        if self._secretive:
            leave_no_core()
        if isinstance(ledger, Log) and not isinstance(ledger, self._logs):
            raise InputError(
                "an agent or a keeper needs a ledger, which is a file of its owner, got a "
                f"{type(ledger).__name__}: only a coordinator can have its records elsewhere."
            )
        self.session, self.identity = session, loaded(identity)
        self.number = self._number_in(session, self.identity)
        self.name = session.member_name(self.number)
        self.refused: Counter[Refusal] = Counter()
        """How many received frames were refused, by reason."""
        self._ledger_at, self._watch, self._takers = ledger, watch, tuple(takers)
        self._witness = None if witness is None else Path(witness)
        self._clock, self._pace = clock or SystemClock(), pace
        self._transport = transport or transport_to(
            session,
            self.number,
            self.identity,
            listen=(listen,) if isinstance(listen, str) else tuple(listen),
            connect=(connect,) if isinstance(connect, str) else tuple(connect),
            trouble=trouble,
        )
        self._ledger: Log | None = None
        self._node: Node | None = None
        self._task: asyncio.Task[None] | None = None
        self._notices: deque[Notice] = deque(maxlen=_NOTICES)
        self._news: asyncio.Event | None = None
        self._raised = False

    # ---- what a role says ----------------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def _number_in(session: Session, identity: Identity) -> int:
        """Return the number of the member whose key this is, or refuse it."""

    def _ledger_path(self, path: Path) -> Path:
        """Return the ledger's path, or refuse it before it is opened or created."""
        return path

    @abstractmethod
    def _machine(self, ledger: Ledger, records: Sequence[Record]) -> Driven:
        """Return the machine, new or resumed.

        First bind the keys to the ledger, or refuse: nothing was sent by then.
        """

    def _sources(self) -> dict[str, Any]:
        """Return what the machine needs besides: noise, readings. See `Node`."""
        return {}

    # ---- its life ------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._news = asyncio.Event()
        at = self._ledger_at
        self._ledger = at if isinstance(at, Log) else await opened_ledger(self._ledger_path(Path(at)))
        # What a ledger refuses is refused here, before the network is opened: nothing was sent then.
        try:
            self._ledger.require_room(self.session)
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

    def _made(self, ledger: Log) -> Node:
        """Return the node that drives this member."""
        records = ledger.records(self.session.id)
        self.machine = self._machine(cast(Ledger, ledger), records)  # `__init__` refuses another for an agent
        for taker in self._takers:  # the node gives them the later ones
            taker.take(records)
        return Node(
            self.session.id,
            self.machine,
            self._transport,
            ledger,
            replayed=len(records),
            takers=self._takers,
            clock=self._clock,
            watch=self._notice,
            pace=self._pace,
            **self._sources(),
        )

    def _require_usable(self, ledger: Ledger, words: str | None) -> None:
        """Refuse a ledger that lacks what these keys have sent; see `key_guard`."""
        session, now = self.session, self._clock.wall()
        key_guard.require_usable(
            self.identity.directory,
            ledger,
            session.id,
            session.expires,
            now,
            words=words,
            witness=self._witness,
        )

    def _bind(self, ledger: Ledger, *, marked: bool = True) -> None:
        """Bind the keys to this ledger in this session, and store its position."""
        if marked:
            key_guard.take(self.identity.directory, ledger)
        key_guard.bind(self.identity.directory, self.session.id, ledger, self.session.expires)

    def _refusals(self) -> dict[str, int]:
        return {reason.name.lower(): count for reason, count in self.refused.items()}

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
        if self._ledger is not None and not isinstance(self._ledger_at, Log):
            self._ledger.close()


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
