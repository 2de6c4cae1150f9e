"""What `make run` shows: keys, a session, processes over TLS, kill -9, and a verified transcript."""

import json
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from tacit.runtime.session.file import read_session
from tacit.runtime.verification.verdict import verify

WAIT = 800


def demo(folder, *words, first=""):
    command = [sys.executable, "-c", f"{first}\nfrom tacit.cli import main; main()", "demo", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_agents_agree_although_one_and_the_coordinator_are_killed(tmp_path):
    found = json.loads(demo(tmp_path, "--agents", "4", "--json"))
    assert found["killed"] == ["agent-1", "coordinator"]
    assert found["transcript"]["sound"]
    assert found["error"] == pytest.approx(abs(found["agreed_on"] - found["average"]))
    assert len(found["final"]) == 4
    assert found["disagreement"] <= 10 * 0.5 ** found["rounds"] * 1.01
    assert found["loss"] <= found["cap"]
    verdict = verify(tmp_path / "out" / "demo.jsonl")
    assert verdict.sound
    assert verdict.session.id == read_session(tmp_path / "out" / "demo.toml").id
    assert ElementTree.parse(tmp_path / "out" / "demo.svg").getroot().tag.endswith("svg")


WITHOUT_PLOTS = "import sys; sys.modules['matplotlib'] = None"


@pytest.mark.long
def test_without_the_extra_that_draws_all_but_the_picture_is_kept(tmp_path):
    words = ("--agents", "2", "--rounds", "1", "--pace", "0", "--no-faults")
    shown = demo(tmp_path, *words, first=WITHOUT_PLOTS)
    assert "pip install '.[plots]'" in " ".join(shown.split())
    assert "…" not in shown  # numbers fit a terminal of 80 columns
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"demo.jsonl", "demo.toml"}


@pytest.mark.long
def test_on_a_ring_in_words_without_the_extra_that_draws(tmp_path):
    shown = demo(tmp_path, "--topology", "ring", "--agents", "3", "--rounds", "12", first=WITHOUT_PLOTS)
    text = " ".join(shown.split())
    for words in (
        "3 edges, no server", "agent-1 is killed (kill -9)", "is restarted by the same command",
        "The noise is real", "true average", "agreed on", "verdict sound", "out/demo.jsonl",
        "picture none",
    ):  # fmt: skip
        assert words in text
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"demo.jsonl", "demo.toml"}
