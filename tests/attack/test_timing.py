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
    session, gate = played(rounds=12).session, threading.Event()

    class Slow:
        made = 0

        def draw(self, _scale, _size=None):
            self.made += 1
            if self.made > 4:  # all after the first pool
                assert gate.wait(20)
            return 1

    async def main():
        clock = Stepped()
        noise = NoiseAhead(session, 0, clock, Slow())
        await noise.prime(0)
        for u in range(3):
            await noise.draw(u)
        assert clock.slept == []
        noise.refill()
        asked = asyncio.ensure_future(noise.draw(3))
        await asyncio.sleep(0)
        gate.set()
        await asked
        assert len(clock.slept) == 1
        assert (clock.time + 1e-9) % GRID < 1e-6
        await noise.close()

    asyncio.run(main())
