"""The log: records of sessions by position, durable before they are sent.

A machine is made from the records of its session, and says with every append how many it was made from. So
of two machines of one session, whoever runs them, only one can continue: what the other wants to add is
refused, and it sends nothing.

Agents and keepers have a `Ledger`: a log in a file of their own, with the purse of what was spent. The
coordinator of a hub has no purse, and its log can be in a database.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from tacit.base.errors import InputError, LedgerError
from tacit.core.protocol.records import (
    Began,
    Closed,
    Disclosed,
    Ended,
    Erasing,
    Evidence,
    Keyed,
    Moved,
    Opened,
    Record,
    Reported,
    Sampled,
    Shut,
    Silenced,
    Spoke,
    Unopened,
)

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session

Row: TypeAlias = tuple[bytes, str, int, float | None, bytes]
"""Session, kind, number, loss, data."""

PLACES: dict[type[Record], tuple[str, str]] = {
    Began: ("began", ""),
    Spoke: ("spoke", "update"),
    Moved: ("moved", "update"),
    Silenced: ("silenced", ""),
    Opened: ("opened", ""),
    Closed: ("closed", "round"),
    Evidence: ("evidence", ""),
    Ended: ("ended", ""),
    Keyed: ("keyed", "member"),
    Erasing: ("erasing", ""),
    Disclosed: ("disclosed", "update"),
    Reported: ("reported", "agent"),
    Shut: ("shut", "round"),
    Unopened: ("unopened", "round"),
    Sampled: ("sampled", "slot"),
}
"""The kind of a record, and which of its fields is the number of its row; without one it is 0."""
MANY = ("evidence", "capped")
"""Kinds with any number of rows; they are numbered by their position."""
EVERYONE = bytes(32)
"""Replaces the session's id in rows that are about a value and no session."""


class Log(ABC):
    """Records of sessions; any thread may call.

    After a failed append nothing more is written: discard the machine, and open the log again.
    """

    @abstractmethod
    def append(
        self, session: bytes, records: Sequence[Record], *, after: int | None = None, flush: bool = True
    ) -> None:
        """Save records, all or none; they are on the disk when this returns.

        Parameters
        ----------
        after : int, optional
            How many records of the session the machine knows: those that it was made from, and its own since
            then. If there are others, nothing is saved.
        flush : bool
            Without it a log in a file is on the disk only after `flush_together`. Do not send before that.
        """

    @abstractmethod
    def records(self, session: bytes) -> list[Record]:
        """Return the records of a session in their order, for `resume`."""

    @abstractmethod
    def require_room(self, session: Session) -> None:
        """Refuse a log of an older version that cannot hold such a session."""

    @abstractmethod
    def close(self) -> None:
        """Release what the log holds."""


def require_id(session: bytes) -> None:
    """Refuse what cannot be the id of a session."""
    if len(session) != 32 or session == EVERYONE:
        raise InputError("a session's id must be 32 bytes.")


def another_session() -> InputError:
    """Return what to raise for a record that names another session."""
    return InputError("a record must be of the session it is saved for, and this one is of another.")


def not_continued(where: str) -> LedgerError:
    """Return what to raise if a session has other records than its machine."""
    return LedgerError(
        f"{where} has other records of the session than the machine that wants to continue it, so nothing is "
        "saved or sent: read them, and resume the session from there."
    )
