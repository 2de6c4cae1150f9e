"""A tiny HTTP server for a member's status: two pages, read only, on this machine."""

from __future__ import annotations

import asyncio
import ipaddress
from contextlib import suppress
from typing import Protocol, Self, final

from tacit.errors import ParameterError

_MOST_HEAD = 8192
_SECONDS = 5.0
_AT_ONCE = 32
_JSON, _METRICS, _TEXT = "application/json", "text/plain; version=0.0.4; charset=utf-8", "text/plain"


class StatusPages(Protocol):
    """What is shown: a member's `Status`, or that of a hub or a follower."""

    def json(self) -> bytes:
        """Return what `/status` shows."""
        ...

    def metrics(self) -> bytes:
        """Return what `/metrics` shows."""
        ...


@final
class StatusServer:
    """Answers ``/status`` and ``/metrics`` while its block lasts.

    Parameters
    ----------
    status : StatusPages
    port : int
        0 takes any that is free: see `url`.
    host : str
        An address of this machine.
    anywhere : bool
        Whether an address that others can reach is meant. There is no password and no encryption: what is
        shown is public, but who may ask is then everyone.
    """

    def __init__(
        self, status: StatusPages, port: int = 0, host: str = "127.0.0.1", *, anywhere: bool = False
    ) -> None:
        if not (anywhere or _is_loopback(host)):
            raise ParameterError(
                f"the status must be shown at a loopback address, got {host}: others could read it. "
                "Ask for that explicitly if it is meant."
            )
        if not 0 <= port <= 65535:
            raise ParameterError(f"the status port must be from 0 to 65535, got {port}.")
        self._status, self._host, self._anywhere = status, host, anywhere
        self.port = port
        self._server: asyncio.Server | None = None
        self._open = 0

    @property
    def url(self) -> str:
        """Where it is."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(
                self._answer, self._host, self.port, limit=_MOST_HEAD, reuse_address=True
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
            # Everything that a stranger could make slow or broken ends here, and only here.
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
            # A page in a browser could reach us under a name of its own choosing.
            return "403 Forbidden", _TEXT, b"ask for a loopback address\n", False
        path = rest.partition(" ")[0].partition("?")[0]
        if path in ("/", "/status"):
            return "200 OK", _JSON, self._status.json(), method == "HEAD"
        if path == "/metrics":
            return "200 OK", _METRICS, self._status.metrics(), method == "HEAD"
        return "404 Not Found", _TEXT, b"/status or /metrics\n", False


def _is_loopback(host: str) -> bool:
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
    return _is_loopback(name)
