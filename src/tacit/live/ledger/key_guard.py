"""Positions of ledgers, stored with the keys, to refuse an old ledger.

An agent's directory of keys holds

    ledgers/    one mark for each ledger: its position when these keys last sent a message from it
    sessions/   the ledger that these keys use in each session, and when the session expires; after a
                compaction also the horizon: no session that expires by then can be begun

The ledger's own mark is in the same directory, so a restored backup usually brings both. The keys are kept
elsewhere, so their mark stays current. It is on the disk before a message is sent (`store`), so a ledger that
lacks a sent message is always refused. This cannot detect keys, ledger and mark that are all restored from
the same time, or a copied machine. A witness detects that, too: it is one more mark, on another file system
or host. A hub keeps marks of the members that follow it (`tacit.live.fleet.marks`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.base.errors import LedgerError, SessionOver
from tacit.base.files import private_directory, read_private, sync_directory, write_whole
from tacit.live.ledger.rollback_guard import told

if TYPE_CHECKING:
    from tacit.live.ledger.ledger import Ledger

LEDGERS, SESSIONS, HORIZON = "ledgers", "sessions", ".horizon"
NEW_LEDGER = "forget what was spent"
"""With these words an owner starts a new ledger for keys that were used with another one."""


def require_usable(
    keys: Path,
    ledger: Ledger,
    session: bytes,
    expires: int,
    now: float,
    *,
    words: str | None,
    witness: Path | None,
) -> None:
    """Refuse a ledger that these keys must not use in a session.

    Call it at every start of an agent or keeper, before anything is reserved or recorded. Other sessions of
    the ledger that have expired are settled, so that their keys are erased.
    """
    require_bindable(keys, session, ledger, expires)
    require_trusted(keys, ledger, words)
    if witness is not None:
        take_witness(ledger, witness)
    ledger.settle_expired(now, but=session)


def require_bindable(keys: Path, session: bytes, ledger: Ledger, expires: int) -> None:
    """Refuse a ledger if these keys use, or may have used, another one.

    The mark beside a ledger cannot detect this: a second, new ledger has a valid mark of its own. In it the
    session would look new, and the agent would draw new noise for messages that it has sent.
    """
    bound = _bound(keys, session)
    # Up to the horizon a session that the ledger does not have is new, or its records were dropped by
    # `compact`. These two cannot be told apart, so both are refused. Its binding says nothing: `compact` may
    # have been cut off before it was removed. The clock says nothing either: it can be set back.
    if expires <= max(_horizon(keys), ledger.horizon) and not ledger.has(session):
        raise SessionOver(
            "this session expired before these keys dropped their records of expired sessions, so they may "
            "have been used in it: ask for a new session."
        )
    if bound is not None and bound[0] not in (b"", ledger.identity.hex().encode()):
        raise LedgerError(
            "these keys have begun this session with another ledger: use that one. If it is lost, this key "
            "cannot take part in the session any more: the agent would draw new noise for messages that it "
            "has sent, and both together would give the value away."
        )


def bind(keys: Path, session: bytes, ledger: Ledger, expires: int) -> None:
    """Bind these keys to one ledger in a session, durably and for ever.

    Call it before the first message of the session is sent. A crash before that leaves a binding to a ledger
    that said nothing in this session: the owner uses the same ledger, or asks for a new session.
    """
    require_bindable(keys, session, ledger, expires)
    _kept_directory(keys / SESSIONS)
    bound = _bound(keys, session)
    if bound is None or not bound[0]:  # empty: the power failed before it was written
        lines = f"{ledger.identity.hex()}\n{expires}\n".encode()
        write_whole(keys / SESSIONS / session.hex(), lines, force=bound is not None)


def compact(keys: Path, ledger: Ledger, now: float, busy: Collection[bytes] = ()) -> int:
    """Drop finished, expired sessions from ledger and keys; return how many.

    The horizon is stored with the keys, on the disk, before anything is dropped. From then on these keys
    cannot begin any of these sessions again, with this ledger or another. Sessions in `busy` are kept.
    """
    # A compaction moves only the marks that are open. One that is left behind could not be compared with the
    # ledger any more, and these keys would refuse it from then on.
    if _mark(keys, ledger.identity).exists():
        ledger.guard(_mark(keys, ledger.identity), _KEYS, create=False)
    bound = {session: expiry for session, whose, expiry in _bindings(keys) if whose == ledger.identity}
    over = {s: e for s, e in ledger.droppable(now, bound).items() if s not in busy}
    if not over:
        return 0
    horizon = max(*over.values(), _horizon(keys))
    _kept_directory(keys / SESSIONS)
    # The horizon must be on the disk before a binding is removed: without either, an agent could begin the
    # session again with another ledger. With this ledger it cannot, because the horizon is stored together
    # with the dropped rows (`Ledger.reserve` checks it). The bindings go last: if a crash comes before the
    # rows are dropped, the next call reads from them when the sessions of keepers and coordinators expired.
    write_whole(keys / SESSIONS / HORIZON, f"{horizon}\n".encode(), force=True)
    ledger.compact(over, horizon, now)
    for session in over:
        (keys / SESSIONS / session.hex()).unlink(missing_ok=True)
    return len(over)


def _bound(keys: Path, session: bytes) -> list[bytes] | None:
    """Return the ledger that these keys use in a session, and its expiry."""
    path = keys / SESSIONS / session.hex()
    return read_private(path).split(b"\n") if path.exists() else None


def _horizon(keys: Path) -> int:
    """Return the latest expiry of a dropped session; 0 if there is none."""
    path = keys / SESSIONS / HORIZON
    return int(read_private(path)) if path.exists() else 0


def _bindings(keys: Path) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield each session with its ledger and expiry.

    Skip the files of older versions, which have no expiry.
    """
    folder = keys / SESSIONS
    for path in folder.iterdir() if folder.exists() else ():
        if not path.name.startswith("."):
            whose, expiry, *_ = [*read_private(path).split(b"\n"), b"", b""]
            if whose and expiry.isdigit():
                yield bytes.fromhex(path.name), bytes.fromhex(whose.decode("ascii")), int(expiry)


