"""Positions of ledgers, stored with the keys, so that no old ledger is used.

An agent's directory of keys holds

    ledgers/    one mark for each ledger: its position when these keys last sent a message from it
    sessions/   the ledger that these keys use in each session, and when the session expires; after a
                compaction also the horizon: no session that expires by then can be begun

The ledger's own mark is in the same directory, so a restored backup usually brings both. The keys are kept
elsewhere, so their mark stays current. It is on the disk before a message is sent (`store`), so a ledger that
lacks a sent message is always refused. This cannot detect keys, ledger and mark that are all restored from
the same time, or a copied machine. A witness detects that, too: it is one more mark, on another file system
or host.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import LedgerError, SessionOver
from tacit.files import private_directory, read_private, sync_directory, write_whole
from tacit.runtime.ledger.rollback_guard import told

if TYPE_CHECKING:
    from tacit.runtime.ledger.ledger import Ledger

LEDGERS, SESSIONS, HORIZON = "ledgers", "sessions", ".horizon"
NEW_LEDGER = "forget what was spent"
"""With these words an owner starts a new ledger for keys that were used with another one."""


def require_bindable(keys: Path, session: bytes, ledger: bytes, expires: int) -> None:
    """Refuse a ledger if these keys use another one in this session, or may have done so."""
    bound = _bound(keys, session)
    if bound is None and expires <= _horizon(keys):
        raise SessionOver(
            "this session expired before these keys dropped what they knew of expired sessions, so they may "
            "have spoken in it: ask for a new session."
        )
    if bound is not None and bound[0] not in (b"", ledger.hex().encode()):
        raise LedgerError(
            "these keys have begun this session with another ledger: use that one. If it is lost, so is "
            "the session for this key: what was said would be forgotten, and an agent's noise drawn again "
            "for it would give the value away."
        )


def bind(keys: Path, session: bytes, ledger: bytes, expires: int) -> None:
    """Bind these keys to one ledger in a session, for ever; durable when this returns."""
    require_bindable(keys, session, ledger, expires)
    _kept_directory(keys / SESSIONS)
    bound = _bound(keys, session)
    if bound is None or not bound[0]:  # empty: the power failed before it was written
        lines = f"{ledger.hex()}\n{expires}\n".encode()
        write_whole(keys / SESSIONS / session.hex(), lines, force=bound is not None)


def compact(keys: Path, ledger: Ledger, now: float, busy: Collection[bytes] = ()) -> int:
    """Drop finished, expired sessions from ledger and keys; return how many.

    The horizon is stored with the keys, on the disk, before anything is dropped. From then on these keys
    cannot begin any of these sessions again, with this ledger or another. Sessions in `busy` are kept.
    """
    if _mark(keys, ledger.identity).exists():  # a mark that is left behind could not be compared any more
        ledger.guard(_mark(keys, ledger.identity), _KEYS, create=False)
    bound = {session: expiry for session, whose, expiry in _bindings(keys) if whose == ledger.identity}
    over = {s: e for s, e in ledger.droppable(now, bound).items() if s not in busy}
    if not over:
        return 0
    horizon = max(*over.values(), _horizon(keys))
    _kept_directory(keys / SESSIONS)
    write_whole(keys / SESSIONS / HORIZON, f"{horizon}\n".encode(), force=True)
    ledger.compact(over, horizon, now)
    for session in over:
        (keys / SESSIONS / session.hex()).unlink(missing_ok=True)
    return len(over)


def _bound(keys: Path, session: bytes) -> list[bytes] | None:
    """Return the ledger that these keys use in a session, and when the session expires."""
    path = keys / SESSIONS / session.hex()
    return read_private(path).split(b"\n") if path.exists() else None


def _horizon(keys: Path) -> int:
    """Return the horizon: sessions that expire by then may have been dropped; 0 if none were."""
    path = keys / SESSIONS / HORIZON
    return int(read_private(path)) if path.exists() else 0


def _bindings(keys: Path) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield each session with its ledger and expiry; skip those of versions without an expiry."""
    folder = keys / SESSIONS
    for path in folder.iterdir() if folder.exists() else ():
        if not path.name.startswith("."):
            whose, expiry, *_ = [*read_private(path).split(b"\n"), b"", b""]
            if whose and expiry.isdigit():
                yield bytes.fromhex(path.name), bytes.fromhex(whose.decode("ascii")), int(expiry)


def require_known(keys: Path, path: Path, words: str | None) -> None:
    """Refuse to create a ledger at `path` for keys that were used with another one."""
    if not path.exists():
        _require_words(keys, path, words)


def require_trusted(keys: Path, ledger: Ledger, words: str | None) -> None:
    """Refuse a ledger that lacks messages of these keys, or that they do not know."""
    if _mark(keys, ledger.identity).exists():
        ledger.guard(_mark(keys, ledger.identity), _KEYS, create=False)
    elif ledger.identity not in _from_sessions(keys):  # else bound, but interrupted before its mark was made
        _require_words(keys, ledger.path, words)


def take(keys: Path, ledger: Ledger) -> None:
    """Store the ledger's position with these keys, from now on."""
    _kept_directory(keys / LEDGERS)
    ledger.guard(_mark(keys, ledger.identity), _KEYS, create=True)


def take_witness(ledger: Ledger, path: Path, *, create: bool = False) -> None:
    """Store the ledger's position at `path`, too; refuse a ledger that is older than the witness."""
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
    files = (read_private(path) for path in folder.iterdir() if not path.name.startswith("."))
    return {bytes.fromhex(text.split(b"\n")[0].decode("ascii")) for text in files if text}


def _kept_directory(path: Path) -> None:
    """Make a private directory, and flush its parent so that it survives a power cut."""
    if not path.exists():
        private_directory(path)
        sync_directory(path.parent)
    private_directory(path)
