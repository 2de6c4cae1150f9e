"""`tacit invite`: one line of text that lets one agent enrol."""

from __future__ import annotations

import math
import time
from contextlib import closing
from pathlib import Path

import click

from tacit.base.report import counted
from tacit.cli import options, output

EPILOG = """\b
Examples:
  tacit invite alice --hub hub                      one line: give it to alice's owner over a private channel
  tacit invite alice bob north south --hub hub
  tacit invite 'meter-*' --count 50 --hub hub       50 lines; each agent chooses its name
  tacit invite alice --hub hub --withdraw           alice's line can no longer be used
"""


@click.command(epilog=EPILOG)
@click.argument("names", metavar="NAME|PATTERN...", nargs=-1, required=True)
@click.option("--hub", "home", type=options.HUB, required=True, help="The hub's directory.")
@click.option("--count", type=options.Whole(), default=1, show_default=True, help="Invitations per name.")
@click.option(
    "--hours",
    type=options.NUMBER,
    default=72.0,
    show_default=True,
    help="Hours until an unused invitation expires.",
)
@click.option(
    "--days", type=options.NUMBER, default=90.0, show_default=True, help="Days that the certificate is valid."
)
@click.option(
    "--address",
    "addresses",
    multiple=True,
    help="Where the agent reaches the hub, wss://host:port; once for each of its hosts.  [default: the hub's "
    "address]",
)
@click.option(
    "--withdraw", is_flag=True, help="Withdraw unused invitations for names that match; '*' is all."
)
@options.json_option
def command(
    *,
    names: tuple[str, ...],
    home: Path,
    count: int,
    hours: float,
    days: float,
    addresses: tuple[str, ...],
    withdraw: bool,
    as_json: bool,
) -> None:
    """Print invitations: each line lets one agent or keeper enrol once.

    The line holds the hub's address, the fingerprint of its authority's key, the name or pattern, when it
    expires, and a secret. Anyone who has it can enrol under that name, so send it over a private
    channel. The hub keeps only a hash of the secret.
    """
    from tacit.base.errors import InputError
    from tacit.live.fleet.hub_directory import AUTHORITY
    from tacit.live.fleet.invitation import new_invitation, secret_digest
    from tacit.live.fleet.store import HubStore
    from tacit.live.identity.identity import load_authority
    from tacit.live.transport.connection_diagnosis import require_endpoint

    if withdraw:
        if more := options.given("count", "hours", "days", "addresses"):
            raise click.UsageError(f"{', '.join(more)} cannot go with --withdraw.")
        with closing(HubStore(home)) as store:
            count = sum(map(store.withdraw, names))
        if as_json:
            output.print_json({"withdrawn": count})
        else:
            click.echo(f"{counted(count, 'invitation')} withdrawn.")
        return
    if not 0 < hours <= 24 * 365:
        raise InputError(f"--hours must be above 0 and at most a year, got {hours:g}.")
    for address in addresses:
        require_endpoint(address)
    if not 0 < days <= 3650:
        raise InputError(f"--days must be above 0 and at most 3650, got {days:g}.")
    for name in names:
        if count > 1 and "*" not in name:
            raise InputError(
                f"--count is for a pattern like meter-*: {name} is one name, which needs one invitation."
            )
    with closing(HubStore(home)) as store:
        fingerprint = load_authority(home / AUTHORITY).certificate.key_fingerprint
        at = " ".join(addresses) or store.setting("address")
        expires = math.ceil(time.time() + 3600 * hours)
        made = [new_invitation(at, fingerprint, name, expires) for name in names for _ in range(count)]
        for one in made:
            store.invite(one.number, secret_digest(one.secret), one.pattern, one.expires, days)
    if as_json:
        found = [{"number": one.number, "name": one.pattern, "invitation": one.text()} for one in made]
        output.print_json({"address": at, "authority": fingerprint, "expires": expires, "invitations": found})
        return
    for one in made:
        click.echo(one.text())
