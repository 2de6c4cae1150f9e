"""Draws are made together for all machines of a process: each goes to one of them, for one update."""

import numpy as np

from tacit.core.noise import ahead
from tacit.core.noise.ahead import DrawnAhead, refill_together


class Counting:
    """A source whose numbers tell which they are."""

    def __init__(self):
        self.next, self.calls = 0, []

    def draw(self, scale, size=None):
        self.calls.append((scale, size))
        drawn = np.arange(self.next, self.next + (1 if size is None else size))
        self.next += len(drawn)
        return int(drawn[0]) if size is None else drawn


def pools(source, count, **more):
    return [DrawnAhead(source, lambda u: 2.0 ** (40 - u), depth=4, **more) for _ in range(count)]


def test_no_number_is_handed_out_twice_and_each_scale_is_drawn_for_once(monkeypatch):
    monkeypatch.setattr(ahead, "_MANY", 2)
    source = Counting()
    made = pools(source, 10)
    refill_together(made)
    assert source.calls == [(2.0 ** (40 - u), 10) for u in range(4)]
    drawn = [[pool.take(u) for u in range(3)] for pool in made]
    assert all(10 * u <= row[u] < 10 * (u + 1) for row in drawn for u in range(3))  # of the right scale
    refill_together(made)
    drawn += [[pool.take(u) for u in (3, 4, 5)] for pool in made]
    numbers = [number for row in drawn for number in row]
    assert len(set(numbers)) == len(numbers)


def test_one_alone_draws_for_itself_alone_and_vectors_are_drawn_one_by_one():
    source = Counting()
    refill_together(pools(source, 1, messages=2))
    assert source.calls == [(2.0**40, None), (2.0**39, None)]
    source.calls.clear()
    made = pools(source, 2, size=3, messages=1)
    refill_together(made)
    assert source.calls == [(2.0**40, 3)] * 2
    assert set(made[0].take(0)).isdisjoint(made[1].take(0))


def test_few_of_one_scale_are_drawn_one_by_one_which_is_faster_and_needs_no_numpy():
    source = Counting()
    refill_together(pools(source, ahead._MANY - 1, messages=1))
    assert source.calls == [(2.0**40, None)] * (ahead._MANY - 1)
    source.calls.clear()
    refill_together(pools(source, ahead._MANY, messages=1))
    assert source.calls == [(2.0**40, ahead._MANY)]


def test_pools_of_different_sources_are_not_mixed(monkeypatch):
    monkeypatch.setattr(ahead, "_MANY", 2)
    sources = Counting(), Counting()
    refill_together([*pools(sources[0], 2), *pools(sources[1], 3)])
    assert {size for _, size in sources[0].calls} == {2}
    assert {size for _, size in sources[1].calls} == {3}


def test_draws_taken_while_others_are_made_leave_no_gap():
    """The loop hands out draws while a thread refills: what is missing then is drawn for next time."""
    source = Counting()
    [pool] = made = pools(source, 1)
    refill_together(made)
    pool.take(0)
    source.draw = lambda _scale, _size=None: (pool.take(1) and 99) or 99
    refill_together(made)
    source.draw = lambda _scale, _size=None: 100
    refill_together(made)
    assert [pool.take(u) for u in (2, 3, 4)][1:] == [3, 99]
