"""`tacit demo`: what `make run` shows, and that it says what it is."""

import os
from xml.etree import ElementTree

import pytest

from tacit.cli.demo import scale, strip
from tacit.simulate import load


def test_json_tells_the_result_beside_the_promise(answer):
    found = answer("demo", "--agents", 5)
    assert found["error"] == pytest.approx(abs(found["agreed_on"] - found["average"]))
    assert found["disagreement"] <= found["tolerance"]
    assert len(found["final"]) == 5
    assert found["epsilon"] <= 1
    assert found["loss"] <= 1
    assert "protects nobody" in found["simulation"]


def test_the_default_session_keeps_its_promise(answer):
    # seed 0: the picture in the documentation
    found = answer("demo")
    assert found["agents"] == 20
    assert found["error"] <= found["radius"]


def test_it_says_that_it_is_a_simulation_and_what_came_of_it(run):
    text = " ".join(run("demo", "--agents", 5).output.split())
    for words in (
        "simulation with made-up values", "protects nobody", "not a private deployment", "true average",
        "agreed on", "promised at most", "ε × adjacency 1 °C", "out/demo.svg", "out/demo.png", "out/demo.nc",
        "agent started ended",
    ):  # fmt: skip
        assert words in text


def test_a_line_per_round_with_the_loss_so_far(run):
    lines = run("demo", "--agents", 5, "--mixing", 0.7).output.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("round"))
    rows = [line.split() for line in lines[start + 1 : lines.index("", start)]]
    assert [int(row[0]) for row in rows] == list(range(len(rows)))
    spent = [float(row[2 if t == 0 else 3]) for t, row in enumerate(rows)]
    assert spent[0] == 0
    assert spent == sorted(spent)
    assert 0.99 < spent[-1] <= 1


def test_files_hold_the_session(run, answer, tmp_path):
    found = answer("demo", "--agents", 5, "--seed", 2, "--out", "here")
    assert sorted(os.listdir(tmp_path / "here")) == ["demo.nc", "demo.png", "demo.svg"]
    kept = load(tmp_path / "here" / "demo.nc")
    assert kept.theta.values[0, -1].tolist() == found["final"]
    assert kept.attrs["seed"] == 2
    assert ElementTree.parse(tmp_path / "here" / "demo.svg").getroot().tag.endswith("svg")
    run("demo", "--agents", 5, "--out", "here")  # its own files it overwrites


def test_mistakes(run):
    assert "epsilon must be a positive number" in run("demo", "--epsilon", 0, code=2).stderr
    assert "is not a whole number" in run("demo", "--agents", 1, code=2).stderr


def test_the_strip_shows_where_agents_are():
    assert strip([15.0, 25.0]) == "·" + " " * 39 + "·"
    assert strip([20.0] * 3 + [99.0]) == " " * 20 + ":" + " " * 19 + "·"
    assert strip([20.0] * 8)[20] == "#"
    assert scale(20.0)[20] == "▼"
