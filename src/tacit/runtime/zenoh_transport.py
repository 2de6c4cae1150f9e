"""Frames over zenoh with mutual TLS. Why, and which traps this avoids: docs/decisions/0012-zenoh.md.

Keys, where ID is the session's id and a member is its number (the coordinator `c`):

    tacit/ID/from/7    what member 7 says to all who listen to it
    tacit/ID/to/7/3    what member 3 says to member 7; the 3 is a hint, never believed
    tacit/ID/here/7    liveliness: the network sees member 7

Only those with a certificate of the session's authority get this far.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, final

import zenoh
from zenoh.handlers import Callback

from tacit.protocol.roster import COORDINATOR
from tacit.runtime.limits import LEDGER_FILES, require_files
from tacit.runtime.probe import require_endpoint, require_reachable, why_not_connected
from tacit.runtime.transport import Arrival, Inbox, NetworkError

if TYPE_CHECKING:
    from tacit.protocol.session import Session
    from tacit.runtime.identity import TlsFiles

T = TypeVar("T")

LEASE = 3.0
"""Seconds after which a hung member is taken for gone; a killed one is seen at once.

In a large session all waits grow with the number of agents. When a thousand come back to a coordinator at
once, handshakes queue up; who gives up too soon and tries again only makes the queue longer, for ever.
"""
PATIENCE = 3.0
"""Seconds without a connection before someone is told why, and between one telling and the next."""
_STUCK = 0.5  # seconds a member that takes nothing may hold up the others before it is cut off
_LEAVE = 1.0  # seconds that the end of the program waits for a connection that is being made
_ROOM = 4096  # bytes of a frame beside its numbers and the bits of who was used


@final
class ZenohTransport:
    """One member's connection to its session.

    Parameters
    ----------
    session : Session
        Says who is a neighbour of whom, and how long a frame can be.
    who : int
        The member this is, or `COORDINATOR`.
    tls : TlsFiles
        Its certificate, key and authority: `Identity.tls`.
    listen, connect : sequence of str
        Endpoints such as ``tls/192.0.2.1:7447``. Agents of a server connect, the coordinator listens. On
        a graph one end of each edge connects to the other.
    trouble : callable, optional
        Told in one sentence why there is no connection yet, when there is none for a while.
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
    ) -> None:
        if session.topology == "server":
            self._mode = "router" if who == COORDINATOR else "client"
        else:
            self._mode = "peer"
        _require_ends(self._mode, listen, connect)
        self._tls, self._trouble = tls, trouble
        self._listen, self._connect = tuple(listen), tuple(connect)
        self._who, self._near = who, frozenset(session.neighbours(who))
        self._root = f"tacit/{session.id.hex()}"
        self._frame_bytes = session.number_bytes * session.components + session.n // 8 + _ROOM
        self._n = session.n
        self._lost = 0
        # A zenoh session closes when it is garbage-collected, and its declarations with it: kept here.
        self._zenoh: zenoh.Session | None = None
        self._declared: list[Any] = []
        self._names: dict[int | None, zenoh.KeyExpr] = {}
        self._inbox: Inbox | None = None
        self._explaining: asyncio.Future[None] | None = None

    @property
    def dropped(self) -> int:
        """How many frames were too long, too many, or not taken by the network."""
        return self._lost + (self._inbox.dropped if self._inbox else 0)

    @property
    def connected(self) -> bool:
        """Whether there is a connection to anyone."""
        return self._zenoh is not None and any(True for _ in self._zenoh.info.transports())

    async def open(self) -> None:
        """Connect, however long it takes; listening begins at once."""
        for path in (self._tls.private_key, self._tls.certificate, self._tls.authority):
            path.stat()  # zenoh would only say that it failed
        require_files(len(self._near) + LEDGER_FILES, f"{len(self._near):,} connections")
        self._inbox = Inbox(self._frame_bytes, members=self._near.__contains__)
        opening = _in_thread(lambda: zenoh.open(self._config()), _close)
        self._explaining = asyncio.ensure_future(self._explain())
        try:
            self._zenoh = await opening
        except zenoh.ZError as error:
            raise NetworkError(_sentence(error, self._listen)) from None
        finally:
            opening.cancel()  # if stopped while waiting: the connection is closed when it comes
            if self._zenoh is None:
                self._explaining.cancel()
        self._declare(self._zenoh, self._inbox)

    def send(self, to: int | None, frame: bytes) -> None:
        """Send, once: what the network does not take is counted, and said again by the machine."""
        if self._zenoh is None:
            return
        key = self._names.get(to) or self._key_to(to)
        try:
            self._zenoh.put(
                key, frame, congestion_control=zenoh.CongestionControl.BLOCK, priority=_PRIORITY, express=True
            )
        except zenoh.ZError:
            self._lost += 1

    async def receive(self) -> list[Arrival]:
        """Wait for what arrives."""
        assert self._inbox is not None
        return await self._inbox.take()

    async def close(self) -> None:
        """Take leave of the network; the neighbours see it at once."""
        if self._explaining is not None:
            self._explaining.cancel()
        session, self._zenoh, self._declared = self._zenoh, None, []
        if session is not None:
            await _in_thread(lambda: _close(session), lambda _: None)

    def _key_to(self, to: int | None) -> str:
        return self._key("from", self._who) if to is None else f"{self._key('to', to)}/{_part(self._who)}"

    def _key(self, what: str, who: int) -> str:
        return f"{self._root}/{what}/{_part(who)}"

    def _declare(self, session: zenoh.Session, inbox: Inbox) -> None:
        def heard(sample: zenoh.Sample) -> None:
            # On zenoh's own thread: nothing here may raise or wait.
            # What is cut is still too long for the codec, which counts it.
            inbox.put(sample.payload.to_bytes()[: self._frame_bytes], _last(sample))

        def seen(sample: zenoh.Sample) -> None:
            if (who := _last(sample)) is not None:
                inbox.seen(who, sample.kind == zenoh.SampleKind.PUT)

        # Where most goes gets a number on the wire: nobody need look for its long name each time.
        often = COORDINATOR if self._mode == "client" else None
        self._names[often] = session.declare_keyexpr(self._key_to(often))
        remote, alive = zenoh.Locality.REMOTE, session.liveliness()
        spoken = [f"{self._key('to', self._who)}/*"]
        present = [f"{self._root}/here/*"]
        if self._who != COORDINATOR:  # agents speak to the coordinator alone, and it watches them all
            spoken += [self._key("from", j) for j in self._near]
            present = [self._key("here", j) for j in self._near]
        for key in spoken:
            handler = Callback(heard, indirect=False)
            self._declared.append(session.declare_subscriber(key, handler, allowed_origin=remote))
        for key in present:
            self._declared.append(alive.declare_subscriber(key, Callback(seen, indirect=False), history=True))
        self._declared.append(alive.declare_token(self._key("here", self._who)))

    async def _explain(self) -> None:
        """Say why there is no connection. zenoh itself would only say "Timeout!", if anything."""
        last = None
        while self._connect:
            await asyncio.sleep(PATIENCE)
            if self.connected:
                last = None
                continue
            why = await _in_thread(lambda: why_not_connected(self._connect[0], self._tls), lambda _: None)
            if why is not None and why != last:
                self._trouble(why)
                last = why

    def _config(self) -> zenoh.Config:
        files = {"certificate": str(self._tls.certificate), "private_key": str(self._tls.private_key)}
        tls = {f"{side}_{what}": path for side in ("listen", "connect") for what, path in files.items()}
        shake = 10_000 + 100 * self._n  # milliseconds
        config = {
            "mode": self._mode,
            "listen": {"endpoints": self._listen, "exit_on_failure": True, "timeout_ms": 0},
            "connect": {
                "endpoints": self._connect,
                "exit_on_failure": False,
                "timeout_ms": -1,
                "retry": {
                    "period_init_ms": 100,
                    "period_max_ms": 2000 + 4 * self._n,
                    "period_increase_factor": 2,
                },
            },
            # Members find each other by the endpoints they are given. Gossip would join all to all.
            "scouting": {"delay": 0, "multicast": {"enabled": False}, "gossip": {"enabled": False}},
            "transport": {
                "unicast": {
                    "max_sessions": 4 * len(self._near) + 64,
                    "accept_pending": 4096,
                    "open_timeout": shake,
                    "accept_timeout": shake,
                },
                "shared_memory": {"enabled": False},
                "link": {
                    "protocols": ["tls"],
                    "rx": {"max_message_size": self._frame_bytes + _ROOM},
                    "tx": {
                        "lease": int(1000 * LEASE) + 10 * self._n,
                        "queue": {"congestion_control": {"block": {"wait_before_close": int(1e6 * _STUCK)}}},
                    },
                    "tls": tls
                    | {
                        "root_ca_certificate": str(self._tls.authority),
                        "enable_mtls": True,
                        "verify_name_on_connect": True,
                        "close_link_on_expiration": True,
                    },
                },
            },
        }
        return zenoh.Config.from_json5(json.dumps(config))


