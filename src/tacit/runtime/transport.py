"""What carries frames between the members of a session: an interface, and its bounded inbox.

A transport promises little: a frame may be lost, doubled, late or out of order, and who it says is
present may be wrong. Machines of `tacit.protocol` need no more; who spoke is told by the signature alone.
Members are numbered as in the session's roster; the coordinator is `COORDINATOR`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol, TypeAlias, final
from weakref import WeakKeyDictionary

from tacit.errors import TacitError

INBOX_FRAMES = 65_536
"""More frames than this wait for nobody: the newest are dropped, and said again by their senders."""
INBOX_BYTES = 1 << 28
"""Nor more bytes than this: frames of long vectors have megabytes."""


class NetworkError(TacitError):
    """The network cannot be used as it was asked for."""


@final
@dataclass(frozen=True)
class Frame:
    """Bytes that came in; `hint` is who the network says sent them."""

    data: bytes = field(repr=False)
    hint: int | None = None


@final
@dataclass(frozen=True)
class Presence:
    """The network sees a member, or sees it no longer."""

    who: int
    here: bool


Arrival: TypeAlias = Frame | Presence


class Transport(Protocol):
    """Carries frames; one per member and session."""

    @property
    def dropped(self) -> int:
        """How many frames were dropped because they were too long or too many."""
        ...

    async def open(self) -> None:
        """Begin; returns when frames can be sent, which may be before anyone can hear them."""
        ...

    def send(self, to: int | None, frame: bytes) -> None:
        """Send to one member, or to all who listen to this one (None). Never fails: frames may be lost."""
        ...

    async def receive(self) -> list[Arrival]:
        """Wait until something arrives; returns all that has. If stopped while waiting nothing is lost."""
        ...

    async def close(self) -> None:
        """End. What was sent before still leaves if it can."""
        ...


@final
class _Bell:
    """Wakes one event loop for all inboxes in it, once for what arrives together."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rung: list[asyncio.Event] = []

    def ring(self, loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
        """Set an event of the loop; from any thread."""
        with self._lock:
            self._rung.append(event)
            first = len(self._rung) == 1
        if first:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(self._heard)

    def _heard(self) -> None:
        with self._lock:
            rung, self._rung = self._rung, []
        for event in rung:
            event.set()


_BELLS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Bell] = WeakKeyDictionary()


@final
class Inbox:
    """Where arrivals wait; filled from any thread, emptied by one event loop.

    A burst wakes the loop once. Frames are bounded in length, in number and in bytes together. Presence
    needs no bound of its own: only the last word about each member is kept.
    """

    def __init__(
        self,
        frame_bytes: int,
        frames: int = INBOX_FRAMES,
        members: Callable[[int], bool] = lambda _: True,
        most_bytes: int = INBOX_BYTES,
    ) -> None:
        self.dropped = 0
        self._bytes, self._most_bytes = 0, max(most_bytes, frame_bytes)
        self._frame_bytes, self._most, self._member = frame_bytes, frames, members
        self._frames: deque[Frame] = deque()
        self._presence: dict[int, bool] = {}
        self._lock = Lock()
        self._awake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._bell = _BELLS.setdefault(self._loop, _Bell())

    def put(self, data: bytes, hint: int | None = None) -> None:
        """Keep a frame, unless it is too long or too many wait already."""
        with self._lock:
            full = len(self._frames) >= self._most or self._bytes + len(data) > self._most_bytes
            if full or len(data) > self._frame_bytes:
                self.dropped += 1
                return
            self._bytes += len(data)
            first = self._empty()
            self._frames.append(Frame(data, hint))
        if first:
            self._bell.ring(self._loop, self._awake)

    def seen(self, who: int, here: bool) -> None:
        """Keep that a member has come or gone."""
        if not self._member(who):
            return
        with self._lock:
            first = self._empty()
            self._presence[who] = here
        if first:
            self._bell.ring(self._loop, self._awake)

    async def take(self) -> list[Arrival]:
        """Wait for arrivals and take all of them: who came and went first, then what was said."""
        await self._awake.wait()
        with self._lock:
            self._awake.clear()
            arrivals: list[Arrival] = [Presence(who, here) for who, here in self._presence.items()]
            arrivals.extend(self._frames)
            self._presence.clear()
            self._frames.clear()
            self._bytes = 0
        return arrivals

    def _empty(self) -> bool:
        return not self._frames and not self._presence
