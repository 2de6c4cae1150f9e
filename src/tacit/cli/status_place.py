"""The options that say where a running member serves its status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, final

import click

from tacit.base.errors import InputError

if TYPE_CHECKING:
    from tacit.live.status.document import StatusPages
    from tacit.live.status.server import StatusServer

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


PLAIN = "http://"


class StatusAddress(click.ParamType["tuple[str, int, bool]"]):
    """A port of this machine, or an address and a port."""

    name = "[http://][host:]port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int, bool]:
        """Return host, port and whether it is said to be plain; or fail."""
        if isinstance(value, tuple):
            return value
        text = str(value)
        host, _, port = text.removeprefix(PLAIN).rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        if not (port.isascii() and port.isdigit() and int(port) <= 65535):
            self.fail(f"{value!r} is neither a port nor host:port.", param, ctx)
        return host or "127.0.0.1", int(port), text.startswith(PLAIN)


@final
@dataclass(frozen=True)
class StatusPlace:
    """The status options as they were given; see `status_options`."""

    at: tuple[str, int, bool] | None = None
    tls: tuple[Path, Path] | None = None

    @classmethod
    def taken(cls, given: dict[str, Any]) -> StatusPlace:
        """Take the status options out of a command's options."""
        place = cls(given.pop("status"), given.pop("status_tls"))
        if place.tls is not None and place.at is None:
            raise InputError("--status-tls needs --status, the address to serve at.")
        if place.tls is not None and place.at is not None and place.at[2]:
            raise InputError("--status says http:// and --status-tls encrypts: leave one of them out.")
        return place

    def server(self, pages: StatusPages) -> StatusServer:
        """Return the server, not yet started; `at` must be an address."""
        from tacit.live.status.server import StatusServer, tls_context

        assert self.at is not None
        host, port, plain = self.at
        context = None if self.tls is None else tls_context(*self.tls)
        return StatusServer(pages, port, host, tls=context, anywhere=plain or context is not None)


def status_options(command: F) -> F:
    """Add --status and --status-tls to a long-running command."""
    for option in (
        click.option(
            "--status-tls",
            type=(_FILE, _FILE),
            metavar="CERTIFICATE KEY",
            help="Serve the status over HTTPS with these PEM files.",
        ),
        click.option(
            "--status",
            type=StatusAddress(),
            help="Serve /status, /metrics, /healthz and /readyz here. A port alone is on this machine only. "
            "An address that others can reach needs --status-tls, or http:// before it: not encrypted.",
        ),
    ):
        command = option(command)
    return command
