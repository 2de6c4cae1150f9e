"""Keepers as processes: killed again and again with everyone else, as a power cut would."""

import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from tests.doubles.processes import Processes, Tail

from tacit.cli.demo_session import make_session
from tacit.core.protocol.records import Disclosed, Ended, Evidence, Spoke
from tacit.live.ledger.ledger import Ledger
from tacit.live.verification.verdict import verify

WAIT = 600.0  # generous: a busy machine is no failure
TACIT = (sys.executable, "-c", "from tacit.cli import main; main()")
AT_ONCE = 15  # kills in one session
LONGEST_PAUSE = 0.4  # seconds between the first sign of life and the kill: several rounds


class Killer:
    """Kills one member after the other, each at a random moment after it has shown a sign of life."""

    def __init__(self, processes, rng, most):
        self.processes, self.rng, self.left = processes, rng, most
        self.struck = Counter()
        self._sizes, self._victim, self._when = {}, None, None

    def act(self):
        if not self.left or not self.processes.running:
            return
        if self._victim is None:
            self._victim = self.rng.choice(self.processes.running)
        victim = self._victim
        if victim not in self.processes.running:
            self._victim = self._when = None  # it has come to its end by itself
        elif self._when is None:
            if self._log_size(victim) > self._sizes.get(victim, 0):
                self._when = time.monotonic() + self.rng.uniform(0.0, LONGEST_PAUSE)
        elif time.monotonic() >= self._when:
            self._strike(victim)

    def _log_size(self, unit):
        path = self.processes.path(unit, "log")
        return path.stat().st_size if path.exists() else 0

    def _strike(self, victim):
        self.processes.kill(victim)
        if self.processes.processes[victim].returncode == -signal.SIGKILL:
            self.struck[victim] += 1
            self.left -= 1
        self._sizes[victim] = self._log_size(victim)
        self.processes.start(victim)
        self._victim = self._when = None


def prepared(folder, rounds, pace):
    """Return the processes of three agents, two keepers and a coordinator."""
    session = make_session(folder, 3, keepers=2, rounds=rounds)
    values = {member.name: 20.0 + i for i, member in enumerate(session.roster)}
    return Processes(folder, session, values, cap=1.0, pace=pace)


def played(folder, kills, rng):
    """Run a session of processes, kill members of it at random moments, and let it come to its end."""
    processes = prepared(folder, rounds=10 + 2 * kills, pace=0.15)
    killer, end = Killer(processes, rng, kills), time.monotonic() + WAIT
    try:
        processes.start_all()
        while processes.running:
            processes.require_healthy()
            assert time.monotonic() < end, processes.running
            killer.act()
            time.sleep(0.01)
        processes.require_healthy()
    finally:
        processes.stop_all()
    return processes, killer.struck


def check(processes):
    """One opening and one message for each update, ever; all have finished; nobody has said two things."""
    session, kept = processes.session, {}
    for unit in processes.units:
        with Ledger(processes.path(unit, "ledger"), create=False) as ledger:
            kept[unit] = ledger.records(session.id)
        assert not [record for record in kept[unit] if isinstance(record, Evidence)], unit
    for name in processes.keepers:
        opened = [record.update for record in kept[name] if isinstance(record, Disclosed)]
        assert opened == list(range(session.rounds))
    for unit, records in kept.items():
        spoke = [record.update for record in records if isinstance(record, Spoke)]
        assert len(spoke) == len(set(spoke))
        assert [record.reason for record in records if isinstance(record, Ended)] == [None], unit
    assert not list(processes.folder.glob("*.ephemeral"))
    verdict = verify(processes.path("coordinator", "transcript"), session=session)
    assert verdict.word == "sound", verdict.findings
    assert verdict.rounds == session.rounds


@pytest.mark.parametrize("kills", [3, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.usefixtures("forked")
def test_everyone_is_killed_and_nothing_is_opened_twice(tmp_path, kills):
    """Kills are spread over agents, keepers and coordinator, and over as many sessions as they take."""
    rng, struck, sessions = random.Random(kills), Counter(), 0
    while struck.total() < kills:
        folder = tmp_path / str(sessions)
        folder.mkdir(mode=0o700)
        processes, hit = played(folder, min(AT_ONCE, kills - struck.total()), rng)
        check(processes)
        struck, sessions = struck + hit, sessions + 1
    print(f"{struck.total()} kills in {sessions} sessions: {dict(struck)}")
    assert kills < 100 or set(struck) == set(processes.units)


@pytest.mark.long
def test_killed_in_the_middle_and_given_up_they_leave_no_key(tmp_path):
    """With the key and the coordinator's transcript anyone would have the value, without mask and noise."""
    processes, folder = prepared(tmp_path, rounds=40, pace=0.3), tmp_path
    session = processes.session.id.hex()

    def keys_of(unit):
        return list(folder.glob(f"*{unit}.ledger.*ephemeral*"))

    try:
        processes.start_all()
        for unit, sign in (("agent-0", "spoken"), ("keeper-0", "answered")):
            log = Tail(processes.path(unit, "log"))
            while not any(line["event"] == sign for line in log):
                assert processes.processes[unit].poll() is None, processes.path(unit, "errors").read_text()
                time.sleep(0.01)
            processes.kill(unit)
            assert len(keys_of(unit)) == 1
            for verb in ("settle", "forget"):
                words = [*TACIT, "ledger", verb, str(processes.path(unit, "ledger")), session[:8]]
                done = subprocess.run(words, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr
                assert not keys_of(unit)
            processes.start(unit)
            assert processes.processes[unit].wait(WAIT) == 6
            assert not keys_of(unit)
    finally:
        processes.stop_all()
