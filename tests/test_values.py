"""Results are values: equal if they say the same, readable when printed, and their parts can be found."""

import dataclasses
import pickle
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import xarray as xr

import tacit
from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.lab.simulation import Record
from tacit.lab.simulation.results import load, save

LAW = Fading(0.5, 1.0, 0.8)
EDGES = [(0, 1), (1, 2)]
WEIGHTED = nx.Graph()
WEIGHTED.add_edge(0, 1, weight=2.0)
WEIGHTED.add_edge(1, 2, weight=3.0)


def makers():
    """Each makes the same value whenever it is called."""
    return {
        "graph": lambda: Graph.of(EDGES),
        "weighted graph": lambda: Graph.of(WEIGHTED),
        "labelled graph": lambda: Graph.of(nx.Graph([("a", "b")])),
        "server": lambda: ClientServer(LAW, agents=3),
        "keepers": lambda: ClientServer(LAW, agents=3, keepers=2),
        "own mixing": lambda: ClientServer(Fading([0.5, 0.6, 0.7], 1.0, 0.8), agents=3),
        "on a graph": lambda: Distributed(LAW, EDGES),
        "metropolis": lambda: Distributed(LAW, EDGES, "metropolis"),
        "edge weights": lambda: Distributed(LAW, WEIGHTED),
        "promise": lambda: tacit.analyze(ClientServer(LAW, agents=3), adjacency=1, rounds=3, spread=1),
        "design": lambda: tacit.design(agents=30, loss=1, adjacency=1),
    }


@pytest.mark.parametrize("what", makers())
def test_what_says_the_same_is_equal(what):
    one, other = makers()[what](), makers()[what]()
    assert one is not other
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one


def test_what_differs_is_not_equal():
    made = [make() for make in makers().values()]
    made += [
        Graph.of([(0, 1), (0, 2)]),
        Graph.of([(0, 1), (1, 2), (0, 2)]),
        ClientServer(OneShot(0.5, 1.0), agents=3),
        ClientServer(LAW, agents=4),
        Distributed(LAW, [(0, 1), (0, 2)]),
        tacit.analyze(ClientServer(LAW, agents=3), adjacency=1, rounds=4, spread=1),
        tacit.design(agents=31, loss=1, adjacency=1),
        "text",
    ]
    for i, one in enumerate(made):
        assert [k for k, other in enumerate(made) if one == other] == [i]


def test_the_same_weights_given_in_two_ways_are_equal():
    assert Distributed(LAW, EDGES) == Distributed(LAW, EDGES, "closed")


def test_a_printed_design_is_a_table_and_its_numbers_are_there():
    made = tacit.design(agents=30, loss=1, adjacency=1)
    told = str(made)
    assert "Privacy" in told
    assert f"{made.promise.radius:.4g}"[:5] in told
    assert "\x1b" not in told
    assert max(map(len, told.splitlines())) <= 110
    assert told == "\n".join(line.rstrip() for line in told.splitlines())


def test_every_public_module_of_the_theory_is_seen_and_loads_when_used():
    code = (
        "import tacit.core.theory, sys; names = dir(tacit.core.theory); assert 'accuracy' in names, names;"
        "assert 'tacit.core.theory.accuracy' not in sys.modules;"
        "tacit.core.theory.accuracy.radius; [getattr(tacit.core.theory, name) for name in names]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_result_says_which_graph_and_values_made_it(tmp_path):
    def run(edges, values):
        found = tacit.simulate(Distributed(LAW, edges), values, rounds=2, seed=1, record=Record())
        save(found, tmp_path / "run.nc")
        return load(tmp_path / "run.nc").attrs

    first, again = run(EDGES, [1, 2, 3]), run(EDGES, [1, 2, 3])
    assert first["edges"].tolist() == [[0, 1], [1, 2]]
    assert first["graph_sha256"] == Graph.of(EDGES).sha256 == again["graph_sha256"]
    assert first["values_sha256"] == again["values_sha256"]
    assert run(EDGES, [1, 2, 4])["values_sha256"] != first["values_sha256"]
    assert run([(0, 1), (0, 2)], [1, 2, 3])["graph_sha256"] != first["graph_sha256"]
    assert "graph_sha256" not in tacit.simulate(ClientServer(LAW, agents=2), [1, 2], rounds=1).attrs


def test_one_word_has_one_meaning(tmp_path):
    """`radius` is that of all agents; the average's is `average_radius`, in sweeps too."""
    from tacit.lab.simulation import sweep

    found = sweep(
        {"agents": 3, "mixing": 0.5, "noise": 1.0, "decay": 0.8}, rounds=2, runs=3, path=tmp_path / "sweep"
    )
    assert isinstance(found, xr.Dataset)
    promise = tacit.analyze(ClientServer(LAW, agents=3), adjacency=1, rounds=2, spread=1)
    assert "radius" not in found
    assert np.isclose(found.average_radius.item(), promise.average_radius)
    assert np.isclose(found.chebyshev_radius.item(), promise.chebyshev_radius)
    assert found.law.item() == promise.as_dict()["law"] == "fading"
    assert "radius_chebyshev" not in {own.name for own in dataclasses.fields(promise)}
