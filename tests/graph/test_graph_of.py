"""Everything that describes a graph is taken wherever a graph is."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import tacit
from tacit import Distributed, Fading, Graph, Plan
from tacit.base.errors import FileError
from tacit.lab.simulation import Record, simulate, sweep
from tacit.lab.simulation.results import load, save

LAW = Fading(0.8, 10, 0.6)
PAIRS = [(0, 1), (1, 2), (2, 3), (0, 3)]
RING = Graph.from_edges(PAIRS)


@pytest.fixture(
    params=["graph", "name", "file", "path", "networkx", "sparse", "matrix", "pairs", "array", "iterator"]
)
def described(request, tmp_path):
    file = tmp_path / "ring.txt"
    file.write_text("".join(f"{i} {j}\n" for i, j in PAIRS))
    return {
        "graph": RING,
        "name": "ring:4",
        "file": str(file),
        "path": file,
        "networkx": nx.cycle_graph(4),
        "sparse": RING.adjacency(),
        "matrix": sp.csr_matrix(RING.adjacency()),
        "pairs": PAIRS,
        "array": np.array(PAIRS),
        "iterator": iter(PAIRS),
    }[request.param]


def test_a_mechanism_takes_it(described):
    mechanism = Distributed(LAW, described)
    assert isinstance(mechanism.graph, Graph)
    assert mechanism.graph.edges().tolist() == RING.edges().tolist()


def test_a_design_takes_it(described):
    question = Plan(graph=described, epsilon=1.0)
    assert "graph" in question.given()
    assert question.network.edges().tolist() == RING.edges().tolist()


def test_a_comparison_takes_it(described):
    found = tacit.compare(described, [0, 1, 2, 3], epsilon=1.0, runs=2, rounds=2, methods=["one-shot"])
    assert found.case.graph.n == 4


def test_a_sweep_takes_it(described, tmp_path):
    call = {"rounds": 2, "runs": 2, "method": "outcome"}
    given = sweep({"graph": [described], "mixing": 0.8, "epsilon": 1}, path=tmp_path / "a", **call)
    named = sweep({"graph": "ring:4", "mixing": 0.8, "epsilon": 1}, path=tmp_path / "b", **call)
    assert given.average_radius.values.tolist() == named.average_radius.values.tolist()
    assert given.deviation.values.tolist() == named.deviation.values.tolist()


def test_a_sweep_goes_on_with_the_same_graph_only(tmp_path):
    def call(graph):
        grid = {"graph": graph, "mixing": 0.8, "epsilon": 1}
        return sweep(grid, path=tmp_path / "a", rounds=2, runs=2, method="outcome")

    begun = call(nx.cycle_graph(4))
    assert call([RING.adjacency()]).identical(begun)
    with pytest.raises(FileError):
        call(nx.path_graph(4))


def test_a_design_on_a_networkx_graph_is_that_of_its_name():
    assert (
        tacit.design(graph=nx.cycle_graph(4), epsilon=1.0).promise.radius
        == tacit.design(graph="ring:4", epsilon=1.0).promise.radius
    )


def test_node_names_label_the_agents_of_results(tmp_path):
    named = nx.Graph([("ada", "bob"), ("bob", "cy")])
    found = simulate(Distributed(LAW, named), [1.0, 2.0, 3.0], 2, record=Record(agents=(1, 2)))
    assert found.label.values.tolist() == ["bob", "cy"]
    assert found.agent.values.tolist() == [1, 2]
    by_name = found.set_index(agent="label").sel(agent="cy").theta
    assert by_name.values.tolist() == found.sel(agent=2).theta.values.tolist()
    save(found, tmp_path / "runs.nc")
    assert load(tmp_path / "runs.nc").label.values.tolist() == ["bob", "cy"]
    assert "label" not in simulate(Distributed(LAW, "ring:4"), [0.0] * 4, 1).coords
