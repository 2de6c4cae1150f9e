"""A network inside one process, for tests and experiments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, final

from tacit.live.transport.base import Arrival, Inbox, Network

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session

_FRAME_BYTES = 1 << 25

Fault: TypeAlias = Callable[[int, int, bytes], list[bytes]]
"""(from, to, frame) → the frames that arrive instead: none, one or several."""


@final
class MemoryNetwork:
    """Joins the members of one session in one event loop.

    Parameters
    ----------
    session : Session
        Says who is a neighbour of whom.
    fault : callable, optional
        What happens to a frame on its way; by default nothing.
    """

    def __init__(self, session: Session, fault: Fault | None = None) -> None:
        self.session, self.fault = session, fault
        self.taps: list[Callable[[int, int, bytes], None]] = []
        self._members: dict[int, MemoryTransport] = {}

    def transport(self, who: int) -> MemoryTransport:
        """Return the transport of one member."""
        return MemoryTransport(self, who)

    def carry(self, sender: int, to: int, frame: bytes) -> None:
        """Carry a frame from one member to another."""
        for tap in self.taps:
            tap(sender, to, frame)
        for arriving in [frame] if self.fault is None else self.fault(sender, to, frame):
            if (member := self._members.get(to)) is not None:
                member.inbox.put(arriving, sender)

    def here(self, who: int) -> bool:
        """Whether a member has entered and not left."""
        return who in self._members

    def enter(self, member: MemoryTransport) -> None:
        """Connect a member to its neighbours."""
        self._members[member.who] = member
        for other in self.session.neighbours(member.who):
            if other in self._members:
                self._members[other].inbox.seen(member.who, True)
                member.inbox.seen(other, True)

    def leave(self, member: MemoryTransport) -> None:
        """Disconnect a member, also after a crash."""
        if self._members.get(member.who) is not member:
            return
        del self._members[member.who]
        for other in self.session.neighbours(member.who):
            if other in self._members:
                self._members[other].inbox.seen(member.who, False)


@final
class MemoryTransport:
    """One member's end of a `MemoryNetwork`."""

    inbox: Inbox

    def __init__(self, network: MemoryNetwork, who: int) -> None:
        self.who, self._network = who, network
        self._near = network.session.neighbours(who)

    @property
    def dropped(self) -> int:
        """How many frames were dropped."""
        return self.inbox.dropped

    @property
    def network(self) -> Network:
        """The neighbours that are connected."""
        return Network(connected=tuple(filter(self._network.here, self._near)))

    async def open(self, arrived: Callable[[], None] = lambda: None) -> None:
        """Enter the network."""
        self.inbox = Inbox(_FRAME_BYTES, arrived=arrived)
        self._network.enter(self)

    def send(self, to: int | None, frame: bytes) -> None:
        """Send to one neighbour, or to all."""
        for one in self._near if to is None else (to,):
            if one in self._near:
                self._network.carry(self.who, one, frame)

    def take(self) -> list[Arrival]:
        """Return what has arrived."""
        return self.inbox.take()

    async def close(self) -> None:
        """Leave the network."""
        self._network.leave(self)
