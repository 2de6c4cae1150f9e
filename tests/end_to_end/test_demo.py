"""What `make run` shows: keys, a session, processes over TLS, kill -9, and a verified transcript."""

import json
import os
import signal
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest

from tacit.live.sessions.file import read_session
from tacit.live.verification.verdict import verify

WAIT = 800


def demo(folder, *words, first=""):
    command = [sys.executable, "-c", f"{first}\nfrom tacit.cli import main; main()", "demo", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_agents_agree_although_one_and_the_coordinator_are_killed(tmp_path):
    found = json.loads(demo(tmp_path, "--agents", "4", "--json"))
    assert found["killed"] == ["agent-2", "coordinator"]
    assert found["transcript"]["sound"]
    assert found["error"] == pytest.approx(abs(found["agreed_on"] - found["average"]))
    assert len(found["final"]) == 4
    assert found["disagreement"] <= 10 * 0.5 ** found["rounds"] * 1.01
    assert found["loss"] <= found["cap"]
    verdict = verify(tmp_path / "out" / "demo.jsonl")
    assert verdict.sound
    assert verdict.session.id == read_session(tmp_path / "out" / "demo.toml").id
    assert ElementTree.parse(tmp_path / "out" / "demo.svg").getroot().tag.endswith("svg")


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
    command = [sys.executable, "-m", "tacit", "demo", "--agents", "2", "--rounds", "1000", "--no-faults"]
    private = tmp_path / "private"
    private.mkdir()
    own = os.environ | {"TMPDIR": str(private)}
    with subprocess.Popen(command, cwd=tmp_path, env=own, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            if line.split()[:1] == ["40"]:  # of the rounds: all members are there
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


WITHOUT_PLOTS = "import sys; sys.modules['matplotlib'] = None"


@pytest.mark.long
def test_without_the_extra_that_draws_all_but_the_picture_is_kept(tmp_path):
    words = ("--agents", "2", "--rounds", "1", "--no-faults")
    shown = demo(tmp_path, *words, first=WITHOUT_PLOTS)
    assert "pip install '.[plots]'" in " ".join(shown.split())
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"demo.jsonl", "demo.toml"}


@pytest.mark.long
def test_on_a_ring_in_words_without_the_extra_that_draws(tmp_path):
    shown = demo(tmp_path, "--topology", "ring", "--agents", "3", "--rounds", "12", first=WITHOUT_PLOTS)
    text = " ".join(shown.split())
    for words in (
        "3 edges and no server", "agent-1 is killed (kill -9)", "is restarted by the same command",
        "The noise is real", "true average", "Verifier sound", "out/demo.jsonl", "no picture",
        "nobody learned more about any of them than the promise allows",
    ):  # fmt: skip
        assert words in text
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"demo.jsonl", "demo.toml"}
