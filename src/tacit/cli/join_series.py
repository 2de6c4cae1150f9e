"""`tacit join` for a series: read a source in every slot."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import output, running
from tacit.errors import InputError
from tacit.report import near, up

if TYPE_CHECKING:
    from tacit.protocol.notices import Notice
    from tacit.protocol.session import Session
    from tacit.runtime.ledger.budget import Hidden
    from tacit.runtime.series import Readable, SeriesResult


def take_part_in_series(
    session: Session,
    *,
    connect: tuple[str, ...],
    trust: dict[str, bytes],
    keys: Path,
    hides: str | None,
    delta: float | None,
    value_command: str | None,
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
    **given: Any,
) -> None:
    """Run an agent of a series to its end."""
    from tacit.protocol.notices import MeanPublished
    from tacit.runtime.identity.identity import Identity
    from tacit.runtime.participant import number_of
    from tacit.runtime.series import SeriesMember

    if state_file is not None:
        raise click.UsageError("--state-file is not for a series: an agent of a series has no final state.")
    common, identity = running.Options.taken(given), Identity.load(keys)
    if common.pace:
        raise click.UsageError("--pace is not for a series: its slots follow the clock.")
    source = _source(value_command, value_file, value_stdin, value_env)
    accepts = accepted(hides, delta)
    number = number_of(session, identity)
    with running.prepared(session, number, common, identity.sign) as run:

        def watch(notice: Notice) -> None:
            run.watch(notice)
            if isinstance(notice, MeanPublished) and not as_json:
                click.echo(_line(notice, session))

        def unread(count: int, why: str) -> None:
            if count & (count - 1) == 0:  # a source may fail in every slot
                run.trouble(f"{why} (times: {count})")

        member = SeriesMember(
            session,
            source,
            accepts=accepts,
            unread=unread,
            ledger=common.ledger,
            identity=identity,
            cap=cap,
            adjacency=adjacency,
            label=label,
            trust=trust,
            new_ledger=new_ledger,
            witness=witness,
            connect=connect,
            takers=run.takers,
            watch=watch,
            trouble=run.trouble,
        )
        result: SeriesResult = run.drive(member)
    output.print_result(result, as_json)
    if not result.finished:
        running.leave(f"The series ended early, after {result.slots} slots.", running.UNFINISHED)


def _line(notice: Any, session: Session) -> str:
    """Return one line for the mean of a slot, clamped to the range."""
    if notice.mean is None:
        return f"slot {notice.slot}: lost"
    from tacit.theory.advice import absences

    mean, missing = (
        near(session.clamp(notice.mean)),
        absences(notice.count, session.n, notice.incomplete_before),
    )
    who = missing or f"all {session.n} agents"
    return f"slot {notice.slot}: mean {mean}, noise {up(notice.deviation)}, {who}"


def accepted(hides: str | None, delta: float | None) -> Hidden | None:
    """Return what an owner accepts of series; None without the options."""
    from tacit.runtime.ledger.budget import Hidden
    from tacit.theory.series import Hides

    if (hides is None) != (delta is None):
        raise click.UsageError("Give --hides and --delta together: both say what you accept of a series.")
    return None if hides is None or delta is None else Hidden(Hides.parse(hides), delta)


def _source(command: str | None, file: Path | None, stdin: bool, env: str | None) -> Readable:
    """Return the one source of readings, which is read in every slot."""
    from tacit.runtime.fleet.sources import CommandSource, EnvironmentSource, FileSource, LinesSource

    given = [source for source in (command, file, stdin or None, env) if source is not None]
    if len(given) != 1:
        raise InputError(
            "a series needs one source of readings: --value-file, --value-command, --value-stdin (the last "
            "line so far) or --value-env."
        )
    if command is not None:
        words = shlex.split(command)
        if not words:
            raise InputError("--value-command must name a command.")
        return CommandSource(words)
    if file is not None:
        return FileSource(file)
    return LinesSource() if stdin else EnvironmentSource(str(env))
