"""`tacit studio`: the web page, on this machine."""

from __future__ import annotations

import json
import threading
import webbrowser

import click

from tacit.cli import failures, options

EPILOG = """\b
Examples:
  tacit studio
  tacit studio --port 0 --no-browser
"""


@click.command(epilog=EPILOG)
@click.option("--host", default="127.0.0.1", show_default=True, help="An address of this machine.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 for any free port."
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@options.json_option
@click.pass_context
def command(ctx: click.Context, *, host: str, port: int, no_browser: bool, as_json: bool) -> None:
    """Plan, compare and watch in a browser; follow a running session.

    Everything runs on this machine and nothing is loaded from elsewhere. Only this machine can open it,
    unless --host gives another address: then everyone who reaches that address can, without a password.
    """
    import nicegui  # noqa: F401  # before what comes with it: this is the name of what is missing

    from tacit.studio.server import bind, is_loopback, serve, url

    ctx.meta[failures.ON_STOP] = "The studio is closed."
    sock = bind(host, port)
    where = url(host, sock)

    def ready() -> None:
        if as_json:
            click.echo(json.dumps({"url": where}))
        else:
            click.echo(f"The studio is at {where} (Ctrl-C to close).")
        if not is_loopback(host):
            click.echo(f"Everyone who can reach {host} can open it: there is no password.", err=True)
        if not no_browser:
            threading.Thread(target=webbrowser.open, args=[where], daemon=True).start()

    serve(sock, host, ready)
    raise KeyboardInterrupt
