"""Dask clusters for tests.

One has nannies that start dead workers again, one is of bare processes.
"""

import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def started_cluster():
    """Two workers, started again when they die.

    Idle ones cost time too, so they end with the module.
    """
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with LocalCluster(**options) as local, Client(local, set_as_default=False) as client:
        yield client


@pytest.fixture
def cluster(started_cluster):
    """A client of two workers, both alive."""
    started_cluster.wait_for_workers(2)
    return started_cluster


@pytest.fixture
def gate(cluster, tmp_path):
    """Hold a sweep's cells back on all workers, but for the first two.

    They wait until what is returned is called.
    """
    opened = tmp_path / "opened"

    def hold():
        import time

        from tacit.lab.simulation.sweep_plan import SweepPlan

        ordinary = SweepPlan.cell_seed

        def held(plan, cell):
            while cell >= 2 and not opened.exists():
                time.sleep(0.01)
            return ordinary(plan, cell)

        held.ordinary = ordinary
        SweepPlan.cell_seed = held

    def release():
        from tacit.lab.simulation.sweep_plan import SweepPlan

        SweepPlan.cell_seed = getattr(
            SweepPlan.cell_seed, "ordinary", SweepPlan.cell_seed
        )  # a new worker has no other

    cluster.run(hold)
    yield opened.touch
    opened.touch()
    cluster.run(release)


@pytest.fixture
def machines(tmp_path):
    """A scheduler and three workers, each a process of its own.

    Returns the scheduler's address, and all four.
    """
    from distributed import Client

    file = tmp_path / "scheduler.json"
    near = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file)]
    scheduler = ["scheduler", "--port", "0", *near]
    worker = ["worker", "--nthreads", "1", "--no-nanny", *near]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "dask", *command],
            cwd=tmp_path,
            env={**os.environ, "NUMBA_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in (scheduler, worker, worker, worker)
    ]
    try:
        with Client(scheduler_file=str(file), set_as_default=False, timeout=300) as client:
            client.wait_for_workers(3)
            address = client.scheduler.address
        yield address, started
    finally:
        for process in started:
            process.kill()
            process.wait()
