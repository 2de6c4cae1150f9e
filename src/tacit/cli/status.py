"""`tacit status`: where a running member is."""

from __future__ import annotations

import json
import math
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import click

from tacit.cli import options, output
from tacit.errors import InputError

_MOST_BYTES = 16 << 20
_SECONDS = 5.0
_NAMES = 5

EPILOG = """\b
Examples:
  tacit status 9464
  tacit status http://127.0.0.1:9464 --watch
  tacit status 9464 --json
"""


@click.command(epilog=EPILOG)
@click.argument("where", metavar="URL_OR_PORT")
@click.option("--watch", is_flag=True, help="Show it again and again until Ctrl-C.")
@click.option(
    "--every", type=options.NUMBER, default=1.0, show_default=True, help="Seconds between two looks."
)
@options.json_option
def command(*, where: str, watch: bool, every: float, as_json: bool) -> None:
    """Show where a running coordinator, agent or peer is: round, who is late, loss, feedback.

    It answers where it was started with a status port. Nothing private is shown. Exit codes: 0 shown,
    2 there is no answer.
    """
    if not (math.isfinite(every) and 0.1 <= every <= 86400):
        raise click.BadParameter(f"must be from 0.1 to 86400 seconds, got {every}.", param_hint="--every")
    url = _url(where)
    if not watch:
        _show(_fetch(url), as_json)
        return
    if as_json or not output.console().is_terminal:
        while True:
            click.echo(json.dumps(_fetch(url))) if as_json else _show(_fetch(url), False)
            time.sleep(every)
    _live(url, every)


def _live(url: str, every: float) -> None:
    from rich.live import Live

    with Live(_table(_fetch(url)), console=output.console(), auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(_table(_fetch(url)), refresh=True)


def _url(where: str) -> str:
    """Return where the status is; a number is a port of this machine."""
    if where.isascii() and where.isdigit():
        if not 1 <= int(where) <= 65535:
            raise click.BadParameter(f"a port is from 1 to 65535, got {where}.", param_hint="URL_OR_PORT")
        return f"http://127.0.0.1:{int(where)}/status"
    url = where if "://" in where else f"http://{where}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.BadParameter("must be a port, or a URL with http://.", param_hint="URL_OR_PORT")
    return url if parts.path not in ("", "/") else f"{parts.scheme}://{parts.netloc}/status"


def _fetch(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:
            found = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        error.close()
        raise InputError(f"{url} answered {error.code}: it is not a member's status.") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        said = getattr(reason, "strerror", None) or "no answer in time"
        raise InputError(
            f"{url} does not answer ({said}): is the member running with a status port?"
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"{url} did not answer with a status.") from None
    if not isinstance(found, dict) or not {"session", "member", "round", "rounds", "phase"} <= set(found):
        raise InputError(f"{url} did not answer with a status.")
    return found


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        output.print_json(found)
    else:
        output.emit(_table(found))


def _table(found: dict[str, Any]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=f"{found['member']} of session {found['session']}", show_header=False, title_justify="left"
    )
    table.add_column(no_wrap=True)
    table.add_column()
    for name, value in _rows(found):
        table.add_row(Text(name), Text(value))
    return table


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("phase", str(found["phase"])), ("round", f"{found['round']} of {found['rounds']}")]
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
        rows.append(("history", "others are ahead of this ledger: it is not the newest"))
    if found.get("loss"):
        loss = found["loss"]
        parts = [f"{output.up(loss[name])} {name}" for name in ("spent", "planned", "cap") if name in loss]
        rows.append(("loss", ", ".join(parts)))
    if found.get("feedback") is not None:
        rows.append(("feedback", _few([output.near(y) for y in found["feedback"]])))
    return rows


def _few(names: list[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(map(str, names[:_NAMES])) + (f" and {more} more" if more > 0 else "")
