"""Keepers as processes: killed again and again with everyone else, as a power cut would."""

import random
import time

import pytest

from tacit.cli.demo.scenario import Scenario
from tacit.protocol.records import Disclosed, Spoke
from tacit.runtime.ledger.ledger import Ledger
from tacit.runtime.verify.verdict import verify


def played(folder, kills, seed):
    """Run a session of processes, kill members of it at random times, and let it come to its end."""
    scenario = Scenario.prepare(
        folder, 3, topology="server", keepers=2, epsilon=1.0, mixing=0.5, rounds=3 * kills + 2, faults=False,
        pace=0.05, processes=None, seed=seed,
    )  # fmt: skip
    processes, rng, left = scenario.processes, random.Random(seed), kills
    end = time.monotonic() + 600
    try:
        processes.start_all()
        while processes.running:
            processes.require_healthy()
            assert time.monotonic() < end, processes.running
            if left and processes.path("coordinator", "transcript").exists():
                unit = rng.choice(processes.running)
                processes.kill(unit)
                processes.start(unit)
                left -= 1
            processes.processes[processes.running[0]].poll() if processes.running else None
            time.sleep(0.01)
    finally:
        processes.stop_all()
    return scenario, kills - left


def records(scenario, name, kind):
    with Ledger(scenario.processes.path(name, "ledger"), create=False) as ledger:
        return [record for record in ledger.records(scenario.session.id) if isinstance(record, kind)]


@pytest.mark.parametrize("sessions", [1, pytest.param(30, marks=pytest.mark.long)])
def test_everyone_is_killed_and_nothing_is_opened_twice(tmp_path, sessions):
    total = 0
    for seed in range(sessions):
        folder = tmp_path / str(seed)
        folder.mkdir(mode=0o700)
        scenario, struck = played(folder, 3 if sessions == 1 else 10, seed)
        total += struck
        session = scenario.session
        for name in ("keeper-0", "keeper-1"):
            opened = [record.update for record in records(scenario, name, Disclosed)]
            assert opened == list(range(session.rounds))
        for i in range(session.n):
            spoke = [record.update for record in records(scenario, f"agent-{i}", Spoke)]
            assert len(spoke) == len(set(spoke))
        assert not list(folder.glob("*.ephemeral"))
        verdict = verify(scenario.processes.path("coordinator", "transcript"), session=session)
        assert verdict.word == "sound", verdict.findings
    assert total >= (1 if sessions == 1 else 200)
