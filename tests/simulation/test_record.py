"""Record: what is kept, and how large it is.

Too much is refused before any work.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph
from tacit.base.errors import InputError, RecordTooLarge
from tacit.lab.simulation import Record, _layout, record, simulate

MECHANISM = ClientServer(Fading(0.5, 1, 0.9), agents=4)


def test_by_default_the_last_round_alone():
    assert Record().rounds(7).tolist() == [7]
    assert Record().rounds(0).tolist() == [0]


@given(st.integers(0, 200), st.integers(1, 250))
def test_every_kth_round_and_the_last(last, every):
    rounds = Record(every=every).rounds(last).tolist()
    assert rounds == sorted({t for t in range(last + 1) if t % every == 0} | {last})


def test_everything_is_every_round():
    assert Record(everything=True).rounds(3).tolist() == [0, 1, 2, 3]


def test_chosen_agents_are_sorted_and_counted_once():
    kept = Record(agents=[3, 1, 3])
    assert kept.agents == (1, 3)
    assert kept.chosen(4).tolist() == [1, 3]
    assert Record().chosen(3).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "arguments",
    [
        {"every": 0},
        {"agents": []},
        {"agents": [-1]},
        {"states": False},
        {"everything": True, "agents": [0]},
        {"everything": True, "every": 2},
        {"everything": True, "states": False, "average": True},
    ],
)
def test_records_that_make_no_sense_are_refused(arguments):
    with pytest.raises(InputError):
        Record(**arguments)


def test_agents_that_do_not_exist_are_refused():
    with pytest.raises(InputError, match="numbers from 0 to 3, got 4"):
        simulate(MECHANISM, [0.0] * 4, 1, record=Record(agents=[4]))


@pytest.mark.parametrize("components", [None, 3])
@pytest.mark.parametrize(
    "kept",
    [
        Record(),
        Record(every=2),
        Record(agents=[0, 2], every=3, average=True),
        Record(states=False, average=True),
        Record(everything=True),
        Record(everything=True, average=True),
    ],
)
@pytest.mark.parametrize(
    "mechanism", [MECHANISM, Distributed(MECHANISM.law, Graph.from_edges([(0, 1), (1, 2), (2, 3)]))]
)
def test_the_size_said_is_the_size_taken(mechanism, kept, components):
    values = np.zeros(4 if components is None else (4, components))
    data = simulate(mechanism, values, 5, runs=3, record=kept)
    taken = sum(data[name].nbytes for name in ("theta", "average", "eta", "x", "y") if name in data)
    served = isinstance(mechanism, ClientServer)
    assert taken == kept.size(n=4, components=components or 1, rounds=5, runs=3, served=served)


@pytest.fixture
def small_machine(monkeypatch):
    def available():
        return 100_000_000

    monkeypatch.setattr(record, "available_memory", available)
    monkeypatch.setattr(_layout, "available_memory", available)


@pytest.mark.usefixtures("small_machine")
def test_too_large_a_record_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr("tacit.lab.simulation.engine._run", lambda *_: pytest.fail("work was begun"))
    with pytest.raises(RecordTooLarge) as refusal:
        simulate(MECHANISM, [0.0] * 4, 1000, runs=10_000, record=Record(every=1))
    message = str(refusal.value)
    assert "305 MiB" in message  # 4 agents, 1001 rounds, 10 000 runs, 8 bytes
    assert "95.4 MiB" in message
    assert "all agents in every 1. round" in message
    assert "Record every 100th round, a few agents, the average alone, or fewer runs." in message


@pytest.mark.usefixtures("small_machine")
def test_what_is_advised_works():
    simulate(MECHANISM, [0.0] * 4, 1000, runs=100, record=Record(every=1, states=False, average=True))


@pytest.mark.usefixtures("small_machine")
def test_work_that_does_not_fit_is_refused_too():
    with pytest.raises(RecordTooLarge, match="Simulate fewer agents, or a smaller batch of runs"):
        simulate(
            ClientServer(Fading(0.5, 1, 0.9), 10_000_000), np.zeros(10_000_000), 1, record=Record(agents=[0])
        )


@pytest.mark.parametrize(
    ("size", "words"), [(12, "12 B"), (5_000, "4.88 KiB"), (3e9, "2.79 GiB"), (5e15, "4.55e+03 TiB")]
)
def test_sizes_are_readable(size, words):
    assert record._readable(size) == words
