import gzip

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tacit import Graph
from tacit.base.errors import FileError, InputError
from tacit.core.graph import files

quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def read(tmp_path, text, name="graph.txt"):
    path = tmp_path / name
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return Graph.load(path)


def edges(graph: Graph) -> set[frozenset[object]]:
    return {frozenset((graph.label(i), graph.label(j))) for i, j in graph.edges().tolist()}


@pytest.mark.parametrize("name", ["graph.txt", "graph.csv", "graph.edges.gz", "graph"])
@pytest.mark.parametrize(
    ("text", "labels", "joined"),
    [
        ("0 1\n1 2\n", None, [(0, 1), (1, 2)]),
        ("# agents\n\n 0\t1 # a comment\r\n1  2", None, [(0, 1), (1, 2)]),
        ("0,1\n1 , 2\n", None, [(0, 1), (1, 2)]),
        ("0 1\n1,2\n", None, [(0, 1), (1, 2)]),
        ("\ufeff0,1\n1,2\n", None, [(0, 1), (1, 2)]),
        ("10 9\n9 100\n", (9, 10, 100), [(9, 10), (9, 100)]),
        ("-1 2", (-1, 2), [(-1, 2)]),
        ("1 007\n7 3", (1, 3, 7), [(1, 7), (3, 7)]),
        ("99999999999999999999 3", (3, 99999999999999999999), [(3, 99999999999999999999)]),
        ("b a\nc b", ("a", "b", "c"), [("a", "b"), ("b", "c")]),
        ("1 a\n2 10", ("1", "10", "2", "a"), [("1", "a"), ("2", "10")]),
        ("New York,Łódź\nŁódź,Rome", ("New York", "Rome", "Łódź"), [("New York", "Łódź"), ("Rome", "Łódź")]),
        ('"Doe, J",b\nb,c', ("Doe, J", "b", "c"), [("Doe, J", "b"), ("b", "c")]),
        ("1.0 2", ("1.0", "2"), [("1.0", "2")]),
        # headers
        ("source,target\na,b", ("a", "b"), [("a", "b")]),
        ("From,To,Weight\na,b,1", ("a", "b"), [("a", "b")]),
        ("x,y\n1,2", (1, 2), [(1, 2)]),
        ("one,two\na,b", ("a", "b", "one", "two"), [("a", "b"), ("one", "two")]),
        ("one,2\n1,2", ("1", "2", "one"), [("1", "2"), ("2", "one")]),
        # third columns that say nothing
        ("0 1 {}\n1 2 {}", None, [(0, 1), (1, 2)]),
        ("0,1,1.0\n1,2,1", None, [(0, 1), (1, 2)]),
    ],
)
def test_edge_lists_are_read_as_meant(tmp_path, name, text, labels, joined):
    graph = read(tmp_path, text, name)
    assert graph.labels == labels
    assert edges(graph) == {frozenset(pair) for pair in joined}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "graph.txt' must hold one edge per line.*holds no edges"),
        ("# nothing\n\n", "holds no edges"),
        ("source,target\n", "holds no edges"),
        ("0 1\n1\n", "line 2: an edge must be two agents in two columns, got 1 columns"),
        ("0 1\n\n0 1 2 3\n", "line 3: .*got 4 columns"),
        ("a,b\nb,\n", "line 2: .*one is empty"),
        ("title\n0 1\n", "line 1: .*got 1 columns"),
        ("0 1 1\n1 2 -2.5\n", r"line 2: a third column must be an edge weight.*got '-2\.5'"),
        ("New York Rome\n", "line 1: .*commas between names"),
        ("0 1\n2 2\n", "line 2: .*2 is joined with itself"),
        ("a b\n# c\nb b\n", "line 3: .*'b' is joined with itself"),
        ("007 7\n", "line 1: .*7 is joined with itself"),
        ("0 1\n1 2\n\n2 1\n0 1\n", "line 4: .*2, 1 is on line 2 already"),
        ("a,b\nb,a\n", "line 2: .*'b', 'a' is on line 1 already"),
        ("x y\nx y\n", "line 2: .*'x', 'y' is on line 1 already"),
        (b"\xff\xfe\x00", "must be text in UTF-8"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(tmp_path, text, says):
    with pytest.raises(FileError, match=says):
        read(tmp_path, text)


def test_what_cannot_be_opened_is_refused(tmp_path):
    with pytest.raises(FileError, match="there is no file"):
        Graph.from_file(tmp_path / "missing.txt")
    with pytest.raises(FileError, match="cannot be read: Is a directory"):
        Graph.from_file(tmp_path)
    for broken in (b"0 1\n", gzip.compress(b"0 1\n1 2\n")[:-6]):
        (tmp_path / "graph.txt.gz").write_bytes(broken)
        with pytest.raises(FileError, match="must be a gzip file"):
            Graph.from_file(tmp_path / "graph.txt.gz")


def test_a_broken_gzip_file_of_weights_is_refused(tmp_path):
    path = tmp_path / "weights.gz"
    for broken in (b"0 1 0.5\n", gzip.compress(b"0 1 0.5\n1 0 0.5\n")[:-6]):
        path.write_bytes(broken)
        with pytest.raises(FileError, match="gzip"):
            files.read_weight_matrix(path, Graph.of("path:2"))


cells = st.sampled_from(
    ["0", "1", "2", "3", "7", "007", "-1", "+2", "1.0", "1e1", "a", "b", "source", "1_0", "٣", ""]
)
rows = st.lists(
    st.builds(
        lambda row, gap, tail: gap.join(row) + tail,
        st.lists(cells, min_size=1, max_size=3) | st.lists(cells, min_size=2, max_size=2),
        st.sampled_from([" ", "\t", ",", " , "]),
        st.sampled_from(["", " ", "# x"]),
    ),
    max_size=6,
)


@quick
@given(rows)
@example(["0 1", "1 2", "3 0"])
@example(["5,6", "6,7"])
@example(["0 1", "1 0"])
def test_the_fast_way_reads_exactly_what_the_careful_way_reads(tmp_path, lines):
    def outcome():
        try:
            graph = read(tmp_path, "\n".join(lines))
        except FileError as error:
            return str(error)
        return graph.labels, graph.indptr.tolist(), graph.indices.tolist()

    fast = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_clean_numbers", lambda *_: None)
        assert outcome() == fast


def test_clean_numbers_are_read_the_fast_way(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_GraphReader", None)
    assert read(tmp_path, "# x\n3,4\n4,5\n").labels == (3, 4, 5)
    assert read(tmp_path, "0 1\n2 1\n").labels is None


@quick
@given(
    st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda e: e[0] < e[1]), min_size=1),
    st.sampled_from(["number", "other number", "name"]),
    st.sampled_from([(" ", "graph.csv"), (",", "graph.csv"), ("\t", "graph.txt.gz")]),
)
def test_a_file_holds_the_graph_it_was_written_from(tmp_path, require_simple, pairs, kind, form):
    gap, name = form
    called = {"number": int, "other number": lambda i: 1000 - 7 * i, "name": lambda i: f"agent-{9 - i}"}[kind]
    named = [(called(i), called(j)) for i, j in sorted(pairs, key=hash)]
    graph = read(tmp_path, "".join(f"{i}{gap}{j}\n" for i, j in named), name)
    require_simple(graph)
    assert edges(graph) == {frozenset(pair) for pair in named}
    labels = [graph.label(i) for i in range(graph.n)]
    assert labels == sorted({label for pair in named for label in pair})
    assert (graph.labels is None) == (labels == list(range(graph.n)))


