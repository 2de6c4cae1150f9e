"""The transport of one session over connections that carry many sessions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, final

from tacit.live.fleet.messages import session_frame
from tacit.live.transport.base import Arrival, Inbox, Network, longest_frame

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session
    from tacit.live.transport.link import Link

WAITING_FRAMES = 256
"""Frames of one connection that wait, before it is read again."""
PING_AFTER, END_AFTER = 5, 10
"""Ticks of silence after which the other side is asked for a sign of life, and given up."""
_MEMBERS_PER_TICK = 250


def more_patience(members: int) -> int:
    """Return how many more ticks of silence a large fleet may take.

    A hub handles what many members say in one turn of its loop, and members that share a machine do as well.
    Nobody is given up because the others take time.
    """
    return members // _MEMBERS_PER_TICK


class Trunk(Protocol):
    """The owner of the connections: a `Gateway` or a `HubConnection`."""

    def channel_opened(self, channel: SessionChannel) -> None:
        """Carry frames of this session from now on."""
        ...

    def channel_closed(self, channel: SessionChannel) -> None:
        """Stop carrying frames of this session."""
        ...

    def marked(self, frame: bytes) -> bytes:
        """Return a frame as it leaves, with the ledger's mark where it is news."""
        ...

    @property
    def expires(self) -> datetime | None:
        """When the own certificate expires."""
        ...


@final
class SessionChannel:
    """One member's end of one session; a `Transport`.

    Attributes
    ----------
    links : dict of int to Link
        The members of the session that can receive its frames now, and their connections.
    """

    def __init__(self, session: Session, who: int, trunk: Trunk) -> None:
        self.session, self.who, self._trunk = session, who, trunk
        self.links: dict[int, Link] = {}
        self._numbers: dict[Link, int] = {}  # the same the other way round: every frame asks for it
        self._inbox = Inbox(1)  # until it is opened
        self._waiting: Counter[Link] = Counter()
        self._lost, self._heard = 0, 0.0

    @property
    def dropped(self) -> int:
        """Number of frames that were too long, too many, or had no connection."""
        return self._lost + self._inbox.dropped

    @property
    def network(self) -> Network:
        """How this member is connected in this session now."""
        return Network(tuple(sorted(self.links)), self._heard or None, self._trunk.expires)

    async def open(self, arrived: Callable[[], None] = lambda: None) -> None:
        """Start to receive frames of this session."""
        session, near = self.session, frozenset(self.session.neighbours(self.who))
        self._inbox = Inbox(longest_frame(session), members=near.__contains__, arrived=arrived)
        self._trunk.channel_opened(self)

    def send(self, to: int | None, frame: bytes) -> None:
        """Send once; a frame without a connection is counted as dropped.

        The machine sends it again later.
        """
        data = session_frame(self.session.id, frame)
        for link in tuple(self.links.values()) if to is None else (self.links.get(to),):
            if link is None or not link.send(self._trunk.marked(data)):
                self._lost += 1

    def take(self) -> list[Arrival]:
        """Return what has arrived, and continue reading from all members."""
        arrivals = self._inbox.take()
        self._release()
        return arrivals

    async def close(self) -> None:
        """Stop receiving frames of this session."""
        self._trunk.channel_closed(self)
        self.links.clear()
        self._numbers.clear()
        self._release()

    def _release(self) -> None:
        # A connection carries many sessions, and `link.waiting` counts the frames of all. Each session takes
        # back only its own share. So a session that is slow keeps the connection held, whatever others do.
        for link, count in self._waiting.items():
            link.waiting -= count
            if link.waiting < WAITING_FRAMES:
                link.go_on()
        self._waiting.clear()

    # ---- what the owner of the connections tells -----------------------------------------------------

    def attach(self, number: int, link: Link) -> None:
        """Use a connection for a member from now on."""
        if (before := self.links.get(number)) is not None:
            del self._numbers[before]
        self.links[number], self._numbers[link] = link, number
        self._inbox.seen(number, True)

    def detach(self, link: Link) -> None:
        """Stop using a connection."""
        if (number := self._numbers.pop(link, None)) is not None:
            del self.links[number]
            self._inbox.seen(number, False)

    def put(self, link: Link, data: bytes) -> bool:
        """Queue a frame; stop reading from a connection with too many queued.

        False if the connection is not that of a member of this session.
        """
        # Only connections that were attached by name and key count. A member of the hub that is not in this
        # session could otherwise fill its inbox.
        number = self._numbers.get(link)
        if number is None:
            return False
        self._waiting[link] += 1
        link.waiting += 1
        if link.waiting >= WAITING_FRAMES:
            link.hold()
        self._heard = time.time()
        self._inbox.put(data, number)
        return True
