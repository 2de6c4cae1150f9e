"""A hub's port: one connection per member, which carries all sessions.

Members show a certificate. A client without a certificate can do two things: request the authority's
certificate, which is public, and send an invitation. The number, frame length and duration of such
connections are limited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, final

from websockets.frames import CloseCode

from tacit.base.errors import InputError, TacitError
from tacit.live.fleet.channel import END_AFTER, PING_AFTER, SessionChannel, more_patience
from tacit.live.fleet.marks import MarkedFrames, MarkStore
from tacit.live.fleet.messages import (
    AGENT,
    AUTHORITY_PATH,
    CONTROL,
    ENROL_PATH,
    FRAME_BYTES,
    HUB_PATH,
    ID_BYTES,
    KEEPER,
    SESSION,
    STRANGER_BYTES,
    AnyMessage,
    ChannelClosed,
    ChannelOpen,
    EnrolmentAnswer,
    EnrolmentRequest,
    Greeting,
    LedgerMark,
    OtherSideNewer,
    decode_control,
    encode_control,
    unmarked_frame,
)
from tacit.live.ledger.rollback_guard import Position
from tacit.live.runtime.limits import SPARE_FILES, raise_files
from tacit.live.transport.allowance import Allowance
from tacit.live.transport.base import NetworkError, longest_frame
from tacit.live.transport.connection_diagnosis import (
    SparseLog,
    why_failed,
    why_failed_here,
    why_turned_away,
)
from tacit.live.transport.link import ConnectionRefused, HandlerFailed, Link
from tacit.live.transport.listener import Listener
from tacit.live.transport.tls import Channel, Credentials

if TYPE_CHECKING:
    from tacit.live.identity.certificates import Certificate
    from tacit.live.identity.identity import Identity

_FOUND, _FORBIDDEN, _NOTHING, _TOO_OFTEN = 200, 403, 404, 429
_MEMBER, _STRANGER = 0, 1
_TICK = 1.0  # seconds between checks of the connections
_HANDSHAKE = 10.0  # seconds to show a certificate, or to enrol
_MOST_STRANGERS = 1024
_QUEUE_BYTES, _KEEPER_QUEUE = 1 << 22, 1 << 26  # a keeper gets rosters, and the keys of all agents
_QUEUED_FRAMES = 4  # of the longest frame of a session, if that is more
_MOST_HEARD = 4096  # sessions that one member can have a channel for
_CONNECTION_COST = 20.0  # messages that count as much: a connection is written to the disk and to the log
_REPLACED = 4001  # a close code of our own


class GatewayEvents(Protocol):
    """What a gateway tells its hub."""

    async def enrol(self, asked: EnrolmentRequest, address: str) -> EnrolmentAnswer:
        """Answer a client at some address that sends an invitation."""
        ...

    def came(self, member: FleetMember) -> None:
        """A member has connected and said its role."""
        ...

    def left(self, member: FleetMember) -> None:
        """A member's connection is over."""
        ...

    def said(self, member: FleetMember, message: AnyMessage) -> None:
        """A member sent a message that is not a frame of a session."""
        ...


@final
class FleetMember:
    """A connected member: its name, its key, and its role once it is known."""

    def __init__(self, link: Link, certificate: Certificate) -> None:
        assert certificate.subject is not None
        self.link, self.certificate = link, certificate
        self.name, self.public_key = certificate.name, certificate.subject.public_key
        self.role = ""
        self.hears: set[bytes] = set()
        """The sessions that it has opened a channel for."""

    def send(self, message: AnyMessage) -> bool:
        """Send a message; False if the connection is closed."""
        return self.link.send(encode_control(message))


