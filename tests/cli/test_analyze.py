"""`tacit analyze`: the issue's own numbers, and what it says in which case."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

PAPER = ("analyze", "--agents", 500, "--mixing", 0.8, "--noise", 10, "--decay", 0.6)
NAMED = {
    "epsilon", "loss", "radius", "chebyshev_radius", "variance", "rate", "rounds", "target",
    "mixing", "noise", "decay",
}  # fmt: skip


def test_must_show():
    words = [*map(str, PAPER), "--failure-probability", "0.5", "--json"]
    done = subprocess.run(
        [Path(sys.executable).with_name("tacit"), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["epsilon"] == 0.15
    assert found["chebyshev_radius"] == pytest.approx(0.894427191, abs=1e-9)
    assert found["radius"] == pytest.approx(0.426457, abs=1e-6)
    assert done.stderr == ""


def test_slow_decay_fits_in_little_memory():
    """Address space is limited to what Python with numpy and scipy needs, and 1 GB more."""
    limited = (
        "import resource; import tacit.cli, tacit.core.theory.promise; "
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + 2**30; "
        "resource.setrlimit(resource.RLIMIT_AS, (used, used)); tacit.cli.main()"
    )
    words = ["--agents", "3", "--mixing", "0.5", "--noise", "1", "--decay", "0.999999999", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", limited, "analyze", *words],
        capture_output=True, text=True, check=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["radius"] == pytest.approx(1.959964 * found["variance"] ** 0.5, rel=1e-6)


def test_exact_losses_are_printed_exactly(run):
    """1/c after one round: 1, and not 1.00001."""
    text = run("analyze", "--agents", 5, "--mixing", 0.5, "--noise", 1, "--decay", 0.7, "--rounds", 1).output
    assert " epsilon " in text
    assert text.split(" epsilon ")[1].split()[0] == "1"


def test_json_has_the_keys_of_the_issue(answer):
    assert NAMED <= set(answer(*PAPER))


def test_loss_is_epsilon_times_adjacency(answer, run):
    found = answer(*PAPER, "--adjacency", 4)
    assert (found["epsilon"], found["loss"]) == (0.15, 0.6)
    text = run(*PAPER, "--adjacency", 4).output
    assert "ε per unit of adjacency" in text
    assert "ε × adjacency 4" in text


def test_what_people_read_is_never_too_small(answer, run):
    found = answer(*PAPER, "--failure-probability", 0.01)
    rows = {}
    for line in run(*PAPER, "--failure-probability", 0.01).output.splitlines():
        for name in ("epsilon", "loss", "radius", "Chebyshev", "rate"):
            if f" {name} " in line:
                rows[name] = float(line.split(f" {name} ")[1].split()[0])
    keys = {"Chebyshev": "chebyshev_radius"}
    assert set(rows) == {"epsilon", "loss", "radius", "Chebyshev", "rate"}
    for name, shown in rows.items():
        true = found[keys.get(name, name)]
        assert true <= shown <= true * (1 + 2e-5)


def test_a_finite_run_may_fade_faster_than_states_forget(answer, run):
    words = ("analyze", "--agents", 5, "--mixing", 0.5, "--noise", 2, "--decay", 0.4)
    assert "Raise decay or mixing, or give a number of rounds" in run(*words, code=2).stderr
    found = answer(*words, "--rounds", 3)
    ratio = Fraction(5, 4)
    assert found["epsilon"] == pytest.approx(float((1 + ratio + ratio**2) / 2))
    assert (found["horizon"], found["rounds"]) == (3, 3)
    assert "over 3 rounds" in run(*words, "--rounds", 3).output


def test_one_shot_noise(answer, run):
    words = ("analyze", "--agents", 5, "--mixing", 0.5, "--noise", 4, "--law", "one-shot")
    found = answer(*words)
    assert (found["epsilon"], found["decay"], found["law"]) == (0.25, None, "one-shot")
    assert "one-shot noise: mixing 0.5, noise 4" in run(*words).output
    assert "has no decay: leave it out" in run(*words, "--decay", 0.9, code=2).stderr


def test_on_a_graph_it_says_that_the_target_is_not_the_average(answer, run):
    words = ("analyze", "--graph", "karate", "--mixing", 0.5, "--noise", 5, "--decay", 0.8)
    found = answer(*words)
    assert found["target"] == "weighted"
    assert found["assumption"]["as_needed"] is False
    text = run(*words).output
    assert "NOT the true one" in text
    assert "0.358 to 3.22 times" in " ".join(text.split())
    assert "as needed" in text


def test_on_a_regular_graph_the_target_is_the_average(answer, run):
    words = ("analyze", "--graph", "ring:12", "--mixing", 0.2, "--noise", 5, "--decay", 0.9)
    found = answer(*words)
    assert found["target"] == "average"
    assert found["assumption"]["as_needed"] is True
    assert "NOT" not in run(*words).output


def test_per_agent_values_in_a_list_and_in_a_file(answer, tmp_path):
    (tmp_path / "mixing.txt").write_text("0.5\n0.6, 0.7\n")
    words = ("analyze", "--agents", 3, "--noise", "1,2,4", "--decay", 0.8)
    found = answer(*words, "--mixing", "@mixing.txt")
    assert found == answer(*words, "--mixing", "0.5,0.6,0.7")
    assert (found["mixing"], found["noise"]) == ([0.5, 0.6, 0.7], [1.0, 2.0, 4.0])
    assert found["target"] == "weighted"


def test_numbers_of_agents_may_be_written_with_a_power_of_ten(answer):
    assert answer("analyze", "--agents", "1e6", *PAPER[3:])["agents"] == 10**6


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--agents", 5), "fading noise needs mixing and noise and decay"),
        (("--agents", 5, "--law", "one-shot", "--mixing", 0.5), "one-shot noise needs noise"),
        (
            ("--mixing", 0.5, "--noise", 1, "--decay", 0.8),
            "give a number of agents",
        ),
        ((*PAPER[1:], "--graph", "karate"), "or a graph (without one), not both"),
        (("--agents", 0), "0 is not a whole number from 1"),
        (("--agents", "2.5"), "'2.5' is not a whole number"),
        (("--agents", "ten"), "'ten' is not a whole number"),
        ((*PAPER[1:], "--mixing", 1), "mixing (sigma) must be in (0, 1), got 1.0"),
        ((*PAPER[1:], "--mixing", "inf"), "'inf' is not a finite number"),
        ((*PAPER[1:], "--mixing", "0.5,x"), "'x' is not a finite number (number 2 of the list)"),
        ((*PAPER[1:], "--mixing", "0.5,0.6"), "one value for each of the 500 agents, got 2"),
        ((*PAPER[1:], "--mixing", "@nowhere"), "nowhere: No such file or directory"),
        ((*PAPER[1:], "--noise", -1), "noise (c) must be a positive number, got -1.0"),
        ((*PAPER[1:], "--decay", 0.1), "decay must be in (1 - mixing, 1) = (0.2, 1), got 0.1"),
        ((*PAPER[1:], "--adjacency", 0), "adjacency must be a positive number, got 0.0"),
        ((*PAPER[1:], "--failure-probability", 1), "probability must be in (0, 1), got 1.0"),
        ((*PAPER[1:], "--tolerance", 0), "tolerance must be a positive number, got 0.0"),
        ((*PAPER[1:], "--rounds", 0), "0 is not a whole number from 1"),
    ],
)
def test_mistakes(run, words, sentence):
    result = run("analyze", *words, code=2)
    assert sentence in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_a_graph_in_two_parts_names_two_agents(run, tmp_path):
    (tmp_path / "parts.txt").write_text("0 1\n2 3\n")
    words = ("--graph", "parts.txt", "--mixing", 0.5, "--noise", 1, "--decay", 0.8)
    assert "cannot reach each other" in run("analyze", *words, code=2).stderr
