"""Cancellations: a coordinator signs that a session is over.

The file contains an Ed25519 signature over a fixed text and the session's id. It is not a frame of the
protocol, so it has no meaning in a transcript. It is in the coordinator's directory of keys, where
`tacit coordinate` looks for it, and can be given to agents that are not connected.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tacit.base.errors import FileError, InputError
from tacit.base.files import private_directory, read_public, write_whole
from tacit.base.report import Row, Shown, Summary
from tacit.core.protocol.signatures import is_signed

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session
    from tacit.live.identity.identity import Identity

FOLDER = "cancelled"
_SAYS = b"tacit session cancelled 1\0"
_TEXT = re.compile(
    rb"-----BEGIN TACIT CANCELLATION-----\s+([A-Za-z0-9+/=\s]{1,1000})-----END TACIT CANCELLATION-----\s*"
)


def _require_coordinator(session: Session, identity: Identity) -> None:
    """Refuse keys that are not those of the session's coordinator."""
    if session.coordinator is None:
        raise InputError(
            f"session {session.name} has no coordinator, so nobody can cancel it for all: each agent gives "
            "it up in its own ledger (`tacit ledger settle`)."
        )
    if session.coordinator != identity.public_key:
        raise InputError(
            f"the key of {identity.name} must be the coordinator's of session {session.name}, and is not: "
            "use the keys that `tacit coordinate` runs with."
        )


def cancel(session: Session, identity: Identity) -> bytes:
    """Cancel a session permanently; return the content of the signed file.

    The file is on the disk when this returns. A running coordinator with these keys sees it within seconds. A
    coordinator that is started later ends the session at once.
    """
    _require_coordinator(session, identity)
    signature = identity.sign(_SAYS + session.id)
    begin, end = b"-----BEGIN TACIT CANCELLATION-----\n", b"-----END TACIT CANCELLATION-----\n"
    data = begin + base64.encodebytes(signature) + end
    place = _place(session, identity)
    private_directory(place.parent)
    write_whole(place, data, force=True)
    return data


@final
@dataclass(frozen=True)
class Cancelled(Shown):
    """A session that was cancelled, and the file that proves it."""

    file: Path
    session: Session
    cancellation: Path

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {"file": self.file, "id": self.session.id.hex(), "cancellation": self.cancellation}

    def summary(self) -> Summary:
        """Return which session it is, and how agents get to know."""
        rows = [
            Row("name", self.session.name),
            Row("id", self.session.id.hex()[:16]),
            Row("cancellation", str(self.cancellation), "public; for agents that are not connected"),
        ]
        note = (
            "A running coordinator ends it within seconds. If none runs, start `tacit coordinate` to tell "
            "agents."
        )
        return Summary(f"{self.file} is cancelled", {"Session": rows}, (note,))


def is_cancelled(session: Session, identity: Identity) -> bool:
    """Whether these keys have cancelled the session."""
    return _place(session, identity).exists()


def require_cancelled(session: Session, path: Path) -> None:
    """Refuse a file in which the coordinator did not cancel this session."""
    found = _TEXT.fullmatch(read_public(path))
    try:
        signature = b"" if found is None else base64.b64decode(b"".join(found[1].split()), validate=True)
    except ValueError:
        signature = b""
    if not is_signed(session.coordinator or b"", _SAYS + session.id, signature):
        raise FileError(
            f"{path} must be the cancellation of session {session.name}, signed by its coordinator, and is "
            "not: ask the coordinator, or give the session up on your own word, without the file."
        )


def _place(session: Session, identity: Identity) -> Path:
    return identity.directory / FOLDER / session.id.hex()
