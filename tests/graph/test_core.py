import copy
import pickle
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from tacit import Graph
from tacit.base.errors import FileError, GraphError
from tacit.core.graph import components


@st.composite
def edge_lists(draw, max_n=14):
    n = draw(st.integers(1, max_n))
    pairs = [(i, j) for i in range(n) for j in range(i)]
    return n, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []


def test_rows_are_the_neighbours_in_rising_order():
    graph = Graph.from_edges([(3, 1), (0, 3), (2, 3)])
    assert graph.n == 4
    assert graph.n_edges == 3
    assert graph.neighbours(3).tolist() == [0, 1, 2]
    assert graph.neighbours(1).tolist() == [3]
    assert graph.degrees.tolist() == [1, 1, 1, 3]
    assert graph.degree_counts() == {1: 3, 3: 1}
    assert graph.edges().tolist() == [[0, 3], [1, 3], [2, 3]]
    assert repr(graph) == "<Graph 4 agents, 3 edges>"


@settings(deadline=None)
@given(edge_lists())
def test_matrices_and_sums_equal_the_dense_ones(case):
    n, edges = case
    graph = Graph.from_edges(edges, n)
    dense = np.zeros((n, n))
    for i, j in edges:
        dense[i, j] = dense[j, i] = 1
    assert (graph.adjacency().toarray() == dense).all()
    assert (graph.laplacian().toarray() == np.diag(dense.sum(axis=0)) - dense).all()
    assert graph.degrees.sum() == 2 * len(edges)
    assert sum(k * v for k, v in graph.degree_counts().items()) == 2 * len(edges)
    assert list(graph.degree_counts()) == sorted(graph.degree_counts())
    x = np.random.default_rng(0).integers(-9, 9, size=(n, 3, 2)).astype(float)
    expected = np.einsum("ij,jab->iab", dense, x)
    assert (graph.neighbour_sums(x) == expected).all()
    assert (graph.neighbour_sums(x[..., 0]) == expected[..., 0]).all()
    assert (graph.neighbour_sums(x[:, 0, 0]) == expected[:, 0, 0]).all()


@pytest.mark.parametrize("chunk", [1, 5, 2**24])
@settings(deadline=None)
@given(case=edge_lists(max_n=40))
def test_components_equal_scipys(chunk, case):
    n, edges = case
    graph = Graph.from_edges(edges, n)
    _, expected = connected_components(graph.adjacency(), directed=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(components, "_CHUNK", chunk)
        found = graph.components
    assert found.tolist() == expected.tolist()
    assert found.dtype == np.int32
    assert graph.is_connected == (expected.max() == 0)


@pytest.mark.parametrize("order", [1, -1])
def test_long_paths_and_stars_are_one_part_from_either_end(order):
    n = 3000
    agents = np.arange(n)[::order]
    assert Graph.from_edges(np.column_stack([agents[:-1], agents[1:]])).is_connected
    assert Graph.from_edges(np.column_stack([np.full(n - 1, agents[0]), agents[1:]])).is_connected


@pytest.mark.parametrize("chunk", [1, 5, 2**24])
def test_parts_joined_by_late_edges_beside_a_larger_part_are_found(monkeypatch, chunk):
    # Agents 6 and 7 see each other last, after two neighbours in cliques of their own.
    monkeypatch.setattr(components, "_CHUNK", chunk)
    cliques = [(i, j) for clique in ((0, 1, 2, 6), (3, 4, 5, 7)) for i in clique for j in clique if i < j]
    ring = [(i, i + 1) for i in range(8, 30)]
    assert Graph.from_edges([*cliques, *ring]).components[:9].tolist() == [0, 0, 0, 1, 1, 1, 0, 1, 2]
    assert Graph.from_edges([*cliques, (6, 7), *ring]).components.tolist() == [0] * 8 + [1] * 23


def test_an_unconnected_graph_is_refused_with_two_agents_as_witnesses():
    graph = Graph.from_networkx(nx.Graph([("a", "b"), ("c", "d"), ("e", "f")]))
    with pytest.raises(GraphError, match=r"agents a and c cannot reach each other \(3 separate parts\)"):
        graph.require_connected()
    Graph.from_edges([], n=1).require_connected()


def test_nothing_of_a_graph_can_be_written_to():
    graph = Graph.from_name("grid:3x3")
    for each in (graph, pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):
        arrays = (each.indptr, each.indices, each.degrees, each.components, each.positions)
        for array in (*arrays, each.adjacency().data, each.adjacency().indices):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
        with pytest.raises(AttributeError):
            each.labels = ()


def test_changing_the_matrix_handed_out_leaves_the_graph_as_it_was():
    graph = Graph.from_name("ring:5")
    graph.adjacency().setdiag(1)
    assert graph.neighbour_sums(np.ones(5)).tolist() == [2] * 5
    assert graph.adjacency().trace() == 0


def test_the_matrix_shares_the_graphs_memory_and_is_made_once():
    graph = Graph.from_name("ring:50")
    assert np.shares_memory(graph.adjacency().indices, graph.indices)
    assert np.shares_memory(graph.adjacency().data, graph.adjacency().data)


def test_a_pickled_graph_carries_no_caches():
    graph = Graph.from_networkx(nx.Graph([("a", "b")]))
    before = len(pickle.dumps(graph))
    assert graph.adjacency().nnz == graph.degrees.sum() == 2
    assert graph.is_connected
    assert len(pickle.dumps(graph)) == before
    assert pickle.loads(pickle.dumps(graph)).labels == ("a", "b")


@pytest.mark.parametrize("agent", [-1, 4])
def test_agents_outside_the_graph_are_refused(agent):
    graph = Graph.from_name("path:4")
    with pytest.raises(GraphError, match=f"numbered 0 to 3, got {agent}"):
        graph.neighbours(agent)
    with pytest.raises(GraphError, match=f"numbered 0 to 3, got {agent}"):
        graph.label(agent)


def test_load_prefers_a_file_over_a_name_and_passes_directories_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ring:3").write_text("0 1\n")
    assert Graph.load("ring:3").n == 2
    (tmp_path / "karate").mkdir()
    assert Graph.load("karate").n == 34
    with pytest.raises(FileError, match="there is no file"):
        Graph.load(tmp_path / "missing")


def test_the_graph_loads_no_heavy_part():
    heavy = "networkx", "numba", "scipy.spatial", "scipy.sparse.csgraph"
    code = (
        "import sys; from tacit import Graph; g = Graph.from_name('regular:50:4'); g.require_connected();"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_adjacency_of_one_agent_is_empty():
    graph = Graph.from_edges([], n=1)
    assert sp.issparse(graph.adjacency())
    assert graph.adjacency().shape == (1, 1)
    assert graph.neighbour_sums(np.ones(1)).tolist() == [0]
    assert graph.degree_counts() == {0: 1}
