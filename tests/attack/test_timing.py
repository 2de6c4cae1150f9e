"""When a message leaves must not say how long its noise took to draw."""

import asyncio

from tacit.core.protocol.codec import Codec
from tacit.core.protocol.effects import NoiseReady, Step
from tacit.core.protocol.tables import AgentPhase
from tacit.live.runtime.node import Node
from tacit.live.runtime.noise import GRID, noise_ahead
from tacit.live.transport.memory import MemoryNetwork


class Stepped:
    def __init__(self):
        self.time, self.slept = 0.03, []

    def now(self):
        return self.time

    wall = now

    async def sleep(self, seconds):
        if seconds > 1:
            await asyncio.Event().wait()
        self.slept.append(seconds)
        self.time += seconds


class Greedy:
    """A machine that wants one draw after the other, or skips some."""

    ended, phase, wake = False, AgentPhase.DRAWING, None

    def __init__(self, session, clock, wants):
        self.session, self.codec, self._clock, self._wants = session, Codec(session), clock, list(wants)
        self.update = self._wants[0]
        self.given = []

    @property
    def wants_noise(self):
        return self._wants[0] if self._wants else None

    def handle(self, event):
        if isinstance(event, NoiseReady):
            assert event.update == self._wants.pop(0)
            self.given.append((event.update, self._clock.time))
            if not self._wants:
                self.phase = AgentPhase.FINISHED
        return Step((), (), ())


def driven(session, wants, source):
    async def main():
        clock = Stepped()
        machine = Greedy(session, clock, wants)
        noise = noise_ahead(session, 0, source)
        network = MemoryNetwork(session)
        async with asyncio.timeout(60):
            await Node(
                session.id, machine, network.transport(0), None, noise=noise, clock=clock, linger=0.0
            ).run()
        return machine.given

    return asyncio.run(main())


class Ones:
    def draw(self, _scale, _size=None):
        return 1


def on_grid(time):
    return (time + 1e-9) % GRID < 1e-6


def test_a_draw_that_is_waited_for_is_handed_out_on_the_grid(played):
    """Rounds faster than draws: hearing must not be followed by speaking as soon as the draw is done."""
    given = driven(played(rounds=60).session, range(40), Ones())
    assert not on_grid(given[0][1])  # the first are there before they are wanted
    late = [time for _, time in given if time != given[0][1]]
    assert late
    assert all(map(on_grid, late))


def test_draws_after_skipped_updates_are_handed_out_on_the_grid(played):
    given = driven(played(rounds=60).session, [0, 4], Ones())
    assert [u for u, _ in given] == [0, 4]
    assert not on_grid(given[0][1])
    assert on_grid(given[1][1])


def test_what_arrives_while_a_draw_is_waited_for_does_not_hand_it_out_early(played):
    """The draw may be complete before the grid's next point: nobody may get it then."""
    session = played(rounds=60).session

    async def main():
        clock, sleeping = Stepped(), asyncio.Event()
        wake = asyncio.Event()

        async def sleep(seconds):
            if seconds > 1:
                await asyncio.Event().wait()
            sleeping.set()
            await wake.wait()
            clock.time += seconds

        clock.sleep = sleep
        machine = Greedy(session, clock, [0, 4])
        node = Node(
            session.id,
            machine,
            MemoryNetwork(session).transport(0),
            None,
            noise=noise_ahead(session, 0, Ones()),
            clock=clock,
            linger=0.0,
        )
        running = asyncio.ensure_future(node.run())
        async with asyncio.timeout(60):
            await sleeping.wait()
            assert node._noise.ready(4)
            for _ in range(5):
                node._stir()
                await asyncio.sleep(0)
            assert len(machine.given) == 1
            wake.set()
            await running
        assert on_grid(machine.given[1][1])

    asyncio.run(main())
