"""When a message leaves must not say how long its noise took to draw."""

import asyncio
import threading

from tacit.runtime.noise import GRID, NoiseAhead


class Stepped:
    def __init__(self):
        self.time, self.slept = 0.03, []

    def now(self):
        return self.time

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.time += seconds


def test_a_draw_that_is_waited_for_is_handed_out_on_the_grid(played):
    """Rounds faster than draws: hearing must not be followed by speaking as soon as the draw is done."""
    session, gate = played(rounds=60).session, threading.Event()
    gate.set()

    class Slow:
        def draw(self, _scale, _size=None):
            assert gate.wait(20)
            return 1

    async def main():
        clock = Stepped()
        noise = NoiseAhead(session, 0, clock, Slow())
        await noise.prime(0)
        gate.clear()
        u = 0
        while noise.ready(u):
            await noise.draw(u)
            noise.refill()
            u += 1
        assert clock.slept == []
        asked = asyncio.ensure_future(noise.draw(u))
        await asyncio.sleep(0)
        gate.set()
        await asked
        assert len(clock.slept) == 1
        assert (clock.time + 1e-9) % GRID < 1e-6
        await noise.close()

    asyncio.run(main())
