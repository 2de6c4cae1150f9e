"""`tacit session new`: write a session file for a promise."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output
from tacit.cli.field_options import closing_time, open_option, session_options, take_fields
from tacit.cli.series_design import (
    asked_often,
    begin_time,
    delta_option,
    hides_option,
    refuse_series_options,
    require_only,
    series_option,
)
from tacit.cli.session import tell

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session
    from tacit.core.theory.plan import Plan
    from tacit.live.identity.roster import Roster
    from tacit.live.sessions.motion import MotionRequest

_MOST_DAYS, _WEEK = 36_500, 7 * 86_400

EPILOG = """\b
Examples:
  tacit session new --roster certificates --loss 1 --range 0:50 --mixing 0.8
  tacit session new --roster keys.txt --graph ring:20 --epsilon 0.1 --range 0:10 --law one-shot
  tacit session new --roster certificates --keepers north,south --loss 0.2 --range 0:10
  tacit session new --roster certificates --keepers north,south --loss 0.2 --range 0:10 --open 24h --quorum 50
  tacit session new --roster certificates --motion truck.toml --loss 1 --range -10:10 --rounds 120
  tacit session new --roster certificates --keepers north,south --loss 1 --ask histogram:0,1,2,5,10
  tacit session new --roster certificates --keepers north,south --loss 1 --range 0:10
    --series 96 --hides step:2 --every 15m
"""


@click.command("new", epilog=EPILOG)
@click.option(
    "--roster",
    "roster_path",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="A directory of certificates (or requests), or a file with lines of NAME KEY. The member named "
    "`coordinator` is the coordinator.",
)
@click.option(
    "--keepers",
    metavar="NAMES",
    help="Members of the roster that hold masks and add the noise, like a,b. Agents must trust one of them. "
    "[default: none; every agent adds its own noise]",
)
@series_option
@hides_option
@click.option("--every", metavar="TIME", help="Time from one slot of a series to the next: 30s, 15m, 1h.")
@click.option(
    "--begins",
    metavar="TIME",
    help="When slot 0 of a series begins: 2030-01-31T12:00:00Z, or +10m from now.  [default: one to two "
    "intervals from now, at a multiple of --every]",
)
@delta_option
@click.option("--name", default="session", show_default=True, help="Name of the session.")
@options.motion_option(
    "A file of agents with their own dynamics (see `tacit analyze`): how they move, who is private, and "
    "`start`. Give --loss, --range and --rounds besides."
)
@click.option(
    "--keep-motion",
    is_flag=True,
    help="With --motion: write only bounds on the influence into the session. A, B and C are then each "
    "agent's own (`tacit join --motion`).",
)
@options.asked_by(
    "session",
    adjacency={
        "help": "Two values of one agent that differ by at most this must be hard to tell apart (δ).  "
        "[default: the whole range]"
    },
    rounds={"help": "Number of rounds (T).  [default: until agents agree]"},
)
@session_options("session")
@open_option
@click.option(
    "--days",
    type=options.NUMBER,
    help="Days until the session expires: nobody joins or sends after that.  [default: 7, or twice the "
    "longest time its rounds can take, if that is longer; with --open 7 more than the window]",
)
@click.option(
    "--address",
    "places",
    metavar="NAME=ENDPOINT",
    multiple=True,
    help="Where a member listens, like coordinator=wss://192.0.2.1:7447; may be repeated.",
)
@click.option(
    "--out", type=options.OUT_FILE, default="session.toml", show_default=True, help="File to write."
)
@options.force_option
@options.anyway_option
@options.json_option
def command(
    *,
    name: str,
    roster_path: Path,
    days: float | None,
    places: tuple[str, ...],
    keepers: str | None,
    motion_file: str | None,
    keep_motion: bool,
    series: int | None,
    open_for: str | None,
    hides: str | None,
    every: str | None,
    begins: str | None,
    delta: float,
    out: Path,
    force: bool,
    anyway: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Write a session file with the best noise for a promise.

    Give --epsilon, --loss or --radius, and --range or --ask; rounding to whole numbers is included. With a
    coordinator, noise is drawn once and one round is enough, unless you give --mixing or --law. A session
    whose result would say nothing is refused, unless you give --anyway.

    With --series, --hides and --every it is a series: a mean in every slot, with --loss and --delta for
    all of them together. A series needs --keepers.

    With --open 24h agents come within a day, send one message, leave with a receipt, and come back for the
    result. Keepers keep their secrets for as long, and one that is lost loses the session.
    """
    from tacit.live.fleet.policy import seconds
    from tacit.live.identity.roster import read_roster
    from tacit.live.sessions.check import explain
    from tacit.live.sessions.design import draft
    from tacit.live.sessions.file import write_session
    from tacit.live.sessions.series import explain_series

    question, fields = options.read_question(asked), take_fields("session", asked)
    output.require_writable(out, force)
    roster = read_roster(roster_path)
    kept = [] if keepers is None else [name.strip() for name in keepers.split(",")]
    agents = sum(member.name not in kept for member in roster.members)
    if question.agents not in (None, agents):
        raise click.UsageError(f"--agents is {question.agents}, but {roster_path} names {agents} agents.")
    addresses = _addresses(places, {member.name for member in roster.members})
    if series is not None:
        if open_for is not None:
            raise click.UsageError("--open is not for a series: its slots follow the clock.")
        if hides is None or every is None:
            raise click.UsageError("--series needs --hides (like step:2) and --every (like 15m).")
        timing: dict[str, Any] = {
            "interval": seconds(every, "--every"),
            "begins": begin_time(begins),
            "delta": delta,
        }
        made = _series(
            name, roster, question, slots=series, hides=hides, keepers=kept, days=days, anyway=anyway,
            **timing, **fields,
        )  # fmt: skip
        write_session(made, out, addresses=addresses, force=force)
        tell(explain_series(made), out, as_json)
        return
    refuse_series_options("hides", "every", "begins", "delta")
    expires = None if days is None else _expiry(days)
    if open_for is not None:
        fields["closes"] = closing_time(open_for, fields["quorum"])
        expires = expires or fields["closes"] + _WEEK
    moving = None
    if motion_file is not None:
        question, moving = _moving(motion_file, question, keep_motion)
    elif keep_motion:
        raise click.UsageError("--keep-motion is for --motion: give the file, too.")
    session = draft(
        name,
        roster,
        question,
        expires=expires,
        keepers=kept,
        anyway=anyway,
        motion=moving,
        **fields,
    )
    write_session(session, out, addresses=addresses, force=force)
    tell(explain(session, question.failure_probability or 0.05), out, as_json)


