"""Random families draw what they say.

Every test that could fail by chance declares 1e-6.
"""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from tacit import Graph
from tacit.core.graph import random_graphs
from tacit.core.graph.build import halves, pack
from tacit.core.graph.random_graphs import (
    _bad,
    _chosen,
    _switched,
    barabasi_graph,
    erdos_graph,
    geometric_graph,
    regular_graph,
    smallworld_graph,
)

FALSE_ALARM = 1e-6


def plausible(count: int, trials: int, probability: float, tests: int = 1) -> bool:
    """Whether a binomial count is plausible.

    A right program shows another one once in a million.
    """
    tail = FALSE_ALARM / tests / 2
    return bool(
        binom.cdf(count, trials, probability) > tail and binom.sf(count - 1, trials, probability) > tail
    )


def fits(counts: np.ndarray, expected: np.ndarray) -> bool:
    assert math.isclose(counts.sum(), expected.sum())
    statistic = ((counts - expected) ** 2 / expected).sum()
    return bool(statistic < chi2.isf(FALSE_ALARM, len(counts) - 1))


# Random regular ---------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(2, 24), st.data())
def test_regular_graphs_are_simple_and_exactly_regular(require_simple, n, data):
    degree = data.draw(st.integers(1, n - 1).filter(lambda d: n * d % 2 == 0))
    graph = regular_graph(n, degree, seed=data.draw(st.integers(0, 1000)))
    require_simple(graph)
    assert graph.degree_counts() == {degree: n}


@pytest.mark.parametrize(("n", "degree"), [(2000, 3), (300, 120), (301, 150), (200, 160)])
def test_larger_regular_graphs_too(require_simple, n, degree):
    graph = regular_graph(n, degree)
    require_simple(graph)
    assert graph.degree_counts() == {degree: n}


def test_pairings_that_cannot_be_repaired_are_drawn_anew(monkeypatch, require_simple):
    monkeypatch.setattr("tacit.core.graph.random_graphs._PATIENCE", 1)
    for seed in range(50):
        graph = regular_graph(7, 2, seed)
        require_simple(graph)
        assert graph.degree_counts() == {2: 7}


def test_every_pair_is_equally_likely_to_be_joined_in_a_regular_graph():
    # By symmetry every pair is joined with probability d/(n − 1), runs are independent.
    n, degree, runs = 6, 2, 4000
    counts = sum(regular_graph(n, degree, seed).adjacency().toarray() for seed in range(runs))
    for i in range(n):
        for j in range(i):
            assert plausible(int(counts[i, j]), runs, degree / (n - 1), tests=math.comb(n, 2))


def test_switches_keep_degrees_and_leave_fewer_bad_edges():
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        ends = rng.permutation(np.repeat(np.arange(9), 4))
        keys = np.sort(pack(ends[::2], ends[1::2]))
        bad = _bad(keys)
        after, done = _switched(keys, bad, rng)
        assert (np.diff(after) >= 0).all()
        assert np.bincount(np.concatenate(halves(after))).tolist() == [4] * 9
        assert len(_bad(after)) <= len(bad) - done
        assert done or np.array_equal(after, keys)


def test_two_regular_graphs_on_five_agents_are_uniform():
    # All are five-cycles, of which there are 12, alike but for the agents' numbers.
    runs = 6000
    found = Counter(regular_graph(5, 2, seed).indices.tobytes() for seed in range(runs))
    assert len(found) == 12
    assert fits(np.array(list(found.values())), np.full(12, runs / 12))


def test_perfect_matchings_are_uniform():
    runs = 3000
    found = Counter(int(regular_graph(4, 1, seed).neighbours(0)[0]) for seed in range(runs))
    assert fits(np.array([found[1], found[2], found[3]]), np.full(3, runs / 3))


# G(n, p) ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "p"), [(2000, 0.01), (400, 0.5), (100, 0.97), (3, 0.2), (100_000, 1e-5)])
def test_the_number_of_edges_is_binomial(n, p):
    for seed in range(5):
        assert plausible(erdos_graph(n, p, seed).n_edges, math.comb(n, 2), p, tests=25)


def test_pairs_are_joined_independently():
    # All 64 graphs on four agents, each with the probability of its number of edges.
    runs, p = 8000, 0.4
    weights = 2 ** np.arange(6)
    upper = np.triu_indices(4, 1)
    found = [int(erdos_graph(4, p, seed).adjacency().toarray()[upper] @ weights) for seed in range(runs)]
    sizes = np.array([k.bit_count() for k in range(64)])
    assert fits(np.bincount(found, minlength=64), runs * p**sizes * (1 - p) ** (6 - sizes))


@settings(deadline=None)
@given(st.integers(0, 300), st.floats(0, 1), st.integers(0, 99))
def test_chosen_trials_are_distinct_and_in_range(total, p, seed):
    chosen = _chosen(total, p, np.random.default_rng(seed))
    assert (np.diff(chosen) > 0).all()
    assert not len(chosen) or (chosen[0] >= 0 and chosen[-1] < total)
    assert p < 1 or len(chosen) == total


@pytest.mark.parametrize("batch", [1, 3, 10])
@pytest.mark.parametrize("p", [0.1, 0.5, 1])
def test_how_many_gaps_are_drawn_together_does_not_matter(monkeypatch, batch, p):
    expected = _chosen(100, p, np.random.default_rng(3))
    monkeypatch.setattr(random_graphs, "_BATCH", batch)
    assert _chosen(100, p, np.random.default_rng(3)).tolist() == expected.tolist()


