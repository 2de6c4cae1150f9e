"""One connection: a WebSocket over mutual TLS, from start to end.

The library `websockets` reads and writes the protocol (its layer without I/O), except for whole frames
(`frames`); sockets are asyncio's. Frames go directly from the socket to the owner of the connection, without
a task or a queue in between.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Protocol, cast, final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import CloseCode, Opcode
from websockets.frames import Frame as WebsocketFrame
from websockets.http11 import Request, Response
from websockets.protocol import OPEN, Event
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from tacit.base.arguments import plain
from tacit.base.errors import FileError
from tacit.live.identity.certificates import Certificate
from tacit.live.transport.allowance import Allowance
from tacit.live.transport.frames import Frames
from tacit.live.transport.tls import Channel

_SOFTWARE = re.compile(r"tacit/([0-9A-Za-z.+-]{1,32})", re.ASCII)
LOGGER = logging.getLogger("tacit.network")
LOGGER.addHandler(logging.NullHandler())  # what matters is told by the transport

_WRITE_BUFFER = 1 << 18
_MOST_RESTS = 120  # ticks; an honest member that opens all its channels again rests for about 60
_CLOSING = 1.0  # seconds for the other side to take what was sent before, and to close


def own_version() -> str:
    """Return the version of tacit that runs here."""
    # Not imported: the runtime must not be able to reach what the whole package has.
    return str(sys.modules["tacit"].__version__)


class ConnectionRefused(Exception):
    """A connection was refused: an HTTP status, and one public sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class HandlerFailed(ConnectionError):
    """The owner raised an error that it should not: the connection is closed."""


class Owner(Protocol):
    """The owner of a connection.

    If one of its methods raises, the connection is closed, and `failed` is called with the error.
    """

    def admit(self, link: Link, certificate: Certificate | None, path: str | None) -> int:
        """Return which member this is, or raise `ConnectionRefused`.

        `path` is what it asks for, if it connected. There is a certificate, unless the link allows bare ones.
        """
        ...

    def opened(self, link: Link) -> None:
        """Both sides have accepted the connection."""
        ...

    def heard(self, link: Link, data: bytes) -> None:
        """A frame has arrived."""
        ...

    def ended(self, link: Link, why: BaseException | None) -> None:
        """The connection is over, or was never made."""
        ...

    def failed(self, link: Link, error: Exception) -> None:
        """Report a bug that the other side may be able to cause, and seldom.

        The error's text may hold what must not be shown.
        """
        ...


