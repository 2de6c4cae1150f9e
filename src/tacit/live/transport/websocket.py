"""Frames over WebSockets and mutual TLS.

Before a frame is read, TLS checks the other side's certificate, and `Admission` checks that it is a member's.
Everything runs in one event loop. On a graph only neighbours may connect, and nobody relays frames. Why
WebSockets are used: docs/decisions/transport.md.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, final

from websockets.exceptions import WebSocketException
from websockets.frames import CloseCode

from tacit.base.errors import TacitError
from tacit.core.protocol.machine import BATCH
from tacit.core.protocol.roster import COORDINATOR
from tacit.live.runtime.limits import LEDGER_FILES, SPARE_FILES, raise_files, require_files
from tacit.live.transport.admission import CONNECTED, FORBIDDEN, OTHER_CONTENTS, Admission
from tacit.live.transport.base import Arrival, Inbox, Network, NetworkError, longest_frame
from tacit.live.transport.connection_diagnosis import (
    SparseLog,
    require_endpoint,
    why_failed,
    why_not_reached,
    why_turned_away,
)
from tacit.live.transport.link import ConnectionRefused, HandlerFailed, Link
from tacit.live.transport.listener import Listener
from tacit.live.transport.tls import Channel, Credentials

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session
    from tacit.live.identity.certificates import Certificate
    from tacit.live.identity.identity import TlsFiles

PATIENCE = 3.0
"""Seconds without a connection before the owner is told that nobody is listening (yet)."""
_TICK = 1.0  # seconds between two checks of the connections
_FIRST_WAIT, _SETTLED = 0.1, 5.0  # seconds before the first retry; after a connection of this length again
_WAITING_FRAMES = 64  # frames of one member that wait here, before its connection is read again
_HANDSHAKE = 5.0  # seconds to show a certificate and to ask
_MOST_STRANGERS = 128  # connections from one address that have not proved anything, beside the roster's
_REPLACED = 4001  # a close code of our own


@final
class WebsocketTransport:
    """One member's connections to its session.

    Parameters
    ----------
    session : Session
        Says who is a neighbour of whom, and how long a frame can be.
    who : int
        The number of this member, or `COORDINATOR`.
    tls : TlsFiles
        Its certificate, key and authority: `Identity.tls`.
    listen, connect : sequence of str
        Endpoints such as ``wss://192.0.2.1:7447``. Agents of a server connect, the coordinator listens. On
        a graph one end of each edge connects to the other: see `to_dial`.
    trouble : callable, optional
        Called with one sentence that says why there is no connection, or why an incoming one was refused.
    revoked : callable, optional
        Returns whether a certificate was revoked.
    """

    def __init__(
        self,
        session: Session,
        who: int,
        tls: TlsFiles,
        *,
        listen: Sequence[str] = (),
        connect: Sequence[str] = (),
        trouble: Callable[[str], None] = lambda _: None,
        revoked: Callable[[Certificate], bool] = lambda _: False,
    ) -> None:
        _require_ends(session, who, listen, connect)
        self._session, self._who, self._files = session, who, tls
        self._listen, self._connect = tuple(listen), tuple(connect)
        self._trouble, self._admission = trouble, Admission(session, who, revoked)
        self._near = frozenset(session.neighbours(who))
        self._frame_bytes = longest_frame(session)
        deadline = session.deadlines.round
        # A silent connection is given up well before the round's deadline, so that a new one can be made.
        quiet = min(max(deadline / 3, 2.0), 20.0) + session.n / 200
        self._ping_after, self._end_after = max(1, round(quiet / 2 / _TICK)), max(2, round(quiet / _TICK))
        self._handshake = _HANDSHAKE + session.n / 100
        self._longest_wait = 2.0 + session.n / 250
        self._links: dict[int, Link] = {}
        self._busy: list[Link] = []  # with frames that nobody has taken
        self._lost = 0
        self._heard: float | None = None
        self._tell = SparseLog(trouble)
        self._why: dict[str, str] = {}  # by endpoint: why there is no connection
        self._inbox: Inbox | None = None
        self._credentials: Credentials | None = None
        self._listener: Listener | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._gone = asyncio.Event()  # a connection has ended
        self._closing = False

    @property
    def dropped(self) -> int:
        """Number of frames that were too long, too many, or had no connection."""
        return self._lost + (self._inbox.dropped if self._inbox else 0)

    @property
    def network(self) -> Network:
        """How this member is connected now."""
        credentials = self._credentials
        return Network(
            connected=tuple(sorted(self._links)),
            heard=self._heard,
            expires=None if credentials is None else credentials.expires,
            trouble=next(iter(self._why.values()), None),
        )

    async def open(self, arrived: Callable[[], None] = lambda: None) -> None:
        """Listen, and begin to connect."""
        self._credentials = Credentials(self._files)
        require_files(len(self._near) + LEDGER_FILES, f"{len(self._near):,} connections")
        self._inbox = Inbox(self._frame_bytes, members=self._near.__contains__, arrived=arrived)
        if self._listen:
            most = _MOST_STRANGERS + len(self._near)
            room = raise_files() - len(self._near) - LEDGER_FILES - SPARE_FILES
            self._listener = Listener(
                self._answering,
                seconds=self._handshake,
                most=max(16, min(4 * most, room)),
                most_per_address=max(16, min(most, room // 2)),
            )
            try:
                for endpoint in self._listen:
                    await self._listener.open(endpoint)
            except NetworkError:
                self._listener.close()
                raise
        self._tasks = [asyncio.ensure_future(self._watch())]
        self._tasks += [asyncio.ensure_future(self._dial(endpoint)) for endpoint in self._connect]
        for task in self._tasks:
            task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Report a bug in this task to the owner.

        Without this the owner would wait for a connection for ever.
        """
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception) and self._inbox is not None:
            self._inbox.fail(error)

    def send(self, to: int | None, frame: bytes) -> None:
        """Send once; a frame without a connection is counted as dropped.

        The machine sends it again later.
        """
        for link in tuple(self._links.values()) if to is None else (self._links.get(to),):
            if link is None or not link.send(frame):
                self._lost += 1

    def take(self) -> list[Arrival]:
        """Return what has arrived, and continue reading from all members."""
        assert self._inbox is not None
        arrivals = self._inbox.take()
        busy, self._busy = self._busy, []
        for link in busy:
            link.waiting = 0
            link.go_on()
        return arrivals

    async def close(self) -> None:
        """Close all connections; the neighbours notice at once."""
        # In this order: while a link is closing, no task may make a new one, and nobody may connect.
        self._closing = True
        for task in self._tasks:
            task.cancel()
        if self._listener is not None:
            self._listener.close()
        links = list(self._links.values())
        for link in links:
            link.close()
        if links:
            await asyncio.wait([link.lost for link in links], timeout=2.0)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- what connections tell (see `tacit.live.transport.link.Owner`) ----------------

    def admit(self, link: Link, certificate: Certificate | None, path: str | None) -> int:
        """Return which member this is, or refuse it."""
        assert certificate is not None
        who = self._admission.member(certificate, path)
        known = self._links.get(who)
        if known is not None and known.dialled and not link.dialled and not self._they_dial(who):
            # Both sides connected to each other: both must keep the same connection.
            raise ConnectionRefused(CONNECTED, f"{self._name} is connected to {certificate.name} already.")
        return who

    def opened(self, link: Link) -> None:
        """Use this connection from now on instead of the member's older one.

        The older one is often dead without a sign of it, for example after the member got another address. If
        the newer one were refused, the member would be locked out until the silence is noticed. Nobody else
        can replace it: that takes the member's key.
        """
        assert link.who is not None
        assert self._inbox is not None
        if self._listener is not None:
            self._listener.let_in(link)
        # Removed before it is closed: `ended` must not report the member as gone.
        if (older := self._links.get(link.who)) is not None:
            del self._links[link.who]
            name = self._session.member_name(link.who)
            if older.dialled == link.dialled:
                at = f" from {link.address}" if link.address else ""
                self._tell(f"replaced {name}", f"{name} has connected again{at}: its older connection ends.")
            older.close(_REPLACED, f"another connection with the key of {name} replaces this one")
        self._links[link.who] = link
        self._inbox.seen(link.who, True)

    def heard(self, link: Link, data: bytes) -> None:
        """Queue a frame; stop reading from a member with too many in the queue.

        The member's frames then wait in its own buffers. A flood slows down its sender and nobody else.
        """
        assert self._inbox is not None
        if not link.waiting:
            self._busy.append(link)
        link.waiting += 1
        if link.waiting >= _WAITING_FRAMES:
            link.hold()
        self._heard = time.time()
        self._inbox.put(data, link.who)

    def ended(self, link: Link, why: BaseException | None) -> None:
        """Stop using a connection; report strangers that were refused."""
        if link.who is not None and self._links.get(link.who) is link:
            del self._links[link.who]
            assert self._inbox is not None
            self._inbox.seen(link.who, False)
            if isinstance(why, TimeoutError) and why.args:
                name = self._session.member_name(link.who)
                self._tell(f"cut {name}", f"The connection to {name} was ended: {why}.")
        elif not link.dialled and link.who is None and not self._closing:
            if isinstance(why, ConnectionRefused):
                self._tell(f"refused {link.certificate and link.certificate.name}", _refusal(link, why))
            elif not isinstance(why, HandlerFailed):
                self._tell(*why_turned_away(link.address, why or ConnectionError()))
        self._gone.set()

    def failed(self, link: Link, error: Exception) -> None:
        """Report a bug here."""
        whose = link.address or "the other side" if link.who is None else self._session.member_name(link.who)
        self._tell(*why_failed(whose, error))

    # ---- who may connect ----------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return self._session.member_name(self._who)

    def _they_dial(self, who: int) -> bool:
        """Whether to keep the other side's connection if both made one.

        The connection of the agent that is earlier in the roster is kept, so both sides decide alike.
        """
        return who < self._who

    def _answering(self, address: str) -> Link:
        assert self._credentials is not None
        self._credentials.reload()
        return self._link(Channel(self._credentials.server), address=address)

    def _link(self, channel: Channel, *, uri: str | None = None, address: str = "") -> Link:
        # A member that was disconnected gets several rounds at once: they must always fit.
        queue = (1 << 20) + 4 * BATCH * self._frame_bytes
        return Link(self, channel, uri=uri, frame_bytes=self._frame_bytes, queue_bytes=queue, address=address)

    # ---- connecting ---------------------------------------------------------------------------------

    async def _dial(self, endpoint: str) -> None:
        """Keep a connection to one endpoint, and reconnect for ever."""
        wait, since, known = _FIRST_WAIT, time.monotonic(), None
        while True:
            while known in self._links:  # it has connected to us
                self._gone.clear()
                await self._gone.wait()
            try:
                link = await self._connected(endpoint)
            except (OSError, TacitError, ConnectionRefused, ValueError, WebSocketException) as error:
                if self._explain(endpoint, error, time.monotonic() - since):
                    return
            else:
                self._why.pop(endpoint, None)
                known, start = link.who, time.monotonic()
                await link.lost
                since = time.monotonic()
                if since - start > _SETTLED:
                    wait = _FIRST_WAIT
                if link.goodbye:
                    self._tell(f"goodbye {endpoint}", f"{endpoint} has ended the connection: {link.goodbye}.")
            # At random: otherwise all agents would come back at the same moment after a coordinator was
            # restarted, and again together after each refusal.
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(2 * wait, self._longest_wait)

    async def _connected(self, endpoint: str) -> Link:
        """Connect once."""
        assert self._credentials is not None
        # Read again each time: a certificate that was renewed meanwhile is used without a restart.
        self._credentials.reload()
        self._credentials.certificate.require_current(f"the certificate of {self._name}")
        host, port = require_endpoint(endpoint)
        path = self._admission.path(self._credentials.certificate.name)
        link = self._link(Channel(self._credentials.client, host), uri=endpoint + path)
        await link.connect(host, port, self._handshake)
        return link

    def _explain(self, endpoint: str, error: Exception, seconds: float) -> bool:
        """Report once why there is no connection; return whether to give up."""
        never = False
        match error:
            case ConnectionRefused(status=status):
                if status == CONNECTED:
                    return False
                sentence = f"{endpoint} refuses us: {error.sentence}"
                # An agent whose only coordinator refuses it for good stops with this error. A peer continues
                # with its other neighbours. Other statuses may change, so the member tries again.
                never = self._near == {COORDINATOR} and status in (FORBIDDEN, OTHER_CONTENTS)
            case TacitError():
                sentence = str(error)
            case _:
                sentence = why_not_reached(endpoint, error)
                if not isinstance(error, ssl.SSLError) and seconds < PATIENCE:
                    return False  # members that start first wait for the others
        if self._why.get(endpoint) != sentence:
            self._why[endpoint] = sentence
            self._trouble(sentence)
        if never:
            assert self._inbox is not None
            self._inbox.fail(NetworkError(sentence))
        return never

    # ---- looking after connections ------------------------------------------------------------------

    async def _watch(self) -> None:
        """Close connections that are silent or no longer allowed.

        TLS checks a certificate only in the handshake, and a connection may last for weeks. So its expiry and
        the list of revoked ones are looked at again here.
        """
        assert self._credentials is not None
        while True:
            await asyncio.sleep(_TICK)
            now = datetime.now(UTC)
            for link in tuple(self._links.values()):
                link.tick(self._ping_after, self._end_after)
                assert link.certificate is not None
                if now >= min(link.certificate.expires, self._credentials.authority.expires):
                    self._turn_out(link, f"the certificate of {link.certificate.name} has expired")
                elif self._is_revoked(link.certificate):
                    self._turn_out(link, f"the certificate of {link.certificate.name} is revoked")

    def _is_revoked(self, certificate: Certificate) -> bool:
        """Whether a certificate is revoked.

        Existing connections stay if the list cannot be read: a fault of the disk must not end a session in
        which all were admitted. New connections are refused then (`Admission.member`).
        """
        try:
            return self._admission.revoked(certificate)
        except TacitError as error:
            self._tell("revocations", str(error))
            return False

    def _turn_out(self, link: Link, why: str) -> None:
        self._tell(why, f"A connection was ended: {why}.")
        link.close(CloseCode.POLICY_VIOLATION, why)


def _require_ends(session: Session, who: int, listen: Sequence[str], connect: Sequence[str]) -> None:
    for endpoint in (*listen, *connect):
        require_endpoint(endpoint)
    if who == COORDINATOR and not listen:
        raise NetworkError(
            "a coordinator must listen somewhere: give an endpoint such as wss://0.0.0.0:7447."
        )
    if session.topology == "server" and who != COORDINATOR and not connect:
        raise NetworkError(
            "an agent must connect to a coordinator: give an endpoint such as wss://host:7447."
        )
    if not listen and not connect:
        raise NetworkError("a peer must listen for its neighbours or connect to them: give an endpoint.")


def _refusal(link: Link, why: ConnectionRefused) -> str:
    name = link.certificate.name if link.certificate is not None else "someone"
    return f"{name} was refused (from {link.address}): {why.sentence}"
