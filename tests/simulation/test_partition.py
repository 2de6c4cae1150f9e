"""A graph cut up over a cluster gives the engine's numbers.

They are the same bit for bit, whatever happens to the cluster.
"""

import signal
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_array_equal

from tacit import Distributed, Fading, Graph, OneShot
from tacit.cli import main
from tacit.errors import FileError, GraphError, InputError, ParameterError, TacitError
from tacit.mechanism.topology import GivenWeights
from tacit.simulation import Record, load, simulate, simulate_partitioned
from tacit.simulation import partition_steps as steps
from tacit.simulation.rows import RingRows, StoredRows, TorusRows, rows_of
from tacit.simulation.sweep_plan import values_between

TORUS = Graph.from_name("torus:60x60")


def one_after_the_other(parameters, graph, values, rounds, *, bounds, seed, tile=(0, 1)):
    """Run all parts in this process, without a cluster.

    Return the final states of one tile, agents first.
    """
    rows = rows_of(graph)
    job = steps.Job.of(parameters, rows.n, values, rounds=rounds, runs=1, seed=seed)
    parts = [steps.cut_part(job.of_part(lo, hi), rows, None, lo, hi) for lo, hi in pairwise(bounds.tolist())]
    wants = [steps.wanted(part, bounds) for part in parts]
    states = [steps.begin(part, *tile) for part in parts]
    for t in range(rounds):
        heard = [
            [steps.border(states[q], want, q, tile[1]) for q in steps.heard_parts(want)] for want in wants
        ]
        states = [steps.step(*each, t, tile, said) for *each, said in zip(parts, states, heard, strict=True)]
    return np.concatenate([state.theta for state in states])


@pytest.mark.parametrize("cuts", [[], [1024], [1024, 2048, 3072]])
def test_any_cut_gives_the_numbers_of_the_whole(cuts):
    values = np.random.default_rng(1).normal(size=TORUS.n)
    bounds = np.array([0, *cuts, TORUS.n])
    parameters = Fading(0.4, 2.0, 0.9)
    found = one_after_the_other(parameters, "torus:60x60", values, 9, bounds=bounds, seed=3)
    whole = simulate(Distributed(parameters, TORUS), values, 9, seed=3)
    assert_array_equal(found, whole.theta.values[0, -1])


def lopsided(graph):
    rng = np.random.default_rng(3)
    return GivenWeights(graph, rng.integers(0, 4, graph.n), rng.integers(1, 9, len(graph.indices)))


GEOMETRIC = Graph.from_name("geometric:3000:0.04:seed=1")
VARIETY = {
    "fading": (Fading(0.5, 1.0, 0.8), TORUS, None, 1, 1),
    "one-shot, more runs than a tile": (OneShot(0.5, 2.0), TORUS, "metropolis", 1, 20),
    "weights of all sizes, vectors": (None, GEOMETRIC, None, 2, 3),
    "metropolis": (None, GEOMETRIC, "metropolis", 1, 2),
    "given": (Fading(0.5, 1.0, 0.8), GEOMETRIC, lopsided(GEOMETRIC), 1, 1),
}


@pytest.mark.parametrize("case", VARIETY)
def test_a_cluster_gives_the_numbers_of_the_engine(cluster, case):
    parameters, graph, weights, components, runs = VARIETY[case]
    rng = np.random.default_rng(2)
    if parameters is None:
        parameters = Fading(rng.uniform(0.3, 0.6, graph.n), rng.uniform(1, 2, graph.n), 0.8)
    values = rng.normal(size=(graph.n, components) if components > 1 else graph.n)
    keep = {"rounds": 7, "runs": runs, "seed": 5, "record": Record(every=3, average=True)}
    told = []
    with cluster.as_current():
        found = simulate_partitioned(
            parameters,
            graph,
            values,
            cluster=cluster,
            weights=weights,
            parts=3,
            progress=lambda *now: told.append(now),
            **keep,
        ).load()
    whole = simulate(Distributed(parameters, graph, weights), values, **keep)
    for name in ("theta", "average"):
        assert found[name].dims == whole[name].dims
        assert_array_equal(found[name].values, whole[name].values)
    inputs = {"edges", "graph_sha256", "values_sha256"}  # a worker has only a part of them
    assert found.attrs == {name: fact for name, fact in whole.attrs.items() if name not in inputs}
    assert_array_equal(found["mixing"].values, whole["mixing"].values)
    assert told == [(done, 7) for done in range(1, 8)]


def test_what_stays_on_the_cluster_is_computed_there(cluster):
    with cluster.as_current():
        found = simulate_partitioned(Fading(0.5, 1, 0.8), "torus:60x60", "uniform:0:10:4", 5, cluster=cluster)
        assert len(found.theta.chunks[2]) == 2  # one part for each thread of the cluster
        mean = float(found.theta.mean())
    values = values_between("uniform:0:10:4", 0, TORUS.n)
    whole = simulate(Distributed(Fading(0.5, 1, 0.8), TORUS), values, 5)
    assert mean == pytest.approx(float(whole.theta.mean()), rel=1e-12)
    assert "average" not in found


def test_an_address_brings_the_states_here(cluster):
    address = cluster.scheduler.address
    found = simulate_partitioned(Fading(0.5, 1, 0.8), TORUS, "zeros", 4, cluster=address, parts=2)
    whole = simulate(Distributed(Fading(0.5, 1, 0.8), TORUS), np.zeros(TORUS.n), 4)
    assert isinstance(found.theta.data, np.ndarray)
    assert_array_equal(found.theta.values, whole.theta.values)


