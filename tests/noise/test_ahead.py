"""Noise drawn ahead: the order of operations.

Each draw is used once.
"""

import copy
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tacit import Fading
from tacit.base.errors import ParameterError, StateError
from tacit.core.mechanism.lattice import Lattice
from tacit.core.noise import DrawnAhead, SafeNoise
from tacit.core.noise.ahead import refill_together


class Scripted:
    """A source that notes when it is asked.

    It gives numbers that can be recognised.
    """

    def __init__(self, log):
        self.log = log
        self.count = 0

    def draw(self, scale, size=None):
        self.log.append(("begin", scale))
        self.count += 1
        self.log.append(("complete", scale))
        return 1000 + self.count if size is None else np.full(size, 1000 + self.count)


def talk(pool, log, rounds, refill):
    """Run an agent in the order its runtime keeps: hear, take, speak, refill."""
    pool.refill()
    for u in range(rounds):
        if u:
            log.append(("hear", u - 1))  # feedback on message u − 1
        draw = pool.take(u)
        log.append(("speak", u, draw))
        refill()


@pytest.mark.parametrize("depth", [2, 3, 8])
def test_no_draw_between_hearing_and_speaking(depth):
    log = []
    pool = DrawnAhead(Scripted(log), scale=lambda u: u, depth=depth)
    talk(pool, log, 20, pool.refill)
    kinds = [entry[0] for entry in log]
    for u in range(1, 20):
        heard = log.index(("hear", u - 1))
        assert kinds[heard + 1] == "speak"  # nothing in between


@pytest.mark.parametrize("depth", [2, 5])
def test_a_draw_is_complete_before_the_feedback_that_triggers_it_can_come(depth):
    log = []
    pool = DrawnAhead(Scripted(log), scale=lambda u: u, depth=depth)
    talk(pool, log, 20, pool.refill)
    for u in range(19):
        # feedback that triggers update u + 1 answers message u, so it comes after it
        spoken = next(i for i, entry in enumerate(log) if entry[:2] == ("speak", u))
        assert log.index(("complete", u + 1)) < spoken


def test_updates_get_their_own_draws_in_order_and_the_pool_is_bounded():
    log = []
    pool = DrawnAhead(Scripted(log), scale=lambda u: 10 * u, depth=3, first=5)
    pool.refill()
    pool.refill()
    assert [scale for kind, scale in log if kind == "begin"] == [50, 60, 70]
    assert [pool.take(5), pool.take(6)] == [1001, 1002]
    pool.refill()
    assert [scale for kind, scale in log if kind == "begin"] == [50, 60, 70, 80, 90]
    assert pool.take(7) == 1003


def test_it_never_draws_or_waits_on_the_way():
    log = []
    pool = DrawnAhead(Scripted(log), scale=lambda u: u, depth=2)
    with pytest.raises(StateError, match="noise of updates 0 and 1 must be complete"):
        pool.take(0)
    assert log == []
    pool.refill()
    pool.take(0)
    with pytest.raises(StateError, match="updates 1 and 2"):
        pool.take(1)  # update 2 is not drawn for yet


def test_no_draw_is_handed_out_twice():
    pool = DrawnAhead(Scripted([]), scale=lambda u: u, depth=4)
    pool.refill()
    pool.take(0)
    with pytest.raises(StateError, match="Repeat the same message"):
        pool.take(0)
    with pytest.raises(StateError, match="one by one"):
        pool.take(2)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="used once"):
            duplicate(pool)


def test_after_a_fork_nothing_is_handed_out(monkeypatch):
    pool = DrawnAhead(Scripted([]), scale=lambda u: u)
    pool.refill()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for call in (lambda: pool.take(0), pool.refill):
        with pytest.raises(StateError, match="before a fork"):
            call()
    monkeypatch.undo()
    with pytest.raises(StateError, match="must be complete"):
        pool.take(0)  # and what was drawn is gone


def test_draws_are_taken_while_others_are_made():
    log = []
    source, may_draw, asked = Scripted(log), threading.Event(), threading.Event()

    class Slow:
        def draw(self, scale, size=None):
            if scale >= 3:
                asked.set()
                assert may_draw.wait(300)
            return source.draw(scale, size)

    with DrawnAhead(Slow(), scale=lambda u: u, depth=3) as pool, ThreadPoolExecutor(1) as thread:
        pool.refill()
        assert pool.take(0) == 1001
        behind = thread.submit(pool.refill)
        assert asked.wait(300)
        assert pool.take(1) == 1002  # while the draw of update 3 is under way
        assert not pool.ready(2)
        may_draw.set()
        behind.result()
        pool.refill()
        assert [pool.take(2), pool.take(3)] == [1003, 1004]
        assert [entry for entry in log if entry[0] == "begin"] == [("begin", u) for u in range(5)]


def test_draws_that_were_under_way_are_not_used_for_other_updates():
    """`begin` waits for them and discards them: their scale is another."""
    may_draw, asked = threading.Event(), threading.Event()

    class Slow:
        def draw(self, scale, _size=None):
            asked.set()
            assert may_draw.wait(300)
            return scale

    with DrawnAhead(Slow(), scale=lambda u: u, depth=3) as pool, ThreadPoolExecutor(2) as threads:
        behind = threads.submit(refill_together, [pool])
        assert asked.wait(300)
        anew = threads.submit(pool.begin, 7)
        may_draw.set()
        behind.result()
        anew.result()
        refill_together([pool])
        assert [pool.take(7), pool.take(8)] == [7, 8]


def test_it_says_once_that_half_of_the_draws_are_used():
    pool = DrawnAhead(Scripted([]), scale=lambda u: u, depth=4)
    pool.refill()
    told = []
    for u in range(3):
        pool.take(u)
        told.append(pool.low())
    assert told == [False, True, False]


def test_the_last_message_needs_no_draw_after_it():
    log = []
    pool = DrawnAhead(Scripted(log), scale=lambda u: u, depth=4, messages=2)
    pool.refill()
    assert [scale for kind, scale in log if kind == "begin"] == [0, 1]
    assert [pool.take(0), pool.take(1)] == [1001, 1002]
    assert not pool.ready(2)
    with pytest.raises(StateError, match="must be complete"):
        pool.take(2)


def test_closing_forgets():
    pool = DrawnAhead(Scripted([]), scale=lambda u: u)
    pool.refill()
    pool.close()
    assert not pool.ready(0)


def test_nothing_private_in_its_repr():
    pool = DrawnAhead(Scripted([]), scale=lambda u: u, depth=2)
    pool.refill()
    assert repr(pool) == "<DrawnAhead for updates 0 to 1>"


def test_vectors_for_a_real_agent():
    agent = Lattice.fitting(Fading(0.8, 10, 0.6), 20, 0, 1).agent(Fading(0.8, 10, 0.6))
    with DrawnAhead(SafeNoise(), agent.draw_scale, size=3, messages=20) as pool:
        pool.refill()
        states = agent.lattice.start([0.1, 0.5, 0.9])
        said = [agent.report(states, u, pool.take(u)) for u in range(2)]
    assert all(message.shape == (3,) for message in said)


@pytest.mark.parametrize("options", [{"depth": 1}, {"first": -1}, {"size": 0}])
def test_bad_requests_are_refused(options):
    with pytest.raises(ParameterError, match="at least"):
        DrawnAhead(Scripted([]), lambda u: u, **options)