@pytest.mark.parametrize("p", [1e-300, 1e-19, 1e-18, 2e-18])
def test_gaps_beyond_the_largest_number_do_not_overflow(p):
    total = 2**61
    for seed in range(200):
        chosen = _chosen(total, p, np.random.default_rng(seed))
        assert (np.diff(chosen) > 0).all()
        assert ((chosen >= 0) & (chosen < total)).all()


# Preferential attachment ------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(2, 60), st.data())
def test_attachment_gives_connected_graphs_with_all_their_edges(require_simple, n, data):
    m = data.draw(st.integers(1, n - 1))
    graph = barabasi_graph(n, m, seed=data.draw(st.integers(0, 1000)))
    require_simple(graph)
    assert graph.n_edges == m * (n - m)
    assert graph.is_connected
    earlier = [(graph.neighbours(v) < v).sum() for v in range(m + 1, n)]
    assert earlier == [m] * (n - m - 1)


def test_attachment_is_in_proportion_to_degree():
    # Agents 0, 1, 2 have degrees 2, 1, 1; agent 3 picks two of them. P{1, 2} = 2 · ¼ · ⅓ = 1/6.
    runs = 6000
    found = Counter(tuple(barabasi_graph(4, 2, seed).neighbours(3).tolist()) for seed in range(runs))
    counts = np.array([found[0, 1], found[0, 2], found[1, 2]])
    assert fits(counts, runs * np.array([5 / 12, 5 / 12, 1 / 6]))


def test_attachment_is_in_proportion_to_degree_for_more_edges():
    # Degrees 3, 1, 1, 1; agent 4 leaves out one. It leaves out the hub with 3/6 · 2/5 · 1/4 = 1/20.
    runs = 6000
    found = Counter(6 - int(barabasi_graph(5, 3, seed).neighbours(4).sum()) for seed in range(runs))
    counts = np.array([found[k] for k in range(4)])
    assert fits(counts, runs * np.array([1 / 20, 19 / 60, 19 / 60, 19 / 60]))


def test_attachment_counts_the_edges_that_arrivals_brought():
    # Degrees after agent 2: 2 for whom it picked, 1 for itself and the other; agent 3 picks one.
    runs, same, newest = 6000, 0, 0
    for seed in range(runs):
        graph = barabasi_graph(4, 1, seed)
        picked = int(graph.neighbours(2)[0])
        pick = int(graph.neighbours(3)[0])
        same += pick == picked
        newest += pick == 2
    assert fits(np.array([same, newest, runs - same - newest]), runs * np.array([1 / 2, 1 / 4, 1 / 4]))


def test_the_compiled_loop_gives_the_same_graph(monkeypatch):
    expected = barabasi_graph(3000, 4, seed=5)
    monkeypatch.setattr(random_graphs, "_WORTH_COMPILING", 0)
    compiled = barabasi_graph(3000, 4, seed=5)
    assert np.array_equal(compiled.indices, expected.indices)


# Small worlds -----------------------------------------------------------------------------


def lattice_distance(graph: Graph) -> np.ndarray:
    i, j = graph.edges().T
    return np.minimum(j - i, graph.n - (j - i))


@settings(deadline=None)
@given(st.integers(3, 40), st.floats(0, 1), st.data())
def test_rewiring_keeps_edges_and_first_agents(require_simple, n, p, data):
    k = data.draw(st.integers(1, (n - 1) // 2)) * 2
    graph = smallworld_graph(n, k, p, seed=data.draw(st.integers(0, 1000)))
    require_simple(graph)
    assert graph.n_edges == n * k // 2
    assert graph.degrees.min() >= k // 2


def test_as_many_edges_lead_away_as_the_probability_says():
    n, k, p = 3001, 6, 0.2
    away = int((lattice_distance(smallworld_graph(n, k, p)) > k // 2).sum())
    # A rewired edge lands next door by chance with probability below k/n: below one edge in all.
    assert plausible(away, n * k // 2, p * (1 - p * k / n))


def test_edges_lead_to_anywhere_alike():
    n, k = 1001, 4
    distance = lattice_distance(smallworld_graph(n, k, 1.0))
    away = distance[distance > k // 2]
    counts = np.histogram(away, bins=np.linspace(2.5, 500.5, 7))[0]
    assert fits(counts, np.full(6, len(away) / 6))


def test_every_part_of_the_ring_is_led_to_alike():
    n, k = 1002, 4
    arcs = smallworld_graph(n, k, 1.0).degrees.reshape(6, -1).sum(axis=1)
    ends = arcs - n * k // 12  # without the first agents of the edges, who stay
    assert fits(ends, np.full(6, n * k / 12))


# Geometric --------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(1, 40), st.floats(0, 1.5), st.integers(0, 1000))
def test_geometric_graphs_equal_brute_force(require_simple, n, radius, seed):
    graph = geometric_graph(n, radius, seed)
    require_simple(graph)
    at = graph.positions
    assert at.shape == (n, 2)
    assert ((at >= 0) & (at < 1)).all()
    distance = np.hypot(*(at[:, None] - at).transpose(2, 0, 1))
    near = (distance <= radius) & ~np.eye(n, dtype=bool)
    assert (graph.adjacency().toarray() == near).all()


def test_places_are_uniform_in_the_square():
    cells = (geometric_graph(5000, 0).positions * 5).astype(int)
    assert fits(np.bincount(cells @ [5, 1], minlength=25), np.full(25, 200))