@pytest.mark.parametrize("name", ["graph.graphml", "graph.GraphML", "graph.graphml.gz"])
@pytest.mark.parametrize(
    ("pairs", "labels"),
    [
        ([(2, 0), (0, 1)], None),
        ([(11, 2)], (2, 11)),
        ([("b", "a")], ("a", "b")),
        ([("01", "2"), ("1", "2")], ("01", "1", "2")),
    ],
)
def test_graphml_is_read_with_the_same_labels(tmp_path, name, pairs, labels):
    nx.write_graphml(nx.Graph(pairs), tmp_path / name)
    graph = Graph.load(tmp_path / name)
    assert graph.labels == labels
    assert edges(graph) == {frozenset(pair) for pair in pairs}


def test_graphml_keeps_agents_without_neighbours(tmp_path):
    nx.write_graphml(nx.empty_graph(3), tmp_path / "graph.graphml")
    assert Graph.load(tmp_path / "graph.graphml").n == 3


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (nx.MultiGraph([(0, 1), (0, 1)]), "'0' and '1' have parallel edges"),
        (nx.Graph([(0, 0)]), "joined with itself"),
        (nx.Graph([("a", "b", {"weight": 1}), ("b", "c", {"weight": -4})]), "edge 'b', 'c' has -4"),
    ],
)
def test_graphml_that_is_no_simple_graph_is_refused(tmp_path, graph, says):
    nx.write_graphml(graph, tmp_path / "graph.graphml")
    with pytest.raises(FileError, match=rf"graph\.graphml': .*{says}"):
        Graph.load(tmp_path / "graph.graphml")


def test_broken_graphml_is_refused_with_its_line(tmp_path):
    (tmp_path / "a.graphml").write_text("<graphml>\n<graph>\n<oops\n")
    with pytest.raises(FileError, match="line 3: must be GraphML"):
        Graph.load(tmp_path / "a.graphml")
    (tmp_path / "b.graphml").write_text("<html/>")
    with pytest.raises(FileError, match="must be GraphML that networkx can read"):
        Graph.load(tmp_path / "b.graphml")


def test_what_networkx_writes_is_read(tmp_path):
    karate = nx.karate_club_graph()
    nx.write_edgelist(karate, tmp_path / "karate.txt", data=False)
    assert np.array_equal(Graph.load(tmp_path / "karate.txt").indices, Graph.from_name("karate").indices)
    nx.write_edgelist(nx.path_graph(4), tmp_path / "path.txt")
    assert np.array_equal(Graph.load(tmp_path / "path.txt").indices, Graph.from_name("path:4").indices)


GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="w" for="edge" attr.name="weight" attr.type="int"/><graph edgedefault="undirected">
<node id="0"/><node id="{name}"/><edge source="0" target="{name}"><data key="w">{weight}</data></edge>
</graph></graphml>"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("agents.csv", f"0,1\n1,{'9' * 5000}\n"),
        ("weight.csv", f"0,1,{'9' * 5000}\n"),
        ("agents.graphml", GRAPHML.format(name="9" * 5000, weight=1)),
        ("weight.graphml", GRAPHML.format(name=1, weight="9" * 5000)),
        ("wide.graphml", GRAPHML.format(name=1, weight="9" * 400)),
    ],
)
def test_a_number_that_is_too_long_is_refused_in_words(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as refused:
        files.from_file(tmp_path / name)
    assert len(str(refused.value)) < 400
