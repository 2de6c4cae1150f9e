"""Sweeps: the same numbers however they are run, stopped and resumed."""

import importlib
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import FileError, GraphError, InputError, ParameterError, StateError, TacitError
from tacit.core.theory import accuracy, privacy
from tacit.lab.simulation import load_sweep, sample_outcome, simulate, sweep, sweep_file
from tacit.lab.simulation.sweep_plan import SweepPlan

module = importlib.import_module("tacit.lab.simulation.sweeps")

GRID = {"agents": [5], "mixing": [0.3, 0.8], "noise": [1, 2.5], "decay": [0.9]}
CALL = {"rounds": 12, "runs": 4, "seed": 3, "method": "outcome"}


def lines(path):
    return path.read_bytes().splitlines(keepends=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sweep that nothing interrupted: its file's lines, and its dataset."""
    path = tmp_path_factory.mktemp("whole") / "s.jsonl"
    dataset = sweep(GRID, path=path, **CALL)
    return lines(path), dataset


def test_cells_hold_what_a_researcher_plots(whole):
    _, dataset = whole
    assert dict(dataset.sizes) == {
        "agents": 1,
        "law": 1,
        "mixing": 2,
        "noise": 2,
        "decay": 1,
        "run": 4,
    }
    assert dataset.attrs["finished"] == dataset.attrs["cells"] == 4
    cell = dataset.sel(agents=5, mixing=0.3, noise=2.5, decay=0.9, law="fading")
    mechanism = ClientServer(Fading(0.3, 2.5, 0.9), agents=5)
    assert cell["epsilon_rounds"] == privacy.epsilon(mechanism.law, 12)
    assert cell["epsilon_endless"] == privacy.epsilon(mechanism.law)
    assert cell["variance"] == accuracy.variance(mechanism, 12)
    assert cell["chebyshev_radius"] == accuracy.chebyshev_radius(mechanism, 0.05, 12)
    assert cell["average_radius"] == accuracy.radius(mechanism, 0.05, 12)
    plan = SweepPlan.of(GRID, values="zeros", failure_probability=0.05, **CALL)
    number = next(i for i in range(4) if list(plan.settings(i).values()) == [5, "fading", 0.3, 2.5, 0.9])
    expected = sample_outcome(mechanism, 4, rounds=12, seed=plan.cell_seed(number))
    np.testing.assert_array_equal(cell["deviation"], expected)
    assert dataset["deviation"].notnull().all()


def test_the_order_of_the_grid_does_not_matter(whole, tmp_path):
    grid = dict(reversed(GRID.items()))
    xr.testing.assert_identical(sweep(grid, path=tmp_path / "s", **CALL), whole[1])
    assert lines(tmp_path / "s") == whole[0]


def test_epsilon_chooses_the_best_noise(tmp_path):
    grid = {"agents": [10], "mixing": [0.5], "epsilon": [0.4], "law": ["fading", "one-shot"]}
    cell = sweep(grid, path=tmp_path / "s", **CALL).sel(agents=10, mixing=0.5, epsilon=0.4)
    fading, one_shot = cell.sel(law="fading"), cell.sel(law="one-shot")
    assert fading["decay"] == pytest.approx(0.5 ** (1 / 3))
    assert fading["noise"] == pytest.approx(1 / (0.4 * (1 - 0.5 ** (2 / 3))))
    assert fading["epsilon_endless"] == pytest.approx(0.4)
    assert one_shot["noise"] == pytest.approx(1 / 0.4)
    assert np.isnan(one_shot["decay"])
    assert one_shot["average_radius"] == accuracy.radius(ClientServer(OneShot(0.5, 2.5), agents=10), 0.05, 12)


def test_where_no_endless_run_is_private_the_rounds_still_have_a_loss(tmp_path):
    grid = {"agents": 10, "mixing": 0.3, "noise": 1, "decay": 0.5}
    cell = sweep(grid, path=tmp_path / "s", **CALL)
    assert np.isnan(cell["epsilon_endless"]).all()
    assert cell["epsilon_rounds"].item() == privacy.epsilon(Fading(0.3, 1, 0.5), 12)


def test_disagreement_without_agents_is_known_with_a_server_only(tmp_path):
    common = {"mixing": [0.3], "noise": [1], "decay": [0.8]}
    values = [0.0, 7.0, 3.0, 2.0]
    served = sweep({"agents": [4], **common}, path=tmp_path / "a", values=values, **CALL)
    np.testing.assert_allclose(served["disagreement"], 7 * 0.7**12)
    ring = sweep({"graph": ["ring:4"], **common}, path=tmp_path / "b", values=values, **CALL)
    assert ring["disagreement"].isnull().all()
    assert ring["deviation"].notnull().all()


def test_a_file_never_contains_the_values_it_was_given(tmp_path):
    sweep(
        {"agents": 2, "mixing": 0.3, "noise": 1, "decay": 0.8},
        path=tmp_path / "s",
        values=[1234.5678, 0.0],
        **CALL,
    )
    assert b"1234.5678" not in (tmp_path / "s").read_bytes()


@pytest.mark.parametrize("values", ["uniform:-2:5:9", "uniform:-2:5"])
def test_uniform_values_are_the_same_whole_and_in_parts(values, monkeypatch):
    grid = {"agents": 50, "mixing": 0.3, "noise": 1, "decay": 0.8}
    plan = SweepPlan.of(grid, values=values, failure_probability=0.05, **CALL)
    expected = plan.initial_values(50)
    assert -2 <= expected.min() < expected.max() <= 5
    monkeypatch.setattr(importlib.import_module("tacit.lab.simulation.sweep_plan"), "_CHUNK", 7)
    np.testing.assert_array_equal(plan.initial_values(50), expected)
    assert plan.spread(50) == np.ptp(expected)


# With the agents


def test_the_engine_gives_deviation_and_disagreement_of_its_runs(tmp_path):
    grid = {"graph": ["star:6"], "mixing": [0.4], "noise": [2], "decay": [0.8], "law": ["fading"]}
    call = {"rounds": 5, "runs": 7, "seed": 3, "values": "uniform:0:10:1"}
    cell = sweep(grid, path=tmp_path / "s", **call).squeeze(("graph", "mixing", "noise", "decay", "law"))
    plan = SweepPlan.of(grid, method="engine", failure_probability=0.05, **call)
    start = plan.initial_values(6)
    mechanism = Distributed(Fading(0.4, 2, 0.8), Graph.from_name("star:6"))
    theta = simulate(mechanism, start, 5, runs=7, seed=plan.cell_seed(0))["theta"].values[:, -1]
    weights = np.array([6, 2, 2, 2, 2, 2]) / 16  # closed degrees of a star
    np.testing.assert_allclose(cell["deviation"], (theta - start) @ weights, atol=1e-12)
    np.testing.assert_array_equal(cell["disagreement"], theta.max(axis=1) - theta.min(axis=1))


def test_with_a_server_both_methods_know_the_same_disagreement(tmp_path):
    grid = {"agents": [6], "mixing": [0.4], "epsilon": [1], "law": ["fading", "one-shot"]}
    call = {"rounds": 5, "runs": 3, "values": "uniform:0:10:1"}
    agents = sweep(grid, path=tmp_path / "a", **call)
    without = sweep(grid, path=tmp_path / "b", method="outcome", **call)
    np.testing.assert_allclose(agents["disagreement"], without["disagreement"])


def test_many_states_are_simulated_in_parts_with_seeds_of_their_own(tmp_path, monkeypatch):
    grid = {"agents": [6], "mixing": [0.4], "epsilon": [1]}
    call = {"rounds": 5, "runs": 7, "seed": 3}
    whole = sweep(grid, path=tmp_path / "a", **call)["deviation"].values.ravel()
    monkeypatch.setattr(module, "_STATES", 13)
    parts = sweep(grid, path=tmp_path / "b", **call)["deviation"].values.ravel()
    np.testing.assert_array_equal(parts[:2], whole[:2])
    assert np.unique(parts).size == 7


# Stopped and resumed


KILLED = """
import json, os, signal, sys
from tacit.lab.simulation import sweep

def progress(done, total):
    if done == 2:
        os.kill(os.getpid(), signal.SIGKILL)

sweep(json.loads(sys.argv[2]), path=sys.argv[1], progress=progress, **json.loads(sys.argv[3]))
"""


def test_a_killed_sweep_goes_on_where_it_was(whole, tmp_path):
    path = tmp_path / "s.jsonl"
    command = [sys.executable, "-c", KILLED, path, json.dumps(GRID), json.dumps(CALL)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert lines(path) == whole[0][:3]
    partly = load_sweep(path)
    assert partly.attrs["finished"] == 2
    assert int(partly["average_radius"].notnull().sum()) == 2
    told = []
    after = sweep(GRID, path=path, progress=lambda *done: told.append(done), **CALL)
    assert told == [(done, 4) for done in range(2, 5)]
    assert lines(path) == whole[0]
    xr.testing.assert_identical(after, whole[1])


@pytest.mark.parametrize("kept", [0, 40, 1300])
def test_a_torn_last_line_is_done_again(whole, tmp_path, kept):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(whole[0])[:kept])
    xr.testing.assert_identical(sweep(GRID, path=path, **CALL), whole[1])
    assert lines(path) == whole[0]


def test_a_last_line_without_its_end_is_done_again(whole, tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(whole[0][:3])[:-1])
    assert load_sweep(path).attrs["finished"] == 1
    sweep(GRID, path=path, **CALL)
    assert lines(path) == whole[0]


@pytest.mark.parametrize("size", [300, 5000])
def test_a_last_line_of_zeros_is_done_again(whole, tmp_path, size):
    """A power cut can leave a line's length on disk without its bytes."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(whole[0][:3]) + bytes(size) + b"\n")
    assert load_sweep(path).attrs["finished"] == 2
    sweep(GRID, path=path, **CALL)
    assert lines(path) == whole[0]


def test_ctrl_c_keeps_what_is_finished(whole, tmp_path):
    def interrupt(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(GRID, path=tmp_path / "s", progress=interrupt, **CALL)
    assert lines(tmp_path / "s") == whole[0][:4]
    sweep(GRID, path=tmp_path / "s", **CALL)
    assert lines(tmp_path / "s") == whole[0]


def test_a_finished_sweep_returns_without_computing(whole, tmp_path, monkeypatch):
    path = tmp_path / "s"
    path.write_bytes(b"".join(whole[0]))
    monkeypatch.setattr(module, "run_cell", None)
    told = []
    xr.testing.assert_identical(
        sweep(GRID, path=path, progress=lambda *done: told.append(done), **CALL), whole[1]
    )
    assert told == [(4, 4)]
    assert lines(path) == whole[0]


FULL = """
import json, resource, sys
from tacit.base.errors import FileError
from tacit.lab.simulation import sweep
resource.setrlimit(resource.RLIMIT_FSIZE, (1200, 1200))
try:
    sweep(json.loads(sys.argv[2]), path=sys.argv[1], **json.loads(sys.argv[3]))
except FileError as error:
    print(error)
    sys.exit(3)
"""


def test_a_full_disk_keeps_what_is_finished(whole, tmp_path):
    path = tmp_path / "s"
    command = [sys.executable, "-c", FULL, path, json.dumps(GRID), json.dumps(CALL)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    assert "Finished cells are kept" in done.stdout
    assert 0 < load_sweep(path).attrs["finished"] < 4
    sweep(GRID, path=path, **CALL)
    assert lines(path) == whole[0]


# Refusals


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rounds": 13}, "rounds"),
        ({"seed": 4}, "seed"),
        ({"runs": 5}, "runs"),
        ({"values": [1.0] * 5}, "values"),
    ],
)
def test_another_plan_at_the_same_path_is_refused(whole, tmp_path, change, named):
    (tmp_path / "s").write_bytes(b"".join(whole[0]))
    with pytest.raises(FileError, match=f"holds another sweep: {named} differ"):
        sweep(GRID, path=tmp_path / "s", **{**CALL, **change})
    with pytest.raises(FileError, match="another sweep: grid differ"):
        sweep({**GRID, "mixing": [0.3]}, path=tmp_path / "s", **CALL)
    assert lines(tmp_path / "s") == whole[0]


def test_another_version_is_another_plan(whole, tmp_path):
    header = json.loads(whole[0][0])
    header["plan"]["tacit_version"], header["digest"] = "0.0.9", "of that"
    (tmp_path / "s").write_bytes(json.dumps(header).encode() + b"\n")
    with pytest.raises(FileError, match="another sweep: tacit_version differ"):
        sweep(GRID, path=tmp_path / "s", **CALL)


def test_other_values_are_another_plan(tmp_path):
    grid = {"agents": 2, "mixing": 0.3, "noise": 1, "decay": 0.8}
    sweep(grid, path=tmp_path / "s", values=[1.0, 2.0], **CALL)
    with pytest.raises(FileError, match="another sweep: values differ"):
        sweep(grid, path=tmp_path / "s", values=[1.0, 3.0], **CALL)


def test_every_cell_has_a_seed_of_its_own():
    grid = {"agents": range(1, 101), "mixing": np.linspace(0.1, 0.9, 100), "epsilon": 1}
    plan = SweepPlan.of(grid, values="zeros", failure_probability=0.05, **CALL)
    seeds = {plan.cell_seed(cell) for cell in range(plan.cells)}
    assert len(seeds) == plan.cells == 10_000
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_cell_is_never_written_twice(tmp_path):
    with sweep_file.writing(tmp_path / "s") as book:
        book.start({}, "digest")
        book.append(0, {"a": 1})
        book.append(0, {"a": 1})
    assert len(lines(tmp_path / "s")) == 2


def test_two_writers_are_refused_and_a_reader_is_not(whole, tmp_path):
    path = tmp_path / "s"
    seen = []

    def meanwhile(done, total):
        if done == 2:
            seen.append(load_sweep(path).attrs["finished"])  # must not drop the lock
            with pytest.raises(FileError, match="being written by another process"):
                sweep(GRID, path=path, **CALL)
            command = [sys.executable, "-c", FULL, path, json.dumps(GRID), json.dumps(CALL)]
            other = subprocess.run(command, check=False, capture_output=True, text=True)
            seen.append("being written by another process" in other.stdout)

    sweep(GRID, path=path, progress=meanwhile, **CALL)
    assert seen == [2, True]
    assert lines(path) == whole[0]


@pytest.mark.parametrize(
    "content", [b"theta,1,2\n", b"theta,1,2\n3\n4\n", b"{}\n", b"[1]\n", b"\x00\x01", b"hello"]
)
def test_a_foreign_file_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "s"
    path.write_bytes(content)
    with pytest.raises(FileError, match="is not a sweep's file"):
        sweep(GRID, path=path, **CALL)
    with pytest.raises(FileError, match="is not a sweep's file"):
        load_sweep(path)
    assert path.read_bytes() == content


def test_damage_that_no_crash_can_do_is_refused(whole, tmp_path):
    path = tmp_path / "s"
    path.write_bytes(b"".join([*whole[0][:3], b"{nonsense\n", *whole[0][3:]]))
    with pytest.raises(FileError, match="damaged in line 4"):
        load_sweep(path)
    changed = whole[0][2].replace(b'"variance":', b'"variance":1')
    path.write_bytes(b"".join([*whole[0][:3], changed]))
    with pytest.raises(FileError, match="two different results for cell 1"):
        sweep(GRID, path=path, **CALL)
    for replaced in (b'"cell":99,', b'"cell":-17,'):
        path.write_bytes(b"".join([whole[0][0], whole[0][1].replace(b'"cell":0,', replaced)]))
        with pytest.raises(FileError, match="changed by hand"):
            load_sweep(path)


def test_a_newer_file_is_refused(whole, tmp_path):
    (tmp_path / "s").write_bytes(whole[0][0].replace(b'"tacit_sweep":1', b'"tacit_sweep":2'))
    with pytest.raises(FileError, match="Install a newer tacit"):
        load_sweep(tmp_path / "s")


def test_missing_places(tmp_path):
    with pytest.raises(FileError, match="cannot be read: No such file"):
        load_sweep(tmp_path / "absent")
    with pytest.raises(FileError, match="cannot be written: No such file"):
        sweep(GRID, path=tmp_path / "absent" / "s", **CALL)


@pytest.mark.parametrize(
    ("grid", "error", "says"),
    [
        ({"agents": [5], "colour": ["red"]}, ParameterError, "axes must be among .* got 'colour'"),
        ({"mixing": [0.5], "epsilon": [1]}, ParameterError, "either agents .* or graph"),
        ({"agents": [5], "graph": ["ring:5"], "mixing": [0.5], "epsilon": [1]}, ParameterError, "not both"),
        ({"agents": [5], "epsilon": [1]}, ParameterError, "needs mixing and either noise or epsilon"),
        ({"agents": [5], "mixing": [0.5], "noise": [1], "epsilon": [1]}, ParameterError, "either noise or"),
        ({"agents": [5], "mixing": [0.5], "noise": [1]}, ParameterError, "needs decay"),
        ({"agents": [5], "mixing": [0.5], "epsilon": [1], "decay": [0.9]}, ParameterError, "decay among"),
        ({"agents": [5], "mixing": [0.5, 0.5], "epsilon": [1]}, ParameterError, "none twice"),
        ({"agents": [], "mixing": [0.5], "epsilon": [1]}, ParameterError, "at least one value"),
        ({"agents": [5.5], "mixing": [0.5], "epsilon": [1]}, ParameterError, "agents must be a whole number"),
        ({"agents": [5], "mixing": [0.5, 1.5], "epsilon": [1]}, ParameterError, r"must be in \(0, 1\)"),
        ({"agents": [5], "mixing": ["a"], "epsilon": [1]}, ParameterError, "mixing must be a number"),
        ({"agents": [5], "mixing": [0.5], "epsilon": [0]}, ParameterError, "epsilon must be a positive"),
        ({"agents": [5], "mixing": [0.5], "epsilon": [1], "law": ["x"]}, ParameterError, "law"),
        ({"graph": [5], "mixing": [0.5], "epsilon": [1]}, GraphError, "a graph must be a Graph, a name"),
        ({"graph": ["ring:5", "rung:5"], "mixing": [0.5], "epsilon": [1]}, GraphError, "rung"),
    ],
)
def test_a_grid_that_cannot_be_swept_is_refused_before_anything_is_written(tmp_path, grid, error, says):
    with pytest.raises(error, match=says):
        sweep(grid, path=tmp_path / "s", **CALL)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"rounds": 0}, ParameterError, "rounds must be"),
        ({"runs": 0}, ParameterError, "runs must be"),
        ({"seed": -1}, ParameterError, "seed must be"),
        ({"method": "magic"}, ParameterError, "method must be"),
        ({"failure_probability": 1.5}, ParameterError, "failure_probability must be"),
        ({"values": "ones"}, ParameterError, "values must be zeros, uniform"),
        ({"values": "uniform:3:1"}, ParameterError, "values must be zeros, uniform"),
        ({"values": [[1.0, 2.0]] * 5}, ParameterError, "one number per agent"),
        ({"values": [1.0, 2.0]}, StateError, "values must have shape"),
        ({"cluster": "tcp://127.0.0.1:9"}, InputError, "nothing answers at"),
        ({"cluster": 7}, InputError, "cluster must be a Dask client"),
    ],
)
def test_other_mistakes(tmp_path, change, error, says):
    import dask
    import distributed  # noqa: F401 - its settings must be there before one is changed

    with dask.config.set({"distributed.comm.timeouts.connect": "500ms"}), pytest.raises(error, match=says):
        sweep(GRID, path=tmp_path / "s", **{**CALL, **change})
    assert not (tmp_path / "s").exists()  # nothing half-written


def test_what_is_no_address_leaves_no_thread_that_keeps_the_process(tmp_path):
    call = f"sweep({GRID!r}, path={str(tmp_path / 's')!r}, rounds=2, runs=2, cluster='foo')"
    code = (
        "from tacit.lab.simulation import sweep\n"
        f"try:\n    {call}\nexcept ValueError as error:\n    print(error)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "nothing answers at 'foo'" in ended.stdout


def test_workers_with_another_tacit_are_refused(whole):
    plan = SweepPlan.of(GRID, values="zeros", failure_probability=0.05, **CALL)
    object.__setattr__(plan, "version", "0.0")
    with pytest.raises(InputError, match="Install it on every worker"):
        module.run_cell(plan, 0)


# On a cluster


CLUSTER_GRID = {"graph": ["barabasi:300:2:seed=1"], "mixing": [0.3, 0.7], "epsilon": [0.5, 1, 2, 4]}
CLUSTER_CALL = {"rounds": 40, "runs": 10, "seed": 5}


def test_a_cluster_loses_and_repeats_nothing_when_a_worker_is_killed(cluster, gate, tmp_path):
    here = sweep(CLUSTER_GRID, path=tmp_path / "here", **CLUSTER_CALL)
    killed = []

    def kill_one(done, total):
        if done == 2:
            busy = [worker for worker, cells in cluster.processing().items() if cells]
            killed.append(cluster.run(os.getpid, workers=busy[:1])[busy[0]])
            os.kill(killed[0], signal.SIGKILL)
            gate()

    address = cluster.scheduler.address
    there = sweep(CLUSTER_GRID, path=tmp_path / "there", cluster=address, progress=kill_one, **CLUSTER_CALL)
    assert killed
    assert killed[0] not in cluster.run(os.getpid).values()
    xr.testing.assert_identical(there, here)
    # byte for byte, and every cell once
    assert sorted(lines(tmp_path / "there")) == sorted(lines(tmp_path / "here"))


@pytest.mark.long
def test_a_sweep_outlives_workers_that_nobody_starts_again(machines, tmp_path):
    address, (_, *workers) = machines

    def kill(done, total):
        if done in (2, 5):
            workers.pop().kill()

    there = sweep(CLUSTER_GRID, path=tmp_path / "there", cluster=address, progress=kill, **CLUSTER_CALL)
    assert len(workers) == 1
    xr.testing.assert_identical(there, sweep(CLUSTER_GRID, path=tmp_path / "here", **CLUSTER_CALL))
    assert sorted(lines(tmp_path / "there")) == sorted(lines(tmp_path / "here"))


def test_cells_that_the_cluster_drops_are_never_taken_for_results(cluster, gate, tmp_path):
    """As when its scheduler dies: futures end cancelled."""
    from distributed import Future

    def drop(done, total):
        if done == 2:
            keys = [key for cells in cluster.processing().values() for key in cells]
            cluster.cancel([Future(key, cluster) for key in keys], force=True)
            gate()

    path = tmp_path / "s"
    with pytest.raises(TacitError, match=r"the cluster failed.*repeat the same call"):
        sweep(CLUSTER_GRID, path=path, cluster=cluster, progress=drop, **CLUSTER_CALL)
    assert 2 <= load_sweep(path).attrs["finished"] < 8
    there = sweep(CLUSTER_GRID, path=path, cluster=cluster, **CLUSTER_CALL)
    xr.testing.assert_identical(there, sweep(CLUSTER_GRID, path=tmp_path / "here", **CLUSTER_CALL))


def test_a_client_can_be_given_and_stays_open(cluster, whole, tmp_path):
    path = tmp_path / "s"
    path.write_bytes(b"".join(whole[0][:3]))
    xr.testing.assert_identical(sweep(GRID, path=path, cluster=cluster, **CALL), whole[1])
    assert sorted(lines(path)) == sorted(whole[0])
    assert cluster.status == "running"


def test_what_fails_on_a_worker_says_so_here(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(SweepPlan, "version", "9.9")
    original = SweepPlan.of

    def other(*args, **kwargs):
        plan = original(*args, **kwargs)
        object.__setattr__(plan, "version", "9.9")
        return plan

    monkeypatch.setattr(SweepPlan, "of", other)
    with pytest.raises(TacitError, match="Install it on every worker"):
        sweep(GRID, path=tmp_path / "s", cluster=cluster, **CALL)


def test_heavy_parts_are_not_loaded_before_they_are_used():
    heavy = "{'dask', 'distributed', 'h5netcdf', 'networkx', 'numba', 'xarray'}"
    use = "import sys, tacit.lab.simulation as s; s.sweep, s.save, s.sample_outcome"
    code = f"{use}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
