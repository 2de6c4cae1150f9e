"""A history: its parts, and what adversaries see of it.

Private numbers never show.
"""

import numpy as np
import pytest

from tacit import ClientServer, Distributed, Fading, Graph, History
from tacit.base.errors import StateError
from tacit.core.history import Observation, Private
from tacit.core.noise import SimulatedNoise
from tacit.lab.audit import Deployed, Simulated

SECRET = 31415.9265
SERVER = ClientServer(Fading(0.5, 1, 0.9), agents=3)
GRAPH = Distributed(Fading(0.5, 1, 0.9), Graph.from_edges([(0, 1), (1, 2)]))
PARAMETERS = Fading(0.8, 10, 0.6)
FADING_SERVER = ClientServer(PARAMETERS, agents=3)
FADING_GRAPH = Distributed(PARAMETERS, Graph.from_edges([(0, 1), (1, 2)]))


def execution(mechanism=SERVER):
    return mechanism.execute([SECRET, 2, 3], np.random.default_rng(1).laplace(size=(5, 3)))


def test_a_prefix_is_the_execution_stopped_early():
    whole = execution()
    part = whole.prefix(2)
    again = SERVER.execute(whole.theta[0], whole.eta[:2])
    for name in ("theta", "eta", "x", "y"):
        np.testing.assert_array_equal(getattr(part, name), getattr(again, name))
    assert whole.prefix(0).rounds == 0
    with pytest.raises(StateError, match="a prefix must have 0 to 5 rounds, got 6"):
        whole.prefix(6)


def test_views():
    whole = execution(GRAPH)
    assert whole.channels().theta is None
    np.testing.assert_array_equal(whole.channels().x, whole.x)
    assert whole.server().x is None
    np.testing.assert_array_equal(whole.server().y, whole.y)
    seen = whole.compromised([2, 0, 2])
    assert seen.agents == (0, 2)
    np.testing.assert_array_equal(seen.theta, whole.theta[:, [0, 2]])
    with pytest.raises(StateError, match=r"numbers from 0 to 2, got \[0, 3\]"):
        whole.compromised([0, 3])


def test_observations_match_only_when_all_parts_do():
    one = execution().channels()
    assert one.matches(one)
    assert not one.matches(Observation(x=one.x, y=one.y + 1e-3))
    assert not one.matches(Observation(x=one.x))
    assert not one.matches(execution(GRAPH).channels())
    both = execution().compromised([1])
    assert not both.matches(execution().compromised([2]))


@pytest.mark.parametrize("mechanism", [SERVER, GRAPH])
def test_nothing_private_in_any_repr(mechanism):
    whole = execution(mechanism)
    state, said = mechanism.step(mechanism.start([SECRET, 2, 3]), np.zeros(3))
    for thing in (
        whole,
        whole.prefix(1),
        state,
        said,
        mechanism.start([SECRET, 2, 3]),
        whole.compromised([0]),
    ):
        text = repr(thing) + str(thing)
        assert "31415" not in text
        assert str(whole.eta[0, 0])[:7] not in text


def test_an_execution_is_frozen():
    with pytest.raises(ValueError, match="read-only"):
        execution().theta[0, 0] = 1.0


def runs_of(mechanism, runs=4):
    noise = SimulatedNoise(2)
    return [mechanism.execute([1, 2, 4.0], noise.draw(PARAMETERS, 5, 3, run=r)) for r in range(runs)]


@pytest.mark.parametrize("mechanism", [FADING_SERVER, FADING_GRAPH], ids=["server", "graph"])
def test_side_by_side_is_what_was_heard_and_nothing_else(mechanism):
    ran = runs_of(mechanism)
    seen = History.stack(ran)
    assert repr(seen) == f"<History {mechanism.kind}, 4 runs, 3 agents, 5 rounds>"
    for run, one in enumerate(ran):
        assert seen[run].channels().matches(one.channels())
        assert seen[run].runs == 1
        for read in (lambda h: h.theta, lambda h: h.eta, lambda h: h.compromised([0])):
            with pytest.raises(StateError, match="only the public part"):
                read(seen[run])
    assert seen.private is None
    assert ran[0].public().private is None
    with pytest.raises(StateError, match="from 0 to 3"):
        seen[4]
    with pytest.raises(StateError, match="one run"):
        ran[0][0]
    with pytest.raises(ValueError, match="read-only"):
        seen.x[0] = 0


