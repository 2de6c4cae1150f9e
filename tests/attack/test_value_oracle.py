"""Whoever may make sessions asks an agent a hundred times, and learns no more than its ledger counts.

What others see of an agent is whether it takes part, and its messages. With ranges chosen one after another,
taking part used to tell the value: 20 sessions found it to 2e-5, at no loss. Now an agent always takes part,
unless the cap forbids it, and that follows from public numbers alone.
"""

import asyncio
import math
import random

import numpy as np
import pytest
from tests.doubles import known_feedback, known_key, known_session

from tacit.base.errors import CapExceeded
from tacit.core.mechanism.lattice import Lattice
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import Codec, as_array, as_numbers
from tacit.core.protocol.effects import Heard, NoiseReady, Start
from tacit.core.protocol.messages import COORDINATOR, Ask, Message, Present, Report
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.session import LAST_EXPIRY
from tacit.live.ledger.ledger import Ledger
from tacit.live.transport.base import Inbox

CAP = 1.0


class Asker:
    """A transport with a coordinator in it that asks for one message and ends the session."""

    dropped = 0

    def __init__(self, session, sign):
        self.session, self.codec, self.sign, self.frames = session, Codec(session), sign, []

    async def open(self, arrived):
        self.inbox = Inbox(1 << 20, arrived=arrived)
        self.inbox.seen(COORDINATOR, True)

    def send(self, _to, frame):
        self.frames.append(frame)
        message = self.codec.open(frame)
        assert isinstance(message, Message)
        if isinstance(message.body, Present):
            self._say(Ask(0))
        elif isinstance(message.body, Report):
            numbers = as_numbers(self.session.lattice.mean([self.codec.lifted(message)]))
            self._say(known_feedback(self.codec, 0, numbers, count=1, before=message.body.heard))

    def _say(self, body):
        self.inbox.put(self.codec.seal(COORDINATOR, body, self.sign), COORDINATOR)

    def take(self):
        return self.inbox.take()

    async def close(self):
        pass


class Oracle:
    """An agent with a value that is asked again and again; keeps what others see of it."""

    def __init__(self, world, i, value):
        self.world, self.i, self.value = world, i, value
        self.took_part, self.lengths, self.heard = [], [], []

    def ask(self, **changes):
        """Ask in one more session; returns its message as a number, or None if it stayed away."""
        name = f"s{len(self.took_part)}"
        given = {"rounds": 1, "quorum": 1, "start": 1, "expires": LAST_EXPIRY, "name": name} | changes
        session = self.world.session(**given)
        asker = Asker(session, self.world.keys["coordinator"].sign)
        agent = self.world.agent(session, self.world.network(session), self.i, self.value, cap=CAP)
        agent._transport = asker

        async def main():
            async with asyncio.timeout(60), agent:
                while not agent.machine.ended:
                    await asyncio.sleep(0.001)

        try:
            asyncio.run(main())
        except CapExceeded:
            assert asker.frames == []
            self.took_part.append(False)
            return None
        self.took_part.append(True)
        messages = [asker.codec.open(frame) for frame in asker.frames]
        report = next(message for message in messages if isinstance(message.body, Report))
        self.lengths.append(len(report.frame))
        self.heard.append((session, report))
        return float(session.lattice.value(report.numbers[0], report.body.exponent))

    def learned(self, values):
        """How much likelier what was heard is with each value: logarithms, up to one constant."""
        total = np.zeros(len(values))
        for session, report in self.heard:
            lattice = session.lattice_agent(self.i)
            scale = lattice.draw_scale(0)
            for k, value in enumerate(values):
                state = session.lattice.start([value])
                (x,) = as_numbers(lattice.report(state, 0, as_array((0,))))
                total[k] -= abs(report.numbers[0] - x) / scale
        return total

    @property
    def spent(self):
        with Ledger(self.world.folder / f"{self.world.names[self.i]}.ledger", create=False) as ledger:
            return ledger.spent("value")


def test_taking_part_does_not_tell_the_value(world):
    """The attack as it was found: halve the range, and see whether the agent comes."""
    found = []
    for i, value in ((0, 2.718281828), (1, 7.389056099)):
        oracle, low, high = Oracle(world, i, value), 0.0, 10.0
        for _ in range(20):
            middle = (low + high) / 2
            said = oracle.ask(
                lattice=Lattice(middle, high), adjacency=high - middle, noise=1e4 * (high - middle)
            )
            low, high = (middle, high) if said is not None else (low, middle)
        found.append((low, high, oracle.took_part, oracle.lengths))
        assert oracle.spent < 0.01
    assert found[0] == found[1]  # whatever the value is, the same is seen
    assert all(found[0][2])


def adaptive(oracle, sessions, seed):
    """Ask with ranges, noise and adjacencies chosen by what was heard; returns what was asked."""
    chance, guess, width, asked = random.Random(seed), 5.0, 10.0, []
    for k in range(sessions):
        low = guess - width * chance.random()
        high = low + width
        change = {
            "lattice": Lattice(low, high),
            "adjacency": width * chance.choice([1e-6, 0.01, 1.0]),
            "noise": width * chance.choice([1e-6, 1.0, 50.0, 1000.0]),
            "name": f"s{k}",
        }
        asked.append(change)
        said = oracle.ask(**change)
        if said is not None and math.isfinite(said):
            guess = min(max(said, low), high)
        width = max(width * chance.choice([0.5, 1.0, 1.5]), 1e-3)
    return asked


def test_a_hundred_adaptive_sessions_learn_no_more_than_was_accounted(world):
    """Over all values: what was heard makes none of them likelier than another by more than e^spent."""
    first, second = Oracle(world, 0, 2.718281828), Oracle(world, 1, 1e9)
    for change in adaptive(first, 100, seed=1):
        second.ask(**change)
    assert len(first.took_part) == 100
    assert 10 <= sum(first.took_part) < 100  # some were refused, by the cap
    # Whether and how long others hear of it follows from what was asked, not from the value.
    assert first.took_part == second.took_part
    assert first.lengths == second.lengths
    assert first.spent == second.spent
    values = [*np.linspace(-5.0, 15.0, 41), -1e9, 2.718281828, 1e9]
    for oracle in (first, second):
        learned = oracle.learned(values)
        assert learned.max() - learned.min() <= oracle.spent <= CAP


# ---- lengths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [0, 1, -1, 2**40, -(2**40), 2**300, -(2**300)])
def test_frames_have_one_length_whatever_the_value_and_the_noise(draw):
    """Far tails of the noise are cut to the session's reach, after they were added: that is public."""
    session, lengths = known_session(2, 2), set()
    ask = Codec(session).seal(COORDINATOR, Ask(0), known_key(COORDINATOR).sign)
    for value in (0.0, 1.0, 0.3, -1e300, 1e300):
        agent = AgentMachine(session, 0, value, sign=known_key(0).sign, budget=Budget(1e9))
        steps = [agent.handle(Start()), agent.handle(Heard(ask)), agent.handle(NoiseReady(0, draw))]
        frames = [send.frame for step in steps for send in step.messages]
        assert any(isinstance(Codec(session).open(frame).body, Report) for frame in frames)
        lengths.add(tuple(map(len, frames)))
    assert lengths == {plain(session, ask)}


def plain(session, ask):
    agent = AgentMachine(session, 0, 0.5, sign=known_key(0).sign, budget=Budget(1e9))
    steps = [agent.handle(Start()), agent.handle(Heard(ask)), agent.handle(NoiseReady(0, 0))]
    return tuple(len(send.frame) for step in steps for send in step.messages)
