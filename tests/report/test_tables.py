"""Results as tables for notebooks, pandas and papers.

The private part of a history is in none of them.
"""

import sys

import networkx as nx
import numpy as np
import pytest
from tests.doubles import known_session

import tacit
from tacit import ClientServer, Distributed, Fading, Graph
from tacit.base.errors import MissingExtra
from tacit.base.report import json_text
from tacit.lab.simulation import SweepTable, sweep
from tacit.live.runtime.agent_result import AgentResult

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


def test_rows_of_the_same_name_are_told_apart_in_latex():
    """A design has a radius, and one with one-shot noise to compare with."""
    lines = tacit.design(agents=50, epsilon=1.0, mixing=0.5).to_latex().splitlines()
    heads = [k for k, line in enumerate(lines) if line.startswith(r"\multicolumn{3}{l}")]
    assert [lines[k].split("textit{")[1].split("}")[0] for k in heads][:2] == ["Parameters", "Privacy"]
    for start, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        names = [line.split(" & ")[0] for line in lines[start + 1 : end] if " & " in line]
        assert len(names) == len(set(names))


def test_a_graph_is_a_table_of_its_facts_in_latex():
    said = Graph.of("ring:1000").to_latex()
    assert r"\begin{tabular}" in said
    assert "agents & 1,000 &" in said
    assert "degrees & 2 to 2 &" in said


def test_a_short_history_is_its_public_messages_in_latex(history):
    lines = history.to_latex().splitlines()
    assert r"run & round & agent & update & message \\" in lines
    assert rf"0 & 1 & 2 & 1 & {history.x[1, 2]:.6g} \\" in lines
    private = [*history.theta.reshape(-1), *history.eta.reshape(-1)]
    cells = {cell.strip(" \\") for line in lines for cell in line.split("&")}
    assert not cells & {f"{value:.6g}" for value in private} - {"2", "3"}  # the numbers of agents and updates
    assert str(SECRET) not in history.to_latex()


def test_a_long_history_is_its_counts_in_latex():
    rounds = 20
    made = ClientServer(LAW, agents=3).execute([SECRET, 2.0, 3.0], np.ones((rounds, 3)))
    said = made.to_latex()
    assert f"messages & {3 * rounds} &" in said
    assert f"{made.x[0, 0]:.6g}" not in said


def test_a_history_with_keepers_shows_no_masked_message_in_latex():
    made = ClientServer(LAW, agents=2, keepers=1).execute([SECRET, 1.5], [[0.5], [0.25]])
    said = made.to_latex()
    assert "messages & 0 &" in said
    assert not any(f"{value:.6g}" in said for value in made.private.sent.reshape(-1))


def test_components_and_names_are_in_the_latex_of_a_history():
    named = nx.relabel_nodes(nx.path_graph(2), {0: "north_1", 1: "south"})
    made = Distributed(LAW, named).execute([[0.0, 1.0], [2.0, 3.0]], 0.125 * np.ones((1, 2, 2)))
    said = made.to_latex()
    assert r"run & round & agent & update & label & component & message \\" in said
    assert r"0 & 0 & 0 & 0 & north\_1 & 1 & 1.125 \\" in said


def test_names_of_agents_are_in_the_table_of_a_history():
    named = nx.relabel_nodes(nx.path_graph(3), {0: "north", 1: "middle", 2: "south"})
    made = Distributed(LAW, named).execute(np.arange(6.0).reshape(3, 2), np.ones((2, 3, 2)))
    table = made.to_dataframe()
    assert table.groupby("agent").label.unique().map(list).tolist() == [["north"], ["middle"], ["south"]]


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


def test_a_sweep_is_one_row_per_cell(tmp_path):
    grid = {"agents": [4, 8], "mixing": [0.5], "epsilon": [1.0, 2.0]}
    found = sweep(grid, rounds=3, runs=5, method="outcome", path=tmp_path / "sweep.jsonl")
    made = SweepTable.of(found)
    table = made.to_dataframe().set_index(["agents", "epsilon"])
    assert table.average_radius[8, 2.0] == found.average_radius.sel(agents=8, epsilon=2.0, mixing=0.5).item()
    assert made.summary().columns[:2] == ["agents", "epsilon"]  # not the mixing, which all cells share
    assert len(made.summary().rows) == made.as_dict()["finished"] == 4
    assert made.to_latex().count(r" \\") == 5
    assert made._repr_html_().count("<tr>") == 5


def test_what_an_agent_got_shows_nothing_private():
    session = known_session(3)
    got = AgentResult("ada", SECRET, True, 0.5, True, 4, 0.25, 0.5, 1.0, {}, session)
    for shown in (got.to_latex(), got._repr_html_(), repr(got), json_text(got.as_dict())):
        assert str(SECRET) not in shown
        assert "clamped=" not in shown
        assert "ada" in shown
    assert not {"value", "clamped"} & got.as_dict().keys()
    assert got.as_dict()["radius"] == session.promise().theory.radius
    assert [row.name for row in got.summary().sections["Result"]] == [
        "feedback", "radius", "rounds", "loss", "spent",
    ]  # fmt: skip