def test_states_without_noise_are_a_history_too():
    whole = execution()
    states = History.full(SERVER, whole.x, whole.y, private=Private(whole.theta))
    np.testing.assert_array_equal(states.prefix(2).theta, whole.theta[:3])
    assert "31415" not in repr(states) + repr(states.private)
    with pytest.raises(StateError, match="only states"):
        _ = states.eta


@pytest.mark.parametrize("mechanism", [FADING_SERVER, FADING_GRAPH], ids=["server", "graph"])
def test_who_was_used_is_who_spoke_unless_it_is_said(mechanism):
    seen = Simulated(mechanism, misses=True, retries="repeat")([1, 2, 4.0], 6, 2, 3)
    used = seen.used_or_all
    for t in range(6):
        spoke = seen.said[0, seen.rounds_of == t].any(axis=0)
        assert not spoke.all()
        expected = spoke if mechanism is FADING_SERVER else spoke[seen.pairs[:, 1]]
        assert np.array_equal(used[0, t], expected)
    if mechanism is FADING_GRAPH:
        assert {tuple(pair) for pair in seen.pairs.tolist()} == {
            (0, 0), (1, 1), (2, 2), (0, 1), (1, 0), (1, 2), (2, 1),
        }  # fmt: skip
    told = History(**{**vars(seen), "used": ~used})
    assert np.array_equal(told[1].used_or_all, ~used[1])
    assert np.array_equal(History.stack([told, seen]).used_or_all, np.concatenate([~used, used]))


@pytest.mark.parametrize(
    "make", [Simulated(FADING_SERVER, misses=True, retries="repeat"), Deployed(FADING_GRAPH, 0, 5)]
)
def test_parts_joined_are_the_whole(make):
    seen = make([1, 2, 4.0], 6, 10, 3)
    again = History.stack([seen[:3], seen[np.arange(3, 10)]])
    assert np.array_equal(again.x, seen.x)
    assert np.array_equal(again.said, seen.said)
    assert np.array_equal(again.y, seen.y)
    assert np.array_equal(again.update, seen.update)
    if seen.wholes is not None:
        assert np.array_equal(again.wholes.x, seen.wholes.x)
        assert np.array_equal(again.wholes.y, seen.wholes.y)
    assert again.prefix(4).rounds == 4
    assert again.prefix(4).rounds_of[-1] == 3


def test_sessions_with_different_schedules_join():
    plain, missed = (Simulated(FADING_SERVER, misses=m)([1, 2, 4.0], 6, 2, 3) for m in (False, True))
    both = History.stack([plain, missed])
    assert both.update.shape == (4, 6, 3)
    assert np.array_equal(both.update[0], plain.update[0])
    assert np.array_equal(both.update[3], missed.update[0])
    with pytest.raises(StateError, match="separate folders"):
        History.stack([plain, Simulated(FADING_SERVER)([1, 2, 4.0], 5, 2, 3)])


def test_what_cannot_have_been_heard_is_refused():
    x, y = np.zeros((2, 4, 3)), np.zeros((2, 4))
    slots, update = np.arange(4), np.arange(4)[None, :, None].repeat(3, axis=2)
    said = np.ones(x.shape, dtype=bool)
    seen = History(FADING_SERVER, x, y, said, slots, update)
    bad = [
        (np.zeros((2, 4, 2)), y, said, slots, update),
        (x, np.zeros((2, 4, 3)), said, slots, update),
        (x, y, said[:, :3], slots, update),
        (x, y, said[..., :2], slots, update),
        (x, y, said, np.array([0, 2, 1, 3]), update),
        (x, y, said, np.array([0, 1, 2, 2]), update),
        (x, y, said, slots, update[:, ::-1].copy()),
        (x, y, said, slots, 2 * update),
        (x, y, said, slots, update[:, :3]),
        (np.full((2, 4, 3), np.inf), y, said, slots, update),
        (np.full((2, 4, 3), np.nan), y, said, slots, update),
        (x, np.full((2, 4), np.nan), said, slots, update),
        (x, y, said, slots, update, None, None, said[..., :2]),
        (x, y, said, slots, update, None, None, None, Private(np.zeros((2, 4, 3)))),
        (x, y, said, slots, update, None, None, None, Private(np.zeros((2, 5, 3)), np.zeros((2, 5, 3)))),
    ]
    for parts in bad:
        with pytest.raises(StateError):
            History(FADING_SERVER, *parts)
    with pytest.raises(StateError, match="0 to 2"):
        seen.of(3)
    with pytest.raises(StateError):
        History.stack([])
