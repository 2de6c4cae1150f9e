"""`tacit sweep`: the grid, the table, and going on where it stopped."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tacit.lab.simulation import load_sweep

GRID = ("sweep", "--mixing", "0.5,0.8", "--epsilon", "1,2", "--runs", 20, "--rounds", 5)
KEYS = {
    "agents", "mixing", "epsilon", "law", "noise", "decay", "epsilon_rounds", "epsilon_endless",
    "variance", "average_radius", "chebyshev_radius", "measured_deviation", "measured_quantile",
    "outside_average_radius", "disagreement",
}  # fmt: skip


def test_every_combination_is_a_cell(answer):
    found = answer(*GRID, "--agents", "10,20")
    assert [(c["agents"], c["mixing"], c["epsilon"]) for c in found["cells"]] == [
        (n, s, e) for n in (10, 20) for s in (0.5, 0.8) for e in (1.0, 2.0)
    ]
    assert set(found["cells"][0]) == KEYS
    assert (found["finished"], found["runs"], found["rounds"]) == (8, 20, 5)
    for cell in found["cells"]:
        assert cell["epsilon_endless"] <= cell["epsilon"]
        assert 0 <= cell["outside_average_radius"] <= 1


def test_measured_is_what_the_runs_did(answer, tmp_path):
    words = ("--agents", 10, "--mixing", 0.5, "--epsilon", 1, "--runs", 50, "--failure-probability", 0.5)
    (cell,) = answer("sweep", *words)["cells"]
    deviation = np.abs(load_sweep(tmp_path / "sweep.jsonl").deviation.values.reshape(-1))
    assert cell["outside_average_radius"] == np.mean(deviation > cell["average_radius"])
    assert 0 < cell["outside_average_radius"] < 1
    assert cell["measured_deviation"] == pytest.approx(np.sqrt(np.mean(deviation**2)))
    assert cell["measured_quantile"] == pytest.approx(np.median(deviation))


def test_repeating_an_option_is_a_list_too(answer):
    found = answer(*GRID, "--agents", 10, "--agents", 20, "--method", "outcome", "--out", "a.jsonl")
    assert (
        found["cells"]
        == answer(*GRID, "--agents", "10,20", "--method", "outcome", "--out", "b.jsonl")["cells"]
    )


def test_a_sweep_goes_on_and_another_is_refused(answer, run, tmp_path):
    words = (*GRID, "--agents", 10, "--method", "outcome")
    whole = answer(*words)
    lines = (tmp_path / "sweep.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "sweep.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:9])  # as a crash leaves it
    assert answer(*words) == whole
    assert "holds another sweep: runs" in run(*words, "--runs", 21, code=2).stderr


def test_the_table(run):
    lines = [line for line in run(*GRID, "--agents", 10).output.splitlines() if line]
    assert lines[0].startswith("4 cells of 20 runs")
    assert lines[1].split() == ["mixing", "epsilon", "average", "radius", "measured", "outside", "apart"]
    assert len(lines) == 7
    assert lines[-1] == "Kept: sweep.jsonl"


def test_graphs_and_both_kinds_of_noise(answer):
    words = ("--graph", "ring:5,karate", "--mixing", 0.5, "--epsilon", 1, "--law", "fading,one-shot")
    found = answer("sweep", *words, "--runs", 3, "--rounds", 3)
    assert [(c["graph"], c["law"]) for c in found["cells"]] == [
        ("ring:5", "fading"), ("ring:5", "one-shot"), ("karate", "fading"), ("karate", "one-shot"),
    ]  # fmt: skip
    assert found["cells"][1]["decay"] is None


def test_values_of_a_file_are_not_shown_or_kept(run, tmp_path):
    (tmp_path / "meters.csv").write_text("271.8281828\n-314.1592653\n161.8033988\n")
    words = ("--agents", 3, "--values", "meters.csv", "--method", "outcome")
    text = run(*GRID, *words).output + (tmp_path / "sweep.jsonl").read_text()
    for secret in ("271.8", "314.1", "161.8"):
        assert secret not in text


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    # So many cells that it cannot be over before it is stopped, however late this process gets its turn.
    many = ",".join(f"0.{k}" for k in range(10, 100))
    words = ["sweep", "--agents", "10", "--mixing", many, "--epsilon", many]
    out = tmp_path / "sweep.jsonl"
    tacit = Path(sys.executable).with_name("tacit")
    process = subprocess.Popen(
        [tacit, *words, "--method", "outcome", "--out", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and (not out.exists() or out.read_bytes().count(b"\n") < 2):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    assert process.returncode == 130
    assert stdout == ""
    assert stderr.startswith("Stopped. Finished cells are in ")
    assert len(stderr.splitlines()) == 1
    assert load_sweep(out).attrs["finished"] == len(out.read_text().splitlines()) - 1 > 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "either agents (with a server) or graph"),
        (("--agents", "10,x"), "'x' is not a whole number"),
        (("--agents", "10,"), "'' is not a whole number"),
        (("--graph", "ring:5,"), "the list contains an empty name"),
        (("--agents", 10, "--mixing", 2), "mixing (sigma) must be in (0, 1), got 2.0"),
        (("--agents", 10, "--noise", 2), "either noise or epsilon"),
        (
            ("--agents", 10, "--law", "loud"),
            "must be one of fading, one-shot, constant",
        ),
        (("--agents", 10, "--method", "guess"), "'guess' is not one of"),
        (("--agents", 10, "--out", "nowhere/sweep.jsonl"), "there is no directory nowhere"),
    ],
)
def test_mistakes(run, words, sentence):
    assert sentence in " ".join(run(*GRID, *words, code=2).stderr.split())
