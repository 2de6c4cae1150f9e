"""A small read-only HTTP server for a member's status.

``/status`` (JSON) and ``/metrics`` (Prometheus) show what is public about a member. ``/healthz`` answers 200
while the process handles events. If it does not answer, restart the process. ``/readyz`` answers 503 and one
sentence while the member cannot do its work.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Self, final

from tacit.base.errors import ParameterError
from tacit.live.status.document import StatusPages

_MOST_HEAD = 8192
_SECONDS = 5.0
_AT_ONCE = 32
_JSON, _METRICS, _TEXT = "application/json", "text/plain; version=0.0.4; charset=utf-8", "text/plain"


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the TLS context for HTTPS from two PEM files.

    A key that others than its owner can read is refused.
    """
    from tacit.base.files import read_private

    read_private(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password="")  # never ask for a password on the terminal
    except (OSError, ssl.SSLError):
        raise ParameterError(
            f"the status needs a certificate and its key without a password, as PEM files; {certificate} "
            f"and {key} are not."
        ) from None
    return context


@final
class StatusServer:
    """Serves the pages of a member inside an ``async with`` block.

    Parameters
    ----------
    status : StatusPages
    port : int
        0 takes any free port: see `url`.
    host : str
        An address of this machine.
    anywhere : bool
        Whether to allow an address that other machines can reach. There is no password: the pages are public,
        and then everyone can request them.
    tls : ssl.SSLContext, optional
        For HTTPS; see `tls_context`.
    """

    def __init__(
        self,
        status: StatusPages,
        port: int = 0,
        host: str = "127.0.0.1",
        *,
        anywhere: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not (anywhere or is_loopback(host)):
            raise ParameterError(
                f"the status must be at a loopback address, got {host}: others could read or change it on "
                "its way. Use TLS (--status-tls), or say that it is plain: http:// before the address."
            )
        if not 0 <= port <= 65535:
            raise ParameterError(f"the status port must be from 0 to 65535, got {port}.")
        self._status, self._host, self._anywhere, self._tls = status, host, anywhere, tls
        self.port = port
        self._server: asyncio.Server | None = None
        self._open = 0

    @property
    def url(self) -> str:
        """The address of the server."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http{'' if self._tls is None else 's'}://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(
                self._answer,
                self._host,
                self.port,
                limit=_MOST_HEAD,
                reuse_address=True,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else _SECONDS,
            )
        except OSError as error:
            raise ParameterError(
                f"the status cannot be shown at {self.url}: {error.strerror}. Choose another port."
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            # All errors and timeouts that a stranger can cause are caught here. None may reach the member.
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_SECONDS):
                    code, kind, body, head_only = await self._page(reader)
                    head = (
                        f"HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                        "Connection: close\r\n\r\n"
                    )
                    writer.write(head.encode() + (b"" if head_only else body))
                    await writer.drain()
        finally:
            self._open -= 1
            with suppress(OSError):
                writer.close()

    async def _page(self, reader: asyncio.StreamReader) -> tuple[str, str, bytes, bool]:
        if self._open > _AT_ONCE:
            return "503 Service Unavailable", _TEXT, b"busy\n", False
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, _, rest = head[0].partition(" ")
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", _TEXT, b"only GET\n", False
        if not (self._anywhere or _names_loopback(head[1:])):
            # A web page could reach this server through its own host name (DNS rebinding), so the name in the
            # request must be one of this machine.
            return "403 Forbidden", _TEXT, b"ask for a loopback address\n", False
        path = rest.partition(" ")[0].partition("?")[0]
        return *self._found(path), method == "HEAD"

    def _found(self, path: str) -> tuple[str, str, bytes]:
        match path:
            case "/" | "/status":
                return "200 OK", _JSON, self._status.json()
            case "/metrics":
                return "200 OK", _METRICS, self._status.metrics()
            case "/healthz":
                return "200 OK", _TEXT, b"ok\n"
            case "/readyz":
                why = self._status.not_ready()
                if why is None:
                    return "200 OK", _TEXT, b"ready\n"
                return "503 Service Unavailable", _TEXT, why.encode() + b"\n"
        return "404 Not Found", _TEXT, b"/status, /metrics, /healthz or /readyz\n"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine for itself alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _names_loopback(headers: list[str]) -> bool:
    hosts = [line.partition(":")[2].strip() for line in headers if line.lower().startswith("host:")]
    if len(hosts) != 1:
        return False
    host = hosts[0]
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return is_loopback(name)
