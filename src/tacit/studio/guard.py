"""Protects the studio: only its own pages may send requests to it.

A web page from elsewhere could reach this machine in two ways: through a host name of its own that points to
our address (DNS rebinding), or by a request from its own origin. The headers Host and Origin show both, and
such requests are refused. A content security policy also tells the browser to load nothing from elsewhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; "
    "form-action 'none'; base-uri 'self'"
)
_HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
}


class Guard:
    """Passes on only requests for our address from our own pages.

    Parameters
    ----------
    app : ASGI application
    names : names of this machine
        Accepted besides addresses and localhost, which an attacker cannot redirect.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self.app, self._names = app, {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif self.welcome(scope["headers"]):
            await self.app(scope, receive, _with_policy(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            head = [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS.items()]
            await send({"type": "http.response.start", "status": 403, "headers": head})
            body = b"ask for the studio by its address, like http://127.0.0.1, and from its own pages\n"
            await send({"type": "http.response.body", "body": body})

    def welcome(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether one Host header names us, and no Origin differs."""
        hosts, origins = [], []
        for name, value in headers:
            if name == b"host":
                hosts.append(value.decode("latin-1"))
            elif name == b"origin":
                origins.append(value.decode("latin-1"))
        if len(hosts) != 1 or not self._ours(hosts[0]):
            return False
        return all(urlsplit(origin).netloc == hosts[0] for origin in origins)

    def _ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name == "localhost" or name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _with_policy(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_HEADERS.items()]}
        await send(message)

    return sending
