"""`tacit join`: take part in a session that has a coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output, private_value, running
from tacit.errors import SessionOver

if TYPE_CHECKING:
    from tacit.runtime.agent import Agent, AgentResult, Peer

CODES = """\b
Exit codes: 0 finished, or stopped by SIGTERM, 2 the input cannot be used, 3 refused because of the
cap, 4 the ledger or its disk failed, 5 the session ended early, 6 it was already over, 130 stopped
with Ctrl-C. After a stop, run the same command to resume.
"""
EPILOG = f"""\b
Examples:
  tacit join meters.toml --keys keys/me --connect wss://host:7447 --value-file reading.txt --cap 1
    --ledger me.ledger
  tacit join load.toml --keys keys/me --value-file meter.txt --cap 1 --hides step:2 --delta 1e-6
    --trust-file keepers.txt --ledger me.ledger

{CODES}"""


def member_options(command: running.F) -> running.F:
    """Add the options of agents and peers: private value, label, cap."""
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


@click.command(epilog=EPILOG)
@running.common_options
@running.pace_option
@click.option(
    "--connect", multiple=True, help="The coordinator, wss://host:port.  [default: the session's address]"
)
@click.option(
    "--trust",
    metavar="NAME=KEY",
    multiple=True,
    help="A keeper that you trust, with its public key as `tacit keys show` prints it; may be repeated. "
    "Required if the session has keepers.",
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
@click.option(
    "--trust-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with lines of NAME=KEY: keepers that you trust.",
)
@member_options
def command(
    *,
    session_file: Path,
    connect: tuple[str, ...],
    trust: tuple[str, ...],
    trust_file: Path | None,
    hides: str | None,
    delta: float | None,
    value_command: str | None,
    **given: Any,
) -> None:
    """Take part in SESSION with a private value, as the owner of the keys.

    Before anything is sent, it prints the maximum loss of the session, and refuses if that exceeds the
    cap. The value comes from a file, standard input or the environment, never from the command line.

    If the session has keepers, you must trust one of them, by name and key: if all keepers collude with
    someone who has the messages, there is no protection at all.

    In a series the file or command is read again in every slot, and published means are printed as they
    arrive. Give --hides and --delta: the cap counts the loss for that change of your readings only.
    """
    running.use_one_thread()
    from tacit.runtime.agent import Agent
    from tacit.runtime.session.file import read_addresses, read_session
    from tacit.runtime.session.trust import parse_trust, read_trust

    ends = connect or tuple(filter(None, [read_addresses(session_file).get("coordinator")]))
    trusted = {**({} if trust_file is None else read_trust(trust_file)), **parse_trust(trust)}
    session = read_session(session_file)
    if session.series is not None:
        from tacit.cli.join_series import take_part_in_series

        given |= {"hides": hides, "delta": delta, "value_command": value_command}
        take_part_in_series(session, connect=ends, trust=trusted, **given)
        return
    if hides is not None or delta is not None or value_command is not None:
        raise click.UsageError(
            "--hides, --delta and --value-command are for a series, and this session is not a series."
        )
    take_part(Agent, session_file, connect=ends, trust=trusted, **given)


def take_part(
    kind: type[Agent] | type[Peer],
    session_file: Path,
    *,
    connect: tuple[str, ...],
    keys: Path,
    value_file: Path | None,
    value_stdin: bool,
    value_env: str | None,
    cap: float | None,
    adjacency: float | None,
    label: str,
    new_ledger: str | None,
    witness: Path | None,
    state_file: Path | None,
    as_json: bool,
    listen: tuple[str, ...] = (),
    trust: dict[str, bytes] | None = None,
    **given: Any,
) -> None:
    """Run an agent or a peer to its end and print the result."""
    from tacit.runtime.identity.identity import Identity
    from tacit.runtime.participant import number_of
    from tacit.runtime.session.file import read_session

    session, common = read_session(session_file), running.Options.taken(given)
    identity = Identity.load(keys)
    number = number_of(session, identity)
    value = private_value.read_value(value_file, value_stdin, value_env, session.components)
    if state_file is not None:
        private_value.require_state_writable(state_file)

    try:
        with running.prepared(session, number, common, identity.sign) as run:
            member = kind(
                session,
                value,
                ledger=common.ledger,
                identity=identity,
                cap=cap,
                adjacency=adjacency,
                label=label,
                trust=trust,
                new_ledger=new_ledger,
                witness=witness,
                connect=connect,
                listen=listen,
                takers=run.takers,
                pace=common.pace,
                watch=run.watch,
                trouble=run.trouble,
            )
            result: AgentResult = run.drive(member)
    except SessionOver as over:
        if state_file is not None and over.result is not None:
            private_value.write_state(state_file, session, over.result, over_before=True)
        raise
    if state_file is not None:
        private_value.write_state(state_file, session, result)
    output.print_result(result, as_json)
    if not result.finished:
        running.leave(f"The session ended early, after {result.rounds} rounds.", running.UNFINISHED)
