"""A crash at every single point between hearing, saving and sending. None of them costs anything."""

import pytest
from tests.doubles import Harness, Point, known_session, moving_session

from tacit.core.protocol.codec import as_numbers
from tacit.core.protocol.messages import COORDINATOR
from tacit.core.protocol.records import Ended
from tacit.core.protocol.session import Deadlines

PATIENT = Deadlines(round=1e6, start=1e6, repeat=1)
SESSIONS = {
    "server": known_session(2, 3, deadlines=PATIENT),
    "server, one-shot, vectors": known_session(2, 3, law="one-shot", components=2, deadlines=PATIENT),
    "graph": known_session(graph="path:3", rounds=3, deadlines=PATIENT),
    "linear": moving_session(2, 3, deadlines=PATIENT),
    "graph, linear, one-shot": moving_session(graph="path:2", rounds=2, law="one-shot", deadlines=PATIENT),
    "graph, one-shot": known_session(graph="path:2", rounds=3, law="one-shot", deadlines=PATIENT),
}


class CrashOnce:
    """Crashes one node when it passes its k-th point, and counts the points."""

    def __init__(self, number, k):
        self.number, self.k, self.passed, self.where = number, k, 0, None

    def __call__(self, number, point):
        if number != self.number:
            return False
        self.passed += 1
        if self.passed - 1 == self.k:
            self.where = point
            return True
        return False


def with_restarts(harness):
    """Run to the end; restart nodes that are down when the others are idle."""
    harness.start()
    for _ in range(20):
        if harness.run(Harness.finished, most=60):
            return True
        harness.start(*(n for n in harness.numbers if harness.machines[n] is None))
    return False


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("who", ["first", "last"])
def test_a_crash_at_every_point(play, equals_the_mechanism, name, who):
    """The run that follows is the run without a crash, bit for bit, if noise is drawn as scripted."""
    session = SESSIONS[name]
    number = (COORDINATOR if session.edges is None else 0) if who == "first" else session.n - 1
    k, where = 0, set()
    while True:
        crash = CrashOnce(number, k)
        harness = play(session, crash=crash, fresh=False, liveliness=bool(k % 2))
        assert with_restarts(harness), f"never finished after a crash at point {k} ({crash.where})"
        harness.watch.check()
        if not k % 2:  # nobody was told that it left, so everybody waited
            equals_the_mechanism(harness)
        if crash.where is None:
            break
        where.add(crash.where)
        k += 1
    assert where == set(Point)
    assert k >= 20


@pytest.mark.parametrize("name", SESSIONS)
def test_two_crashes_with_noise_that_is_never_the_same_twice(play, name):
    """The watch detects an agent that draws again for a message it made."""
    session = SESSIONS[name]
    number = session.n - 1
    for k in range(0, 40, 2):
        crash = CrashOnce(number, k)
        harness = play(session, crash=crash, fresh=True, liveliness=False)
        with_restarts(harness)
        crash.passed = 0
        crash.k = k // 2
        assert with_restarts(harness)
        harness.watch.check()


@pytest.mark.parametrize("name", SESSIONS)
def test_a_full_disk_silences_and_loses_nothing(play, equals_the_mechanism, name):
    """What cannot be saved is not sent. With room again everything goes on from what was saved."""
    session = SESSIONS[name]
    for number in {COORDINATOR if session.edges is None else 0, session.n - 1}:
        for full_from in range(3):
            harness = play(session, fresh=False, liveliness=False)
            ledger = harness.ledgers[number]
            save = ledger.save

            def until_full(records, ledger=ledger, save=save, full_from=full_from):
                ledger.full = ledger.full or len(ledger) >= full_from
                save(records)

            ledger.save = until_full
            harness.start()
            harness.run(most=100)
            assert harness.machines[number] is None
            said = [f for s, _, f in harness.network.tap if s == number]
            ledger.save, ledger.full = save, False
            harness.start(number)
            assert harness.run(Harness.finished)
            equals_the_mechanism(harness)
            harness.watch.check()
            assert len(said) < len([f for s, _, f in harness.network.tap if s == number])


@pytest.mark.parametrize("name", SESSIONS)
def test_a_finished_node_starts_again_finished(play, state_of, name):
    session = SESSIONS[name]
    harness = play(session, liveliness=False)
    harness.start()
    assert harness.run(Harness.finished)
    records = {n: len(harness.ledgers[n]) for n in harness.numbers}
    states = {n: as_numbers(harness.private_machine(n).private._state) for n in range(session.n)}
    for number in harness.numbers:
        harness.stop(number)
    harness.start()
    assert harness.run(Harness.finished)
    assert {n: len(harness.ledgers[n]) for n in harness.numbers} == records
    assert {n: as_numbers(harness.private_machine(n).private._state) for n in range(session.n)} == states
    assert all(
        sum(isinstance(r, Ended) for r in ledger.records()) == 1 for ledger in harness.ledgers.values()
    )
