"""A radius that holds whoever chose whose messages are used."""

import itertools
import math

import numpy as np
import pytest

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import ParameterError
from tacit.core.theory import influence, selection

pytestmark = pytest.mark.filterwarnings("error")

CROWD = ClientServer(Fading(0.8, 1, 0.6), agents=20)
QUORUM = 11


def favourites(mechanism, rounds, runs, seed):
    """Play a coordinator that uses the highest messages it may.

    Return the last feedback, and whom it used.
    """
    rng, parameters = np.random.default_rng(seed), mechanism.law
    states, used = np.zeros((runs, mechanism.n)), []
    for t in range(rounds):
        said = states + rng.laplace(0, parameters.c * parameters.q**t, states.shape)
        used.append(np.argsort(said, axis=1)[:, -QUORUM:])
        y = np.take_along_axis(said, used[-1], 1).mean(axis=1, keepdims=True)
        states = (1 - parameters.sigma) * states + parameters.sigma * y
    return y[:, 0], np.stack(used, axis=1)


def test_a_coordinator_that_uses_the_highest_messages():
    """It leaves the ordinary radius, and never the selection-proof one."""
    y, used = favourites(CROWD, 10, 60, seed=1)
    ordinary, proof = [], []
    for row in used:
        run = influence.server(CROWD, row)
        value = run.feedback()
        ordinary.append(value.radius(0.05))
        proof.append(selection.radius(run, value, 0.05, least=QUORUM, rounds=10))
    assert np.mean(np.abs(y) > ordinary) > 0.95
    assert np.all(np.abs(y) <= proof)
    # It is not only safe: nine in ten thousand would be nearly as far off.
    many, _ = favourites(CROWD, 10, 20_000, seed=2)
    assert 0 < np.mean(many > np.mean(proof)) < 0.05
    assert np.quantile(many, 0.999) > 0.9 * np.mean(proof)


def noise_weights(run, value_of):
    """Return how much of each draw (agent, update) is in a value.

    It is by the noise law's own terms.
    """
    n, rounds = run.mechanism.n, len(run.layers)
    sigma = np.broadcast_to(run.mechanism.law.sigma, n)
    found = np.zeros((n, rounds))
    for i, u in itertools.product(range(n), range(rounds)):
        states, shadows, y = np.zeros(n), np.zeros(n), np.zeros(n)
        shadows[i] = float(run.mechanism.shadowed)
        for t, layer in enumerate(run.layers):
            said = shadows.copy() if run.mechanism.shadowed else states + (np.arange(n) == i) * (u == t)
            count = np.maximum(np.bincount(layer.into, minlength=n), 1)
            y = np.bincount(layer.into, said[layer.said], minlength=n) / count
            moved, by = layer.moved, layer.by
            for kept in (states, shadows):
                kept[moved] = (1 - sigma[moved]) * kept[moved] + sigma[moved] * y[by]
        found[i, u] = value_of(states, y) if not (run.mechanism.shadowed and u) else 0.0
    return found


def subsets(candidates, least):
    return [s for m in range(least, len(candidates) + 1) for s in itertools.combinations(candidates, m)]


def server_runs(mechanism, rounds, least):
    choices = subsets(range(mechanism.n), least)
    return [influence.server(mechanism, used) for used in itertools.product(choices, repeat=rounds)]


def graph_runs(mechanism):
    near = [subsets([i, *mechanism.graph.neighbours(i).tolist()], 0) for i in range(mechanism.n)]
    return [
        influence.graph(mechanism, [[(i, j) for i, row in enumerate(used) for j in row]])
        for used in itertools.product(*near)
    ]


EACH = ([0.3, 0.8, 0.6], [1.0, 1.3, 0.8], [0.9, 0.7, 0.8])
PAIR, PATH = Graph.from_edges([(0, 1)]), Graph.from_edges([(0, 1), (1, 2)])
SMALL = {
    "server": (server_runs(ClientServer(Fading(0.5, 1, 0.8), agents=3), 2, 2), 2),
    "server, each": (server_runs(ClientServer(Fading(*EACH), agents=3), 2, 2), 2),
    "server, one-shot": (server_runs(ClientServer(OneShot(0.5, 1), agents=4), 2, 3), 3),
    "graph": (graph_runs(Distributed(Fading(0.5, 1, 0.8), PAIR)), 1),
}
LARGER = pytest.param(graph_runs(Distributed(Fading(0.5, 1, 0.8), PATH)), 1, marks=pytest.mark.long)


@pytest.mark.parametrize(("runs", "least"), [*SMALL.values(), LARGER], ids=[*SMALL, "larger graph"])
@pytest.mark.parametrize("of", ["state", "mean"])
def test_the_best_of_all_choices_stays_within(runs, least, of):
    """An adversary that knows all noise is outside at most that often.

    It picks the worst of all runs.
    """
    mechanism, rounds = runs[0].mechanism, len(runs[0].layers)
    if of == "mean" and isinstance(mechanism, Distributed):
        return  # on a graph a run is judged by its states
    b, draws = 0.3, 20_000
    scales = mechanism.law.scales(rounds)
    scales = scales.T if scales.ndim > 1 else np.tile(scales, (mechanism.n, 1))
    noise = np.random.default_rng(7).laplace(0, 1, (draws, mechanism.n, rounds)) * scales
    outside, known = np.zeros(draws, dtype=bool), {}
    for run in runs:
        value = run.feedback() if of == "mean" else run.agent(1)
        weights = noise_weights(run, lambda states, y: y[0] if of == "mean" else states[1])
        assert value.noise.variance == pytest.approx(2 * np.sum((weights * scales) ** 2), rel=1e-9)
        key = (weights.tobytes(), selection._choices(run)[1].tobytes())  # a single draw takes a while
        r = known[key] = known.get(key) or selection.radius(run, value, b, least=least, rounds=rounds)
        outside |= np.abs(noise.reshape(draws, -1) @ weights.reshape(-1)) > r
    # 1e-6 above the promise, and not so wide that it would say nothing
    assert b / 100 < outside.mean() < b + 5 * math.sqrt(b / draws)


