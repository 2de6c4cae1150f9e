"""Run the studio on this machine until Ctrl-C."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable
from functools import partial

import uvicorn
from fastapi import FastAPI
from nicegui import ui

from tacit.base.errors import InputError
from tacit.studio.examples import prepare
from tacit.studio.guard import Guard
from tacit.studio.pages import root

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    '<rect width="32" height="32" rx="7" fill="#0072b2"/>'
    '<path d="M6 7C14 7 14 16 26 16M6 25C14 25 14 16 26 16M6 16H26" stroke="#fff" stroke-width="2.4" '
    'fill="none" stroke-linecap="round"/></svg>'
)


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket to an address of this machine; port 0 takes any.

    Raises
    ------
    InputError
        If the port is taken, or the host is not an address of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"{host} is not an address of this machine: {error.strerror}.") from None
    except UnicodeError:  # a label of the name is empty or too long
        raise InputError(f"{host} is not a host name: give an address of this machine.") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen()
    except OSError as error:
        sock.close()
        raise InputError(
            f"the studio cannot use {host}, port {port}: {error.strerror}. Choose another port, or 0 for any "
            "free one."
        ) from None
    return sock


def url(host: str, sock: socket.socket) -> str:
    """Return the address to open in a browser."""
    port = sock.getsockname()[1]
    shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(sock: socket.socket, host: str, ready: Callable[[], None] = lambda: None) -> None:
    """Serve the studio at a bound socket until Ctrl-C.

    `ready` is called when the server answers requests.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    ui.run_with(
        app,
        root=partial(root, anywhere=is_loopback(host)),
        title="tacit studio",
        favicon=ICON,
        dark=None,
        show_welcome_message=False,
        reconnect_timeout=30,  # on a busy machine, a short limit would reload the page and lose its fields
    )
    names = {host} if is_loopback(host) else {host, socket.gethostname(), socket.getfqdn()}
    config = uvicorn.Config(
        Guard(app, names),
        log_level="error",
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    server = _Server(config, ready)
    threading.Thread(target=prepare, daemon=True).start()  # so that pages open with a finished example
    server.run(sockets=[sock])


class _Server(uvicorn.Server):
    """Calls `ready` when it answers requests."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()
