"""All machines of a session in one process, with crashes at any point.

The harness is the smallest correct driver of the machines. Every driver must keep its order: handle, save,
then send. Between any two steps it asks whether to crash.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, final

from tests.doubles.clock import ManualClock
from tests.doubles.ledger import ListLedger, SaveFailed
from tests.doubles.network import Faults, FaultyNetwork
from tests.doubles.noise import ScriptedNoise
from tests.doubles.sessions import as_told, known_ephemeral, known_key

from tacit.base.errors import StateError, TacitError
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import (
    Event,
    Heard,
    Joined,
    Left,
    NoiseReady,
    ReadingReady,
    Send,
    Start,
    Step,
    Tick,
)
from tacit.core.protocol.keeper import KeeperMachine
from tacit.core.protocol.machine import Machine
from tacit.core.protocol.moving import Moving
from tacit.core.protocol.notices import Notice
from tacit.core.protocol.peer import PeerMachine
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import Erasing, Keyed, Record
from tacit.core.protocol.roster import COORDINATOR
from tacit.core.protocol.session import Session
from tacit.core.protocol.tables import AgentPhase, CoordinatorPhase, KeeperPhase, PeerPhase

FINISHED = {AgentPhase.FINISHED, CoordinatorPhase.FINISHED, PeerPhase.FINISHED, KeeperPhase.FINISHED}
MADE = FINISHED | {CoordinatorPhase.SERVING, PeerPhase.SERVING, KeeperPhase.SERVING}
"""Phases in which all rounds are made."""


class Point(Enum):
    """Where a node can crash: after hearing, handling, saving, or sending."""

    HEARD = "heard"
    HANDLED = "handled"
    SAVED = "saved"
    SENT = "sent"


class Crashed(TacitError):
    """A node was told to crash here."""


@final
class Harness:
    """All nodes of a session in one place.

    Parameters
    ----------
    session : Session
        With known keys (`known_session`).
    values : sequence
        One private value per agent. In a series a function of the slot, which returns the reading or None.
    noise : ScriptedNoise
        What is drawn.
    budgets : Budget or mapping by agent
        Unlimited by default.
    faults, seed
        What the network does.
    crash : callable
        Asked at every point, with the node's number and the point; True crashes it there.
    liveliness : bool
        Whether nodes are told who joins and leaves.
    observe : callable
        Called with the node's number and the step after every event.
    motion : Moving
        How every agent moves, if the session leaves that to its agents.

    Attributes
    ----------
    machines : dict
        By number, `COORDINATOR` included; None while a node is down.
    ledgers, notices : dict
        What each node saved, and what it told its owner, across all restarts.
    ephemeral : dict
        Private keys of agents and keepers on their disks; removed when the protocol requires it.
    """

    def __init__(
        self,
        session: Session,
        values: Sequence[Any],
        noise: ScriptedNoise,
        *,
        budgets: Budget | Mapping[int, Budget] | None = None,
        faults: Faults | None = None,
        seed: int = 0,
        crash: Callable[[int, Point], bool] = lambda _number, _point: False,
        liveliness: bool = True,
        observe: Callable[[int, Step], None] = lambda _number, _step: None,
        motion: Moving | None = None,
    ) -> None:
        self.motion = motion
        self.session, self.values, self.noise = session, values, noise
        self.clock = ManualClock()
        self.network = FaultyNetwork(self.clock, faults, seed=seed)
        self.crash, self.liveliness, self.observe = crash, liveliness, observe
        self._budgets = budgets if budgets is not None else Budget(math.inf)
        server = () if session.coordinator is None else (COORDINATOR,)
        self.numbers: tuple[int, ...] = (*server, *range(session.n), *session.keeper_numbers)
        self.machines: dict[int, Machine | None] = dict.fromkeys(self.numbers)
        self.ledgers = {number: ListLedger() for number in self.numbers}
        self.notices: dict[int, list[Notice]] = {number: [] for number in self.numbers}
        self.ephemeral: dict[int, bytes] = {}
        self._salts = 0

    # ---- nodes --------------------------------------------------------------------------------------

    def budget(self, number: int) -> Budget:
        """Return what an agent's owner allows."""
        return self._budgets if isinstance(self._budgets, Budget) else self._budgets[number]

    def start(self, *numbers: int) -> None:
        """Start the given nodes, or all.

        A node whose ledger has records resumes from it.
        """
        for number in numbers or self.numbers:
            self.machines[number] = self._made(number)
            self._tell_others(number, Joined(number))
            self.process(number, Start())

    def _made(self, number: int) -> Machine:
        session = as_told(self.session, number)
        sign, records = known_key(number).sign, self.ledgers[number].records()
        if number == COORDINATOR:
            return CoordinatorMachine.resume(session, records, sign=sign)
        if session.keepers:
            return self._made_with_keepers(number, records)
        kind = AgentMachine if session.edges is None else PeerMachine
        given: dict[str, Any] = {"sign": sign, "budget": self.budget(number), "motion": self.motion}
        if records:
            return kind.resume(session, number, records, **given)
        return kind(session, number, self.values[number], **given)

    def _made_with_keepers(self, number: int, records: tuple[Record, ...]) -> Machine:
        session, sign = as_told(self.session, number), known_key(number).sign
        if any(isinstance(record, Erasing) for record in records):
            self.ephemeral.pop(number, None)
        elif not any(isinstance(record, Keyed) for record in records):
            self.ephemeral[number] = known_ephemeral(number)
        private = self.ephemeral.get(number)
        if number in session.keeper_numbers:
            return KeeperMachine.resume(session, number, records, sign=sign, private=private)
        budget, value = self.budget(number), self.values[number] if session.series is None else None
        if records:
            return AgentMachine.resume(session, number, records, sign=sign, budget=budget, private=private)
        return AgentMachine(session, number, value, sign=sign, budget=budget, private=private)

    def stop(self, number: int) -> None:
        """Kill a node: only its ledger is left."""
        if self.machines[number] is not None:
            self.machines[number] = None
            self._tell_others(number, Left(number))

    def _tell_others(self, number: int, event: Joined | Left) -> None:
        if not self.liveliness:
            return
        for other in self.session.neighbours(number):
            if self.machines[other] is not None and self.network.reaches(number, other):
                self.process(other, event)
                if isinstance(event, Joined) and self.machines[number] is not None:
                    self.process(number, Joined(other))

    def machine(self, number: int) -> Machine:
        """Return a running machine."""
        machine = self.machines[number]
        if machine is None:
            raise StateError(f"node {number} is down.")
        return machine

    def private_machine(self, number: int) -> AgentMachine | PeerMachine:
        """Return a running agent or peer."""
        machine = self.machine(number)
        assert isinstance(machine, AgentMachine | PeerMachine)
        return machine

    # ---- what drives them -----------------------------------------------------------------------------

    def process(self, number: int, event: Event) -> None:
        """Let a node handle an event, save, then send.

        It may crash on the way.
        """
        try:
            self._process(number, event)
            machine = self.machines[number]
            while (u := getattr(machine, "wants_noise", None)) is not None:
                self._process(number, NoiseReady(u, self._draw(number, u)))
            if isinstance(machine, AgentMachine) and (slot := machine.wants_reading) is not None:
                self._process(number, ReadingReady(slot, self.values[number](slot), self._salt(number, slot)))
        except (Crashed, SaveFailed):
            self.stop(number)

    def _draw(self, number: int, u: int) -> Any:
        """Return the noise of an agent or keeper, or the salt of a masked message."""
        if not self.session.keepers:
            return self.noise.draw(number, u)
        if number < self.session.n:
            return self._salt(number, u)
        return self.noise.draw(number % self.session.n, u)

    def _salt(self, number: int, slot: int) -> bytes:
        """Return a new salt at every call, the same ones in every run."""
        self._salts += 1
        return hashlib.sha256(f"tacit salt {number} {slot} {self._salts}".encode()).digest()

    def _process(self, number: int, event: Event) -> None:
        machine = self.machines[number]
        if machine is None:
            return
        self._pass(number, Point.HEARD)
        step = machine.handle(event)
        self.observe(number, step)
        self._pass(number, Point.HANDLED)
        self.ledgers[number].save(step.records)
        self._pass(number, Point.SAVED)
        if any(isinstance(record, Erasing) for record in step.records):
            self.ephemeral.pop(number, None)
        for message in step.messages:
            self._send(number, message)
            self._pass(number, Point.SENT)
        self.notices[number] += step.notices

    def _pass(self, number: int, point: Point) -> None:
        if self.crash(number, point):
            raise Crashed(f"node {number} crashed: {point.value}")

    def _send(self, number: int, message: Send) -> None:
        to = self.session.neighbours(number) if message.to is None else (message.to,)
        for other in to:
            self.network.send(number, other, message.frame)

    def deliver(self, index: int) -> None:
        """Deliver one packet in transit now."""
        packet = self.network.take(index)
        self.process(packet.to, Heard(packet.frame, packet.source))

    def tick(self, seconds: float = 0.0) -> None:
        """Advance the clock and tick every machine."""
        self.clock.advance(seconds)
        for number in self.numbers:
            self.process(number, Tick(self.clock.now, self.clock.now))

    def run(self, until: Callable[[Harness], bool] | None = None, *, most: int = 200_000) -> bool:
        """Deliver and tick until all rounds are made, or `until` returns True.

        Returns False if that never happens.
        """
        done = until or Harness.made
        for _ in range(most):
            if done(self):
                return True
            packet = self.network.next()
            if packet is not None:
                self.process(packet.to, Heard(packet.frame, packet.source))
            elif not self._wait():
                return done(self)
        return False

    def _wait(self) -> bool:
        """Advance to the next packet or deadline; False if there is none."""
        wakes = {n: m.wake for n, m in self.machines.items() if m is not None and m.wake is not None}
        times = [*wakes.values(), *([] if self.network.next_at is None else [self.network.next_at])]
        if not times:
            return False
        self.clock.advance_to(min(times))
        for number, wake in wakes.items():
            if wake <= self.clock.now:
                self.process(number, Tick(self.clock.now, self.clock.now))
        return True

    # ---- results -------------------------------------------------------------------------------------

    def made(self) -> bool:
        """Whether every node runs and has made all rounds."""
        return all(m is not None and m.phase in MADE for m in self.machines.values())

    def finished(self) -> bool:
        """Whether every node runs and has finished."""
        return all(m is not None and m.phase in FINISHED for m in self.machines.values())
