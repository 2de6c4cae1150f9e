"""An agent of a server, or a peer on a graph, inside your own program.

::

    mine = {"ledger": "me.ledger", "identity": "keys/me", "connect": "wss://host:7447", "cap": 1.0}
    async with Agent(session, 21.5, **mine) as me:
        async for notice in me:
            ...
        print((await me.result()).feedback)

A process that holds a private value must leave no core file, and no other process of its user may read its
memory. So making an `Agent` or a `Peer` marks the whole process as not dumpable (`limits.leave_no_core`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tacit.errors import CapExceeded, Disputed, InputError, MissingExtra, SessionOver, installing
from tacit.protocol import exact_loss
from tacit.protocol.agent import AgentMachine
from tacit.protocol.notices import Notice
from tacit.protocol.peer import PeerMachine
from tacit.protocol.private_state import Budget, MixingState
from tacit.protocol.records import Ended
from tacit.report import Row, Shown, Summary, near, up
from tacit.runtime.clock import Clock, SystemClock
from tacit.runtime.identity.identity import Identity
from tacit.runtime.ledger import key_guard
from tacit.runtime.ledger.group_commit import Taker
from tacit.runtime.ledger.ledger import Ledger
from tacit.runtime.limits import leave_no_core
from tacit.runtime.node import Node
from tacit.runtime.noise import noise_ahead
from tacit.runtime.participant import Ends, Participant, loaded, number_of
from tacit.runtime.session.trust import require_trusted_keeper
from tacit.runtime.transport.base import Transport

if TYPE_CHECKING:
    from tacit.protocol.records import Record
    from tacit.protocol.session import Session
    from tacit.runtime.ledger.budget import Reservation

__all__ = ["Agent", "AgentResult", "Peer"]


@final
@dataclass(frozen=True)
class AgentResult(Shown):
    """The result of a session for one agent.

    Tables and `as_dict` have only its public part.

    Attributes
    ----------
    value : float or array
        The agent's final state. Private: together with the public feedback it reveals the agent's value.
    clamped : bool
        Whether the agent's value was outside the range and was clamped to it. Private.
    feedback : float, array or None
        The last feedback, clamped to the range. Public: with a server all agents receive the same one.
    finished : bool
        Whether all rounds were completed.
    loss : float
        The loss of this session, for the session's adjacency, rounded up.
    spent, cap : float
        The loss of all sessions on the value, including what they may still spend, and the owner's cap.
    """

    agent: str
    value: Any = field(repr=False)
    clamped: bool = field(repr=False)
    feedback: Any
    finished: bool
    rounds: int
    loss: float
    spent: float
    cap: float
    refused: dict[str, int]
    session: Session = field(repr=False)

    @property
    def radius(self) -> float | None:
        """The radius that the session promised.

        It is None if a package to compute it is not installed.
        """
        try:
            return self.session.promise().theory.radius
        except MissingExtra:
            return None

    def as_dict(self) -> dict[str, Any]:
        """Return the public part for programs.

        The private part is left out because standard output often ends up in a log.
        """
        private = ("value", "clamped", "session")
        public = {name: fact for name, fact in vars(self).items() if name not in private}
        return public | {"radius": self.radius}

    def summary(self) -> Summary:
        """Return the public part for people."""
        heard = "none"
        if self.feedback is not None:
            k = self.session.components
            heard = f"{self.feedback:.6g}" if k == 1 else f"{k:,} numbers"
        radius = self.radius
        if radius is None:
            promised = Row("radius", "not known", f"on a graph this needs an extra; {installing('theory')}")
        else:
            meaning = "promised if all took part in every round; tacit verify shows who did"
            promised = Row("radius", up(radius), meaning)
        public = "the last, clamped to the range; public (--state-file for your own state)"
        rows = [
            Row("feedback", heard, public),
            promised,
            Row("rounds", str(self.rounds), "all" if self.finished else "ended early"),
            Row("loss", up(self.loss), "of this session, for its adjacency"),
            Row("spent", up(self.spent), f"on this value in all sessions; the cap is {near(self.cap)}"),
        ]
        return Summary(f"{self.agent}: result", {"Result": rows})


class PrivateMember(Participant):
    """Base of members with a value: identity, ledger, cap, trusted keepers."""

    _topology: str

    def __init__(
        self,
        session: Session,
        value: Any,
        *,
        ledger: Ledger | Path | str,
        identity: Identity | Path | str,
        cap: float | None,
        adjacency: float | None = None,
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
        watch: Callable[[Notice], None] | None = None,
        trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(session, ledger, takers, watch)
        if session.topology != self._topology:
            verb = "tacit peer" if session.topology == "graph" else "tacit join"
            raise InputError(f"session {session.name} runs with a {session.topology}: {verb} is for it.")
        self._require_kind()
        leave_no_core()  # the value is in this process from here on
        self.identity = loaded(identity)
        self.number = number_of(session, self.identity)
        require_trusted_keeper(session, trust or {})
        self.name = session.member_name(self.number)
        self._value, self._cap, self._label = value, cap, label
        self._adjacency = adjacency
        self._new_ledger, self._witness = new_ledger, None if witness is None else Path(witness)
        self._clock, self._pace = clock or SystemClock(), pace
        self._transport = transport or self._websockets(listen, connect, trouble)

    @abstractmethod
    def _require_kind(self) -> None:
        """Refuse a session that is for another kind of member."""

    @property
    @abstractmethod
    def _disputed(self) -> int | None:
        """The round whose feedback names a message that was not sent, or None."""

    @property
    def planned(self) -> float:
        """The largest possible loss of the whole session, for its adjacency."""
        return exact_loss.up(self.session.planned(self.number))

    def _ledger_path(self, path: Path) -> Path:
        key_guard.require_known(self.identity.directory, path, self._new_ledger)
        return path

    def _set_aside(self, ledger: Ledger) -> Reservation:
        """Reserve the session's loss, or refuse if it would exceed the cap.

        This is before the network is opened. The checks come first: the balance of a ledger that was restored
        from a backup lacks losses. After a crash the next start finds the reservation: a second call of
        `reserve` for the same session changes nothing.
        """
        session, keys = self.session, self.identity.directory
        now = self._clock.wall()
        key_guard.require_usable(
            keys, ledger, session.id, session.expires, now, words=self._new_ledger, witness=self._witness
        )
        reservation = ledger.reserve(
            session.id,
            self._label,
            planned=self.planned,
            adjacency=session.adjacency,
            expires=session.expires,
            now=now,
            cap=self._cap,
            cap_adjacency=self._adjacency,
            **self._meaning(),
        )
        key_guard.take(keys, ledger)
        key_guard.bind(keys, session.id, ledger, session.expires)
        return reservation

    def _meaning(self) -> dict[str, Any]:
        """Return how `Ledger.reserve` counts the session: with its whole range."""
        return {"diameter": self.session.diameter}

    def _require_open(self, ledger: Ledger, records: Sequence[Record]) -> None:
        """Refuse a session that this agent must not begin or resume.

        A session that was begun and has expired since then is not refused here: the machine ends it and
        records that.
        """
        session, over = self.session, any(isinstance(record, Ended) for record in records)
        if not over and ledger.given_up(session.id):
            raise SessionOver(
                f"{self.name} has given up session {session.name}, or it had expired: its loss is settled "
                "and nothing more is sent in it. Ask for a new session."
            )
        if not records and self._clock.wall() >= session.expires:
            raise InputError(
                f"session {session.name} expired on {session.expiry}, by the clock of this machine: ask for "
                "a new session, or set the clock if it is wrong."
            )

    def _require_undisputed(self) -> None:
        """Raise if signed feedback has a message that this agent did not send."""
        if (t := self._disputed) is not None:
            raise Disputed(
                f"the coordinator's feedback of round {t} names a message of {self.name} that is not in its "
                "ledger. The coordinator may lie. Or another process uses the same key, or an old ledger was "
                "put back: then noise drawn again would reveal the value. So nothing more is sent in this "
                "session. The signed feedback is kept as evidence in the ledger and the transcript: ask the "
                "coordinator for the message, which it can show only if this key has signed it."
            )


class _Owned(PrivateMember):
    """Base of agents and peers: one private value, and noise."""

    machine: AgentMachine | PeerMachine
    _machine: type[AgentMachine] | type[PeerMachine]

    def _require_kind(self) -> None:
        if self.session.series is not None:
            raise InputError(
                f"session {self.session.name} is a series, which reads a value in every slot: use "
                "`SeriesMember`, or `tacit join` with a source of values."
            )

    @property
    def _disputed(self) -> int | None:
        return self.machine.disputed if isinstance(self.machine, AgentMachine) else None

    def _made(self, ledger: Ledger) -> Node:
        session, records = self.session, ledger.records(self.session.id)
        self._require_open(ledger, records)
        if not records:  # a value that the session cannot use is refused before any loss is reserved for it
            if self._value is None:
                raise InputError(
                    f"{self.name} has not begun this session yet: it needs its value. Give it "
                    "(--value-file, --value-stdin or --value-env)."
                )
            session.lattice.start(self._value)
        reservation = self._set_aside(ledger)
        budget, sign = reservation.budget, self.identity.sign
        self._over_before = any(isinstance(record, Ended) for record in records)
        if session.keepers:
            self.machine = self._masked(ledger, records, budget)
        elif records:
            self.machine = self._machine.resume(session, self.number, records, sign=sign, budget=budget)
        else:
            self.machine = self._machine(session, self.number, self._value, sign=sign, budget=budget)
        self._value = None  # only the machine keeps the state from here on
        self._tell_takers(records)
        self._require_undisputed()
        noise = None if session.keepers else noise_ahead(session, self.number)  # keepers draw
        return self._driven(self.machine, ledger, noise=noise, pace=self._pace)

    def _masked(self, ledger: Ledger, records: Sequence[Record], budget: Budget) -> AgentMachine:
        """Return the machine for a session with keepers, with its ephemeral key."""
        session, sign = self.session, self.identity.sign
        private = ledger.ephemeral_key(session.id, self.number, session.expires)
        kind = AgentMachine
        if records:
            return kind.resume(session, self.number, records, sign=sign, budget=budget, private=private)
        return kind(session, self.number, self._value, sign=sign, budget=budget, private=private)

    def _shown(self, numbers: tuple[int, ...]) -> Any:
        """Return public whole numbers as one number, or one per component."""
        session = self.session
        found = session.clamp([float(session.lattice.value(v)) for v in numbers])
        return float(found[0]) if session.components == 1 else found

    async def result(self) -> AgentResult:
        """Wait for the end and return the result, or raise what stopped it.

        If the session was over before this member was started, it raises `SessionOver` with the old result.
        That result is not about the value that was given now.
        """
        await self.ended()
        self._require_undisputed()
        if self._over_before:
            raise SessionOver(
                f"session {self.session.name} was over for {self.name} before, after "
                f"{self.machine.private.update} of {self.session.rounds} rounds: nothing was computed now, "
                "and a value that was given now was not used. Ask for a new session.",
                self._result(),
            )
        return self._result()

    def _result(self) -> AgentResult:
        phase = self.machine.phase.value
        if phase == "declined":
            raise CapExceeded("the whole session would exceed the owner's cap: nothing was sent.")
        assert self._ledger is not None
        private, balance = self.machine.private, self._ledger.balance(self._label)
        assert isinstance(private, MixingState)
        return AgentResult(
            agent=self.name,
            value=private.value(),
            clamped=private.clamped,
            feedback=None if private.feedback is None else self._shown(private.feedback),
            finished=phase == "finished",
            rounds=private.update,
            loss=private.spent_here,
            spent=balance.spent,
            cap=balance.cap,
            refused={reason.name.lower(): count for reason, count in self.refused.items()},
            session=self.session,
        )


@final
class Agent(_Owned):
    """One agent of the client-server mechanism.

    Parameters
    ----------
    session : Session
        The session that all members agreed on.
    value : number or vector
        θ(0), private. Not needed to resume.
    ledger : Ledger or path
        Stores the agent's messages and losses; one per agent, never restored from a backup.
    identity : Identity or path
        Its keys.
    cap : float
        The largest loss on this value, over all sessions together. None if the ledger has it already.
    adjacency : float, optional
        The cap is for values that differ by at most this. If neither this nor the ledger gives one, the cap
        is for any two values, and a session counts with its loss over its whole range.
    label : str
        The owner's name for the value in the ledger.
    trust : mapping of str to bytes, optional
        Names of keepers that the owner trusts, with their public keys; needed if the session has keepers.
    new_ledger : str, optional
        "forget what was spent": with these words the owner allows keys that were used with one ledger to
        start another one, which has the whole cap again.
    witness : path, optional
        A file on another file system or host that also stores the ledger's position; see
        `tacit ledger witness`. It is read before joining, and flushed to disk before each message is sent.
    connect : str or sequence of str
        The coordinator's endpoint.
    watch : callable, optional
        Called with every notice; after each round it is `Updated`.
    trouble : callable, optional
        Called with the reason while there is no connection.
    """

    _machine, _topology = AgentMachine, "server"


@final
class Peer(_Owned):
    """One agent of the distributed mechanism. Parameters as for `Agent`.

    `listen` is its own endpoint, `connect` are endpoints of neighbours. One end of each edge connects to the
    other.
    """

    _machine, _topology = PeerMachine, "graph"
