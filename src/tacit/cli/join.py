"""`tacit join`: take part in a session with a coordinator, with a private value."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output, private_value, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from tacit.protocol.effects import Notice
    from tacit.runtime.agent import Agent, AgentResult, Peer
    from tacit.runtime.member import Member, Taker

CODES = """\b
Exit codes: 0 finished, 2 the input cannot be used, 3 refused because of the cap, 4 the ledger or
its disk failed, 5 the session ended early, 130 stopped: run the same command again to resume.
"""
EPILOG = f"""\b
Example:
  tacit join meters.toml --keys keys/me --connect wss://host:7447 --value-file reading.txt --cap 1
    --ledger me.ledger

{CODES}"""


def speaker_options(command: running.F) -> running.F:
    """Add what agents and peers take: a private value, a cap, and the value's label."""
    for option in (
        click.option(
            "--label", default="value", show_default=True, help="Your name for the value; never its value."
        ),
        click.option(
            "--adjacency",
            type=options.NUMBER,
            help="The cap is about values that differ by at most this.  [default: as the ledger has it, or "
            "else any two values in the session's range]",
        ),
        click.option(
            "--cap",
            type=options.NUMBER,
            help="The most that may be lost on this value in all sessions; needed once per ledger and value.",
        ),
        private_value.value_options,
    ):
        command = option(command)
    return command


@click.command(epilog=EPILOG)
@running.common_options
@click.option("--connect", multiple=True, help="The coordinator, wss://host:port; else as the session says.")
@speaker_options
def command(*, session_file: Path, connect: tuple[str, ...], **given: Any) -> None:
    """Take part in SESSION with a private value, as the agent whose keys these are.

    Before anything is sent it says what the session costs at most, and refuses above the cap. The
    value comes from a file, standard input or the environment, never the command line.
    """
    from tacit.runtime.agent import Agent
    from tacit.runtime.session import read_addresses

    ends = connect or tuple(filter(None, [read_addresses(session_file).get("coordinator")]))
    take_part(Agent, session_file, connect=ends, **given)


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
    as_json: bool,
    listen: tuple[str, ...] = (),
    **given: Any,
) -> None:
    """Run an agent or a peer to its end and print what came of it."""
    from tacit.runtime.identity import Identity
    from tacit.runtime.member import number_of
    from tacit.runtime.session import read_session

    session, common = read_session(session_file), running.Options(**given)
    identity = Identity.load(keys)
    number = number_of(session, identity)
    value = private_value.read_value(value_file, value_stdin, value_env, session.components)

    def make(takers: list[Taker], watch: Callable[[Notice], None], log: running.Log) -> Member:
        if (warning := private_value.exposed(value_file)) is not None:
            log.say("exposed", warning)
        return kind(
            session,
            value,
            ledger=common.ledger,
            identity=identity,
            cap=cap,
            adjacency=adjacency,
            label=label,
            connect=connect,
            listen=listen,
            takers=takers,
            pace=common.pace,
            watch=watch,
            trouble=lambda why: log.say("trouble", why),
        )

    result: AgentResult | None = running.drive(session, number, common, make, identity.sign)
    if result is None:
        running.leave(
            "The session did not end in time; run the same command again to go on.", running.UNFINISHED
        )
    if as_json:
        output.print_json(dataclasses.asdict(result))
    else:
        _report(result)
    if not result.finished:
        running.leave(f"The session ended early, after {result.rounds} rounds.", running.UNFINISHED)


def _report(result: AgentResult) -> None:
    ended = f"{result.value:.6g}" if isinstance(result.value, float) else f"{len(result.value)} numbers"
    rows: list[output.Row] = [
        ("value", ended, "where your own state ended; private, use --json for all digits"),
        ("rounds", str(result.rounds), "all" if result.finished else "ended early"),
        ("loss", output.up(result.loss), "of this session, for its adjacency"),
        (
            "spent",
            output.up(result.spent),
            f"on this value in all sessions; the cap is {output.near(result.cap)}",
        ),
    ]
    output.print_report(f"{result.agent}: what came of it", {"Result": rows})
