"""Drop, duplicate, reorder, delay, crash, restart, cut, lie, in any order hypothesis can think of.

Always: one message per update, saved before it is sent, and no cap is exceeded.
And when the faults stop, everyone finishes.
"""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.doubles import Harness, known_feedback, known_key, known_session, moving_session
from tests.doubles.harness import FINISHED

from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import COORDINATOR, Ask, Feedback, Kind, Message
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import Spoke
from tacit.core.protocol.session import Deadlines
from tacit.core.protocol.tables import CoordinatorPhase

DEADLINES = Deadlines(round=5, start=10, repeat=1)


class Faulty(RuleBasedStateMachine):
    """A small session under attack. Subclasses say which."""

    session = known_session(3, 4, deadlines=DEADLINES)
    watched = None  # the fixture's maker of harnesses, set by the test

    @initialize(
        seed=st.integers(0, 5),
        liveliness=st.booleans(),
        capped=st.booleans(),
        started=st.booleans(),
        last=st.sampled_from(["stays", "loses", "leaves"]),
    )
    def begin(self, seed, liveliness, capped, started, last):
        self.last = last  # what the coordinator does once it has finished, if others can tell
        spent = self.session.account(0).spent
        middle = float(np.nextafter(spent[1], 1e9))
        budgets = {i: Budget(1e9) for i in range(self.session.n)}
        if capped:  # one agent may say two messages only
            budgets[0] = Budget(middle + 0.5, 0.5, partial=True)
        self.crash_in = {}
        self.harness = self.watched(
            self.session, seed=seed, liveliness=liveliness, budgets=budgets, crash=self.crash
        )
        self.harness.start(*(self.harness.numbers if started else self.harness.numbers[:2]))

    def crash(self, number, _point):
        left = self.crash_in.get(number)
        if left is None:
            return False
        self.crash_in[number] = left - 1
        if left == 0:
            del self.crash_in[number]
            return True
        return False

    def pick(self, data):
        return data.draw(st.integers(0, min(len(self.harness.network.flying), 12) - 1))

    flying = precondition(lambda self: self.harness.network.flying)

    @flying
    @rule(data=st.data(), times=st.integers(1, 6))
    def deliver(self, data, times):
        for _ in range(times):
            if self.harness.network.flying:
                self.harness.deliver(self.pick(data))

    @flying
    @rule(data=st.data())
    def drop(self, data):
        self.harness.network.take(self.pick(data))

    @flying
    @rule(data=st.data())
    def duplicate(self, data):
        self.harness.network.duplicate(self.pick(data))

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0, 20.0]))
    def tick(self, seconds):
        self.harness.tick(0.0)
        self.harness.tick(seconds)

    @rule(steps=st.integers(1, 40))
    def run(self, steps):
        self.harness.run(most=steps)

    @rule(data=st.data(), after=st.integers(0, 12))
    def crash_later(self, data, after):
        self.crash_in[data.draw(st.sampled_from(self.harness.numbers))] = after

    @rule(data=st.data())
    def kill(self, data):
        self.harness.stop(data.draw(st.sampled_from(self.harness.numbers)))

    @rule(data=st.data())
    def restart(self, data):
        number = data.draw(st.sampled_from(self.harness.numbers))
        self.harness.stop(number)
        self.harness.start(number)

    @rule(data=st.data())
    def cut(self, data):
        side = data.draw(st.sets(st.sampled_from(self.harness.numbers)))
        self.harness.network.partition(side, set(self.harness.numbers) - side)

    @rule()
    def mend(self):
        self.harness.network.heal()

    @rule(data=st.data())
    def lie(self, data):
        """Bytes of strangers, replays of anything ever said, and what honest nodes must refuse."""
        network = self.harness.network
        to = data.draw(st.sampled_from(self.harness.numbers))
        old = [frame for _, _, frame in network.tap]
        frames = [b"", bytes(200), *self.absurd(), *(old and [data.draw(st.sampled_from(old))])]
        network.inject(to, data.draw(st.sampled_from(frames)))

    def absurd(self):
        machine = next((m for m in self.harness.machines.values() if m is not None), None)
        if machine is None or self.session.coordinator is None:
            return []
        codec, sign = machine.codec, known_key(COORDINATOR).sign
        too_far = known_feedback(codec, 0, [self.session.lattice.limit + 1])
        return [
            codec.seal(COORDINATOR, body, sign) for body in (too_far, Ask(0), Ask(self.session.rounds - 1))
        ]

    @invariant()
    def nothing_is_ever_lost_twice(self):
        if hasattr(self, "harness"):
            self.harness.watch.check()

    def teardown(self):
        """Faults stop: nodes that are down come back, and all finish."""
        if not hasattr(self, "harness"):
            return
        harness = self.harness
        self.crash_in.clear()
        harness.network.heal()
        harness.start(*(n for n in harness.numbers if harness.machines[n] is None))
        if self.session.coordinator is not None:
            assert harness.run(self.coordinator_has_finished, most=20_000), harness.machines
            self.end()
        assert harness.run(Harness.finished, most=20_000), harness.machines
        harness.watch.check()
        for i in range(self.session.n):
            assert harness.private_machine(i).update == self.session.rounds
            assert sum(isinstance(r, Spoke) for r in harness.ledgers[i].records()) <= self.session.rounds
        said = Kind.MASKED if self.session.keepers else Kind.REPORT
        assert {read_kind(f) for _, _, f in harness.network.tap} >= {said, Kind.DONE}
        assert not harness.ephemeral

    def is_feedback(self, frame):
        message = Codec(self.session).open(frame)
        return isinstance(message, Message) and isinstance(message.body, Feedback)

    def coordinator_has_finished(self, harness):
        """Look, and lose every feedback to a keeper until then."""
        flying = harness.network.flying
        for k in reversed(range(len(flying) if self.last != "stays" else 0)):
            packet = flying[k]
            if packet.to in self.session.keeper_numbers and self.is_feedback(packet.frame):
                harness.network.take(k)
        return harness.machine(COORDINATOR).phase is CoordinatorPhase.FINISHED

    def end(self):
        """Lose all that is on its way when the coordinator has finished; it may leave for good, too."""
        harness = self.harness
        if self.last == "stays":
            return
        while harness.network.flying:
            harness.network.take(0)
        if self.last == "leaves" and harness.liveliness:
            harness.stop(COORDINATOR)
            harness.network.partition({COORDINATOR}, set(harness.numbers) - {COORDINATOR})
            # Agents that lack feedback wait for it. Keepers lack nothing, and do not wait for ever.
            assert harness.run(keepers_have_finished, most=20_000), harness.machines
            harness.network.heal()
            harness.start(COORDINATOR)