@final
class Gateway:
    """The hub's connections.

    Parameters
    ----------
    identity : Identity
        The coordinator's keys.
    authority : callable
        The authority's certificate as PEM, to be given to anyone.
    marks : MarkStore
        The last mark of each member's ledger.
    may_send : callable, optional
        Asked before each frame leaves.
    """

    def __init__(
        self,
        identity: Identity,
        events: GatewayEvents,
        *,
        listen: Sequence[str],
        authority: Callable[[], bytes],
        marks: MarkStore,
        trouble: Callable[[str], None] = lambda _: None,
        may_send: Callable[[], bool] | None = None,
    ) -> None:
        self._may_send = may_send
        self.identity, self._events, self._listen = identity, events, tuple(listen)
        self._authority = authority
        self._marked = MarkedFrames(marks, self._hear, self._refuse_mark)
        self.members: dict[str, FleetMember] = {}
        self._by_link: dict[Link, FleetMember] = {}
        self._allowances: dict[str, Allowance] = {}  # by name, so that a new connection does not refill it
        self._channels: dict[bytes, SessionChannel] = {}
        self._busy: set[asyncio.Future[None]] = set()
        self._tell = SparseLog(trouble)
        self._credentials: Credentials | None = None
        self._listener: Listener | None = None
        self._watching: asyncio.Future[None] | None = None
        self._closing = False

    @property
    def expires(self) -> datetime | None:
        """When the hub's own certificate expires."""
        return None if self._credentials is None else self._credentials.expires

    async def open(self) -> None:
        """Listen."""
        self._credentials = Credentials(self.identity.tls, bare=True)
        room = max(64, (raise_files() - SPARE_FILES) // 4)
        most = min(_MOST_STRANGERS, room)
        self._listener = Listener(
            self._answering, seconds=_HANDSHAKE, most=most, most_per_address=max(16, most // 2)
        )
        try:
            for endpoint in self._listen:
                await self._listener.open(endpoint)
        except NetworkError:
            self._listener.close()
            raise
        self._watching = asyncio.ensure_future(self._watch())

    async def close(self) -> None:
        """Stop listening and close all connections."""
        self._closing = True
        if self._watching is not None:
            self._watching.cancel()
        if self._listener is not None:
            self._listener.close()
        links = [member.link for member in self.members.values()]
        for link in links:
            link.close()
        if links:
            await asyncio.wait([link.lost for link in links], timeout=2.0)
        await self._marked.close()

    def abort(self) -> None:
        """Close all connections at once; nothing more is sent."""
        for member in tuple(self.members.values()):
            member.link.abort()

    def _answering(self, address: str) -> Link:
        assert self._credentials is not None
        self._credentials.reload()
        return Link(
            self,
            Channel(self._credentials.server),
            frame_bytes=STRANGER_BYTES,
            queue_bytes=_QUEUE_BYTES,
            address=address,
            bare=True,
            may_send=self._may_send,
        )

    # ---- what connections tell (see `tacit.live.transport.link.Owner`) -----------------------------

    def admit(self, link: Link, certificate: Certificate | None, path: str | None) -> int:  # noqa: ARG002
        """Admit members, and clients that want to enrol."""
        # A refusal with status 200: anyone may have the authority's certificate, and the connection ends with
        # it. It is public, and a client needs it before it can check anything.
        if path == AUTHORITY_PATH:
            raise ConnectionRefused(_FOUND, self._authority().decode("ascii"))
        if path == ENROL_PATH:
            return _STRANGER  # with or without a certificate; `_hear_stranger` answers one question
        if certificate is None:
            raise ConnectionRefused(_FORBIDDEN, "a hub of tacit is here: show a certificate (tacit enroll).")
        name = certificate.name
        if path != f"{HUB_PATH}{name}":
            raise ConnectionRefused(_NOTHING, f"a hub of tacit is here, and {name} asks for something else.")
        # The hub itself is no member. A connection with its key is a mistake, or comes from a copy of its
        # directory.
        if certificate.subject is None or certificate.subject.public_key == self.identity.public_key:
            raise ConnectionRefused(_FORBIDDEN, f"{name} is no member: use an agent's or a keeper's keys.")
        if self._is_revoked(certificate):
            raise ConnectionRefused(_FORBIDDEN, f"the certificate of {name} is revoked.")
        if name in self._allowances and self._allowances[name].wait > 0:
            raise ConnectionRefused(_TOO_OFTEN, f"{name} connects or sends messages too often: wait.")
        return _MEMBER

    def opened(self, link: Link) -> None:
        """Use this connection of a member, and close an older one."""
        if link.who != _MEMBER:
            return  # not let in: the listener's timer ends it soon, whatever it sends
        assert link.certificate is not None
        assert self._listener is not None
        self._listener.let_in(link)
        link.allow(FRAME_BYTES)  # until now a short limit held, so that strangers cannot take up memory
        member = FleetMember(link, link.certificate)
        link.allowance = self._allowances.setdefault(member.name, link.allowance)
        self.charge(member, _CONNECTION_COST)
        if (older := self.members.pop(member.name, None)) is not None:
            # Parted first: its channels must not send to a connection that is closing, and `ended` then finds
            # nothing to forget. As in `WebsocketTransport.opened` the newer connection wins.
            self._part(older)
            older.link.close(_REPLACED, f"another connection with the key of {member.name} replaces this one")
        self.members[member.name] = self._by_link[link] = member

    def heard(self, link: Link, data: bytes) -> None:
        """Handle a frame: of a session, or a control message."""
        member = self._by_link.get(link)
        if member is None:
            self._hear_stranger(link, data)
            return
        try:
            mark, frame = unmarked_frame(data)
        except InputError as error:
            link.close(CloseCode.UNSUPPORTED_DATA, str(error))
            return
        if frame:
            self._marked.take(member, frame, mark)
        else:
            link.close(CloseCode.UNSUPPORTED_DATA, "frames of a session or of a hub are expected")

    def marked(self, frame: bytes) -> bytes:
        """Return a frame as it leaves: members do not keep marks of the hub."""
        return frame

    def _hear(self, member: FleetMember, data: bytes) -> None:
        link, kind, rest = member.link, data[:1], data[1:]
        if kind == SESSION and len(rest) >= ID_BYTES:
            # Frames of unknown sessions are dropped: the session may be over here, or not resumed yet. The
            # channel itself checks that this connection belongs to one of its members.
            channel = self._channels.get(rest[:ID_BYTES])
            if channel is None or not channel.put(link, rest[ID_BYTES:]):
                self.charge(member)
        elif kind == CONTROL:
            self.charge(member)
            try:
                self._take(member, decode_control(data, "hub"))
            except TacitError as error:
                self._tell(
                    f"said {member.name}", f"{member.name} sent a message that cannot be used: {error}"
                )
        else:
            link.close(CloseCode.UNSUPPORTED_DATA, "frames of a session or of a hub are expected")

    def charge(self, member: FleetMember, cost: float = 1.0) -> None:
        """Count what a member causes, besides frames of its sessions."""
        if member.link.charge(cost):
            self._tell(
                f"often {member.name}",
                f"{member.name} sends more than an agent or keeper does: its connection is read slowly.",
            )

    def ended(self, link: Link, why: BaseException | None) -> None:
        """Forget a closed connection; report strangers that were refused."""
        member = self._by_link.get(link)
        if member is not None:
            self._part(member)
        elif link.who is None and not self._closing:
            if isinstance(why, ConnectionRefused):
                if why.status != _FOUND:
                    whose = link.certificate.name if link.certificate is not None else "someone"
                    self._tell(
                        f"refused {whose}", f"{whose} was refused (from {link.address}): {why.sentence}"
                    )
            elif not isinstance(why, HandlerFailed):
                self._tell(*why_turned_away(link.address, why or ConnectionError()))

    def failed(self, link: Link, error: Exception) -> None:
        """Report a bug here."""
        member = self._by_link.get(link)
        self._tell(*why_failed(link.address if member is None else member.name, error))

    def _refuse_mark(self, member: FleetMember, error: Exception) -> None:
        """Close a connection whose frames cannot be handed on."""
        if isinstance(error, TacitError):
            self._tell("marks", f"Messages of {member.name} are not taken: {error}")
        else:
            self.failed(member.link, error)
        member.link.close(CloseCode.INTERNAL_ERROR, "the hub cannot store the mark of a ledger")

    def _part(self, member: FleetMember) -> None:
        self._by_link.pop(member.link, None)
        self._marked.forget(member)
        if self.members.get(member.name) is member:
            del self.members[member.name]
        for channel in tuple(self._channels.values()):
            channel.detach(member.link)
        if member.role:
            self._events.left(member)

    # ---- those who have no certificate ----------------------------------------------------------------

    def _hear_stranger(self, link: Link, data: bytes) -> None:
        # One question for each connection. Signing is slow, and one connection with many questions could keep
        # all worker threads busy. The listener limits the number of connections.
        if link.waiting:
            link.close(CloseCode.POLICY_VIOLATION, "one question is answered")
            return
        link.waiting = 1
        try:
            asked = decode_control(data, "hub")
        except OtherSideNewer as error:
            link.send(encode_control(EnrolmentAnswer(why=str(error))))
            link.close(CloseCode.NORMAL_CLOSURE)
            return
        except InputError:
            asked = None
        if not isinstance(asked, EnrolmentRequest):
            link.close(CloseCode.UNSUPPORTED_DATA, "an invitation is expected")
            return
        self.go_on(self._enrol(link, asked))

    async def _enrol(self, link: Link, asked: EnrolmentRequest) -> None:
        link.send(encode_control(await self._events.enrol(asked, link.address)))
        link.close(CloseCode.NORMAL_CLOSURE)

    def go_on(self, work: Awaitable[None]) -> None:
        """Run work in the background; errors are reported."""
        task = asyncio.ensure_future(work)
        self._busy.add(task)  # asyncio keeps only weak references to tasks
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[None]) -> None:
        self._busy.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, TacitError):
                self._tell("failed", f"something failed in the hub: {error}")
            else:
                self._tell(*why_failed_here(error))

    # ---- members --------------------------------------------------------------------------------------

    def _take(self, member: FleetMember, message: AnyMessage) -> None:
        match message:
            case Greeting(role=role, mark=mark):
                if role not in (AGENT, KEEPER):
                    raise InputError("a member is an agent or a keeper.")
                first, member.role = not member.role, role
                if first:
                    self._greet(member, mark)
            # Nothing else is taken before the role: the hub records a member with its role, and offers it
            # sessions by it.
            case _ if not member.role:
                raise InputError("the first message must be a greeting with the role.")
            case ChannelOpen(session=session):
                # Kept also for sessions that are not known yet: a member may open its channel before the hub
                # has opened its own (`channel_opened`). Hence a limit.
                if len(session) != ID_BYTES or len(member.hears) >= _MOST_HEARD:
                    raise InputError("a member opens only some channels, each by the id of a session.")
                member.hears.add(session)
                if (channel := self._channels.get(session)) is not None:
                    self._attach(member, channel)
            case ChannelClosed(session=session):
                member.hears.discard(session)
                if (channel := self._channels.get(session)) is not None:
                    channel.detach(member.link)
            case _:
                pass
        self._events.said(member, message)

    def _greet(self, member: FleetMember, mark: bytes) -> None:
        """Tell a member the last mark, before anything else is sent to it.

        So it stops before it has said anything, if its ledger is older.
        """
        if member.role == KEEPER:
            member.link.queue(_KEEPER_QUEUE)
        if (known := self._marked.known(member.public_key)) is not None:
            member.send(LedgerMark(known.told()))
        if mark:
            self._marked.take(member, b"", Position.heard(mark))
        self._events.came(member)

    def _attach(self, member: FleetMember, channel: SessionChannel) -> None:
        """Let a member hear frames of a session that it is in, by name and key.

        The member is told first. Frames follow on the same connection, so its own end is attached by then.
        """
        number = channel.session.member_number(member.name, member.public_key)
        if number is not None:
            member.send(ChannelOpen(channel.session.id))
            member.link.queue(_QUEUED_FRAMES * longest_frame(channel.session))
            channel.attach(number, member.link)

    def channel_opened(self, channel: SessionChannel) -> None:
        """Carry frames of a session from now on."""
        self._channels[channel.session.id] = channel
        for member in tuple(self.members.values()):
            if channel.session.id in member.hears:
                self._attach(member, channel)

    def channel_closed(self, channel: SessionChannel) -> None:
        """Stop carrying frames of a session."""
        if self._channels.get(channel.session.id) is channel:
            del self._channels[channel.session.id]
            for link in tuple(channel.links.values()):
                link.send(encode_control(ChannelClosed(channel.session.id)))

    # ---- looking after connections --------------------------------------------------------------------

    async def _watch(self) -> None:
        """Close connections that are silent or no longer allowed.

        TLS checks a certificate only in the handshake, and these connections last for months.
        """
        while True:
            await asyncio.sleep(_TICK)
            self._look()

    def _look(self) -> None:
        now = datetime.now(UTC)
        more = more_patience(len(self.members))
        for name in [name for name, one in self._allowances.items() if one.unused]:
            if name not in self.members:
                del self._allowances[name]
        for member in tuple(self.members.values()):
            member.link.tick(PING_AFTER + more, END_AFTER + 2 * more)
            if now >= member.certificate.expires:
                self._turn_out(member, f"the certificate of {member.name} has expired")
            elif self._is_revoked(member.certificate):
                self._turn_out(member, f"the certificate of {member.name} is revoked")

    def _is_revoked(self, certificate: Certificate) -> bool:
        """Whether a certificate is revoked; also if the list cannot be read."""
        try:
            return self.identity.revoked(certificate)
        except TacitError as error:
            self._tell("revocations", str(error))
            return True

    def _turn_out(self, member: FleetMember, why: str) -> None:
        self._tell(why, f"A connection was ended: {why}.")
        member.link.close(CloseCode.POLICY_VIOLATION, why)
