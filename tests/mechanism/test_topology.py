"""Weights against a slow dense matrix of fractions.

Also what must hold of them.
"""

from dataclasses import dataclass
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tacit import Distributed, Fading, Graph
from tacit.base.errors import ParameterError
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.on_lattice import OnLattice
from tacit.core.mechanism.topology import (
    ClosedNeighbourhood,
    GivenWeights,
    Metropolis,
    RowShares,
    Weights,
    read_weights,
    register_weights,
    resolve_weights,
    written_weights,
)

LAW = Fading(0.8, 1.0, 0.9)
graphs = st.builds(
    lambda n, seed: Graph.from_networkx(
        nx.compose(nx.random_labeled_tree(n, seed=seed), nx.gnp_random_graph(n, 0.3, seed=seed))
    ),
    st.integers(2, 9),
    st.integers(0, 1000),
)


def exact(weights: Weights) -> list[list[Fraction]]:
    """W, entry by entry, from the definition in whole numbers."""
    n = weights.graph.n
    rows = [[Fraction(0)] * n for _ in range(n)]
    for i in range(n):
        shares = weights.shares(i)
        rows[i][i] = Fraction(shares.own, shares.total)
        for j, heard in zip(weights.graph.neighbours(i), shares.heard, strict=True):
            rows[i][j] = Fraction(heard, shares.total)
    return rows


def dense(weights: Weights) -> np.ndarray:
    return np.array([[float(w) for w in row] for row in exact(weights)])


def directed(graph: Graph, seed: int) -> GivenWeights:
    """Return random weights on a directed graph.

    A directed ring is among them, so that everybody hears of everybody.
    """
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 9, len(graph.indices))
    return GivenWeights(graph, rng.integers(0, 5, graph.n), counts)


def all_weights(graph: Graph, seed: int) -> list[Weights]:
    return [ClosedNeighbourhood(graph), Metropolis(graph), directed(graph, seed)]