def test_workers_killed_half_way_change_nothing_and_a_dead_cluster_says_so(machines):
    from distributed import Client

    address, (scheduler, *workers) = machines
    values = np.random.default_rng(3).normal(size=TORUS.n)
    whole = simulate(Distributed(Fading(0.3, 1, 0.9), TORUS), values, 30, seed=9, record=Record(average=True))

    def kill(done, _total):
        if done in (8, 15):
            workers.pop().send_signal(signal.SIGKILL)

    with Client(address, set_as_default=False) as client, client.as_current():
        found = simulate_partitioned(
            Fading(0.3, 1, 0.9), TORUS, values, 30, seed=9, cluster=client, parts=3, progress=kill,
            record=Record(average=True),
        ).load()  # fmt: skip
    assert len(workers) == 1
    assert_array_equal(found.theta.values, whole.theta.values)
    assert_array_equal(found.average.values, whole.average.values)
    gives_up = pytest.raises(TacitError, match="the cluster failed")
    with Client(address, set_as_default=False) as client, gives_up:
        simulate_partitioned(
            Fading(0.3, 1, 0.9), TORUS, "zeros", 40, cluster=client, progress=lambda *_: scheduler.kill()
        )


@pytest.mark.parametrize("name", ["ring:5", "ring:3000", "torus:3x3", "torus:5x700"])
def test_rows_by_formula_are_those_of_the_graph(name, tmp_path):
    graph = Graph.from_name(name)
    np.save(tmp_path / "indptr.npy", graph.indptr)
    np.save(tmp_path / "indices.npy", graph.indices)
    for rows in (rows_of(name), StoredRows(str(tmp_path))):
        assert not isinstance(rows, Graph)
        assert rows.n == graph.n
        for lo, hi in [(0, graph.n), (0, 2), (graph.n // 2, graph.n)]:
            indptr, indices = rows.neighbours(lo, hi)
            ends = graph.indptr[lo : hi + 1]
            assert_array_equal(indptr, ends - ends[0])
            assert_array_equal(indices, graph.indices[ends[0] : ends[-1]])


@pytest.mark.parametrize("cuts", [(0, 1), (5, 1_000), (1_048_570, 1_048_590)])
def test_values_are_the_same_in_parts(cuts):
    whole = np.random.default_rng(7).uniform(-2, 3, 1_048_600)
    assert_array_equal(values_between("uniform:-2:3:7", *cuts), whole[slice(*cuts)])


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"law": Fading(0.5, 1, np.full(3600, 0.8))}, ParameterError, "decay must be one number"),
        ({"law": Fading(np.full(5, 0.5), 1, 0.8)}, ParameterError, "one value for each of the 3600"),
        ({"values": "gaussian"}, ParameterError, "values must be zeros"),
        ({"rounds": -1}, ParameterError, "rounds must be"),
        ({"runs": 0}, ParameterError, "runs must be"),
        ({"parts": 0}, ParameterError, "parts must be"),
        ({"seed": -1}, ParameterError, "seed must be"),
        ({"record": Record(everything=True)}, ParameterError, "keeps all agents' states or none"),
        ({"graph": Graph.from_edges([(0, 1), (2, 3)])}, GraphError, "must be connected"),
        ({"graph": "torus:60x60", "weights": "metropolis"}, ParameterError, "weights need a whole graph"),
        ({"cluster": 5}, InputError, "cluster must be"),
    ],
)
def test_mistakes_are_one_sentence(cluster, change, error, says):
    call = {
        "law": Fading(0.5, 1, 0.8), "graph": TORUS, "values": "zeros", "rounds": 2, "cluster": cluster
    } | change  # fmt: skip
    with pytest.raises(error, match=says):
        simulate_partitioned(**call)


def test_other_rows_are_checked_where_they_are_made(tmp_path):
    with pytest.raises(GraphError, match="both sides"):
        TorusRows(2, 5)
    with pytest.raises(GraphError, match="at least 3"):
        RingRows(2)
    with pytest.raises(FileError, match=r"numpy\.save"):
        _ = StoredRows(str(tmp_path)).n


def test_the_command_line_gives_the_numbers_of_one_machine(cluster, tmp_path):
    words = ["simulate", "--graph", "torus:60x60", "--mixing", "0.5", "--noise", "1", "--decay", "0.8"]
    words += ["--rounds", "5", "--runs", "2", "--out"]
    for name, more in (("parts.nc", ["--cluster", cluster.scheduler.address]), ("whole.nc", [])):
        done = CliRunner().invoke(main, [*words, str(tmp_path / name), *more])
        assert done.exit_code == 0, done.output
    parts, whole = load(tmp_path / "parts.nc"), load(tmp_path / "whole.nc")
    np.testing.assert_array_equal(parts.theta, whole.theta)
    np.testing.assert_array_equal(parts.average, whole.average)


def test_the_command_line_needs_a_graph_to_cut():
    words = ["--agents", "5", "--mixing", "0.5", "--noise", "1", "--decay", "0.8", "--cluster", "tcp://h:1"]
    done = CliRunner().invoke(main, ["simulate", *words])
    assert done.exit_code == 2
    assert "--graph" in done.output
