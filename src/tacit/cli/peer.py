"""`tacit peer`: take part in a session without a coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tacit.cli import running
from tacit.cli.join import CODES, member_options, take_part

EPILOG = f"""\b
Example:
  tacit peer ring.toml --keys keys/me --listen wss://0.0.0.0:7447 --connect wss://neighbour:7447
    --value-env READING --cap 1 --ledger me.ledger

{CODES}"""


@click.command(epilog=EPILOG)
@running.common_options
@running.pace_option
@click.option(
    "--listen",
    multiple=True,
    help="Where neighbours connect, wss://host:port.  [default: the session's address]",
)
@click.option(
    "--connect",
    multiple=True,
    help="A neighbour, wss://host:port; one end of each edge connects.  [default: the session's addresses]",
)
@member_options
def command(
    *, session_file: Path, listen: tuple[str, ...], connect: tuple[str, ...], keys: Path, **given: Any
) -> None:
    """Take part in SESSION with neighbours instead of a coordinator.

    Like `tacit join`, it first prints the maximum loss of the session, and refuses above the cap.
    """
    running.use_one_thread()
    from tacit.runtime.agent import Peer
    from tacit.runtime.identity.identity import Identity
    from tacit.runtime.participant import number_of
    from tacit.runtime.session.file import read_addresses, read_session
    from tacit.runtime.transport.websocket import to_dial

    session, addresses = read_session(session_file), read_addresses(session_file)
    number = number_of(session, Identity.load(keys))
    ends = listen or tuple(filter(None, [addresses.get(session.member_name(number))]))
    near = connect or (to_dial(session, number, addresses) if session.topology == "graph" else ())
    take_part(Peer, session_file, listen=ends, connect=near, keys=keys, **given)
