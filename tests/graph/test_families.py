import math

import networkx as nx
import numpy as np
import pytest

from tacit import Graph
from tacit.base.errors import GraphError
from tacit.core.graph.families import FAMILIES

NAMES = [
    *(family.example for family in FAMILIES.values()),
    *("ring:3", "path:1", "path:2", "star:1", "star:2", "complete:1", "complete:2", "grid:1x1", "grid:1x5"),
    *("grid:5x1", "grid:2x3", "torus:3x3", "torus:3x4", "torus:5x4", "hypercube:0", "hypercube:1"),
    *("hypercube:3", "regular:2:1", "regular:10:9", "regular:10:5", "regular:11:6", "erdos:1:0.5"),
    *("erdos:30:0", "erdos:30:1", "barabasi:2:1", "barabasi:9:8", "barabasi:40:20", "smallworld:3:2:1"),
    *("smallworld:9:8:1", "smallworld:50:4:0", "smallworld:50:4:1", "geometric:1:0", "geometric:40:2"),
]


@pytest.mark.parametrize("name", NAMES)
def test_every_family_is_simple_and_the_same_each_time(require_simple, name):
    graph = Graph.from_name(name)
    require_simple(graph)
    again = Graph.from_name(name)
    assert np.array_equal(graph.indptr, again.indptr)
    assert np.array_equal(graph.indices, again.indices)
    assert graph.labels is None


RANDOM = [family.example for family in FAMILIES.values() if "seed=" in family.form]


@pytest.mark.parametrize("name", RANDOM)
def test_the_seed_is_zero_unless_given_and_another_seed_is_another_graph(name):
    bare = name.removesuffix(":seed=1")
    assert bare != name
    zero, one = Graph.from_name(f"{bare}:seed=0"), Graph.from_name(name)
    assert np.array_equal(Graph.from_name(bare).indices, zero.indices)
    assert not np.array_equal(zero.indices, one.indices)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ring:7", nx.cycle_graph(7)),
        ("path:7", nx.path_graph(7)),
        ("path:1", nx.path_graph(1)),
        ("star:7", nx.star_graph(6)),
        ("star:1", nx.star_graph(0)),
        ("complete:7", nx.complete_graph(7)),
        (
            "hypercube:4",
            nx.relabel_nodes(nx.hypercube_graph(4), lambda bits: int("".join(map(str, bits)), 2)),
        ),
        ("grid:4x3", nx.relabel_nodes(nx.grid_2d_graph(4, 3), lambda at: 3 * at[0] + at[1])),
        ("torus:4x3", nx.relabel_nodes(nx.grid_2d_graph(4, 3, periodic=True), lambda at: 3 * at[0] + at[1])),
        ("karate", nx.Graph(nx.karate_club_graph().edges())),
        ("erdos:6:1", nx.complete_graph(6)),
        ("erdos:6:0", nx.empty_graph(6)),
        ("smallworld:9:4:0", nx.watts_strogatz_graph(9, 4, 0)),
        ("barabasi:5:4", nx.star_graph(4)),
        ("regular:6:5", nx.complete_graph(6)),
        ("geometric:5:1.5", nx.complete_graph(5)),
    ],
)
def test_families_are_the_graphs_networkx_knows_by_those_names(name, expected):
    assert nx.utils.graphs_equal(Graph.from_name(name).to_networkx(), expected)


def test_the_grid_keeps_where_its_agents_are():
    graph = Graph.from_name("grid:2x3")
    assert graph.positions.tolist() == [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]]
    i, j = graph.edges().T
    assert (np.abs(graph.positions[i] - graph.positions[j]).sum(axis=1) == 1).all()