def require_known(keys: Path, path: Path, words: str | None) -> None:
    """Refuse to create a ledger for keys that were used with another one.

    A mistyped path would otherwise make an empty ledger, and the owner's cap would start again from zero.
    """
    if not path.exists():
        _require_words(keys, path, words)


def require_trusted(keys: Path, ledger: Ledger, words: str | None) -> None:
    """Refuse a ledger that lacks messages of these keys, or is unknown."""
    if _mark(keys, ledger.identity).exists():
        ledger.guard(_mark(keys, ledger.identity), _KEYS, create=False)
    # A ledger can be bound and have no mark here, like that of a coordinator, which has no private value.
    elif ledger.identity not in _from_sessions(keys):
        _require_words(keys, ledger.path, words)


def take(keys: Path, ledger: Ledger) -> None:
    """Store the ledger's position with these keys, from now on.

    Call it before the network is opened, so that every message that these keys send is counted here.
    """
    _kept_directory(keys / LEDGERS)
    ledger.guard(_mark(keys, ledger.identity), _KEYS, create=True)


def take_witness(ledger: Ledger, path: Path, *, create: bool = False) -> None:
    """Store the ledger's position at `path`, too.

    Refuse a ledger that is older than the witness. A witness is created only on request: if its disk is not
    mounted, a new empty one would detect nothing.
    """
    if create and path.exists():
        raise LedgerError(f"{path} exists already: a witness is a new file. Choose another name.")
    if not create and not path.exists():
        raise LedgerError(
            f"there is no witness at {path}: check that its disk is mounted. To make a new one for this "
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
        raise LedgerError(f'a new ledger needs exactly these words: --new-ledger "{NEW_LEDGER}".')
    names = sorted({name for g in known if (name := told(_mark(keys, g))) is not None})
    raise LedgerError(
        f"these keys were used with another ledger than {path}"
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
    """Make a private directory that survives a power cut.

    The files in it are flushed by their writers, but a lost directory would take them with it.
    """
    if not path.exists():
        private_directory(path)
        sync_directory(path.parent)
    private_directory(path)
