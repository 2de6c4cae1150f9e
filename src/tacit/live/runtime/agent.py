"""An agent of a server, series or graph, inside your own program.

::

    mine = {"ledger": "me.ledger", "identity": "keys/me", "connect": "wss://host:7447", "cap": 1.0}
    async with Agent(session, 21.5, **mine) as me:
        async for notice in me:
            ...
        print((await me.result()).feedback)

A process that holds a private value must leave no core file, and no other process of its user may read its
memory. So making an `Agent` marks the whole process as not dumpable (`limits.leave_no_core`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

from tacit.base.errors import Disputed, InputError, SessionOver
from tacit.core.protocol import exact_loss
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.moving import Moving, own_arithmetic
from tacit.core.protocol.notices import Notice
from tacit.core.protocol.peer import PeerMachine
from tacit.core.protocol.records import Ended
from tacit.core.question import Missing
from tacit.live.identity.identity import Identity
from tacit.live.ledger import key_guard
from tacit.live.ledger.budget import Hidden, Window
from tacit.live.ledger.group_commit import Taker
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime.agent_kind import chosen_kind
from tacit.live.runtime.agent_result import AgentResult, SeriesResult
from tacit.live.runtime.clock import Clock
from tacit.live.runtime.participant import Ends, Participant, number_of
from tacit.live.runtime.readings import Readable
from tacit.live.sessions.trust import require_trusted_keeper
from tacit.live.transport.base import Transport

if TYPE_CHECKING:
    from tacit.core.protocol.records import Record
    from tacit.core.protocol.session import Session
    from tacit.live.ledger.budget import Reservation


def set_aside(
    ledger: Ledger,
    session: Session,
    number: int,
    *,
    label: str,
    cap: float | None,
    adjacency: float | None,
    accepts: Hidden | None,
    now: float,
    windows: Sequence[Window] = (),
) -> Reservation:
    """Reserve the whole loss of a session, or refuse if it exceeds the cap.

    A session counts with its whole range. A series counts once, if the owner accepts what it hides. A second
    call for the same session reserves nothing more.
    """
    hidden = chosen_kind(session).hidden
    return ledger.reserve(
        session.id,
        label,
        planned=exact_loss.up(session.planned(number)),
        adjacency=session.adjacency,
        diameter=session.diameter if hidden is None else session.adjacency,
        expires=session.expires,
        now=now,
        cap=cap,
        cap_adjacency=adjacency,
        windows=windows,
        hidden=hidden,
        accepts=None if hidden is None else accepts,
    )


@final
class Agent(Participant):
    """One agent: with a coordinator, or among neighbours on a graph.

    Parameters are those of `Participant`, and these.

    Parameters
    ----------
    value : record or Readable
        The private record that the session asks about: a number, or what its question takes. For
        `Missing.MISSING` the question's stand-in counts. Not needed to resume. In a series, where readings
        come from: it is read in every slot, and only the ledger stores what it gave. If the series hides a
        reading or a window, a reading that was there in an earlier slot counts as none.
    cap : float
        The largest loss on this value, over all sessions together. None if the ledger has it already.
    adjacency : float, optional
        The cap is for values that differ by at most this. If neither this nor the ledger gives one, the cap
        is for any two values, and a session counts with its loss over its whole range.
    accepts : Hidden, optional
        For a series: which change the owner wants hidden, and the failure probability that the owner accepts,
        for all series on this value. None if the ledger knows.
    label : str
        The owner's name for the value in the ledger.
    trust : mapping of str to bytes, optional
        Names of keepers that the owner trusts, with their public keys; needed if the session has keepers.
    new_ledger : str, optional
        "forget what was spent": with these words the owner allows keys that were used with one ledger to
        start another one, which has the whole cap again.
    listen, connect : str or sequence of str
        The coordinator's endpoint. On a graph `listen` is its own endpoint, and `connect` are endpoints of
        neighbours; one end of each edge connects to the other.
    motion : Moving, optional
        A, B and C of this agent, if the session leaves them to its agents. Not needed to resume: the ledger
        has them.
    unread : callable, optional
        For a series: called with how often the source gave no reading, and why and what follows this time;
        never with what it gave.
    """

    machine: AgentMachine | PeerMachine
    _secretive = True  # the value is in this process

    def __init__(
        self,
        session: Session,
        value: Any,
        *,
        ledger: Ledger | Path | str,
        identity: Identity | Path | str,
        cap: float | None,
        adjacency: float | None = None,
        accepts: Hidden | None = None,
        label: str = "value",
        trust: Mapping[str, bytes] | None = None,
        new_ledger: str | None = None,
        witness: Path | str | None = None,
        connect: Ends = (),
        listen: Ends = (),
        takers: Sequence[Taker] = (),
        transport: Transport | None = None,
        clock: Clock | None = None,
        pace: float = 0.0,
        motion: Moving | None = None,
        watch: Callable[[Notice], None] | None = None,
        trouble: Callable[[str], None] = lambda _: None,
        unread: Callable[[int, str], None] = lambda *_: None,
    ) -> None:
        self._kind = chosen_kind(session)
        if isinstance(value, Readable) != self._kind.reads:
            raise InputError(self._kind.other.format(session.name))
        super().__init__(
            session,
            ledger=ledger,
            identity=identity,
            witness=witness,
            connect=connect,
            listen=listen,
            takers=takers,
            transport=transport,
            clock=clock,
            pace=pace,
            watch=watch,
            trouble=trouble,
        )
        require_trusted_keeper(session, trust or {})
        self._value, self._unread, self._label = value, unread, label
        self._cap, self._adjacency, self._accepts = cap, adjacency, accepts
        self._new_ledger, self._motion = new_ledger, motion

    @staticmethod
    def _number_in(session: Session, identity: Identity) -> int:
        return number_of(session, identity)

    @property
    def planned(self) -> float:
        """The largest possible loss of the whole session, for its adjacency."""
        return exact_loss.up(self.session.planned(self.number))

    @property
    def rests(self) -> bool:
        """Whether it may leave now, and come back for the result."""
        return isinstance(self.machine, AgentMachine) and self.machine.rests

    # ---- before anything is sent ----------------------------------------------------------------------

    def _ledger_path(self, path: Path) -> Path:
        key_guard.require_known(self.identity.directory, path, self._new_ledger)
        return path

    def _machine(self, ledger: Ledger, records: Sequence[Record]) -> Any:
        session = self.session
        self._over_before = any(isinstance(record, Ended) for record in records)
        self._require_open(ledger, records)
        if not records and not self._kind.reads:
            # A value that the session cannot use is refused before any loss is reserved for it.
            if self._value is None:
                raise InputError(
                    f"{self.name} has not begun this session yet: it needs its value. Give it (--value-file)."
                )
            if not isinstance(self._value, Missing):
                session.question.encode(self._value)
            if session.series is None:
                own_arithmetic(session, self.number, self._motion)  # refuses a motion that does not fit
        made: dict[str, Any] = {"sign": self.identity.sign, "budget": self._set_aside(ledger).budget}
        if self._motion is not None:
            made["motion"] = self._motion
        if session.keepers:
            made["private"] = ledger.ephemeral_key(session.id, self.number, session.expires)
        kind: Any = PeerMachine if session.topology == "graph" else AgentMachine
        if self._kind.reads:
            self._kind.read_from(self._value, records, self._unread)
            self._value = None  # its machine has no value
        if records:
            machine = kind.resume(session, self.number, records, **made)
        else:
            machine = kind(session, self.number, self._value, **made)
        self._value = None  # only the machine keeps the state from here on
        return machine

    def _require_open(self, ledger: Ledger, records: Sequence[Record]) -> None:
        """Refuse a session that this agent must not begin or resume.

        A session that was begun and has expired since then is not refused here: the machine ends it and
        records that.
        """
        session = self.session
        if not self._over_before and ledger.given_up(session.id):
            raise SessionOver(
                f"{self.name} has given up session {session.name}, or it had expired: its loss is settled "
                "and nothing more is sent in it. Ask for a new session."
            )
        if not records and self._clock.wall() >= session.expires:
            raise InputError(
                f"session {session.name} expired on {session.expiry}, by the clock of this machine: ask for "
                "a new session, or set the clock if it is wrong."
            )

    def _set_aside(self, ledger: Ledger) -> Reservation:
        """Reserve the session's loss, or refuse if it would exceed the cap.

        This is before the network is opened. The checks come first: the balance of a ledger that was restored
        from a backup lacks losses. After a crash the next start finds the reservation.
        """
        self._require_usable(ledger, self._new_ledger)
        reservation = set_aside(
            ledger,
            self.session,
            self.number,
            label=self._label,
            cap=self._cap,
            adjacency=self._adjacency,
            accepts=self._accepts,
            now=self._clock.wall(),
        )
        self._bind(ledger)
        return reservation

    def _sources(self) -> dict[str, Any]:
        self._require_undisputed()  # the takers have the evidence by now
        return self._kind.sources(self.number)

    def _require_undisputed(self) -> None:
        """Raise if signed feedback has a message that this agent did not send."""
        if (t := getattr(self.machine, "disputed", None)) is not None:
            raise Disputed(
                f"the coordinator's feedback of round {t} has a message of {self.name} that is not in its "
                "ledger. The coordinator may lie. Or another process uses the same key, or an old ledger was "
                "put back: then noise drawn again would reveal the value. So nothing more is sent in this "
                "session. The signed feedback is kept as evidence in the ledger and the transcript: ask the "
                "coordinator for the message, which it can show only if this key has signed it."
            )

    # ---- the end --------------------------------------------------------------------------------------

    async def result(self) -> AgentResult | SeriesResult:
        """Wait for the end and return the result, or raise what stopped it.

        If the session was over before this member was started, it raises `SessionOver` with the old result.
        That result is not about the value that was given now.
        """
        await self.ended()
        self._require_undisputed()
        assert self._ledger is not None
        balance = cast(Ledger, self._ledger).balance(self._label)
        facts = {"agent": self.name, "spent": balance.spent, "cap": balance.cap}
        result = self._kind.result(self.machine, **facts, refused=self._refusals())
        if self._over_before:
            raise SessionOver(self._kind.over(self.name, self.machine.update), result)
        return result