@final
class Link(asyncio.Protocol):
    """One connection, made by us (`uri`) or by the other side (None).

    Parameters
    ----------
    bare : bool
        Whether the other side may connect without a certificate; the owner decides what it may do.
    may_send : callable, optional
        Asked before each frame; without it frames may always leave. After a no the connection is closed.

    Attributes
    ----------
    who : int or None
        Which member it is, once it is known.
    certificate : Certificate or None
        The certificate of the other side.
    waiting : int
        Number of frames that the owner has queued and not handled yet. The owner counts them.
    allowance : Allowance
        For pings and other messages that are not frames of a session. While it is used up, nothing is read.
    """

    def __init__(
        self,
        owner: Owner,
        channel: Channel,
        *,
        uri: str | None = None,
        frame_bytes: int,
        queue_bytes: int,
        address: str = "",
        bare: bool = False,
        may_send: Callable[[], bool] | None = None,
    ) -> None:
        self._may_send = may_send
        self._owner, self._channel, self.address, self._bare = owner, channel, address, bare
        self._queue: deque[bytes] = deque()
        self._queued, self._most_queued = 0, queue_bytes
        self._websocket: ClientProtocol | ServerProtocol
        if uri is None:
            self._websocket = ServerProtocol(max_size=frame_bytes, logger=LOGGER)
        else:
            self._websocket = ClientProtocol(parse_uri(uri), max_size=frame_bytes, logger=LOGGER)
        self.dialled = uri is not None
        self.who: int | None = None
        self.certificate: Certificate | None = None
        self.version = ""
        """The version of tacit on the other side, if it connected to us; as it says."""
        self.told_time: float | None = None
        """The other side's clock when it accepted the connection, in seconds since 1970; as it says."""
        self.waiting = 0
        self.allowance = Allowance()
        self._frames = Frames(self._websocket)  # keeps what waits for the allowance
        loop = asyncio.get_running_loop()
        self.made: asyncio.Future[None] = loop.create_future()
        """Done when both sides have accepted the connection, or one has refused it."""
        self.lost: asyncio.Future[None] = loop.create_future()
        """Done when the socket is closed."""
        self.why: BaseException | None = None
        """Why it is over, if it did not end in order."""
        self._transport: asyncio.Transport | None = None
        self._greeted = self._over = self._stuck = self._held = self._resting = False
        self._silent = self._rests = 0  # ticks without a byte, and in a row without allowance

    @property
    def open(self) -> bool:
        """Whether frames can be sent."""
        return self.who is not None and self._websocket.state is OPEN and not self._over

    async def connect(self, host: str, port: int, seconds: float) -> None:
        """Connect within some seconds, or raise the reason why not.

        When this returns, both sides have accepted the connection.
        """
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().create_connection(lambda: self, host, port)
                await self.made
        except BaseException:
            self.abort()  # a handshake that was cancelled halfway must not leave an open socket
            raise
        if not self.open:  # `made` is also done when one side has refused
            raise self.why or ConnectionResetError()

    # ---- what asyncio tells -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_WRITE_BUFFER)
        if self._over:  # it was given up while it was being made
            self._transport.abort()
        elif self.dialled:
            self._channel.start()
            self._flush()

    def data_received(self, data: bytes) -> None:
        """Take bytes from the network; drop those that come after the end."""
        if self._over:  # still read until the socket is closed: see `_leave`
            return
        # asyncio would write a traceback to stderr for each error. Whoever can send bytes that cause one
        # could fill the disk with them.
        try:
            self._receive(data)
        except Exception as error:
            self._fail(error)

    def _receive(self, data: bytes) -> None:
        self._silent = 0
        # The order matters: the certificate is checked (`_greet`) before one byte of HTTP is parsed. A client
        # checks it before it sends its request, so an impostor learns not even the session's name.
        try:
            plain = self._channel.receive(data)
            if self._channel.ready and not self._greeted:
                self._greeted = True
                self._greet()
        except (ssl.SSLError, ConnectionRefused) as error:
            self._give_up(error)
            return
        self._frames.feed(plain)
        self._read()

    def _read(self) -> None:
        """Handle what was received, as far as the allowance goes."""
        # Frames behind a close are dropped: one read from the socket may hold frames behind the one that made
        # the owner close.
        while not self._resting and not self._over and (found := self._frames.read()) is not None:
            if isinstance(found, bytes):
                self._owner.heard(self, found)
            else:
                for event in found:
                    self._take(event)
        self._flush()
        if self._channel.ended or self._websocket.close_expected():
            self._leave()

    def eof_received(self) -> None:
        """The other side sends nothing more; asyncio then closes the socket."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over."""
        with suppress(Exception):
            self._websocket.receive_eof()
        self._end(self.why or exc)
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        """The other side reads more slowly than we send: queue frames from now on."""
        self._stuck = True

    def resume_writing(self) -> None:
        """Send the queued frames."""
        self._stuck = False
        while (
            self._queue and not self._stuck and self.open and not self._silenced()
        ):  # `_flush` may pause writing again
            frame = self._queue.popleft()
            self._queued -= len(frame)
            self._channel.send(self._frames.write(frame))
            self._push()

    # ---- the handshake ------------------------------------------------------------------------------

    def _greet(self) -> None:
        """TLS is established: check the certificate before anything else is read."""
        if self._bare and not self._channel.certified:
            return  # `admit` gets no certificate then, and decides by the path
        try:
            self.certificate = self._channel.peer()
        except (FileError, ValueError) as error:
            raise ConnectionRefused(403, f"the certificate cannot be read: {plain(str(error))}") from None
        if isinstance(self._websocket, ClientProtocol):
            self.who = self._owner.admit(self, self.certificate, None)
            request = self._websocket.connect()
            request.headers["User-Agent"] = f"tacit/{own_version()}"
            self._websocket.send_request(request)

    def _take(self, event: Event) -> None:
        match event:
            case Request():
                self._answer(event)
            case Response():
                self._answered(event)
            case WebsocketFrame(opcode=Opcode.TEXT | Opcode.CONT | Opcode.BINARY):
                self.close(CloseCode.UNSUPPORTED_DATA, "frames are whole and binary")
            case _:
                self.charge()  # a ping: the library has answered it

    def _answer(self, request: Request) -> None:
        websocket = self._websocket
        assert isinstance(websocket, ServerProtocol)
        if (found := _SOFTWARE.fullmatch(request.headers.get("User-Agent", ""))) is not None:
            self.version = found[1]
        try:
            who = self._owner.admit(self, self.certificate, request.path)
        except ConnectionRefused as refusal:
            websocket.send_response(websocket.reject(refusal.status, refusal.sentence + "\n"))
            self._give_up(refusal)
            return
        websocket.send_response(websocket.accept(request))
        if websocket.state is OPEN:  # not if the library found the request malformed, and refused it
            self._flush()  # the answer goes before the first frame
            self.who = who
            self._opened()

    def _answered(self, response: Response) -> None:
        error = self._websocket.handshake_exc
        if error is None:
            with suppress(ValueError, TypeError, OverflowError):
                self.told_time = parsedate_to_datetime(response.headers.get("Date", "")).timestamp()
            self._opened()
        elif isinstance(error, InvalidStatus):
            said = (response.body or b"").decode(errors="replace")
            self._give_up(ConnectionRefused(response.status_code, plain(said)))
        else:
            self._give_up(error)

    # ---- use ----------------------------------------------------------------------------------------

    def send(self, frame: bytes) -> bool:
        """Send a frame, or queue it while the network is slow; False if lost.

        The queue is bounded. A member that reads too slowly is disconnected, so that it does not slow down
        the others. It connects again and requests what it missed.
        """
        if not self.open or self._silenced():
            return False
        if self._stuck:
            if self._queued + len(frame) > self._most_queued:
                self.abort(TimeoutError("it takes less than is sent"))
                return False
            self._queue.append(frame)
            self._queued += len(frame)
            return True
        self._channel.send(self._frames.write(frame))
        self._push()
        return True

    def _silenced(self) -> bool:
        """Whether the owner may not send any more; the connection is closed."""
        if self._may_send is None or self._may_send():
            return False
        self.abort()
        return True

    def queue(self, queue_bytes: int) -> None:
        """Allow the queue of frames to send to have at least so many bytes."""
        self._most_queued = max(self._most_queued, queue_bytes)

    def allow(self, frame_bytes: int) -> None:
        """Change the maximum length of received frames."""
        self._websocket.max_message_size = frame_bytes

    def hold(self) -> None:
        """Stop reading until `go_on`: the owner is busy."""
        if self._transport is not None and not self._held and not self._over:
            self._held = True
            if not self._resting:
                self._transport.pause_reading()

    def go_on(self) -> None:
        """Continue reading."""
        if self._transport is not None and self._held and not self._over:
            self._held = False
            if not self._resting:
                self._transport.resume_reading()

    def charge(self, cost: float = 1.0) -> bool:
        """Count a message that is not a frame of a session.

        Returns whether that used up the allowance. Nothing is read then until there is some again, so that
        one sender cannot keep this process from serving others.
        """
        wait = self.allowance.take(cost)
        if wait == 0.0 or self._resting or self._over:
            return False
        self._resting = True
        if self._transport is not None and not self._held:
            self._transport.pause_reading()
        asyncio.get_running_loop().call_later(wait, self._rested)
        return True

    def _rested(self) -> None:
        if self._over:
            return
        self._resting = False
        try:
            self._read()
        except Exception as error:
            self._fail(error)  # as in `data_received`
        if self._transport is not None and not self._resting and not self._held and not self._over:
            self._transport.resume_reading()

    def tick(self, ping_after: int, end_after: int) -> None:
        """Ping a silent member, and close the connection if it does not answer.

        The owner calls this regularly. Ticks are counted instead of seconds: time in which this process was
        suspended must not count as silence of the other side.
        """
        # While nothing is read here, silence is not the other side's. But its end is not seen either, so a
        # sender that never stops would stay here long after it has gone.
        self._rests = self._rests + 1 if self._resting else 0
        if self._rests > _MOST_RESTS:
            self.abort(TimeoutError("it sends too much"))
        if self._held or self._resting or not self.open:
            return
        self._silent += 1
        if self._silent >= end_after:
            self.abort(TimeoutError("it has been silent"))
        elif self._silent >= ping_after:
            self._websocket.send_ping(b"")
            self._flush()

    def close(self, code: int = CloseCode.GOING_AWAY, reason: str = "") -> None:
        """Close in order, after the frames that are already with the socket.

        Frames that still wait here because the network is slow are dropped.
        """
        if self.open:
            self._websocket.send_close(code, reason)
            self._flush()
        self._leave()

    def abort(self, why: BaseException | None = None) -> None:
        """Close at once."""
        self.why = self.why or why
        if self._transport is not None:
            self._transport.abort()
        # asyncio calls `connection_lost` only in the next turn. The owner is told now, so that it does not
        # send to a dead connection in between.
        self._end(self.why)

    @property
    def goodbye(self) -> str:
        """The reason that the other side gave when it closed; may be empty."""
        received = self._websocket.close_rcvd
        return "" if received is None else plain(received.reason)

    # ---- within -------------------------------------------------------------------------------------

    def _flush(self) -> None:
        last = False
        for data in self._websocket.data_to_send():
            if data:
                self._channel.send(data)
            else:
                last = True  # the library marks the end with empty bytes
        if last:
            self._channel.finish()
        self._push()
        if last and self._transport is not None and not self._transport.is_closing():
            self._leave()

    def _push(self) -> None:
        """Give the socket what is encrypted."""
        out = self._channel.to_send()
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(out)

    def _give_up(self, why: BaseException) -> None:
        """Send the reason, if TLS or HTTP has a code for it, and close."""
        self.why = self.why or why
        with suppress(ssl.SSLError):
            self._flush()
        self._leave()

    def _fail(self, error: Exception) -> None:
        """Close after a bug in a handler, and report it."""
        self._report(error)
        self.why = self.why or HandlerFailed()
        with suppress(Exception):  # the bug may have left anything behind
            if self.open:
                self._websocket.send_close(CloseCode.INTERNAL_ERROR)
            self._flush()
        self._leave()

    def _report(self, error: Exception) -> None:
        LOGGER.debug("a handler failed", exc_info=error)
        with suppress(Exception):  # the report may fail for the same reason, such as a full disk
            self._owner.failed(self, error)

    def _leave(self) -> None:
        """Stop sending; close when the other side does, or after a short time.

        If the socket were closed at once, more incoming data would reset it, and the other side would not
        read the reason. A side that never closes is cut off after `_CLOSING` seconds.
        """
        if self._transport is not None and not self._over:
            self._transport.resume_reading()  # or the other side's close would never be read
            with suppress(OSError, RuntimeError):
                self._transport.write_eof()
            asyncio.get_running_loop().call_later(_CLOSING, self._transport.abort)
        self._end(self.why)

    def _opened(self) -> None:
        self._owner.opened(self)
        self.made.set_result(None)

    def _end(self, why: BaseException | None) -> None:
        if not self._over:
            self._over, self.why = True, why
            self._queue.clear()
            # A result and not an exception: perhaps nobody waits for it, and asyncio would then complain.
            # `connect` looks at `open` and `why`.
            if not self.made.done():
                self.made.set_result(None)
            try:
                self._owner.ended(self, why)
            except Exception as error:
                self._report(error)
