"""Coefficients of what happened, against theory and brute force."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import ParameterError, RecordTooLarge, StateError
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.on_lattice import OnLattice
from tacit.core.theory import accuracy, influence
from tacit.core.theory.optimum import best_fading
from tacit.lab.audit import Simulated

PATH = Graph.from_edges([(0, 1), (1, 2), (2, 3)])
EACH = ([0.2, 0.35, 0.5, 0.8], [1.0, 2.0, 0.5, 3.0], [0.9, 0.85, 0.8, 0.7])
MECHANISMS = {
    "server": ClientServer(Fading(0.5, 1, 0.9), agents=4),
    "server, one-shot": ClientServer(OneShot(0.5, 2), agents=4),
    "server, each": ClientServer(Fading(*EACH), agents=4),
    "server, one-shot, each": ClientServer(OneShot(*EACH[:2]), agents=4),
    "graph": Distributed(Fading(0.5, 1, 0.9), PATH),
    "graph, each": Distributed(Fading(*EACH), PATH),
    "graph, one-shot, each": Distributed(OneShot(*EACH[:2]), PATH),
}
pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_equals_accuracy_when_nobody_is_missing(mechanism):
    run = influence.everyone(mechanism, 7)
    law = accuracy.deviation(mechanism, 7)
    assert run.average().noise.variance == pytest.approx(law.variance, rel=1e-10)
    assert run.average().bias < 1e-15
    for b in (0.5, 0.01):
        assert run.average().radius(b) == pytest.approx(accuracy.radius(mechanism, b, 7), rel=1e-10)
        for agent in range(4):
            own = accuracy.radius(mechanism, b, 7, agent=agent, spread=3)
            assert run.agent(agent).radius(b, spread=3) == pytest.approx(own, rel=1e-9)


def followed(mechanism, layers, theta, eta):
    """Run what happened in plain loops, on numbers.

    Return states by update, and feedback by round.
    """
    sigma = np.broadcast_to(mechanism.law.sigma, mechanism.n)
    one_shot = mechanism.shadowed
    states = [[theta[i]] for i in range(mechanism.n)]
    shadows = [[theta[i] + eta[i][0]] for i in range(mechanism.n)]
    means = []
    for used, moved in layers:
        y = {}
        for into, pairs in used.items():
            said = [shadows[j][u] if one_shot else states[j][u] + eta[j][u] for j, u in pairs]
            y[into] = sum(said) / len(said)
        means.append(y)
        for i, by in moved:
            states[i].append((1 - sigma[i]) * states[i][-1] + sigma[i] * y[by])
            shadows[i].append((1 - sigma[i]) * shadows[i][-1] + sigma[i] * y[by])
    return states, means


@st.composite
def runs(draw):
    """A mechanism, what happened to it, and the same for the plain loops."""
    mechanism = draw(st.sampled_from(list(MECHANISMS.values())))
    rounds, n = draw(st.integers(1, 4)), mechanism.n
    server = isinstance(mechanism, ClientServer)
    level, layers, given_used, given_updates, given_moved = [0] * n, [], [], [], []
    for _ in range(rounds):
        if server:
            into = {0: draw(st.lists(st.sampled_from(range(n)), min_size=1, unique=True))}
            moved = [(i, 0) for i in draw(st.lists(st.sampled_from(range(n)), unique=True))]
        else:
            alive = draw(st.lists(st.sampled_from(range(n)), unique=True))
            near = {i: [i, *PATH.neighbours(i).tolist()] for i in alive}
            into = {i: draw(st.lists(st.sampled_from(near[i]), min_size=1, unique=True)) for i in alive}
            moved = [(i, i) for i in alive]
        used = {i: [(j, draw(st.integers(0, level[j]))) for j in agents] for i, agents in into.items()}
        layers.append((used, moved))
        flat = [(i, j, u) for i, pairs in used.items() for j, u in pairs]
        given_used.append([j for _, j, _ in flat] if server else [(i, j) for i, j, _ in flat])
        given_updates.append([u for *_, u in flat])
        given_moved.append([i for i, _ in moved])
        for i, _ in moved:
            level[i] += 1
    if server:
        run = influence.server(mechanism, given_used, moved=given_moved, updates=given_updates)
    else:
        run = influence.graph(mechanism, given_used, updates=given_updates)
    return mechanism, layers, run


@settings(max_examples=80, deadline=None)
@given(runs(), st.data())
def test_coefficients_are_those_of_brute_force(made, data):
    mechanism, layers, run = made
    n, rounds = mechanism.n, len(layers)
    agent = data.draw(st.integers(0, n - 1))
    makers = sorted(layers[-1][0])
    into = data.draw(st.sampled_from(makers)) if makers else None

    def answers(theta, eta):
        states, means = followed(mechanism, layers, theta, eta)
        return np.array([states[agent][-1], means[-1][into] if makers else 0.0])

    zero, none = np.zeros(n), np.zeros((n, rounds + 1))
    met = np.array([answers(row, none) for row in np.eye(n)])
    variance = np.zeros(2)
    scales = mechanism.law.scales(rounds + 1)
    scales = scales if scales.ndim > 1 else np.repeat(scales[:, None], n, axis=1)
    for i in range(n):
        for u in range(rounds + 1):
            eta = none.copy()
            eta[i, u] = scales[u, i]
            variance += 2 * answers(zero, eta) ** 2
    values = [run.agent(agent), *([run.feedback(agent=into)] if makers else [])]
    for k, value in enumerate(values):
        np.testing.assert_allclose(value.weights, met[:, k], atol=1e-14)
        assert value.weights.sum() == pytest.approx(1)
        assert value.noise.variance == pytest.approx(variance[k], rel=1e-9, abs=1e-300)
        off = 0.5 * np.abs(met[:, k] - accuracy.weights(mechanism)).sum()
        assert value.bias == pytest.approx(off, abs=1e-14)


def test_who_drops_out_at_once_counts_for_nothing():
    mechanism = MECHANISMS["server"]
    value = influence.server(mechanism, [[0, 1, 2]] * 60).feedback()
    np.testing.assert_allclose(value.weights, [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-12)
    assert value.bias == pytest.approx(0.25)
    others = accuracy.radius(ClientServer(mechanism.law, agents=3), 0.05)
    assert value.radius(0.05) == pytest.approx(others, rel=0.01)
    # the worst start is off by spread × bias; with the noise it is off by more, but not by both radii
    assert 2.5 < value.radius(0.05, spread=10) < 2.5 + value.radius(0.05)


def test_radius_covers_what_lattices_do():
    """Runs on lattices stay within the rounding of runs on reals."""
    mechanism = MECHANISMS["server, each"]
    lattice = Lattice.fitting(mechanism.law, 5, 0, 1, bits=8)
    on = OnLattice(mechanism, lattice)
    exact, coarse = (influence.everyone(mechanism, 5, lat) for lat in (None, lattice))
    rounding = coarse.agent(2).rounding
    assert coarse.agent(2).radius(0.1) == pytest.approx(exact.agent(2).radius(0.1) + rounding, rel=1e-12)
    assert exact.agent(2).rounding == 0
    values = [0.1, 0.7, 0.3, 0.9]
    rng = np.random.default_rng(5)
    for _ in range(20):
        draws = rng.integers(-2000, 2000, size=(5, 4))
        run = on.execute(values, draws)
        steps = np.ldexp(draws.astype(float), run.exponent.astype(int))
        plain = mechanism.execute(values, steps)
        apart = abs(run.theta[-1][2] - plain.theta[-1][2])
        assert 0 < apart < rounding


def test_vectors_are_covered_at_once():
    value = influence.everyone(MECHANISMS["server"], 5).agent(0)
    b = 1 - math.sqrt(1 - 0.1)
    assert value.radius(0.1, components=2) == pytest.approx(value.radius(b), rel=1e-9)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m: influence.server(m, [[]]), "at least one message"),
        (lambda m: influence.server(m, [[0, 0]]), "at most once"),
        (lambda m: influence.server(m, [[4]]), "numbers from 0 to 3"),
        (lambda m: influence.server(m, [[0]], moved=[[5]]), "moved in round 0"),
        (lambda m: influence.server(m, [[0]], updates=[[1]]), "after at most as many updates"),
        (lambda m: influence.server(m, [[0]], updates=[[0, 0]]), "after at most as many updates"),
        (lambda _: influence.graph(MECHANISMS["graph"], [[(0, 2)]]), "neighbours' messages"),
        (lambda _: influence.graph(MECHANISMS["graph"], [[(0, 1), (0, 1)]]), "named once"),
        (lambda _: influence.graph(MECHANISMS["graph"], [[(0, 9)]]), "from 0 to 3"),
    ],
)
def test_impossible_runs_are_refused(call, says):
    with pytest.raises(StateError, match=says):
        call(MECHANISMS["server"])


def test_plans_without_an_answer_are_refused():
    run = influence.everyone(MECHANISMS["server"], 2)
    with pytest.raises(ParameterError, match="agent must be"):
        run.agent(4)
    with pytest.raises(ParameterError, match="round must be"):
        run.feedback(2)
    with pytest.raises(ParameterError, match="spread"):
        run.agent(0).radius(0.1, spread=-1)
    with pytest.raises(ParameterError, match="made a mean"):
        influence.graph(MECHANISMS["graph"], [[(0, 0)]]).feedback(agent=3)


def test_too_long_runs_are_refused_before_memory_is(monkeypatch):
    monkeypatch.setattr(influence, "_MOST_TERMS", 11)
    with pytest.raises(RecordTooLarge, match="12"):
        influence.everyone(MECHANISMS["server"], 2)


def test_a_third_that_leaves_moves_the_target_far_beyond_the_noise():
    """The weights' bias is a thousand times the noise.

    The exact quantile overflowed there.
    """
    n, stay = 10**4, 6667
    mechanism = ClientServer(best_fading(0.99, 50.0), agents=n)
    value = influence.server(mechanism, [np.arange(stay)] * 2).feedback()
    radius = value.radius(0.05, spread=1.0)
    assert value.bias < radius < value.bias + 20 * value.noise.variance**0.5
    assert value.bias > 500 * value.noise.variance**0.5


@pytest.mark.parametrize("name", ["server", "graph"])
def test_a_history_is_followed_back_as_its_lists_are(name):
    """`of` finds what the lists of who was used say.

    There is silence, repetitions and missed feedback.
    """
    mechanism = MECHANISMS[name]
    seen = Simulated(mechanism, misses=True, retries="repeat")(np.arange(4.0), 6, 2, 3)[1]
    spoke = [seen.said[seen.rounds_of == t].any(axis=0) for t in range(6)]
    here = [np.flatnonzero(row) for row in spoke]
    if name == "server":
        expected = influence.server(mechanism, here, moved=[*here[:-1], range(4)])
    else:
        pairs = [[p for p in seen.pairs.tolist() if row[p[1]] and row[p[0]]] for row in spoke[:-1]]
        pairs.append([p for p in seen.pairs.tolist() if spoke[-1][p[1]]])
        expected = influence.graph(mechanism, pairs)
    found = influence.of(seen)
    for i in range(4):
        np.testing.assert_array_equal(found.agent(i).weights, expected.agent(i).weights)
        assert found.agent(i).radius(0.1, spread=1.0) == expected.agent(i).radius(0.1, spread=1.0)
    with pytest.raises(StateError, match="one run"):
        influence.of(seen.stacked)


def test_a_mean_of_nothing_moves_nobody():
    run = MECHANISMS["server"].execute(np.zeros(4), np.zeros((2, 4)))
    with pytest.raises(StateError, match="round 1"):
        influence.of(replace(run, used=np.array([[True] * 4, [False] * 4])))
