"""The test tools do what they say; otherwise no test that uses them means anything."""

import pytest
from tests.doubles import (
    Faults,
    FaultyNetwork,
    Harness,
    ListLedger,
    ManualClock,
    Point,
    SaveFailed,
    ScriptedNoise,
    known_key,
    known_session,
)

from tacit.base.errors import ParameterError, StateError
from tacit.core.protocol.messages import COORDINATOR
from tacit.core.protocol.records import Ended


def test_the_clock_moves_only_forward_and_only_by_hand():
    clock = ManualClock()
    clock.advance(2)
    clock.advance_to(1)
    assert clock() == clock.now == 2
    clock.advance_to(5.5)
    assert clock() == 5.5
    with pytest.raises(ParameterError, match="only goes forward"):
        clock.advance(-1)


def sent(network, count=1000):
    for k in range(count):
        network.send(0, 1, bytes([k % 256, k // 256]))
    return network


def test_a_network_without_faults_keeps_the_order():
    network = sent(FaultyNetwork(ManualClock()))
    frames = [packet.frame for packet in iter(network.next, None)]
    assert frames == [frame for _, _, frame in network.tap]
    assert len(frames) == 1000


def test_faults_are_as_frequent_as_told_and_the_same_for_the_same_seed():
    faults = Faults(loss=0.3, duplication=0.5)
    one, two = (sent(FaultyNetwork(ManualClock(), faults, seed=3)) for _ in range(2))
    assert [p.frame for p in one.flying] == [p.frame for p in two.flying]
    assert len(one.tap) == 1000
    assert 1000 * 0.7 * 1.5 == pytest.approx(len(one.flying), rel=0.1)
    assert len({p.frame for p in one.flying}) == pytest.approx(700, rel=0.1)


def test_delays_let_packets_overtake_each_other():
    clock = ManualClock()
    network = sent(FaultyNetwork(clock, Faults(delay=(1.0, 2.0))), 50)
    assert network.next() is None
    assert 1.0 <= network.next_at <= 2.0
    clock.advance(2.0)
    frames = [packet.frame for packet in iter(network.next, None)]
    assert sorted(frames) == sorted(frame for _, _, frame in network.tap)
    assert frames != [frame for _, _, frame in network.tap]


def test_a_cut_stops_what_is_sent_and_what_is_on_its_way():
    clock = ManualClock()
    network = FaultyNetwork(clock, Faults(delay=(1.0, 1.0)))
    network.send(0, 1, b"before")
    network.partition({0, 2}, {1})
    network.send(0, 1, b"during")
    network.send(0, 2, b"inside")
    clock.advance(1.0)
    assert [packet.frame for packet in iter(network.next, None)] == [b"inside"]
    network.heal()
    network.send(0, 1, b"after")
    assert network.next().frame == b"after"
    assert list(network.frames(0)) == [b"before", b"during", b"inside", b"after"]


def test_packets_can_be_taken_dropped_and_doubled_by_hand():
    network = sent(FaultyNetwork(ManualClock()), 3)
    second = network.flying[1]
    network.duplicate(1)
    assert network.take(1) is second
    assert [p.frame[0] for p in iter(network.next, None)] == [0, 2, 1]


@pytest.mark.parametrize("wrong", [{"loss": 1.1}, {"duplication": -0.1}, {"delay": (2.0, 1.0)}])
def test_faults_must_make_sense(wrong):
    with pytest.raises(ParameterError):
        Faults(**wrong)


def test_scripted_noise_is_the_script_and_another_if_asked_again():
    noise = ScriptedNoise([[1, 2], [3, 4]])
    assert [noise.draw(i, u) for u in (0, 1) for i in (0, 1)] == [1, 2, 3, 4]
    assert noise.draw(0, 1) != 3
    assert noise.taken[0, 1] == 2
    assert ScriptedNoise([[[1, 2]]], fresh=False).draw(0, 0).tolist() == [1, 2]
    with pytest.raises(StateError, match="no draw for update 2"):
        noise.draw(0, 2)
    assert "3" not in repr(noise).replace("ScriptedNoise", "")


def test_a_full_ledger_saves_all_or_nothing():
    ledger = ListLedger([Ended(1, None)])
    ledger.full = True
    ledger.save([])
    with pytest.raises(SaveFailed):
        ledger.save([Ended(2, None)])
    ledger.full = False
    ledger.save([Ended(3, None)])
    assert ledger.records() == (Ended(1, None), Ended(3, None))
    assert len(ledger) == 2


def test_the_harness_asks_at_every_point_and_a_crash_leaves_only_the_ledger():
    asked = []

    def crash(number, point):
        asked.append((number, point))
        return number == 0 and point is Point.SAVED

    noise = ScriptedNoise([[1, 2], [3, 4]])
    harness = Harness(known_session(2, 2), [0, 1], noise, crash=crash, liveliness=False)
    harness.start(COORDINATOR, 0)
    assert harness.machines[0] is None
    assert len(harness.ledgers[0]) == 1  # saved
    assert [s for s, _, _ in harness.network.tap if s == 0] == []  # and not sent
    assert {point for number, point in asked if number == 0} == {Point.HEARD, Point.HANDLED, Point.SAVED}
    with pytest.raises(StateError, match="node 0 is down"):
        harness.machine(0)


def test_known_keys_are_known_and_differ():
    keys = {known_key(i).public_key().public_bytes_raw() for i in (COORDINATOR, *range(5))}
    assert len(keys) == 6
    assert known_session(3).roster[1].key == known_key(1).public_key().public_bytes_raw()
    assert known_session(3).id == known_session(3).id
