"""`tacit join`: take part in a session with a private value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.base.errors import InputError, SessionOver
from tacit.base.report import counted, near, up
from tacit.cli import options, private_value, running
from tacit.cli.seat import Seat

if TYPE_CHECKING:
    from tacit.core.protocol.notices import Notice
    from tacit.core.protocol.session import Session

EPILOG = """\b
Examples:
  tacit join meters.toml --keys keys/me --connect wss://host:7447 --value-file reading.txt --cap 1
    --ledger me.ledger
  tacit join load.toml --keys keys/me --value-file meter.txt --cap 1 --hides step:2 --delta 1e-6
    --trust @keepers.txt --ledger me.ledger
  tacit join ring.toml --keys keys/me --listen wss://0.0.0.0:7447 --connect wss://neighbour:7447
    --value-file reading.txt --cap 1 --ledger me.ledger
\b
Exit codes: 0 finished, or stopped by SIGTERM, 2 the input cannot be used, 3 refused because of the
cap, 4 the ledger or its disk failed, 5 the session ended early, 6 it was already over, 130 stopped
with Ctrl-C. After a stop, run the same command to resume.
"""


def _owner_options(command: running.F) -> running.F:
    """Add the options of the owner: private value, label, cap."""
    for option in (
        running.witness_option,
        click.option(
            "--new-ledger",
            metavar="WORDS",
            help="Start a new ledger, with the whole cap, for keys that have already used another one. "
            'WORDS must be "forget what was spent".',
        ),
        click.option(
            "--label",
            default="value",
            show_default=True,
            help="A public name for the value; never the value itself.",
        ),
        click.option(
            "--adjacency",
            type=options.NUMBER,
            help="The cap protects values that differ by at most this.  [default: as in the ledger, or any "
            "two values in the session's range]",
        ),
        click.option(
            "--cap",
            type=options.NUMBER,
            help="Maximum loss of this value over all sessions; needed once per ledger and value.",
        ),
        click.option(
            "--state-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Write your final state here, mode 600, and whether your value was clamped. It is private: "
            "the value can be computed from it.",
        ),
        private_value.value_options,
    ):
        command = option(command)
    return command


_PARTS = 6  # of an answer, in the line of a slot


@click.command(epilog=EPILOG)
@running.common_options
@running.pace_option
@click.option(
    "--connect",
    multiple=True,
    help="The coordinator or a neighbour, wss://host:port.  [default: the session's addresses]",
)
@click.option(
    "--listen",
    multiple=True,
    help="On a graph: where neighbours connect, wss://host:port.  [default: the session's address]",
)
@click.option(
    "--trust",
    metavar="NAME=KEY|@FILE",
    multiple=True,
    help="A keeper that you trust, with its public key as `tacit keys show` prints it, or a file with one in "
    "each line; may be repeated. Required if the session has keepers.",
)
@click.option(
    "--hides",
    metavar="reading|window:K|step:D",
    help="For a series: the change of your readings that you want hidden. It is kept with the cap.",
)
@click.option(
    "--delta",
    type=options.NUMBER,
    help="For a series: the probability of failure that you accept, for all series on this value together.",
)
@click.option(
    "--value-command",
    metavar="COMMAND",
    help="For a series: a command whose output is the value; run in every slot.",
)
@options.motion_option(
    "Your own A, B, C and start, if the session leaves them to its agents; not needed to resume."
)
@_owner_options
def command(
    *,
    connect: tuple[str, ...],
    listen: tuple[str, ...],
    trust: tuple[str, ...],
    **given: Any,
) -> None:
    """Take part in SESSION with a private value, as the owner of the keys.

    Before anything is sent, it prints the maximum loss of the session, and refuses if that exceeds the
    cap. The value never comes from the command line.

    If the session has keepers, you must trust one of them, by name and key: if all keepers collude with
    someone who has the messages, there is no protection at all.

    In a series the file or command is read again in every slot, and means are printed as they arrive.
    Give --hides and --delta: the cap counts the loss for that change of your readings only.

    On a graph there is no coordinator: one end of each edge connects to the other.
    """
    running.spare_numpy()
    from tacit.live.runtime.participant import number_of
    from tacit.live.sessions.trust import parse_trust
    from tacit.live.transport.schemes import to_dial

    seat = Seat.taken(given)
    session, number = seat.session, number_of(seat.session, seat.identity)
    if session.topology == "graph":
        listen = seat.ends(listen, session.member_name(number))
    elif listen:
        raise InputError(
            f"--listen is for a graph, and session {session.name} has a coordinator: leave it out."
        )
    connect = connect or to_dial(session, number, seat.addresses)
    _take_part(seat, number, listen=listen, connect=connect, trust=parse_trust(trust), **given)


def _take_part(
    seat: Seat,
    number: int,
    *,
    value_file: Path | None,
    names: tuple[str, ...],
    value_command: str | None,
    hides: str | None,
    delta: float | None,
    state_file: Path | None,
    motion_file: str | None,
    **given: Any,
) -> None:
    """Run an agent to its end and print the result.

    `given` goes to `Agent` as it is.
    """
    from tacit.live.runtime.agent import Agent

    session = seat.session
    value: Any
    if session.series is not None:
        _require_for_series(seat, state_file)
        named = {session.question: names}
        value = private_value.chosen_source(value_command, value_file, named)
    elif (hides, delta, value_command) == (None, None, None):
        value = private_value.read_value(value_file, session.question, names)
    else:
        raise click.UsageError(
            "--hides, --delta and --value-command are for a series, and this session is not a series."
        )
    accepts = options.accepted(hides, delta)
    if motion_file is not None:
        from tacit.live.sessions.motion import read_own_motion

        given["motion"] = read_own_motion(motion_file)
    if state_file is not None:
        private_value.require_state_writable(state_file)
    try:
        with seat.prepared(number) as run:
            about = run.about | {"watch": _watching(run, seat), "unread": _unread(run)}
            member = Agent(session, value, accepts=accepts, pace=seat.options.pace, **about, **given)
            result = run.drive(member)
    except SessionOver as over:
        if state_file is not None and over.result is not None:
            private_value.write_state(state_file, session, over.result, over_before=True)
        raise
    if state_file is not None:
        private_value.write_state(state_file, session, result)
    if session.series is None:
        seat.show(result, f"The session ended early, after {counted(result.rounds, 'round')}.")
    else:
        seat.show(result, f"The series ended early, after {counted(result.slots, 'slot')}.")


def _require_for_series(seat: Seat, state_file: Path | None) -> None:
    if state_file is not None:
        raise click.UsageError("--state-file is not for a series: an agent of a series has no final state.")
    if seat.options.pace:
        raise click.UsageError("--pace is not for a series: its slots follow the clock.")


def _watching(run: running.Run, seat: Seat) -> Callable[[Notice], None]:
    """Return what shows notices, and prints the means of a series."""
    from tacit.core.protocol.notices import MeanPublished

    def watch(notice: Notice) -> None:
        run.watch(notice)
        if isinstance(notice, MeanPublished) and not seat.as_json:
            click.echo(mean_line(notice, seat.session))

    return watch


def _unread(run: running.Run) -> Callable[[int, str], None]:
    """Return what tells why there is no reading, at powers of two."""

    def unread(count: int, why: str) -> None:
        if count & (count - 1) == 0:  # a source may fail in every slot
            run.trouble(f"{why} (times: {count})")

    return unread


def mean_line(notice: Any, session: Session) -> str:
    """Return one line for the mean of a slot, clamped to the range."""
    if notice.mean is None:
        return f"slot {notice.slot}: lost"
    from tacit.core.protocol.answer import slot_answer
    from tacit.core.theory.advice import absences

    who = absences(notice.count, session.n, notice.incomplete_before) or f"all {session.n} agents"
    if (answer := slot_answer(session, notice)) is not None:
        found = answer.each.parts
        parts = "; ".join(f"{part.name}: {near(part.estimate)}" for part in found[:_PARTS])
        return f"slot {notice.slot}: {parts or 'no answer'}{'; …' if len(found) > _PARTS else ''}, {who}"
    mean = session.shown(notice.mean)
    told = ", ".join(map(near, mean if isinstance(mean, list) else [mean]))
    return f"slot {notice.slot}: mean {told}, noise {up(notice.deviation)}, {who}"
