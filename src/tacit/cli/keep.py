"""`tacit keep`: run a keeper of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tacit.base.report import counted
from tacit.cli import running
from tacit.cli.seat import Seat

EPILOG = """\b
Example:
  tacit keep meters.toml --keys keys/north --connect wss://host:7447 --ledger north.ledger
\b
Exit codes: 0 finished, or stopped by SIGTERM, 2 the input cannot be used, 4 the ledger or its disk failed,
5 the session ended early, 130 stopped with Ctrl-C. After a stop, run the same command to resume.
"""


@click.command(epilog=EPILOG)
@running.common_options
@click.option(
    "--connect", multiple=True, help="The coordinator, wss://host:port.  [default: the session's address]"
)
@running.witness_option
def command(*, connect: tuple[str, ...], witness: Path | None, **given: Any) -> None:
    """Run a keeper of SESSION: hold masks, add noise, open each sum once.

    A keeper never sees the agents' messages, and no round can finish without it. Keep its ledger, and the
    session's private key beside it, out of backups: a restored keeper would open sums again, with other
    noise (--witness detects that).

    Agents are protected as long as one keeper keeps its secrets. The keepers of a session and its
    coordinator should be run by different parties.
    """
    running.spare_numpy()
    from tacit.live.runtime.keeper import Keeper, keeper_number

    seat = Seat.taken(given)
    ends = seat.ends(connect)
    with seat.prepared(keeper_number(seat.session, seat.identity)) as run:
        result = run.drive(Keeper(seat.session, connect=ends, witness=witness, **run.about))
    seat.show(result, f"The session ended early, after {counted(result.opened, 'round')}.")