def _moving(name: str, question: Plan, kept: bool) -> tuple[Plan, MotionRequest]:
    """Return the plan of a file of agents with their own dynamics."""
    from dataclasses import replace

    from tacit.live.sessions.motion import read_motion_request

    odd = options.given("agents", "mixing", "noise", "decay", "parameters", "question", "radius", "keepers")
    if odd:
        raise click.UsageError(f"The file of --motion says how agents move: leave out {odd[0]}.")
    request = read_motion_request(name, kept=kept)
    found = {key: value for key, value in request.plan.items() if key not in ("agents", "delta")}
    given = {key: getattr(question, key) for key in ("rounds", "adjacency", "loss", "epsilon", "law")}
    found |= {key: value for key, value in given.items() if value is not None}
    if "epsilon" in found:
        found.pop("loss", None)
    return replace(question, **found), request


def _series(
    name: str,
    roster: Roster,
    question: Plan,
    *,
    hides: str,
    days: float | None,
    start: int | None = None,
    **given: Any,
) -> Session:
    """Make a series; refuse options that it cannot use."""
    from tacit.core.series import Hides
    from tacit.live.sessions.series import draft_series

    require_only(question)
    if start is not None:
        raise click.UsageError("--start is not for a series: it begins by the clock.")
    expires = None if days is None else _expiry(days)
    return draft_series(
        name, roster, hides=Hides.parse(hides), expires=expires, **asked_often(question), **given
    )


def _expiry(days: float) -> int:
    if not 0 < days <= _MOST_DAYS:
        raise click.UsageError(
            f"--days must be above 0 and at most {_MOST_DAYS:,}, got {days:g}: nobody could join the session."
        )
    return math.ceil(time.time() + days * 86_400)


def _addresses(places: tuple[str, ...], names: set[str]) -> dict[str, str]:
    found = {}
    for place in places:
        name, equals, address = place.partition("=")
        if not equals or name not in names | {"coordinator"}:
            raise click.UsageError(
                f"--address must be NAME=ENDPOINT with a name of the roster or coordinator, got {place!r}."
            )
        found[name] = address
    return found