@pytest.mark.parametrize(("runs", "least"), SMALL.values(), ids=SMALL)
def test_all_shares_together_are_one(runs, least):
    """Runs of full length that lack someone share 1/rounds.

    The one that lacks nobody is left out.
    """
    total, rounds = 0.0, len(runs[0].layers)
    for run in runs:
        slots, used = selection._choices(run)
        sizes = slots if isinstance(run.mechanism, Distributed) else slots - least
        total += math.exp(selection._log_share(slots, used, sizes, rounds))
    assert total == pytest.approx(1 / rounds, rel=1e-9)
    assert total <= 1 / rounds


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 1), (5, 5), (20, 11), (300, 2), (3000, 1501)])
def test_the_law_of_the_highest_draws(n, m):
    """E exp(m·u·H) is what sampling finds, and its logarithm is convex.

    So chords are above it.
    """
    u, logs = selection._log_mgf(n, m)
    some = slice(60, 380, 20)  # before that, the safety margin is larger than the function
    assert np.all(np.diff(np.diff(logs[some]) / np.diff(u[some])) > -1e-6)
    highest = np.sort(np.random.default_rng(3).laplace(0, 1, (4000, n)), axis=1)[:, -m:].clip(min=0)
    mean = highest.sum(axis=1) / m
    k = np.searchsorted(u, 0.3 / m)
    sampled = np.exp(m * u[k] * mean)
    error = 6 * sampled.std() / math.sqrt(sampled.size)
    if n <= 512:
        assert math.exp(logs[k]) == pytest.approx(sampled.mean(), abs=error)
    else:  # in blocks, from above, and not by much
        assert sampled.mean() - error < math.exp(logs[k]) < 1.01 * sampled.mean()


def test_where_nothing_can_be_chosen_it_is_the_ordinary_radius():
    run = influence.everyone(CROWD, 5)
    value = run.feedback()
    assert selection.radius(run, value, 0.05, least=20) == value.radius(0.05)
    # who could have chosen, and left nobody out, has half of the failure probability
    assert selection.radius(run, value, 0.05, least=11, rounds=5, spread=2, components=3) == value.radius(
        0.025, spread=2, components=3
    )


def test_more_freedom_is_a_wider_radius():
    def of(used, **more):
        run = influence.server(CROWD, used)
        return selection.radius(run, run.feedback(), 0.05, **({"least": 11, "rounds": 5} | more))

    everyone, one_less = [range(20)] * 5, [range(19), *[range(20)] * 4]
    half = [range(11)] * 5
    assert of(everyone) < of(one_less) < of(half)
    assert of(half) < of(half, components=4)
    assert of(half) + 0.44 < of(half, spread=1)  # the nine that were left out may hold other values
    assert of(half) < of(half, rounds=50)  # ended early
    assert of(half) < of(half, least=5)  # fewer could have been used


@pytest.mark.parametrize(("agents", "rounds", "decay"), [(5000, 60, 0.9), (40, 3000, 0.999), (3, 1, 0.5)])
def test_large_runs_neither_overflow_nor_vanish(agents, rounds, decay):
    mechanism = ClientServer(Fading(0.5, 1, decay), agents=agents)
    run = influence.server(mechanism, [range(agents // 2 + 1)] * rounds)
    value = run.feedback()
    for b in (0.5, 1e-12, 1e-300):
        r = selection.radius(run, value, b, least=agents // 2 + 1)
        assert value.radius(b) < r < math.inf
    # ln 2 + 1 is more than the mean of the higher half of the draws, in every round
    assert r < 1000 * (1 + np.log(2) * np.sum(mechanism.law.scales(rounds)))


def test_lattices_add_their_rounding():
    from tacit.core.mechanism.lattice import Lattice

    lattice = Lattice.fitting(CROWD.law, 3, 0, 1, bits=8)
    plain, coarse = (influence.server(CROWD, [range(11)] * 3, lattice=on) for on in (None, lattice))
    found = [selection.radius(run, run.feedback(), 0.05, least=11) for run in (plain, coarse)]
    assert found[1] == pytest.approx(found[0] + coarse.feedback().rounding, rel=1e-12)


def test_what_cannot_be_counted_is_refused():
    run = influence.server(CROWD, [range(11), range(20)])
    for wrong in ({"least": 12}, {"least": 0}, {"least": 21}, {"rounds": 1}):
        with pytest.raises(ParameterError, match="must be"):
            selection.radius(run, run.feedback(), 0.05, **wrong)
    stays = influence.server(CROWD, [range(20)] * 2, moved=[range(19), range(20)])
    with pytest.raises(ParameterError, match="newest messages"):
        selection.radius(stays, stays.feedback(), 0.05)
    with pytest.raises(ParameterError, match="failure probability"):
        selection.radius(run, run.feedback(), 1.5)