@given(graphs, st.integers(0, 99))
def test_floats_whole_numbers_and_the_matrix_are_the_same_weights(graph, seed):
    for weights in all_weights(graph, seed):
        w = dense(weights)
        assert all(sum(row) == 1 for row in exact(weights))
        assert np.allclose(weights.matrix.toarray(), w, rtol=1e-14, atol=0)
        x = np.random.default_rng(seed).normal(size=(graph.n, 3))
        assert np.allclose(weights.aggregate(x), w @ x, atol=1e-13)
        whole = np.random.default_rng(seed).integers(-(2**60), 2**60, (graph.n, 2)).astype(object)
        means = np.array(exact(weights)) @ whole
        halves_up = [[(2 * m + 1).__floor__() // 2 for m in row] for row in means]
        assert weights.aggregate_whole(whole).tolist() == halves_up


@given(graphs, st.integers(0, 99))
def test_the_left_eigenvector_is_one(graph, seed):
    for weights in all_weights(graph, seed):
        omega = weights.stationary
        assert (omega > 0).all()
        assert np.allclose(omega @ dense(weights), omega, rtol=1e-11, atol=0)
        if weights.reversible:
            flow = omega[:, None] * dense(weights)
            assert np.allclose(flow, flow.T, rtol=1e-13, atol=0)


@given(graphs)
def test_metropolis_is_what_its_definition_says(graph):
    w, d = exact(Metropolis(graph)), graph.degrees.tolist()
    for i in range(graph.n):
        for j in graph.neighbours(i):
            assert w[i][j] == Fraction(1, 1 + max(d[i], d[j]))
        assert w[i][i] >= Fraction(1, 1 + d[i])
    assert Metropolis(graph).plain == (len(set(d)) == 1)


def test_closed_neighbourhoods_are_the_default_and_edge_weights_where_there_are_any():
    plain = Graph.from_name("path:3")
    assert isinstance(Distributed(LAW, plain).topology, ClosedNeighbourhood)
    weighted = Graph.from_networkx(nx.Graph([(0, 1, {"weight": 3}), (1, 2, {"weight": 0.5})]))
    # An agent's own message counts once.
    expected = [[1 / 4, 3 / 4, 0], [3 / 4.5, 1 / 4.5, 0.5 / 4.5], [0, 0.5 / 1.5, 1 / 1.5]]
    assert np.allclose(dense(Distributed(LAW, weighted).topology), expected, rtol=1e-12)
    for other in ("closed", "metropolis", np.eye(3)):
        with pytest.raises(ParameterError, match=r"edge weights, which .* would ignore"):
            Distributed(LAW, weighted, other)
    with pytest.raises(ParameterError, match="this one has none"):
        Distributed(LAW, plain, "edges")
    with pytest.raises(ParameterError, match="must be one of closed, metropolis, edges"):
        Distributed(LAW, plain, "nonsense")


def test_weights_of_one_are_the_closed_neighbourhood_to_the_last_bit():
    graph = Graph.from_name("karate")
    ones = GivenWeights(graph, np.ones(graph.n, dtype=np.int64), np.ones(len(graph.indices), dtype=np.int64))
    assert exact(ones) == exact(ClosedNeighbourhood(graph))
    assert ones.plain
    lattice = Lattice.fitting(LAW, 5, 0, 1)
    draws = np.random.default_rng(1).integers(-(2**41), 2**41, (5, graph.n))
    values = np.linspace(0, 1, graph.n)
    one = OnLattice(Distributed(LAW, graph), lattice).execute(values, draws)
    other = OnLattice(Distributed(LAW, graph, ones), lattice).execute(values, draws)
    assert one.theta.tolist() == other.theta.tolist()


def test_a_matrix_is_taken_as_it_is():
    graph = Graph.from_name("path:3")
    w = np.array([[0, 1, 0], [0.25, 0.5, 0.25], [0, 1, 0]])
    for given_as in (w, sp.csr_array(w), sp.coo_matrix(w)):
        assert np.array_equal(dense(resolve_weights(graph, given_as)), w)


@pytest.mark.parametrize(
    ("w", "says"),
    [
        ([[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0.5, 0.6]], "row 2 adds up to 1.1"),
        ([[0.5, 0.5, 0], [-0.5, 1, 0.5], [0, 0.5, 0.5]], "not be negative.*-0.5 in row 1"),
        ([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]], "must reach every other agent"),
        ([[0.5, 0.25, 0.25], [0.5, 0, 0.5], [0, 0.5, 0.5]], "row 0 .* neighbour"),
        ([[1, 0], [0, 1]], "matrix of 3 × 3"),
        ([[np.nan, 0.5, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]], "be finite"),
    ],
)
def test_what_has_no_proof_is_refused(w, says):
    with pytest.raises(ParameterError, match=says):
        Distributed(LAW, Graph.from_name("path:3"), np.array(w))


def test_weights_read_back_from_their_written_form():
    graph = Graph.from_name("karate")
    for weights in all_weights(graph, 4):
        assert exact(read_weights(graph, written_weights(weights))) == exact(weights)
    assert written_weights(ClosedNeighbourhood(graph)) is None
    path = Graph.from_name("path:2")
    entries = ((0, 0, 1), (0, 1, 2), (1, 0, 3))
    assert written_weights(read_weights(path, entries)) == entries
    for bad in (
        entries[::-1],
        [(0, 0, 1), (0, 1, 0), (1, 0, 3)],
        [(0, 2, 1)],
        [(0, 0)],
        entries[:1],
        "given",
    ):
        with pytest.raises(ParameterError):
            read_weights(path, bad)


def test_periodic_weights_without_a_diagonal_converge():
    graph = Graph.from_name("path:2")
    swap = Distributed(Fading(0.8, 1e-9, 0.9), graph, np.array([[0.0, 1], [1, 0]]))
    end = swap.execute([0, 1], np.zeros((200, 2))).theta[-1]
    assert np.allclose(end, 0.5, atol=1e-12)


@dataclass(frozen=True, eq=False)
class MaxDegree(Weights):
    """W_ij = 1/(1 + the largest degree) on edges.

    It follows "How to add weights" of CONTRIBUTING.md.
    """

    name = "max-degree"

    def shares(self, i):
        degrees = self.graph.degrees
        return RowShares(int(1 + degrees.max() - degrees[i]), (1,) * int(degrees[i]))


def test_a_rule_of_ones_own_is_one_class_and_one_row(monkeypatch):
    from tacit.core.mechanism.topology import registry
    from tacit.core.theory import accuracy, convergence

    monkeypatch.setattr(registry, "_RULES", dict(registry._RULES))
    register_weights(MaxDegree)
    mechanism = Distributed(LAW, Graph.from_name("karate"), "max-degree")
    assert accuracy.reaches_average(mechanism)
    assert 0 < convergence.spectral_rate(mechanism) < 1
    with pytest.raises(ParameterError, match="belongs to other weights"):
        register_weights(type("Metropolis", (MaxDegree,), {"name": "metropolis"}))
