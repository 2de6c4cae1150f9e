"""`tacit coordinate`: run the coordinator of a session."""

from __future__ import annotations

from typing import Any

import click

from tacit.base.report import counted
from tacit.cli import running
from tacit.cli.seat import Seat

EPILOG = """\b
Example:
  tacit coordinate meters.toml --keys keys/coordinator --listen wss://0.0.0.0:7447 --ledger coordinator.ledger
\b
Exit codes: 0 finished, or stopped by SIGTERM, 2 the input cannot be used, 4 the ledger or its disk failed,
5 the session ended early, 130 stopped with Ctrl-C. After a stop, run the same command to resume.
"""


@click.command(epilog=EPILOG)
@running.common_options
@running.pace_option
@click.option(
    "--listen", multiple=True, help="Where agents connect, wss://host:port.  [default: the session's address]"
)
def command(*, listen: tuple[str, ...], **given: Any) -> None:
    """Run the coordinator of SESSION: answer all messages with their mean.

    It holds nothing private. Every answer is on the disk before it is sent, so a coordinator that
    was killed and started again resumes where it stopped.
    """
    running.spare_numpy()
    from tacit.core.protocol.roster import COORDINATOR
    from tacit.live.runtime.coordinator import Coordinator

    seat = Seat.taken(given)
    ends, pace = seat.ends(listen), seat.options.pace
    with seat.prepared(COORDINATOR) as run:
        result = run.drive(Coordinator(seat.session, listen=ends, pace=pace, **run.about))
    seat.show(result, f"The session ended early, after {counted(result.rounds, 'round')}.")
