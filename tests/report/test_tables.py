"""Results as tables for notebooks, pandas and papers; the private part of a history is in none of them."""

import sys

import networkx as nx
import numpy as np
import pytest

import tacit
from tacit import ClientServer, Distributed, Fading, Graph
from tacit.errors import MissingExtra

LAW = Fading(0.8, 10, 0.6)
SECRET = 71.25


@pytest.fixture
def history():
    """A run whose states and messages are all different numbers."""
    noise = 0.37 * np.arange(1.0, 7.0).reshape(2, 3)
    return ClientServer(LAW, agents=3).execute([SECRET, 2.0, 3.0], noise)


def test_a_promise_is_one_row_of_exact_numbers():
    promise = tacit.analyze(ClientServer(LAW, agents=5))
    (row,) = promise.to_dataframe().to_dict("records")
    assert row["radius"] == promise.radius
    assert row["mixing"] == 0.8


def test_a_design_is_beside_one_shot_noise():
    found = tacit.design(agents=5, epsilon=1.0)
    table = found.to_dataframe().set_index("design")
    assert table.radius["designed"] == found.promise.radius
    assert table.radius["one-shot"] == found.baseline.radius


def test_a_comparison_has_one_row_per_method():
    found = tacit.compare("ring:4", range(4), epsilon=1.0, runs=2, rounds=2, methods=["one-shot", "graph"])
    table = found.to_dataframe().set_index("name")
    assert set(table.index) == {"one-shot", "graph"}
    assert table.error["graph"] == found.row("graph").error
    assert found.to_latex().count(r"\begin{tabular}") == 2
    assert found._repr_latex_() == found.to_latex()


@pytest.mark.parametrize(
    "shown", [tacit.analyze(ClientServer(LAW, agents=5)), tacit.design(agents=5, epsilon=1.0)]
)
def test_results_are_latex_tables(shown):
    assert r"\begin{tabular}" in shown.to_latex()


def test_a_graph_is_its_edges_by_label():
    graph = Graph.from_networkx(nx.Graph([("ada", "bob"), ("bob", "<cy>")]))
    table = graph.to_dataframe()
    heard = set(zip(table.hears, table.heard, strict=True))
    assert heard == {("ada", "bob"), ("bob", "ada"), ("bob", "<cy>"), ("<cy>", "bob")}
    assert (table.weight == 1).all()
    assert "3" in graph._repr_html_()


def test_weights_of_edges_are_in_the_table():
    graph = Graph.from_networkx(nx.DiGraph([(0, 1, {"weight": 3.0}), (1, 0)]))
    table = graph.to_dataframe().set_index(["hears", "heard"])
    assert table.weight[1, 0] == 3.0
    assert table.weight[0, 1] == 1.0


def test_a_history_is_its_public_messages(history):
    table = history.to_dataframe()
    assert list(table.columns) == ["run", "round", "agent", "update", "message"]
    assert table.message.tolist() == history.x.reshape(-1).tolist()
    assert table["round"].tolist() == [0, 0, 0, 1, 1, 1]
    assert not set(table.message) & set(history.theta.reshape(-1))
    assert not set(table.message) & set(history.eta.reshape(-1))
    assert str(SECRET) not in history._repr_html_()


def test_a_history_of_vectors_has_one_row_per_component():
    made = Distributed(LAW, "ring:4").execute(np.arange(8.0).reshape(4, 2), np.ones((3, 4, 2)))
    table = made.to_dataframe()
    assert table.set_index(["round", "agent", "component"]).message[2, 3, 1] == made.x[2, 3, 1]
    assert len(table) == 24


def test_what_goes_to_keepers_under_masks_is_in_no_table():
    made = ClientServer(LAW, agents=3, keepers=2).execute([SECRET, 2.0, 3.0], np.ones((2, 2)))
    assert len(made.to_dataframe()) == 0
    assert str(SECRET) not in made._repr_html_()


def test_a_missing_pandas_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra) as refused:
        Graph.of("ring:4").to_dataframe()
    assert refused.value.extra == "simulation"
