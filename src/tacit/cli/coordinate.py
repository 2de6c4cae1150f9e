"""`tacit coordinate`: run the coordinator of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tacit.cli import output, running

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
def command(*, session_file: Path, keys: Path, listen: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Run the coordinator of SESSION: answer all messages with their mean.

    It holds nothing private. Every answer is on the disk before it is sent, so a coordinator that
    was killed and started again resumes where it stopped.
    """
    running.use_one_thread()
    from tacit.protocol.roster import COORDINATOR
    from tacit.runtime.coordinator import Coordinator
    from tacit.runtime.identity.identity import Identity
    from tacit.runtime.session.file import read_addresses, read_session

    identity = Identity.load(keys)
    session, options = read_session(session_file), running.Options.taken(given)
    ends = listen or tuple(filter(None, [read_addresses(session_file).get("coordinator")]))
    with running.prepared(session, COORDINATOR, options, identity.sign) as run:
        member = Coordinator(
            session,
            ledger=options.ledger,
            identity=identity,
            listen=ends,
            takers=run.takers,
            pace=options.pace,
            watch=run.watch,
            trouble=run.trouble,
        )
        result = run.drive(member)
    output.print_result(result, as_json)
    if not result.finished:
        running.leave(f"The session ended early, after {result.rounds} rounds.", running.UNFINISHED)
