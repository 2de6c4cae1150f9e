"""Clocks: each session tells only what is new, and the losses add up to the cap."""

import numpy as np
import pytest

NAME = "geometric:60:0.35:seed=1"


@pytest.fixture(scope="module")
def ticked(ran):
    return ran("clock_synchronisation", NAME)


class Scripted:
    """A generator whose uniform numbers were decided before."""

    def __init__(self, *rows):
        self.rows = list(rows)

    def uniform(self, low, high, size):  # noqa: ARG002 - as numpy has it
        return np.full(size, self.rows.pop(0))


def test_a_session_tells_only_what_is_new(ticked):
    c = ticked.module
    wander = [(0.003, -0.001), (0.001, 0.005), (-0.002, -0.007), (0.0, 0.002)]
    ours, theirs = (
        c.Clocks(1, Scripted(offset, skew, *(step[i] for step in wander)))
        for i, (offset, skew) in enumerate([(7.0, 1.5), (-5.0, -0.25)])
    )
    readings = []
    for k, heard in enumerate([3.0, -1.0, 4.0, 1.0]):  # the same public answers, whatever they are
        readings.append((ours.offset[0], theirs.offset[0]))
        for clocks in (ours, theirs):
            clocks.set(np.array([heard]), trim=k > 0)
            clocks.tick()
    apart = np.diff(readings, axis=1)[:, 0]
    new = [-12, -1.75, *(b - a for a, b in wander[:2])]
    np.testing.assert_allclose(apart, new, atol=1e-12)


def test_adjacency_covers_what_a_crystal_can_do(ticked):
    c = ticked.module
    assert c.ADJACENCY["wander"] >= 2 * c.RANGES["wander"]


def test_the_losses_add_up_and_stop_at_the_cap(ticked):
    kinds = [ticked.found[kind] for kind in ("offset", "skew", "wander")]
    assert sum(kind["times"] * kind["loss"] for kind in kinds) == kinds[-1]["spent"] <= ticked.module.CAP
    assert kinds[-1]["spent"] + kinds[-1]["loss"] > ticked.module.CAP
    assert [kind["loss"] for kind in kinds] == pytest.approx(list(ticked.module.LOSS.values()), rel=1e-6)
    assert ticked.row("loss in all") == ["0.5", "1", "2"]


def test_sessions_keep_their_radius(ticked):
    for kind in ("offset", "skew", "wander"):
        found = ticked.found[kind]
        assert found["error"] > found["radius"] / 1000  # there is noise
        assert found["error"] <= found["radius"] or kind == "wander"
    assert ticked.found["wander"]["kept"] >= 12  # of 16; fewer have a probability below 1e-3


def test_clocks_keep_in_step(ticked):
    clocks = ticked.found["clocks"]
    assert clocks["spread"] < 2 * ticked.module.RANGES["wander"] + 0.004
    assert clocks["spread"] < clocks["afterwards"] < 2
    assert ticked.picture.exists()


def test_a_naive_clock_is_recognised_and_a_private_one_is_not(ticked):
    clocks = ticked.found["clocks"]
    assert clocks["naive offset"] == 0
    assert clocks["naive skew"] < 1e-12
    assert clocks["naive recognised"] == 60
    assert clocks["recognised"] <= 10
