"""`tacit verify`: check a session from its public transcripts."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.base.files import whole_file
from tacit.cli import options, output

EXIT_CODES = {"sound": 0, "unsound": 1, "unchecked": 7}
"""Exit code of each verdict."""

EPILOG = """\b
Examples:
  tacit verify transcript.jsonl --session session.toml
  tacit verify coordinator.jsonl agent-*.jsonl --json
  tacit verify peer-*.jsonl --merge session.jsonl
"""


@click.command(epilog=EPILOG)
@click.argument(
    "transcripts", nargs=-1, required=True, metavar="TRANSCRIPT...", type=click.Path(path_type=Path)
)
@click.option(
    "--session",
    "session_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The agreed session file. Without it, compare the session's id yourself.",
)
@click.option(
    "--running", is_flag=True, help="The session is still running: accept that its last rounds are missing."
)
@options.failure_option
@click.option("--agent", metavar="NAME", help="Show the accuracy of this agent's own state.")
@click.option("--merge", type=options.OUT_FILE, help="Also write all transcripts as one file.")
@options.force_option
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    transcripts: tuple[Path, ...],
    session_file: Path | None,
    running: bool,
    failure_probability: float,
    agent: str | None,
    merge: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Check a session from its public transcripts.

    SOUND means that every mean was recomputed from signed messages, UNCHECKED that messages are missing:
    the coordinator's transcript has all, a single agent's does not. A transcript contains its own roster;
    --session checks that it is the agreed one. Exit codes: 0 sound, 1 something is wrong, 2 the input
    cannot be read, 7 unchecked.
    """
    from tacit.live.sessions.file import read_session
    from tacit.live.verification.verdict import verify

    if merge is not None:
        output.require_writable(merge, force)
    agreed = None if session_file is None else read_session(session_file)
    verdict = verify(
        transcripts, running=running, failure_probability=failure_probability, agent=agent, session=agreed
    )
    if merge is not None:
        _merge(transcripts, merge)
    output.print_result(verdict, as_json, file=merge)
    if merge is not None and not as_json:
        click.echo(f"Written: {merge}")
    ctx.exit(EXIT_CODES[verdict.word])


def _merge(transcripts: tuple[Path, ...], out: Path) -> None:
    from tacit.live.runtime.transcript import merge

    with whole_file(out) as part:
        merge(transcripts, part)
