"""An agent's private value and its final state, for its owner only.

The value comes from a file or a pipe, never from the command line, which every process of the machine can
read. Errors do not repeat what was read. The final state goes to a file of mode
600, and only with --state-file: the value can be computed from the state and the public feedback.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
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
    """Add --value-file and --field."""
    for option in (
        click.option(
            "--field",
            "names",
            metavar="NAME",
            multiple=True,
            help="A field of a JSON object or a column of CSV that has the value; one for each field of a "
            "record.",
        ),
        click.option(
            "--value-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File that holds the private value, mode 600: one number, or what the session asks "
            "for, like a label and a number. /dev/stdin is standard input.",
        ),
    ):
        command = option(command)
    return command


def read_value(file: Path | None, question: Question, names: Sequence[str]) -> Any:
    """Return the value; None without a file, as when an agent resumes."""
    from tacit.live.fleet.records import read_record
    from tacit.live.fleet.sources import open_value_file

    if file is None:
        return None
    with open_value_file(file) as source:
        return read_record(source.read(_MOST), question, names)


def chosen_source(command: str | None, file: Path | None, named: Mapping[Question, Any]) -> Readable:
    """Return the one source of readings, which is read in every slot."""
    from tacit.live.fleet.sources import CommandSource, FileSource

    if (command is None) == (file is None):
        raise InputError("a series needs one source of readings: --value-file or --value-command.")
    words = [] if command is None else shlex.split(command)
    if command is not None and not words:
        raise InputError("--value-command must name a command.")
    source: ValueSource = CommandSource(words) if file is None else FileSource(file)
    source.names = named
    return source


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
