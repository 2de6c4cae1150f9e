"""An agent's final state, for its owner: a file of mode 600, written only with --state-file.

The value can be computed from the state and the public feedback, so neither standard output nor a log has it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError
from tacit.report import jsonable

if TYPE_CHECKING:
    from tacit.protocol.session import Session
    from tacit.runtime.agent import AgentResult

_MARK = "tacit_state"


def require_writable(path: Path) -> None:
    """Refuse a file that cannot be written, or that tacit did not write, before connecting."""
    if path.is_symlink() or (path.exists() and not _ours(path)):
        raise InputError(f"{path} exists and is not a state file of tacit: choose another file.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path.absolute().parent} must be a directory for --state-file, and is not.")


def write(path: Path, session: Session, result: AgentResult, *, over_before: bool = False) -> None:
    """Write an agent's last state, and whether its value was clamped."""
    from tacit.files import write_whole

    what: dict[str, Any] = {_MARK: 1, "agent": result.agent, "session": session.id.hex()}
    what |= {"value": result.value, "clamped": result.clamped, "finished": result.finished}
    what |= {"rounds": result.rounds, "over_before": over_before}
    write_whole(path, json.dumps(jsonable(what), indent=2).encode() + b"\n", force=True)


def read(path: Path) -> dict[str, Any]:
    """Read what `write` wrote."""
    from tacit.files import read_private

    found = json.loads(read_private(path))
    assert isinstance(found, dict)
    return found


def _ours(path: Path) -> bool:
    try:
        return _MARK in read(path)
    except (ValueError, AssertionError, InputError):
        return False
