"""A member's one connection to its hub, which carries all its sessions."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, final

from websockets.exceptions import WebSocketException
from websockets.frames import CloseCode

from tacit.base.errors import TacitError
from tacit.core.protocol.roster import COORDINATOR
from tacit.live.fleet.channel import END_AFTER, PING_AFTER, SessionChannel, more_patience
from tacit.live.fleet.messages import (
    CONTROL,
    FRAME_BYTES,
    HUB_PATH,
    ID_BYTES,
    SESSION,
    STANDS_BY,
    AnyMessage,
    ChannelClosed,
    ChannelOpen,
    Greeting,
    decode_control,
    encode_control,
    marked_frame,
    referred,
)
from tacit.live.identity.roster import COORDINATOR as COORDINATOR_NAME
from tacit.live.transport.connection_diagnosis import (
    SparseLog,
    clock_difference,
    require_endpoint,
    why_failed,
    why_not_reached,
)
from tacit.live.transport.link import ConnectionRefused, Link
from tacit.live.transport.tls import Channel, Credentials

if TYPE_CHECKING:
    from tacit.live.identity.certificates import Certificate
    from tacit.live.identity.identity import Identity
    from tacit.live.ledger.rollback_guard import Position

CLOCKS_DIFFER = 60.0
"""Seconds between two clocks that are worth a sentence."""
_FORBIDDEN = 403
_FAILURES = (OSError, TacitError, ConnectionRefused, ValueError, WebSocketException)
"""Why a connection is not made."""
_PATIENCE = 3.0  # seconds without a connection before someone is told that nobody listens (yet)
_FIRST_WAIT, _STANDBY_WAIT, _LONGEST_WAIT, _SETTLED = 0.1, 2.0, 15.0, 5.0
_HANDSHAKE = 20.0
_TICK = 1.0
_LONGER = 20  # more ticks of silence than a hub allows: thousands may connect to it, and are unknown here
_QUEUE_BYTES = 1 << 26


@final
class HubConnection:
    """Stays connected to a hub, and reconnects when the connection is lost.

    Parameters
    ----------
    endpoints : sequence of str
        Where the hub is, ``wss://host:port``: one address, or those of its hosts, which are tried in turn.
        A host that stands by says where the leader is, and that one is tried next.
    role : str
        Whether this member is an agent or a keeper, as it tells the hub.
    said : callable
        Called with messages of the hub that are not frames of sessions.
    here : callable
        Called with True when there is a connection, with False when it is lost.
    position : callable
        Returns the last position of the member's ledger that is on the disk. The hub keeps it.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        identity: Identity,
        role: str,
        *,
        said: Callable[[AnyMessage], None],
        here: Callable[[bool], None] = lambda _: None,
        trouble: Callable[[str], None] = lambda _: None,
        position: Callable[[], Position | None] = lambda: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        for endpoint in endpoints:
            require_endpoint(endpoint)
        self._endpoints, self.endpoint, self._role = tuple(endpoints), endpoints[0], role
        self.identity = identity
        self._said, self._here, self._trouble = said, here, trouble
        self._sometimes = SparseLog(trouble)  # what the hub can cause as often as it likes
        self._credentials = Credentials(identity.tls)
        self._channels: dict[bytes, SessionChannel] = {}
        self._link: Link | None = None
        self._position, self._told = position, b""
        self._last: str | None = None
        self._again = False
        self._awake = asyncio.Event()
        self._awake.set()
        self.frames = 0
        """How many frames have come from the hub."""
        self._members = 0  # of the largest session so far: how large the fleet is, as far as known here
        self.hub_key = b""
        """The hub's signing key, as the authority vouches for it; empty before the first connection."""
        self.why: str | None = None
        """Why there is no connection, in one sentence."""
        self._now = now
        self.clock_ahead: float | None = None
        """Seconds that this machine's clock is ahead of the hub's, as the hub said when we connected.

        It is for diagnosis only: nothing that concerns privacy may go by the hub's clock.
        """

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._link is not None

    @property
    def expires(self) -> datetime | None:
        """When the own certificate expires."""
        return self._credentials.expires

    def send(self, message: AnyMessage) -> bool:
        """Send a message to the hub; False if there is no connection."""
        return self._link is not None and self._link.send(encode_control(message))

    def reconnect(self) -> None:
        """Connect anew, with a certificate that was just renewed."""
        if self._link is not None:
            self._again = True
            self._link.close(CloseCode.NORMAL_CLOSURE)

    def channel_opened(self, channel: SessionChannel) -> None:
        """Carry frames of a session from now on."""
        self._channels[channel.session.id] = channel
        self._members = max(self._members, channel.session.n)
        self.send(ChannelOpen(channel.session.id))

    def channel_closed(self, channel: SessionChannel) -> None:
        """Stop carrying frames of a session."""
        if self._channels.get(channel.session.id) is channel:
            del self._channels[channel.session.id]
            self.send(ChannelClosed(channel.session.id))

    def marked(self, frame: bytes) -> bytes:
        """Return a frame as it leaves, with the ledger's mark where it is news.

        The records of a frame are on the disk before it is sent. So the mark that goes with it includes them,
        and whoever has the message also knows that an older ledger lacks it.
        """
        mark = self._mark()
        if mark == self._told:
            return frame
        self._told = mark
        return marked_frame(frame, mark)

    def _mark(self) -> bytes:
        position = self._position()
        return b"" if position is None else position.told()

    def rest(self) -> None:
        """Disconnect, and stay away until `wake`."""
        self._awake.clear()
        if self._link is not None:
            self._again = True
            self._link.close(CloseCode.NORMAL_CLOSURE)

    def wake(self) -> None:
        """Connect again after `rest`."""
        self._awake.set()

    def leave(self) -> None:
        """Close the connection, and handle nothing more that came over it."""
        if self._link is not None:
            self._link.close(CloseCode.NORMAL_CLOSURE)

    # ---- connecting -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Stay connected until cancelled."""
        watching = asyncio.ensure_future(self._watch())
        try:
            await self._dial()
        finally:
            watching.cancel()
            if self._link is not None:
                link = self._link
                link.close()
                await asyncio.wait([link.lost], timeout=2.0)

    async def _dial(self) -> None:
        wait, since = _FIRST_WAIT, time.monotonic()
        while True:
            await self._awake.wait()
            try:
                link = await self._reached()
            except _FAILURES as error:
                refused = isinstance(error, ConnectionRefused)
                self._explain(error, time.monotonic() - since)
                # A hub that forbids us does not change its mind within a second, so it is asked seldom.
                wait = _LONGEST_WAIT if refused and getattr(error, "status", 0) == _FORBIDDEN else wait
                # One that stands by may lead within seconds.
                longest = _STANDBY_WAIT if getattr(error, "status", 0) == STANDS_BY else _LONGEST_WAIT
            else:
                self.why, start, longest = None, time.monotonic(), _LONGEST_WAIT
                await link.lost
                since = time.monotonic()
                wait = _FIRST_WAIT if since - start > _SETTLED or self._again else wait
                self._again = False
                if link.goodbye:
                    self._tell(f"{self.endpoint} has ended the connection: {link.goodbye}.")
            # At random: otherwise a whole fleet would come back at the same moment after a restart.
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(2 * wait, longest)

    async def _reached(self) -> Link:
        """Connect to the first host that takes members; try each once.

        The last one comes last: if its host hangs, it takes connections and does not answer. One that stands
        by names the leader, which comes next: a host proves itself by its certificate, whoever named it.
        """
        waiting = [*(one for one in self._endpoints if one != self._last), *filter(None, [self._last])]
        tried = set[str]()
        while True:
            self.endpoint = waiting.pop(0)
            tried.add(self.endpoint)
            try:
                link = await self._connected()
            except _FAILURES as error:
                leader = referred(error) if len(tried) <= len(self._endpoints) else None
                waiting = [one for one in (leader, *waiting) if one is not None and one not in tried]
                if not waiting:
                    raise
            else:
                self._last = self.endpoint
                return link

    async def _connected(self) -> Link:
        self._credentials.reload()
        name = self._credentials.certificate.name
        self._credentials.certificate.require_current(f"the certificate of {name}")
        host, port = require_endpoint(self.endpoint)
        link = Link(
            self,
            Channel(self._credentials.client, host),
            uri=f"{self.endpoint}{HUB_PATH}{name}",
            frame_bytes=FRAME_BYTES,
            queue_bytes=_QUEUE_BYTES,
        )
        await link.connect(host, port, _HANDSHAKE)
        return link

    def _explain(self, error: Exception, seconds: float) -> None:
        match error:
            case ConnectionRefused():
                sentence = f"{self.endpoint} refuses us: {error.sentence}"
            case TacitError():
                sentence = str(error)
            case _:
                sentence = why_not_reached(self.endpoint, error)
                if seconds < _PATIENCE:
                    return  # members that start first wait for the hub
        self._tell(sentence)

    def _tell(self, sentence: str) -> None:
        if self.why != sentence:
            self.why = sentence
            self._trouble(sentence)

    # ---- what the connection tells (see `tacit.live.transport.link.Owner`) --------------------------

    def admit(self, link: Link, certificate: Certificate | None, path: str | None) -> int:  # noqa: ARG002
        """Accept only the hub: our authority gave it the coordinator's name.

        Every member has a certificate of the same authority. Without the check of the name, any of them could
        answer at the hub's address, and offer sessions of its own.
        """
        if certificate is None or certificate.subject is None or certificate.name != COORDINATOR_NAME:
            raise ConnectionRefused(_FORBIDDEN, "the other side is not the hub of our authority.")
        if self.identity.revoked(certificate):
            raise ConnectionRefused(_FORBIDDEN, "the certificate of the hub is revoked.")
        return COORDINATOR

    def opened(self, link: Link) -> None:
        """Send the role, and the sessions that this member listens to.

        The hub forgets a member's channels when the connection is lost. So all of them are opened again, and
        the machines then ask for what they missed.
        """
        assert link.certificate is not None
        assert link.certificate.subject is not None
        self._link, self.hub_key = link, link.certificate.subject.public_key
        if link.told_time is not None:
            self.clock_ahead = self._now() - link.told_time
            if abs(self.clock_ahead) >= CLOCKS_DIFFER:
                self._trouble(f"{clock_difference(self.clock_ahead)}: set the one that is wrong.")
        self._told = self._mark()
        self.send(Greeting(self._role, self._told))
        for session in self._channels:
            self.send(ChannelOpen(session))
        self._here(True)

    def heard(self, link: Link, data: bytes) -> None:
        """Handle a frame of a session, or a control message."""
        self.frames += 1
        kind, rest = data[:1], data[1:]
        if kind == SESSION:
            if (channel := self._channels.get(rest[:ID_BYTES])) is not None:
                channel.put(link, rest[ID_BYTES:])
        elif kind == CONTROL:
            link.charge()
            try:
                self._take(link, decode_control(data))
            except TacitError as error:
                self._sometimes("said", f"{self.endpoint} sent a message that cannot be used: {error}")

    def _take(self, link: Link, message: AnyMessage) -> None:
        match message:
            case ChannelOpen(session=session):
                if (channel := self._channels.get(session)) is not None:
                    channel.attach(COORDINATOR, link)
            case ChannelClosed(session=session):
                if (channel := self._channels.get(session)) is not None:
                    channel.detach(link)
            case _:
                self._said(message)

    def ended(self, link: Link, why: BaseException | None) -> None:  # noqa: ARG002
        """Forget the closed connection."""
        if self._link is link:
            self._link = None
            for channel in tuple(self._channels.values()):
                channel.detach(link)
            self._here(False)

    def failed(self, link: Link, error: Exception) -> None:  # noqa: ARG002
        """Report a bug here."""
        self._sometimes(*why_failed(self.endpoint, error))

    async def _watch(self) -> None:
        """Close a connection that is silent."""
        while True:
            await asyncio.sleep(_TICK)
            self._look()

    def _look(self) -> None:
        if self._link is not None:
            more = more_patience(self._members)
            self._link.tick(PING_AFTER + more, END_AFTER + _LONGER + 2 * more)
