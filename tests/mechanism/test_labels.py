"""Numbers with labels are taken by label, everywhere; numbers without are in the graph's own order."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import tacit
from tacit import Distributed, Fading, Graph, OneShot
from tacit.base.errors import ParameterError, StateError
from tacit.core.theory.plan import Plan
from tacit.core.theory.targets import target
from tacit.lab.audit import Simulated
from tacit.lab.simulation import sweep

LAW = Fading(0.5, 1.0, 0.8)
STAR = nx.Graph([("hub", "a"), ("hub", "b"), ("hub", "c")])
VALUES = {"a": 1.0, "b": 2.0, "c": 3.0, "hub": 4.0}
ORDERED = [4.0, 1.0, 2.0, 3.0]
WAYS = {
    "mapping": VALUES,
    "series": pd.Series(VALUES),
    "another order": pd.Series(VALUES)[["hub", "c", "a", "b"]],
    "array": np.array(ORDERED),
    "list": ORDERED,
}


@pytest.mark.parametrize("nodes", [[2, 0, 1], [0, 1, 2], ["x", "z", "y"], [1.0, 0.0, 2.0]])
def test_agents_are_nodes_in_the_graphs_own_order(nodes):
    source = nx.Graph()
    source.add_nodes_from(nodes)
    source.add_edges_from([(nodes[0], nodes[1]), (nodes[1], nodes[2])])
    graph = Graph.of(source)
    assert list(graph.names) == nodes
    assert graph.edges().tolist() == [[0, 1], [1, 2]]
    assert list(graph.to_networkx()) == nodes


@pytest.mark.parametrize("way", WAYS)
def test_values_by_label_give_the_same_run_as_in_order(way):
    mechanism = Distributed(LAW, STAR)
    assert mechanism.states(WAYS[way]).tolist() == ORDERED
    expected = tacit.simulate(mechanism, ORDERED, rounds=3, seed=1)
    found = tacit.simulate(mechanism, WAYS[way], rounds=3, seed=1)
    np.testing.assert_array_equal(found.theta, expected.theta)
    assert target(mechanism, WAYS[way]) == target(mechanism, ORDERED)


def test_numbered_nodes_in_another_order_are_labels_too():
    source = nx.Graph()
    source.add_nodes_from([2, 0, 1])
    source.add_edges_from([(2, 0), (0, 1)])
    mechanism = Distributed(LAW, source)
    assert mechanism.states({0: 10.0, 1: 11.0, 2: 12.0}).tolist() == [12, 10, 11]
    assert mechanism.states(pd.Series([10.0, 11.0, 12.0])).tolist() == [12, 10, 11]
    assert mechanism.states([10.0, 11.0, 12.0]).tolist() == [10, 11, 12]


def test_vectors_by_label():
    table = pd.DataFrame({"load": [1.0, 2.0, 3.0, 4.0], "age": [5.0, 6.0, 7.0, 8.0]}, index=list(VALUES))
    mechanism = Distributed(LAW, STAR)
    assert mechanism.states(table).tolist() == [[4, 8], [1, 5], [2, 6], [3, 7]]


def test_a_server_has_agents_by_number():
    mechanism = tacit.ClientServer(LAW, agents=3)
    assert mechanism.states({2: 3.0, 0: 1.0, 1: 2.0}).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"a": 1.0, "b": 2.0, "hub": 777.25}, "'c'"),
        ({**VALUES, "d": 777.25}, "'d'"),
        (pd.Series([1.0, 2.0, 777.25, 4.0]), "'hub'"),
        (pd.Series([1.0, 2.0, 777.25, 4.0, 5.0], index=["a", "a", "b", "c", "hub"]), "'a'"),
    ],
)
def test_labels_that_do_not_fit_are_refused_by_name_and_show_no_value(given, told):
    with pytest.raises(StateError) as refused:
        tacit.simulate(Distributed(LAW, STAR), given, rounds=1)
    assert told in str(refused.value)
    assert "777" not in str(refused.value)


def test_a_comparison_and_an_audit_take_values_by_label():
    by_label, in_order = (
        tacit.compare(STAR, values, epsilon=1.0, runs=5, methods=["one-shot"]).row("one-shot")
        for values in (VALUES, ORDERED)
    )
    assert by_label == in_order
    audited = Simulated(Distributed(LAW, STAR))
    histories = [audited(values, rounds=2, runs=3, seed=4) for values in (VALUES, ORDERED)]
    np.testing.assert_array_equal(histories[0].x, histories[1].x)


def test_a_question_takes_mixing_and_noise_by_label():
    mixing = {"a": 0.5, "b": 0.6, "c": 0.7, "hub": 0.8}
    noise = pd.Series({"hub": 4.0, "c": 3.0, "a": 1.0, "b": 2.0})
    question = Plan(graph=STAR, mixing=mixing, noise=noise, decay=0.9, rounds=3)
    assert question.mixing == (0.8, 0.5, 0.6, 0.7)
    assert question.noise == tuple(ORDERED)
    assert question.mechanism().law == Fading([0.8, 0.5, 0.6, 0.7], ORDERED, 0.9)


def test_a_law_knows_no_labels_and_says_what_to_do():
    mixing = {"a": 0.5, "b": 0.6, "c": 0.7, "hub": 0.8}
    for given in (mixing, pd.Series(mixing)):
        with pytest.raises(ParameterError, match="in_order"):
            OneShot(given, 1.0)
        assert OneShot(Graph.of(STAR).in_order(given), 1.0).sigma.tolist() == [0.8, 0.5, 0.6, 0.7]


def test_a_sweep_takes_values_by_label_for_one_graph(tmp_path):
    grid = {"graph": [STAR], "mixing": 0.5, "noise": 1.0, "decay": 0.8}
    by_label, in_order = (
        sweep(grid, rounds=2, runs=3, values=values, path=tmp_path / f"{k}.nc")
        for k, values in enumerate((pd.Series(VALUES), ORDERED))
    )
    assert by_label.equals(in_order)
    with pytest.raises(ParameterError, match="one graph"):
        sweep({**grid, "graph": [STAR, "ring:4"]}, rounds=2, runs=3, values=VALUES, path=tmp_path / "both.nc")
