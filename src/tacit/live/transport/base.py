"""The interface of transports, which carry frames, and a bounded inbox.

A transport promises little: a frame may be lost, duplicated or late, and its list of connected members may be
wrong. Machines of `tacit.core.protocol` need no more. Only the signature of a frame says who sent it. Members
are numbered as in the session's roster; the coordinator is `COORDINATOR`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias, final

from tacit.base.errors import TacitError
from tacit.core.protocol.messages import DIGEST_BYTES

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session

INBOX_FRAMES = 65_536
"""Maximum number of queued frames; further ones are dropped and sent again by their senders."""
INBOX_BYTES = 1 << 28
"""Maximum size of all queued frames together in bytes; a frame of a long vector has megabytes."""

_ROOM = 4096  # bytes of a frame besides its numbers and the bitmap of used agents


class NetworkError(TacitError):
    """The network cannot be used as it was asked for."""


@final
@dataclass(frozen=True)
class Frame:
    """Bytes that arrived; `hint` is the sender according to the network."""

    data: bytes = field(repr=False)
    hint: int | None = None


@final
@dataclass(frozen=True)
class Presence:
    """A member was connected, or was disconnected."""

    who: int
    here: bool


Arrival: TypeAlias = Frame | Presence


@final
@dataclass(frozen=True)
class Network:
    """How a member is connected now, for people and status pages.

    Attributes
    ----------
    connected : tuple of int
        Members to which there is a connection.
    heard : float or None
        When the last frame came in, in seconds since 1970.
    expires : datetime or None
        When the own certificate expires.
    trouble : str or None
        Why there is no connection, in one sentence.
    """

    connected: tuple[int, ...] = ()
    heard: float | None = None
    expires: datetime | None = None
    trouble: str | None = None


class Transport(Protocol):
    """Carries frames; one per member and session."""

    @property
    def dropped(self) -> int:
        """How many frames were dropped because they were too long or too many."""
        ...

    @property
    def network(self) -> Network:
        """How this member is connected now."""
        ...

    async def open(self, arrived: Callable[[], None] = lambda: None) -> None:
        """Start to listen and to connect; returns before anyone is connected.

        `arrived` is called in the same event loop whenever there is something to `take`.
        """
        ...

    def send(self, to: int | None, frame: bytes) -> None:
        """Send to one member, or to all neighbours (None).

        This never fails. A frame that cannot be sent is lost, and the machine sends it again later.
        """
        ...

    def take(self) -> list[Arrival]:
        """Return everything that arrived.

        Raises `NetworkError` if a connection is impossible.
        """
        ...

    async def close(self) -> None:
        """Close. Frames that were handed to the network before are still sent."""
        ...


def longest_frame(session: Session) -> int:
    """Return the length in bytes of the longest frame of a session."""
    numbers = max(session.number_bytes, session.mask_bytes or 0) * session.components
    salts = session.n * (DIGEST_BYTES + 1) if session.keepers else 0  # a closing has a salt and a bit each
    return max(numbers, salts) + _ROOM


@final
class Inbox:
    """A bounded queue of arrivals; `arrived` is called for each.

    The length of a frame, the number of frames and their total size are limited. Presence needs no limit:
    only the last state of each member is kept.
    """

    def __init__(
        self,
        frame_bytes: int,
        frames: int = INBOX_FRAMES,
        members: Callable[[int], bool] = lambda _: True,
        most_bytes: int = INBOX_BYTES,
        arrived: Callable[[], None] = lambda: None,
    ) -> None:
        self._arrived = arrived
        self.dropped = 0
        self._bytes, self._most_bytes = 0, max(most_bytes, frame_bytes)
        self._frame_bytes, self._most, self._member = frame_bytes, frames, members
        self._frames: deque[Frame] = deque()
        self._presence: dict[int, bool] = {}
        self._error: Exception | None = None

    def put(self, data: bytes, hint: int | None = None) -> None:
        """Queue a frame; drop it if it is too long, or if too many are queued."""
        # The newest is dropped and not the oldest: honest senders repeat it, and a flood cannot push out
        # frames that arrived before it.
        full = len(self._frames) >= self._most or self._bytes + len(data) > self._most_bytes
        if full or len(data) > self._frame_bytes:
            self.dropped += 1
            return
        self._bytes += len(data)
        self._frames.append(Frame(data, hint))
        self._arrived()

    def seen(self, who: int, here: bool) -> None:
        """Note that a member was connected or disconnected."""
        # Only the last state counts, so a member that connects again and again takes no memory.
        if self._member(who):
            self._presence[who] = here
            self._arrived()

    def fail(self, error: Exception) -> None:
        """Let `take` raise an error, after it has returned earlier arrivals."""
        self._error = error
        self._arrived()

    def take(self) -> list[Arrival]:
        """Take all arrivals: first changes of presence, then frames."""
        arrivals: list[Arrival] = [Presence(who, here) for who, here in self._presence.items()]
        arrivals.extend(self._frames)
        if not arrivals and self._error is not None:
            raise self._error
        if self._error is not None:
            self._arrived()  # to raise it next time
        self._presence.clear()
        self._frames.clear()
        self._bytes = 0
        return arrivals
