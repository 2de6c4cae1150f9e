"""An agent's private value and its final state, for its owner only.

The value comes from a file, standard input or the environment, never from the command line, which every
process of the machine can read. Errors do not repeat what was read. The final state goes to a file of mode
600, and only with --state-file: the value can be computed from the state and the public feedback.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tacit.base.errors import InputError
from tacit.base.report import jsonable

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session
    from tacit.core.question import Question
    from tacit.live.fleet.sources import ValueSource
    from tacit.live.runtime.agent_result import AgentResult
    from tacit.live.runtime.readings import Readable

F = TypeVar("F", bound=Callable[..., Any])
_MOST = 1 << 26


def value_options(command: F) -> F:
    """Add --value-file, --value-stdin, --value-env and --field."""
    for option in (
        click.option(
            "--field",
            "names",
            metavar="NAME",
            multiple=True,
            help="A field of a JSON object or a column of CSV that has the value; one for each field of a "
            "record.",
        ),
        click.option("--value-env", metavar="NAME", help="Variable that holds the private value."),
        click.option("--value-stdin", is_flag=True, help="Read the private value from standard input."),
        click.option(
            "--value-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File that holds the private value, mode 600: one number, or what the session asks "
            "for, like a label and a number.",
        ),
    ):
        command = option(command)
    return command


def read_value(
    file: Path | None, stdin: bool, env: str | None, question: Question, names: Sequence[str]
) -> Any:
    """Return the value; None without a source, as when an agent resumes."""
    from tacit.live.fleet.records import read_record
    from tacit.live.fleet.sources import open_value_file

    given = [source for source in (file, stdin or None, env) if source is not None]
    if len(given) > 1:
        raise InputError("the value must come from one place: --value-file, --value-stdin or --value-env.")
    if not given:
        return None
    if env is not None:
        if env not in os.environ:
            raise InputError(f"the environment has no variable {env}: set it, or use --value-file.")
        return read_record(os.environ.pop(env), question, names)
    with nullcontext(sys.stdin) if file is None else open_value_file(file) as source:
        return read_record(source.read(_MOST), question, names)


def chosen_source(
    command: str | None, file: Path | None, stdin: bool, env: str | None, named: Mapping[Question, Any]
) -> Readable:
    """Return the one source of readings, which is read in every slot."""
    source = _source_of(command, file, stdin, env)
    source.names = named
    return source


def _source_of(command: str | None, file: Path | None, stdin: bool, env: str | None) -> ValueSource:
    from tacit.live.fleet.sources import CommandSource, EnvironmentSource, FileSource, LinesSource

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


_MARK = "tacit_state"


def require_state_writable(path: Path) -> None:
    """Refuse a file that cannot be written, or that is not tacit's own."""
    if path.is_symlink() or (path.exists() and not _ours(path)):
        raise InputError(f"{path} exists and is not a state file of tacit: choose another file.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path.absolute().parent} must be a directory for --state-file, and is not.")


def write_state(path: Path, session: Session, result: AgentResult, *, over_before: bool = False) -> None:
    """Write an agent's last state, and whether its value was clamped."""
    from tacit.base.files import write_whole

    what: dict[str, Any] = {_MARK: 1, "agent": result.agent, "session": session.id.hex()}
    what |= {"value": result.value, "clamped": result.clamped, "finished": result.finished}
    what |= {"rounds": result.rounds, "over_before": over_before}
    write_whole(path, json.dumps(jsonable(what), indent=2).encode() + b"\n", force=True)


def read_state(path: Path) -> dict[str, Any]:
    """Read what `write_state` wrote."""
    from tacit.base.files import read_private

    found = json.loads(read_private(path))
    assert isinstance(found, dict)
    return found


def _ours(path: Path) -> bool:
    try:
        return _MARK in read_state(path)
    except (ValueError, AssertionError, InputError):
        return False
