"""`tacit session`: write, explain or cancel a session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.cli import failures, options, output
from tacit.cli.late import LateGroup

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session
    from tacit.live.sessions.check import Explanation
    from tacit.live.sessions.series import SeriesExplanation

EPILOG = """\b
Examples:
  tacit session new --roster certificates --loss 1 --range 0:50 --mixing 0.8 --out session.toml
  tacit session new --roster certificates --graph ring:20 --epsilon 0.1 --range 0:10 --true-average
  tacit session check session.toml
  tacit session cancel session.toml --keys keys/coordinator
"""

CANCEL_EPILOG = """\b
Example:
  tacit session cancel session.toml --keys keys/coordinator --out session.cancelled
"""

CHECK_EPILOG = """\b
Example:
  tacit session check session.toml --json
"""
LATE = {"new": "Write a session file with the best noise for a promise."}


@click.group(
    "session",
    cls=LateGroup,
    late=LATE,
    modules="session_",
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
def command() -> None:
    """Write a session file for a promise, or explain or cancel one.

    A session file is public, and the same for all agents and the coordinator: a file that differs in
    one number is another session. Every command takes --json.
    """


@command.command(epilog=CHECK_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@options.failure_option
@options.json_option
@click.pass_context
def check(ctx: click.Context, *, file: Path, failure_probability: float, as_json: bool) -> None:
    """Show what a session promises and costs, and whether it is sound.

    The exit code is 2 if the file cannot be used, or the session is not sound.
    """
    from tacit.live.sessions.check import explain
    from tacit.live.sessions.file import read_session
    from tacit.live.sessions.series import explain_series

    session = read_session(file)
    found: Explanation | SeriesExplanation
    found = explain(session, failure_probability) if session.series is None else explain_series(session)
    tell(found, file, as_json)
    if not found.sound:
        ctx.exit(failures.UNUSABLE)


@command.command(epilog=CANCEL_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--keys",
    "home",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The coordinator's directory of keys.",
)
@click.option(
    "--out",
    type=options.OUT_FILE,
    help="File to write for agents that are not connected.  [default: FILE with the suffix .cancelled]",
)
@options.json_option
def cancel(*, file: Path, home: Path, out: Path | None, as_json: bool) -> None:
    """Cancel a session permanently, for everyone.

    Only its coordinator can. Agents are told when they are connected to it; owners of others can use the
    file written here, with `tacit ledger settle --cancellation`. Messages that were not sent cost an
    agent nothing.
    """
    from tacit.base.files import PUBLIC, write_whole
    from tacit.live.identity.identity import Identity
    from tacit.live.sessions.cancellation import Cancelled
    from tacit.live.sessions.cancellation import cancel as sign_off
    from tacit.live.sessions.file import read_session

    session, path = read_session(file), file.with_suffix(".cancelled") if out is None else out
    # Before it is signed: once it is, the session is over, whether the file can be written or not.
    output.require_writable(path, force=True)
    if path.exists():
        _require_own_cancellation(session, path)
    write_whole(path, sign_off(session, Identity.load(home)), mode=PUBLIC, force=True)
    output.print_result(Cancelled(file, session, path), as_json)


def _require_own_cancellation(session: Session, path: Path) -> None:
    """Refuse to overwrite a file, unless an earlier call wrote it."""
    from tacit.base.errors import FileError
    from tacit.live.sessions.cancellation import require_cancelled

    try:
        require_cancelled(session, path)
    except FileError:
        raise FileError(
            f"{path} exists already and is not a cancellation of {session.name}: choose another --out."
        ) from None


def tell(found: Explanation | SeriesExplanation, path: Path, as_json: bool) -> None:
    """Print what a session promises and costs."""
    if as_json:
        output.print_json({"file": path, **found.as_dict()})
        return
    output.print_summary(found.summary(f"{path}: "))
