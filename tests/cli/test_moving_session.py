"""`tacit session new --motion`, and what `check` and `join` make of it."""

import re
from pathlib import Path

import pytest
from tests.cli.test_session_verb import certificates, made  # noqa: F401 - fixtures

from tacit.core.motion import Bounded, Linear
from tacit.live.sessions.file import read_session

TRUCK = """
rounds = 12
[motion]
A = [[1, 0.25], [-0.25, 0.5]]
B = [0, 0.25]
C = [1, 0]
names = ["speed", "acceleration"]
private = {speed = 1.0}
start = [0, 0.5]
[noise]
law = "scheduled"
loss = 1
"""
NEW = (
    "session",
    "new",
    "--roster",
    "certificates",
    "--motion",
    "truck.toml",
    "--range",
    "-10:10",
    "--anyway",
)


@pytest.fixture(autouse=True)
def truck(tmp_path):
    (tmp_path / "truck.toml").write_text(TRUCK)
    return tmp_path / "truck.toml"


def test_a_session_of_trucks_costs_what_it_says(answer, run):
    told = answer(*NEW)
    session = read_session("session.toml")
    assert isinstance(session.motion.motion, Linear)
    assert (told["motion"], told["law"], told["rounds"], told["loss"]) == (
        "linear",
        "scheduled",
        12,
        told["loss"],
    )
    assert told["accounted_loss"] <= 1.0 == pytest.approx(told["accounted_loss"], rel=1e-9)
    assert told["sound"]
    assert answer("session", "check", "session.toml") == told
    text = " ".join(run("session", "check", "session.toml").output.split())
    for words in session.mechanism.motion.assumptions:
        assert words in text
    assert "The state is computed by the agent itself" in text
    assert "The target is 0.25 more than the mean of the private values" in text  # 0.5·0.5


def test_noise_once_and_lively_agents_whose_influence_vanishes(answer, truck):
    told = answer(*NEW, "--law", "one-shot", "--out", "once.toml")
    assert (told["law"], told["accounted_loss"]) == ("one-shot", 1.0)
    truck.write_text(TRUCK.replace("[-0.25, 0.5]", "[-1, 0.5]").replace("B = [0, 0.25]", "B = [0, 1]"))
    told = answer(*NEW)  # message 4 does not depend on the start, and has noise for what rounding tells
    session = read_session("session.toml")
    assert session.motion.motion.influence(4) == 0
    assert 0 < min(dict(session.further)["table"]) < 1e-3
    assert told["accounted_loss"] <= 1.0


def test_a_motion_may_stay_each_agents_own(answer, run):
    told = answer(*NEW, "--keep-motion")
    session = read_session("session.toml")
    assert isinstance(session.motion.motion, Bounded)
    assert "0.25]" not in Path("session.toml").read_text()
    assert (told["motion"], told["lag"], told["sound"]) == ("envelope", 8.0, True)
    assert told["accounted_loss"] <= 1.0 == pytest.approx(told["accounted_loss"], rel=1e-9)
    text = run("session", "check", "session.toml").output
    assert "it needs A, B and C of all agents" in text
    assert answer("session", "check", "session.toml") == told


@pytest.mark.parametrize(
    ("changed", "more", "words"),
    [
        (("[motion]", "[motion]\nmeasured = true"), (), "a session reads no sensor"),
        (("start = [0, 0.5]", "start = [0]"), (), "start must have 2 numbers"),
        (("{speed = 1.0}", "{speed = 0.5}"), (), "must be at least 1"),
        (("A =", "others = [[1, 0]]\nA ="), (), "physical coupling|coupling"),
        (("rounds = 12", "rounds = 3000"), (), "at most 2,000 rounds"),
        (("", ""), ("--mixing", "0.5"), "leave out --mixing"),
        (("", ""), ("--keepers", "agent-0"), "leave out --keepers"),
        (("{speed = 1.0}", "{speed = 1, acceleration = 2}"), ("--keep-motion",), "one private"),
        (("C = [1, 0]", "C = [1, 0]\nlimit = 1"), (), "with a limit"),
    ],
)
def test_what_no_session_can_have_is_refused_in_one_sentence(run, truck, changed, more, words):
    truck.write_text(TRUCK.replace(*changed, 1))
    result = run(*NEW, *more, code=2)
    assert len([line for line in result.stderr.splitlines() if line.startswith("Error: ")]) == 1
    assert re.search(words, " ".join(result.stderr.split()))