def test_names_may_be_written_with_capitals_and_underscores():
    assert Graph.from_name(" Ring:1_000 ").n == 1000
    assert Graph.from_name("Grid:2X3").n == 6


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ring", "1 part after the family's name, got none"),
        ("ring:5:6", "1 part after the family's name, got 5:6"),
        ("ring:5:seed=1", "1 part after the family's name, got 5:seed=1"),
        ("erdos:10", "2 parts after the family's name, got 10"),
        ("karate:3", "no parts after the family's name, got 3. Write it like karate"),
        ("ring:x", "AGENTS must be a whole number, got 'x'"),
        ("ring:-5", "AGENTS must be a whole number, got '-5'"),
        ("ring:1e3", "AGENTS must be a whole number, got '1e3'"),
        ("ring:٣", "AGENTS must be a whole number"),
        ("ring:2", "at least 3 agents, got 2"),
        ("ring:0", "at least 3 agents, got 0"),
        ("path:0", "at least 1 agent, got 0"),
        ("star:0", "at least 1 agent, got 0"),
        ("complete:0", "at least 1 agent, got 0"),
        ("ring:9999999999", "at most 2147483647 agents"),
        ("grid:3", "two whole numbers with an x between them, got '3'"),
        ("grid:3x", "ROWSxCOLUMNS must be a whole number, got ''"),
        ("grid:0x4", "both sides must be at least 1, got 0x4"),
        ("torus:2x5", "both sides must be at least 3, got 2x5"),
        ("hypercube:31", "dimension must be from 0 to 30"),
        ("regular:5:3", "agents times degree must be even .* got 5 times 3"),
        ("regular:5:5", "degree must be at least 1 and below the number of agents, got 5 of 5"),
        ("regular:5:0", "degree must be at least 1"),
        ("regular:10:3:seed=-1", "seed must be a whole number, got '-1'"),
        ("erdos:10:1.5", r"probability must be from 0 to 1, got 1\.5"),
        ("erdos:10:nan", "probability must be from 0 to 1, got nan"),
        ("erdos:10:often", "PROBABILITY must be a number, got 'often'"),
        ("erdos:0:0.5", "at least 1 agent"),
        ("barabasi:5:5", "edges each must be at least 1 and below the number of agents, got 5 of 5"),
        ("barabasi:5:0", "edges each must be at least 1"),
        ("smallworld:10:3:0.1", "neighbours must be even .* got 3 of 10"),
        ("smallworld:10:10:0.1", "below the number of agents, got 10 of 10"),
        ("smallworld:10:0:0.1", "at least 2"),
        ("smallworld:10:4:-0.1", r"probability must be from 0 to 1, got -0\.1"),
        ("geometric:10:-1", r"radius must be a number of at least 0, got -1\.0"),
        ("geometric:10:inf", "radius must be a number"),
        ("geometric:0:1", "at least 1 agent"),
        ("complete:10000000", "GB of memory.*client-server mechanism is the same"),
        ("erdos:100000000:0.5", "GB of memory"),
    ],
)
def test_an_impossible_name_is_refused_with_an_example_of_a_right_one(name, says):
    with pytest.raises(GraphError, match=says) as caught:
        Graph.from_name(name)
    family = FAMILIES[name.partition(":")[0]]
    assert str(caught.value).startswith(f"{name!r} is not a graph: ")
    assert family.example in str(caught.value)
    assert family.form in str(caught.value)


def test_an_unknown_family_is_answered_with_all_families():
    with pytest.raises(GraphError) as caught:
        Graph.load("rign:100")
    assert all(family in str(caught.value) for family in FAMILIES)
    assert "no such file" not in str(caught.value)


def test_a_name_that_looks_like_a_file_is_answered_about_the_file(tmp_path):
    for name in ("graph.csv", str(tmp_path / "graph")):
        with pytest.raises(GraphError, match="there is no such file either"):
            Graph.load(name)
    (tmp_path / "graph.csv").write_text("0,1\n")
    with pytest.raises(GraphError, match=r"use Graph\.from_file"):
        Graph.from_name(str(tmp_path / "graph.csv"))


@pytest.mark.parametrize("name", [family.example for family in FAMILIES.values() if family.form != "karate"])
def test_a_graph_that_does_not_fit_is_refused_before_it_is_built(monkeypatch, name):
    monkeypatch.setattr("tacit.core.graph.build.machine_memory", lambda: 1000)
    with pytest.raises(GraphError, match=r"GB of memory, and this machine has 1e-06 GB"):
        Graph.from_name(name)


def test_forms_examples_and_names_agree():
    for kind, family in FAMILIES.items():
        assert family.form.startswith(kind)
        assert family.example.startswith(kind)
        assert family.summary
        assert Graph.from_name(family.example).is_connected or kind in ("erdos", "geometric", "smallworld")


def test_sizes_are_what_the_names_say():
    assert Graph.from_name("hypercube:10").n == 1024
    assert Graph.from_name("hypercube:10").n_edges == 5120
    assert Graph.from_name("star:50").degree_counts() == {1: 49, 49: 1}
    assert Graph.from_name("star:50").degrees[0] == 49
    assert Graph.from_name("complete:20").n_edges == math.comb(20, 2)
    assert Graph.from_name("torus:30x30").degree_counts() == {4: 900}
    assert Graph.from_name("grid:30x20").degree_counts() == {2: 4, 3: 2 * 28 + 2 * 18, 4: 28 * 18}
    assert Graph.from_name("karate").n_edges == 78
