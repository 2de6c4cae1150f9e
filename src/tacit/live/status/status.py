"""The status of a running member: what its notices add up to.

Pass `Status.notice` to a node as its `watch`, and the status itself as one of its `takers`. It keeps only
public data and counts: the feedback, never a state, a value or a draw. `tacit.live.status.server` serves
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, final

from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import COORDINATOR, Feedback, Message
from tacit.core.protocol.notices import Counts, Notice
from tacit.core.protocol.records import Closed, Moved, Record
from tacit.core.protocol.session import Session
from tacit.core.protocol.standing import MOST_SHOWN, AnswerPart, Standing
from tacit.live.status.document import StatusDocument, StatusPages

if TYPE_CHECKING:
    from tacit.live.transport.base import Network


@final
class Status(StatusPages):
    """Keeps the status of one member up to date.

    Parameters
    ----------
    session : Session
    who : int
        The agent's number, or `COORDINATOR`.
    clock : callable
        Seconds since 1970.
    """

    def __init__(
        self, session: Session, who: int = COORDINATOR, clock: Callable[[], float] = time.time
    ) -> None:
        self._session, self._codec, self._clock, self._who = session, Codec(session), clock, who
        self._network: Callable[[], Network] | None = None
        self._counts: Counts = {}
        self.standing = begun(session)
        """How the session stands, as far as this member knows."""
        self._updated = clock()

    def watch_network(self, network: Callable[[], Network]) -> None:
        """Show the member's connections; each request calls `network`."""
        self._network = network

    def document(self) -> StatusDocument:
        """Return the status, with the connections as they are now."""
        now = StatusDocument(
            kind="member",
            name=self._session.member_name(self._who),
            role=role_of(self._session, self._who),
            state=self.standing.phase,
            ready=True,
            trouble=self.standing.trouble,
            updated=self._updated,
            sessions=[self.standing],
            counts=self._counts,
        )
        if self._network is not None:
            self._add_network(now, self._network())
        if (why := self._why_not(now)) is not None:
            now.ready, now.trouble = False, why
        return now

    def _add_network(self, now: StatusDocument, network: Network) -> None:
        names, session = self._session.member_name, self._session
        now.connected = {names(i): role_of(session, i) for i in network.connected}
        now.heard, now.trouble = network.heard, network.trouble or now.trouble
        if network.expires is not None:
            now.certificate_expires = network.expires.timestamp()
            if self._clock() >= now.certificate_expires:
                when = f"{network.expires:%Y-%m-%d %H:%M} UTC"
                now.trouble = f"the certificate expired on {when}: have it signed again (tacit keys sign)"
        # A coordinator without connections is not disconnected: agents connect to it.
        alone = ("running",) if self._who == COORDINATOR else ("waiting", "running")
        if not network.connected and now.state in alone:
            now.state = "disconnected"

    def _why_not(self, now: StatusDocument) -> str | None:
        """Return why the member cannot do its work now, or None if it can."""
        if now.certificate_expires is not None and self._clock() >= now.certificate_expires:
            return now.trouble
        if self.standing.lost_history:
            return "this ledger is not the newest: it was restored from a backup"
        reasons = {
            "disconnected": f"no connection: {now.trouble}" if now.trouble else "no connection",
            "stopped": now.trouble or "the session was stopped",
            "refused": "the cap does not allow this session",
        }
        return reasons.get(now.state)

    def update(self, **fields: Any) -> None:
        """Set fields of the standing."""
        for name, value in fields.items():
            setattr(self.standing, name, value)
        self._updated = self._clock()

    def notice(self, notice: Notice) -> None:
        """Take a notice of the machine."""
        notice.add_to(self._counts)
        notice.show(self.standing, self._session)
        self._updated = self._clock()

    def take(self, records: Iterable[Record]) -> None:
        """Take the feedback from saved records, and nothing else of them."""
        if self._session.series is not None:
            return  # records have sums; the means of a series come with notices
        for record in records:
            match record:
                case Closed():
                    self._feedback(record.frame)
                case Moved() if self._session.topology == "server" and record.heard:
                    self._feedback(record.heard[0])
                case Moved():  # public: the mean of messages that neighbours have received
                    self._show(self._codec.unpack(record.y), self._session.n)
                case _:
                    pass

    def _feedback(self, frame: bytes) -> None:
        message = self._codec.open(frame)
        if isinstance(message, Message) and isinstance(message.body, Feedback):
            self._show(message.numbers, message.body.count)

    def _show(self, numbers: tuple[int, ...], used: int) -> None:
        session = self._session
        if session.asked is not None:
            mean = [float(session.lattice.value(number)) for number in numbers]
            parts = session.asked.decode(mean, used).parts[:MOST_SHOWN]
            self.update(answer=[AnswerPart(part.name, part.estimate) for part in parts])
            return
        values = [session.lattice.value(number) for number in numbers[:MOST_SHOWN]]
        self.update(feedback=[session.clamp(value) for value in values])


def begun(session: Session) -> Standing:
    """Return how a session stands before anything has happened."""
    series = session.series is not None
    return Standing(
        name=session.name, id=session.id.hex(), series=series, agents=session.n, rounds=session.rounds
    )


def role_of(session: Session, who: int) -> str:
    """Return coordinator, agent, keeper or peer."""
    if who == COORDINATOR:
        return "coordinator"
    if who >= session.n:
        return "keeper"
    return "agent" if session.topology == "server" else "peer"
