"""What `make run` shows: keys, a session, processes over TLS, kill -9, and a verified transcript."""

import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tacit.live.sessions.file import read_session
from tacit.live.verification.verdict import verify

WAIT = 800


def demo(*words, pace):
    """Return the command of a demo whose rounds last at least `pace` seconds."""
    program = "from tacit.cli import demo_session, main\ndemo_session.PACE = {}\nmain()"
    return [sys.executable, "-c", program.format(pace), "demo", *words]


@pytest.mark.parametrize("keepers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_agents_agree_although_one_and_the_coordinator_are_killed(tmp_path, keepers):
    command = demo("--agents", "4", "--keepers", str(keepers), pace=0.25)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr
    killed = ["agent-2", "coordinator", "keeper-0"][: 3 if keepers else 2]
    assert re.findall(r"(\S+) is killed", done.stdout) == killed
    assert re.findall(r"(\S+) is restarted", done.stdout) == killed
    [agreed] = re.findall(r"4 agents agreed on (\d\d\.\d\d) °C; the true average", done.stdout)
    verdict = verify(tmp_path / "out" / "demo.jsonl")
    assert verdict.sound
    assert verdict.rounds == verdict.session.rounds == 10
    made_up = random.Random(0)
    states = np.array([made_up.uniform(15, 25) for _ in range(4)])  # the killed agent's end as if it were not
    for y in verdict.history.y:
        states = verdict.history.mechanism.update(states, y)
    assert float(agreed) == pytest.approx(verdict.session.clamp(states.mean()), abs=0.01)
    assert verdict.session.id == read_session(tmp_path / "out" / "demo.toml").id
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"demo.jsonl", "demo.toml"}


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.long),
    ],
)
def test_a_demo_that_is_stopped_leaves_no_process_and_no_private_file(tmp_path, number, code):
    """A second signal while it cleans up changes nothing."""
    private = tmp_path / "private"
    private.mkdir()
    own = os.environ | {"TMPDIR": str(private)}
    command = demo("--agents", "2", pace=600)
    with subprocess.Popen(command, cwd=tmp_path, env=own, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            if line.split()[:1] == ["1"]:  # of the rounds: all members are there
                break
        [folder] = private.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        found = subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, text=True, check=True)
        first, *_, last = members = [int(word) for word in found.stdout.split()]
        assert len(members) == 3
        os.kill(last, signal.SIGSTOP)  # it does not end by itself, so the demo waits for it
        running.send_signal(number)
        while lives(first):
            time.sleep(0.01)
        running.send_signal(number)
        running.stdout.read()
        assert running.wait(WAIT) == code
    assert list(private.iterdir()) == []
    assert not any(map(lives, members))


def lives(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