_PRIORITY = zenoh.Priority.DATA


def _require_ends(mode: str, listen: Sequence[str], connect: Sequence[str]) -> None:
    for endpoint in listen:
        require_endpoint(endpoint)
    for endpoint in connect:
        require_reachable(endpoint)
    if mode == "router" and not listen:
        raise NetworkError("a coordinator must listen somewhere: give an endpoint such as tls/0.0.0.0:7447.")
    if mode == "client" and not connect:
        raise NetworkError("an agent must connect to a coordinator: give an endpoint such as tls/host:7447.")
    if mode == "peer" and not listen and not connect:
        raise NetworkError("a peer must listen for its neighbours or connect to them: give an endpoint.")


def _part(who: int) -> str:
    return "c" if who == COORDINATOR else str(who)


def _last(sample: zenoh.Sample) -> int | None:
    """Read the member's number at the end of a key; it may be anything."""
    part = str(sample.key_expr).rpartition("/")[2]
    if part == "c":
        return COORDINATOR
    return int(part) if part.isascii() and part.isdecimal() and len(part) < 10 else None


def _sentence(error: Exception, listen: Sequence[str]) -> str:
    where = ", ".join(listen) or "the network"
    text = str(error)
    if "os error 98" in text or "already in use" in text:
        return f"{where} is in use already: stop what listens there, or choose another port."
    if "os error 99" in text:
        return f"{where} is not an address of this machine: listen at one that is, or at 0.0.0.0."
    return f"{where} cannot be used: {text.partition(' at ')[0]}."


def _close(session: zenoh.Session) -> None:
    with suppress(zenoh.ZError):
        session.close()  # type: ignore[no-untyped-call]


def _in_thread(work: Callable[[], T], discard: Callable[[T], None]) -> asyncio.Future[T]:
    """Run what blocks on a thread that does not hold up the end of the program.

    If nobody waits any more when it is done, its result is discarded.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            if error is None:
                _begin(lambda: discard(result))  # type: ignore[arg-type]
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as caught:
            error = caught
        with suppress(RuntimeError):  # the loop is closed: the program is ending
            loop.call_soon_threadsafe(settle, result, error)

    _begin(run)
    return future


_threads: set[threading.Thread] = set()


def _begin(work: Callable[[], None]) -> None:
    def run() -> None:
        try:
            work()
        finally:
            _threads.discard(threading.current_thread())

    thread = threading.Thread(target=run, daemon=True, name="tacit-network")
    _threads.add(thread)
    thread.start()


@atexit.register
def _wait_for_zenoh() -> None:
    """Give what is in zenoh a moment: a thread that came back while Python ends would abort the process."""
    end = time.monotonic() + _LEAVE
    for thread in tuple(_threads):
        thread.join(max(0.0, end - time.monotonic()))
