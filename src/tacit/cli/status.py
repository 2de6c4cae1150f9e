"""`tacit status`: the progress of a running hub or member."""

from __future__ import annotations

import json
import time

import click

from tacit.base.errors import InputError
from tacit.base.report import text
from tacit.cli import options, output
from tacit.live.status.reader import read_status, status_url
from tacit.live.status.report import StatusReport

EPILOG = """\b
Examples:
  tacit status 9464
  tacit status http://127.0.0.1:9464 --watch
  tacit status 9464 --json
"""


_EVERY = 1.0  # seconds between two updates


@click.command(epilog=EPILOG)
@click.argument("where", metavar="URL_OR_PORT")
@click.option("--watch", is_flag=True, help="Show it every second, until Ctrl-C.")
@options.json_option
def command(*, where: str, watch: bool, as_json: bool) -> None:
    """Show the progress of a running hub, coordinator, agent, keeper or peer.

    It shows sessions, rounds, late members, loss and feedback; nothing private. The process must have been
    started with --status. Exit codes: 0 shown, 2 no answer.
    """
    try:
        url = status_url(where)
    except InputError as error:
        raise click.BadParameter(str(error), param_hint="URL_OR_PORT") from None
    if not watch:
        output.print_result(_read(url), as_json)
        return
    if as_json or not output.console().is_terminal:
        while True:
            found = _read(url)
            if as_json:
                click.echo(json.dumps(found.as_dict()))
            else:
                output.print_result(found, as_json=False)
            time.sleep(_EVERY)
    _live(url)


def _read(url: str) -> StatusReport:
    return StatusReport(read_status(url))


def _live(url: str) -> None:
    from rich.live import Live

    with Live(text(_read(url).summary()), console=output.console(), auto_refresh=False) as live:
        while True:
            time.sleep(_EVERY)
            live.update(text(_read(url).summary()), refresh=True)
