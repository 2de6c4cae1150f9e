import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Graph
from tacit.base.errors import GraphError


@st.composite
def edge_lists(draw):
    n = draw(st.integers(1, 12))
    pairs = [(i, j) for i in range(n) for j in range(i)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return n, [edge[::-1] if draw(st.booleans()) else edge for edge in chosen]


def same(a: Graph, b: Graph) -> bool:
    return (
        np.array_equal(a.indptr, b.indptr) and np.array_equal(a.indices, b.indices) and a.labels == b.labels
    )


@settings(deadline=None)
@given(edge_lists())
def test_every_way_in_and_out_is_the_same_graph(require_simple, case):
    n, edges = case
    graph = Graph.from_edges(edges, n)
    require_simple(graph)
    assert {frozenset(edge) for edge in graph.edges().tolist()} == {frozenset(edge) for edge in edges}
    assert same(Graph.from_edges(graph.edges(), n), graph)
    assert same(Graph.from_edges((edge for edge in edges), n), graph)
    assert same(Graph.from_networkx(graph.to_networkx()), graph)
    assert same(Graph.from_sparse(graph.adjacency()), graph)
    assert nx.utils.graphs_equal(nx.Graph(graph.to_networkx()), _networkx(range(n), edges))


def _networkx(nodes, edges):
    graph = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    return graph


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16, np.uint64])
def test_arrays_of_any_integer_type_are_edges(dtype):
    graph = Graph.from_edges(np.array([[0, 2], [1, 2]], dtype=dtype))
    assert graph.edges().tolist() == [[0, 2], [1, 2]]


def test_the_given_array_stays_the_callers():
    given = np.array([[0, 1], [1, 2]])
    Graph.from_edges(given)
    given[0] = 5
    matrix = sp.csr_array(np.array([[0, 1.0], [1, 0]]))
    graph = Graph.from_sparse(matrix)
    matrix.indices[:] = 0
    matrix.data[:] = 0
    assert graph.edges().tolist() == [[0, 1]]


def test_one_agent_without_edges_is_a_graph():
    assert Graph.from_edges([], n=1).n == 1
    assert Graph.from_edges(np.empty((0, 2)), n=np.int64(3)).n == 3


@pytest.mark.parametrize(
    ("edges", "n", "says"),
    [
        ([(0, 1), (2, 2)], None, "edge 1 joins agent 2 with itself"),
        ([(0, 1), (1, 2), (1, 0)], None, r"edge 2 \(1, 0\) is edge 0 again"),
        ([(0, 1), (5, 1)], 3, r"numbered 0 to 2, but edge 1 is \(5, 1\)"),
        ([(0, 1), (0, -1)], None, r"numbered from 0, but edge 1 is \(0, -1\)"),
        ([], None, "at least one agent: there are no edges, so give n"),
        ([], 0, "n must be a whole number of at least 1, got 0"),
        ([(0, 1)], 2.0, r"n must be a whole number of at least 1, got 2\.0"),
        ([(0, 1)], True, "n must be a whole number of at least 1, got True"),
        ([], 2**31, "at most 2147483647 agents, got 2147483648"),
        ([(0, 2**31 - 1)], None, "at most 2147483647 agents, got 2147483648"),
        ([(0, 2**70)], None, "numbers below 2147483647, got 1180591620717411303424"),
        (np.array([[0, 2**63]], dtype=np.uint64), None, "numbers below 2147483647, got 9223372036854775808"),
        ([(0, 1, 2)], None, r"pairs of agent numbers, but edge 0 is \(0, 1, 2\)"),
        ([(0, 1), (1,)], None, r"but edge 1 is \(1,\)"),
        (np.zeros((2, 3), dtype=int), None, r"shape \(edges, 2\), got shape \(2, 3\)"),
        ("ab", None, "but edge 0 is 'a'"),
        (7, None, "pairs of agent numbers, got int"),
        ([(0, 1.5)], None, r"whole numbers, got 1\.5"),
        (np.array([[0.0, 1.0]]), None, r"whole numbers, got 0\.0. Convert numbers with astype"),
        ([("a", "b")], None, "whole numbers, got 'a'.*use from_networkx or from_file"),
        ([(0, "b")], None, "whole numbers, got 'b'"),
        ([(True, False)], None, "whole numbers, got True"),
        ([(0, None)], None, "whole numbers, got None"),
    ],
)
def test_wrong_edges_are_refused_with_their_place(edges, n, says):
    with pytest.raises(GraphError, match=says):
        Graph.from_edges(edges, n)


def test_networkx_names_become_labels_in_their_order():
    graph = Graph.from_networkx(_networkx(["b", "a", 7], [("a", "b")]))
    assert graph.labels == ("b", "a", 7)
    assert graph.label(2) == 7
    assert graph.neighbours(0).tolist() == [1]
    assert nx.utils.graphs_equal(graph.to_networkx(), _networkx(["b", "a", 7], [("a", "b")]))


