"""Draws are shared out among the agents of one process: each to one agent, for one update."""

import asyncio
import threading

import numpy as np
import pytest

from tacit.runtime import noise


class Counting:
    """A source whose numbers tell which they are."""

    def __init__(self):
        self.next, self.calls = 0, []

    def draw(self, scale, size=None):
        self.calls.append((scale, size))
        drawn = np.arange(self.next, self.next + (1 if size is None else size))
        self.next += len(drawn)
        return int(drawn[0]) if size is None else drawn


@pytest.fixture
def shared():
    made = noise._Shared()
    made._source = Counting()
    return made


def test_no_number_is_handed_out_twice(shared):
    shared.count(10)
    drawn = [shared.draw(scale) for _ in range(50) for scale in (2.0**40, 2.0**41)]
    assert len(set(drawn)) == len(drawn)
    assert all(size == 10 for _, size in shared._source.calls)
    assert len(shared._source.calls) == 10


def test_a_number_has_the_scale_it_was_asked_for(shared):
    shared.count(4)
    first, second = shared.draw(3.0), shared.draw(5.0)
    assert [call[0] for call in shared._source.calls] == [3.0, 5.0]
    assert first < 4 <= second  # the first four were drawn for 3.0, the next for 5.0


def test_an_agent_alone_draws_for_itself_alone(shared):
    shared.count(1)
    shared.draw(3.0)
    assert shared._source.calls == [(3.0, 1)]
    assert not shared._drawn[3.0]


def test_after_a_fork_nothing_drawn_before_is_used(shared, monkeypatch):
    shared.count(8)
    before = {shared.draw(3.0)} | set(shared._drawn[3.0])
    monkeypatch.setattr(noise.os, "getpid", lambda: shared._process + 1)
    assert shared.draw(3.0) not in before


def test_what_waits_is_bounded(shared):
    shared.count(32)
    for u in range(200):
        shared.draw(1.0 + u)
    assert len(shared._drawn) <= noise._SCALES


def test_what_the_last_agent_leaves_is_thrown_away(shared):
    shared.count(3)
    before = {shared.draw(3.0)} | set(shared._drawn[3.0])
    shared.count(-2)
    assert shared._drawn[3.0]
    shared.count(-1)
    assert not shared._drawn
    assert shared.draw(3.0) not in before


def test_one_who_is_stopped_while_draws_are_made_stops_nobody_else():
    async def main():
        go, pools = threading.Event(), [Waiting(), Waiting()]
        pools[0].go = pools[1].go = go
        refills = noise._Refills()
        first, second = (refills.begin(pool) for pool in pools)
        assert first is second  # one thread draws for both
        stopped, other = (asyncio.ensure_future(waiting_for(drawing)) for drawing in (first, second))
        await asyncio.sleep(0)
        stopped.cancel()
        go.set()
        await other
        assert [pool.filled for pool in pools] == [1, 1]
        with pytest.raises(asyncio.CancelledError):
            await stopped
        await refills.begin(pools[0])  # and the next ones are begun anew
        assert [pool.filled for pool in pools] == [2, 1]

    asyncio.run(main())


async def waiting_for(drawing):
    ahead = object.__new__(noise.NoiseAhead)
    ahead._behind = drawing
    await ahead._settle()


class Waiting:
    """Takes the place of `DrawnAhead`."""

    filled = 0

    def refill(self):
        assert self.go.wait(20)
        self.filled += 1
