"""What `join`, `keep` and `coordinate` share: running a member."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from tacit.cli import output, running

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session
    from tacit.live.identity.identity import Identity


@final
@dataclass(frozen=True)
class Seat:
    """A session and the keys to take part with; each file is read once.

    A verb makes its member inside `prepared`, runs it, and shows what came of it::

        seat = Seat.taken(given)
        with seat.prepared(number) as run:
            result = run.drive(Keeper(seat.session, connect=seat.ends(connect), **run.about))
        seat.show(result, "The session ended early.")
    """

    session: Session
    addresses: Mapping[str, str]
    identity: Identity
    options: running.Options
    as_json: bool

    @classmethod
    def taken(cls, given: dict[str, Any]) -> Seat:
        """Take the common options out of a command's options, and read the files."""
        from tacit.live.identity.identity import Identity
        from tacit.live.sessions.file import read_with_addresses

        path, keys, as_json = given.pop("session_file"), given.pop("keys"), given.pop("as_json")
        options = running.Options.taken(given)
        return cls(*read_with_addresses(path), Identity.load(keys), options, as_json)

    def ends(self, given: tuple[str, ...], who: str = "coordinator") -> tuple[str, ...]:
        """Return the endpoints as given, or the session's address of a member."""
        return given or tuple(self.addresses[name] for name in (who,) if name in self.addresses)

    def prepared(self, number: int) -> AbstractContextManager[running.Run]:
        """Open the log, transcript and status of a member: see `running.prepared`."""
        return running.prepared(self.session, number, self.options, self.identity)

    def show(self, result: Any, early: str) -> None:
        """Print a result; say `early` and exit with 5 if it did not finish."""
        output.print_result(result, self.as_json)
        if not result.finished:
            running.leave(early, running.UNFINISHED)