def keepers_have_finished(harness):
    return all(harness.machine(j).phase in FINISHED for j in harness.session.keeper_numbers)


def read_kind(frame):
    return Kind(frame[37 if frame[36] != 0xD0 else 38])


class WithServer(Faulty):
    session = known_session(3, 4, deadlines=DEADLINES, quorum=2, start=2)


class WithServerOneShot(Faulty):
    session = known_session(3, 4, deadlines=DEADLINES, quorum=1, start=2, law="one-shot")


class WithKeepers(Faulty):
    session = known_session(3, 4, deadlines=DEADLINES, quorum=2, start=2, keepers=2)


class WithKeepersOneShot(Faulty):
    session = known_session(3, 4, deadlines=DEADLINES, quorum=1, start=2, keepers=2, law="one-shot")


class OnGraph(Faulty):
    session = known_session(graph="path:3", rounds=4, deadlines=DEADLINES, start=2)


class OnRingOneShot(Faulty):
    session = known_session(graph="ring:4", rounds=3, deadlines=DEADLINES, law="one-shot")


class WithLinearOneShot(Faulty):
    session = moving_session(3, 4, deadlines=DEADLINES, quorum=1, start=2, law="one-shot")


class OnLinearGraph(Faulty):
    session = moving_session(graph="path:3", rounds=4, deadlines=DEADLINES, start=2)


MOVING = [WithLinearOneShot, OnLinearGraph]
SESSIONS = [*MOVING, WithServer, WithServerOneShot, WithKeepers, WithKeepersOneShot, OnGraph, OnRingOneShot]


@pytest.mark.parametrize("examples", [8, pytest.param(500, marks=pytest.mark.long)])
@pytest.mark.parametrize("faulty", SESSIONS)
def test_faults_in_any_order(faulty, examples, play):
    faulty.watched = staticmethod(play)
    case = faulty.TestCase
    # Failures are shown as found: making them smaller takes minutes.
    phases = Phase.explicit, Phase.reuse, Phase.generate
    case.settings = settings(max_examples=examples, stateful_step_count=30, deadline=None, phases=phases)
    case().runTest()
