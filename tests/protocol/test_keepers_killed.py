"""Agents, keepers and the coordinator are killed at random points, many times; every session finishes."""

import random
from collections import Counter

import pytest
from tests.doubles import known_session

from tacit.core.protocol.records import Disclosed
from tacit.core.protocol.session import Deadlines


def killed(play, kills, *, kind):
    """Play sessions until so many kills have happened; return how many, by node."""
    rng, struck = random.Random(kills), Counter()
    session = known_session(3, 4, keepers=2, quorum=2, start=2, law=kind, deadlines=Deadlines(5, 10, 1))

    def crash(number, _point):
        if rng.random() < 0.005:  # rare enough that restarts do not make more traffic than they lose
            struck[number] += 1
            return True
        return False

    while struck.total() < kills:
        harness = play(session, seed=rng.randrange(1000), crash=crash)
        harness.start()
        for _ in range(500):
            if harness.run(lambda h: h.finished() or None in h.machines.values(), most=5000):
                if harness.finished():
                    break
                harness.start(*(n for n in harness.numbers if harness.machines[n] is None))
        assert harness.finished(), harness.machines
        harness.watch.check()  # nobody has ever said two things for one update
        for keeper in session.keeper_numbers:
            opened = [r.update for r in harness.ledgers[keeper].records() if isinstance(r, Disclosed)]
            assert opened == list(range(session.exchanges))
        assert not harness.ephemeral
    return struck


@pytest.mark.parametrize("kind", ["fading", "one-shot"])
@pytest.mark.parametrize("kills", [25, pytest.param(300, marks=pytest.mark.long)])
def test_no_update_is_opened_twice_and_every_session_finishes(play, kills, kind):
    struck = killed(play, kills, kind=kind)
    assert kills < 100 or set(struck) == {-1, 0, 1, 2, 3, 4}
