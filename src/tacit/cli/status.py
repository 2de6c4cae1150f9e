"""`tacit status`: the progress of a running member."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import click

from tacit.cli import options, output
from tacit.errors import InputError
from tacit.report import near, up
from tacit.runtime.status.reader import read_status, status_url

_NAMES = 5

EPILOG = """\b
Examples:
  tacit status 9464
  tacit status http://127.0.0.1:9464 --watch
  tacit status 9464 --json
"""


@click.command(epilog=EPILOG)
@click.argument("where", metavar="URL_OR_PORT")
@click.option("--watch", is_flag=True, help="Update until Ctrl-C.")
@click.option(
    "--every", type=options.NUMBER, default=1.0, show_default=True, help="Seconds between two updates."
)
@options.json_option
def command(*, where: str, watch: bool, every: float, as_json: bool) -> None:
    """Show the progress of a running coordinator, agent or peer: round, who is late, loss, feedback.

    The member must have been started with --status. Nothing private is shown. Exit codes: 0 shown,
    2 no answer.
    """
    if not (math.isfinite(every) and 0.1 <= every <= 86400):
        raise click.BadParameter(f"must be from 0.1 to 86400 seconds, got {every}.", param_hint="--every")
    try:
        url = status_url(where)
    except InputError as error:
        raise click.BadParameter(str(error), param_hint="URL_OR_PORT") from None
    if not watch:
        _show(read_status(url), as_json)
        return
    if as_json or not output.console().is_terminal:
        while True:
            click.echo(json.dumps(read_status(url))) if as_json else _show(read_status(url), False)
            time.sleep(every)
    _live(url, every)


def _live(url: str, every: float) -> None:
    from rich.live import Live

    with Live(_table(read_status(url)), console=output.console(), auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(_table(read_status(url)), refresh=True)


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        output.print_json(found)
    else:
        output.emit(_table(found))


def _table(found: dict[str, Any]) -> Any:
    from rich.table import Table
    from rich.text import Text

    title = Text(f"{found['member']} of session {found['session']}")
    table = Table(title=title, show_header=False, title_justify="left", min_width=title.cell_len)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, value in _rows(found):
        table.add_row(Text(name), Text(value))
    return table


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("phase", str(found["phase"])), ("round", f"{found['round']} of {found['rounds']}")]
    rows += _network(found, time.time())
    if found.get("present") is not None:
        rows.append(("present", f"{found['present']} of {found.get('agents')}"))
    if found.get("used") is not None:
        rows.append(("messages used", str(found["used"])))
    rows += [(name, _few(found[name])) for name in ("late", "quiet") if found.get(name)]
    if found.get("behind"):
        rows.append(("behind", f"{found['behind']} rounds"))
    if found.get("refused"):
        rows.append(("refused", ", ".join(f"{k} {v}" for k, v in sorted(found["refused"].items()))))
    if found.get("equivocations"):
        rows.append(("equivocated", _few(sorted({str(one.get("sender")) for one in found["equivocations"]}))))
    if found.get("lost_history"):
        rows.append(("history", "others have more rounds than this ledger: it is not the newest"))
    if found.get("loss"):
        loss = found["loss"]
        parts = [f"{up(loss[name])} {name}" for name in ("spent", "planned", "cap") if name in loss]
        rows.append(("loss", ", ".join(parts)))
    if found.get("feedback") is not None:
        rows.append(("feedback", _few([near(y) for y in found["feedback"]])))
    return rows


def _network(found: dict[str, Any], now: float) -> list[tuple[str, str]]:
    """Say how the member is connected, if its status does."""
    rows = []
    if found.get("connected") is not None:
        few = _few(found["connected"]) or "nobody"
        rows.append(("connected to", few))
    if found.get("heard") is not None:
        rows.append(("last heard", f"{max(0.0, now - found['heard']):.0f} s ago"))
    if found.get("certificate_expires") is not None:
        left = found["certificate_expires"] - now
        rows.append(("certificate", f"valid for {left / 86400:.1f} more days" if left > 0 else "has expired"))
    if found.get("trouble"):
        rows.append(("trouble", str(found["trouble"])))
    return rows


def _few(names: list[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(map(str, names[:_NAMES])) + (f" and {more} more" if more > 0 else "")
