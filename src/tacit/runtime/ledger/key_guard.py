"""What the keys know of the ledgers that they speak from, so that none is put back or forgotten.

An agent's directory of keys holds

    ledgers/    one mark for each ledger: how far it had come when these keys last spoke from it
    sessions/   from which ledger these keys speak in each session

The ledger's own mark stands beside it, so a backup that is put back usually brings both. The keys are kept
elsewhere and know better. Their mark is on the disk before a message leaves (`store`), so a ledger that lacks
a message which was sent is always refused. What this cannot see is keys, ledger and mark that are all put
back from the same time, or a machine that was copied. A witness is one more mark, on another file system or
host, for owners who want to see that too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import LedgerError
from tacit.files import private_directory, read_private, sync_directory, write_whole
from tacit.runtime.ledger.rollback_guard import told

if TYPE_CHECKING:
    from tacit.runtime.ledger.ledger import Ledger

LEDGERS, SESSIONS = "ledgers", "sessions"
NEW_LEDGER = "forget what was spent"
"""The words with which an owner starts a new ledger for keys that have spent from another."""


def require_bindable(keys: Path, session: bytes, ledger: bytes) -> None:
    """Refuse a ledger if these keys speak in this session from another one."""
    if _bound(keys, session) not in (None, b"", ledger.hex().encode() + b"\n"):
        raise LedgerError(
            "these keys have begun this session with another ledger: use that one. If it is lost, so is "
            "the session for this key: what was said would be forgotten, and an agent's noise drawn again "
            "for it would give the value away."
        )


def bind(keys: Path, session: bytes, ledger: bytes) -> None:
    """Let these keys speak in a session from one ledger only, ever; on the disk when this returns."""
    require_bindable(keys, session, ledger)
    _kept_directory(keys / SESSIONS)
    if not (known := _bound(keys, session)):  # empty: the power failed before it was on the disk
        line = ledger.hex().encode() + b"\n"
        write_whole(keys / SESSIONS / session.hex(), line, force=known is not None)


def _bound(keys: Path, session: bytes) -> bytes | None:
    path = keys / SESSIONS / session.hex()
    return read_private(path) if path.exists() else None


def require_known(keys: Path, path: Path, words: str | None) -> None:
    """Refuse to make a new ledger at `path` for keys that have spent from another one."""
    if not path.exists():
        _require_words(keys, path, words)


def require_trusted(keys: Path, ledger: Ledger, words: str | None) -> None:
    """Refuse a ledger that lacks what these keys have said from it, or that they do not know."""
    if _mark(keys, ledger.identity).exists():
        ledger.guard(_mark(keys, ledger.identity), _KEYS, create=False)
    elif ledger.identity not in _from_sessions(keys):  # bound, and cut off before its mark was made
        _require_words(keys, ledger.path, words)


def take(keys: Path, ledger: Ledger) -> None:
    """Keep with these keys how far the ledger comes, from now on."""
    _kept_directory(keys / LEDGERS)
    ledger.guard(_mark(keys, ledger.identity), _KEYS, create=True)


def take_witness(ledger: Ledger, path: Path, *, create: bool = False) -> None:
    """Keep at `path` how far the ledger comes; refuse a ledger that is older than the witness says."""
    if create and path.exists():
        raise LedgerError(f"{path} exists already: a witness is a new file. Choose another name.")
    if not create and not path.exists():
        raise LedgerError(
            f"there is no witness at {path}: see that its disk is mounted. To make a new one for this "
            "ledger, use `tacit ledger witness`."
        )
    ledger.guard(path, f"the witness {path}", create=create)


_KEYS = "the directory of keys"


def _mark(keys: Path, generation: bytes) -> Path:
    return keys / LEDGERS / generation.hex()


def _require_words(keys: Path, path: Path, words: str | None) -> None:
    known = _from_marks(keys) | _from_sessions(keys)
    if not known or words == NEW_LEDGER:
        return
    if words is not None:
        raise LedgerError(f'a new ledger needs these very words: --new-ledger "{NEW_LEDGER}".')
    names = sorted({name for g in known if (name := told(_mark(keys, g))) is not None})
    raise LedgerError(
        f"these keys have spoken from another ledger than {path}"
        f"{' (' + ', '.join(names) + ')' if names else ''}: check --ledger. A new one would start with the "
        f'whole cap. If that is what you want, add --new-ledger "{NEW_LEDGER}".'
    )


def _from_marks(keys: Path) -> set[bytes]:
    folder = keys / LEDGERS
    return {bytes.fromhex(path.name) for path in folder.iterdir()} if folder.exists() else set()


def _from_sessions(keys: Path) -> set[bytes]:
    folder = keys / SESSIONS
    if not folder.exists():
        return set()
    lines = (read_private(path) for path in folder.iterdir() if not path.name.startswith("."))
    return {bytes.fromhex(line.decode("ascii").strip()) for line in lines if line}


def _kept_directory(path: Path) -> None:
    """Make a private directory whose name survives a power cut."""
    if not path.exists():
        private_directory(path)
        sync_directory(path.parent)
    private_directory(path)
