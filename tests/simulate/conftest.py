"""Dask clusters: one with nannies that start dead workers again, one of bare processes."""

import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def cluster():
    """Two workers, started again when they die."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with LocalCluster(**options) as local, Client(local, set_as_default=False) as client:
        client.wait_for_workers(2)
        yield client


@pytest.fixture
def machines(tmp_path):
    """A scheduler and three workers, each a process started by itself: its address, and all four."""
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
        with Client(scheduler_file=str(file), set_as_default=False, timeout=60) as client:
            client.wait_for_workers(3, timeout=60)
            address = client.scheduler.address
        yield address, started
    finally:
        for process in started:
            process.kill()
            process.wait()
