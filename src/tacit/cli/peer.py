"""`tacit peer`: take part in a session without a coordinator."""

from __future__ import annotations

from typing import Any

import click

from tacit.cli import running
from tacit.cli.join import CODES, member_options, require_topology, take_part
from tacit.cli.seat import Seat

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
def command(*, listen: tuple[str, ...], connect: tuple[str, ...], **given: Any) -> None:
    """Take part in SESSION with neighbours instead of a coordinator.

    Like `tacit join`, it first prints the maximum loss of the session, and refuses above the cap.
    """
    running.use_one_thread()
    from tacit.live.runtime.participant import number_of
    from tacit.live.transport.schemes import to_dial

    seat = Seat.taken(given)
    require_topology(seat.session, "graph")
    number = number_of(seat.session, seat.identity)
    ends = seat.ends(listen, seat.session.member_name(number))
    near = connect or to_dial(seat.session, number, seat.addresses)
    take_part(seat, listen=ends, connect=near, **given)