def test_networkx_numbers_are_labels_unless_they_are_in_order():
    graph = Graph.from_networkx(_networkx([2, 0, 1], [(2, 0)]))
    assert graph.labels == (2, 0, 1)
    assert graph.edges().tolist() == [[0, 1]]
    assert Graph.from_networkx(_networkx([0, 1, 2], [(2, 0)])).labels is None
    assert Graph.from_networkx(_networkx([1, 2], [(1, 2)])).labels == (1, 2)
    assert Graph.from_networkx(nx.MultiGraph([(0, 1), (1, 2)])).n_edges == 2


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (nx.MultiGraph([("a", "b"), ("b", "c"), ("b", "a")]), "'a' and 'b' have parallel edges"),
        (nx.Graph([("a", "b"), ("b", "b")]), "'b' is joined with itself"),
        (nx.MultiGraph([(0, 1), (0, 0)]), "0 is joined with itself"),
        (nx.Graph(), "at least one agent"),
        (nx.Graph([(0, 1, {"weight": 1}), (1, 2, {"weight": -0.5})]), "edge 1, 2 has -0.5"),
        (nx.Graph([(0, 1, {"weight": "much"})]), "must be a number, but edge 0, 1 has 'much'"),
        ([(0, 1)], "needs a networkx graph, got list"),
    ],
)
def test_what_is_no_simple_networkx_graph_is_refused(graph, says):
    with pytest.raises(GraphError, match=says):
        Graph.from_networkx(graph)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_any_sparse_format_is_read(form):
    dense = np.array([[0, 1.0, 0], [1, 0, 1], [0, 1, 0]])
    for kind in (sp.csr_array, sp.csr_matrix):
        assert Graph.from_sparse(kind(dense).asformat(form)).edges().tolist() == [[0, 1], [1, 2]]


def test_stored_zeros_and_cancelled_entries_are_no_edges():
    data, i, j = [1, 1, 0, 0, 2, -2, 5, -5], [0, 1, 0, 2, 1, 1, 2, 2], [1, 0, 0, 0, 2, 2, 1, 1]
    coo = sp.coo_array((data, (i, j)), shape=(3, 3))
    assert Graph.from_sparse(coo).edges().tolist() == [[0, 1]]
    unsummed = sp.csr_array((np.array([1.0, -1]), np.array([1, 1]), np.array([0, 2, 2])), shape=(2, 2))
    assert Graph.from_sparse(unsummed).n_edges == 0
    assert unsummed.nnz == 2  # the caller's matrix is as it was


def test_a_large_sparse_matrix_is_never_made_dense():
    n = 300_000  # dense this would be 90 GB even as booleans
    i = np.arange(n - 1)
    ones = np.ones(n - 1)
    matrix = sp.coo_array((np.r_[ones, ones], (np.r_[i, i + 1], np.r_[i + 1, i])), shape=(n, n))
    assert Graph.from_sparse(matrix).n_edges == n - 1


@pytest.mark.parametrize(
    ("matrix", "says"),
    [
        (sp.eye_array(3), "agent 0 is joined with itself"),
        (sp.csr_array((2, 3)), r"square.*got shape \(2, 3\)"),
        (sp.csr_array((0, 0)), r"square.*got shape \(0, 0\)"),
        (sp.coo_array(np.array([0, 1])), r"square.*got shape \(2,\)"),
        (sp.csr_array([[0, 1], [-2, 0]]), r"positive number, but entry \(1, 0\) has -2"),
        (sp.csr_array((2**31, 2**31)), "at most 2147483647 agents"),
        (np.zeros((2, 2)), "needs a scipy sparse matrix, got ndarray"),
    ],
)
def test_what_is_no_matrix_of_edges_is_refused(matrix, says):
    with pytest.raises(GraphError, match=says):
        Graph.from_sparse(matrix)


def _heard(graph):
    """How many times each agent counts each other one, as a dense matrix."""
    dense = np.zeros((graph.n, graph.n))
    rows = np.repeat(np.arange(graph.n), graph.degrees)
    dense[rows, graph.indices] = 1 if graph.weights is None else graph.weights
    return dense


def test_edge_weights_of_networkx_are_kept_in_both_directions():
    club = nx.karate_club_graph()
    graph = Graph.from_networkx(club)
    assert np.array_equal(_heard(graph), nx.to_numpy_array(club))
    assert graph.is_symmetric
    assert nx.utils.graphs_equal(Graph.from_networkx(graph.to_networkx()).to_networkx(), graph.to_networkx())


def test_a_directed_edge_means_that_its_end_hears_its_start():
    graph = Graph.from_networkx(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2, {"weight": 2.5})]))
    assert _heard(graph).tolist() == [[0, 0, 1], [1, 0, 0], [2.5, 1, 0]]
    assert not graph.is_symmetric
    assert np.array_equal(_heard(Graph.from_networkx(graph.to_networkx())), _heard(graph))
    both_ways = Graph.from_networkx(nx.DiGraph([(0, 1), (1, 0)]))
    assert both_ways.weights is None


def test_a_matrix_that_is_not_symmetric_is_directed():
    matrix = sp.csr_array([[0, 1, 0], [0, 0, 3], [2, 0, 0]])
    assert np.array_equal(_heard(Graph.from_sparse(matrix)), matrix.toarray())


def test_a_third_column_is_the_weight_of_an_edge(tmp_path):
    (tmp_path / "edges.csv").write_text("a,b,2\nb,c,0.5\n")
    graph = Graph.load(tmp_path / "edges.csv")
    assert _heard(graph).tolist() == [[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]]
    (tmp_path / "ones.csv").write_text("a,b,1\nb,c,1.0\n")
    assert Graph.load(tmp_path / "ones.csv").weights is None
