"""`tacit simulate`: measured beside promised, what is kept, and what is never shown."""

import os

import numpy as np
import pytest

from tacit import ClientServer, Fading
from tacit.core.noise import SimulatedNoise
from tacit.lab.simulation import load

RUN = ("simulate", "--agents", 20, "--mixing", 0.8, "--noise", 10, "--decay", 0.6)
SECRETS = (271.8281828, -314.1592653, 161.8033988)


def test_json_has_promise_and_measurement(answer):
    found = answer(*RUN, "--runs", 50, "--failure-probability", 0.5)
    assert found["runs"] == 50
    assert found["rounds"] == found["horizon"]
    measured = found["measured"]
    assert measured["error_median"] <= measured["error_quantile"] + 1e-12 <= measured["error_max"] + 1e-12
    assert 0 <= measured["outside_radius"] <= 1
    assert measured["disagreement"] <= found["tolerance"]


def test_the_share_outside_the_radius_is_as_promised(answer):
    # b = 0.3, n = 2000: 5 standard deviations are 0.051; the seed is fixed
    found = answer(*RUN, "--runs", 2000, "--failure-probability", 0.3, "--seed", 1)
    assert found["measured"]["outside_radius"] == pytest.approx(0.3, abs=0.051)


def test_measured_is_what_the_mechanism_does(answer, tmp_path):
    values = [1.0, 2.0, 6.0]
    (tmp_path / "values.txt").write_text("\n".join(map(str, values)))
    words = ("--agents", 3, "--mixing", 0.5, "--noise", 2, "--decay", 0.9, "--values", "values.txt")
    found = answer("simulate", *words, "--rounds", 4, "--runs", 1, "--seed", 7)
    parameters = Fading(0.5, 2, 0.9)
    noise = SimulatedNoise(7).draw(parameters, 4, 3)
    final = ClientServer(parameters, agents=3).execute(values, noise).theta[-1]
    assert found["measured"]["error_max"] == pytest.approx(np.abs(final - 3.0).max(), rel=1e-9)
    assert found["measured"]["within_spread"] is False
    average = answer(
        "simulate", *words, "--rounds", 4, "--runs", 1, "--seed", 7, "--record", "average", "--range", "1:6"
    )
    assert average["measured"]["of"] == "average"
    assert average["measured"]["error_max"] == pytest.approx(abs(final.mean() - 3.0), rel=1e-9)
    assert average["measured"]["radius"] == average["average_radius"] < average["radius"]
    assert average["measured"]["within_spread"] is True
    assert found["measured"]["disagreement"] == pytest.approx(np.ptp(final), rel=1e-9)


def test_the_same_seed_is_the_same_answer(answer):
    words = (*RUN, "--runs", 5)
    assert answer(*words, "--seed", 3) == answer(*words, "--seed", 3)
    assert answer(*words, "--seed", 3)["measured"] != answer(*words, "--seed", 4)["measured"]


def test_made_up_values_follow_the_seed_and_their_range(answer):
    words = (*RUN, "--runs", 1, "--rounds", 1, "--record", "everything", "--out")
    answer(*words, "a.nc", "--values", "uniform:5:6")
    theta = load("a.nc").theta.values[0, 0]
    assert theta.min() >= 5
    assert theta.max() <= 6
    assert len(set(theta)) == 20


@pytest.mark.parametrize(
    ("record", "dims"),
    [
        ("final", {"run": 2, "round": 1, "agent": 20}),
        ("every:2", {"run": 2, "round": 4, "agent": 20}),
        ("agents:0,3", {"run": 2, "round": 6, "agent": 2}),
        ("everything", {"run": 2, "round": 6, "agent": 20}),
        ("average", None),
    ],
)
def test_records(answer, record, dims):
    found = answer(*RUN, "--runs", 2, "--rounds", 5, "--record", record, "--out", "runs.nc")
    kept = load("runs.nc")
    assert found["file"] == "runs.nc"
    assert (dict(kept.theta.sizes) if "theta" in kept else None) == dims
    assert kept.average.values.shape[0] == 2
    assert (found["measured"]["disagreement"] is None) == (record in ("average", "agents:0,3"))


def test_one_shot_and_a_graph(answer, run):
    words = ("--graph", "karate", "--mixing", 0.5, "--noise", 4, "--law", "one-shot", "--runs", 3)
    assert answer("simulate", *words)["epsilon"] == 0.25
    assert "not the true one" in " ".join(run("simulate", *words).output.split())


def test_vectors(answer, tmp_path):
    (tmp_path / "vectors.csv").write_text("east,north\n1,2\n3,4\n5,6\n")
    words = ("--agents", 3, "--mixing", 0.5, "--noise", 2, "--decay", 0.9, "--values", "vectors.csv")
    found = answer("simulate", *words, "--runs", 3)
    assert found["measured"]["components"] == 2
    assert found["measured"]["radius"] > found["radius"]


def private_file(tmp_path):
    (tmp_path / "meters.csv").write_text("watt\n" + "\n".join(map(str, SECRETS)) + "\n")
    return ("--agents", 3, "--mixing", 0.5, "--noise", 2, "--decay", 0.9, "--values", "meters.csv")


def leaks(text):
    average = sum(SECRETS) / 3
    told = [*SECRETS, average, max(SECRETS) - min(SECRETS)]
    return [number for number in told if f"{abs(number):.6g}"[:6] in text]


def test_private_values_are_never_shown(run, tmp_path):
    words = private_file(tmp_path)
    for more in ((), ("--json",), ("--out", "runs.nc"), ("--record", "everything")):
        assert leaks(run("simulate", *words, *more).output) == []


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ("271.8281828\n-314.1592653\n", "one value for each of the 3 agents, got 2"),
        ("271.8281828\n161.8033988x\n2\n", "line 2: every entry must be a finite number"),
        ("271.8281828\n161.8033988,1\n2\n", "line 2: 2 numbers, where line 1 has 1"),
        ("271.8281828\n\n# note\nnan\n", "line 4: every entry must be a finite number"),
        ("271.8281828,161.8033988\n271.8281828,x\n1,2\n", "line 2: every entry must be a finite number"),
        ("# nothing\n", "has no values"),
    ],
)
def test_a_broken_file_is_refused_without_its_values(run, tmp_path, broken, sentence):
    words = private_file(tmp_path)
    (tmp_path / "meters.csv").write_text(broken)
    result = run("simulate", *words, code=2)
    assert sentence in " ".join(result.stderr.split())
    assert leaks(result.output) == []
    assert (
        "x" not in result.output.replace("meters.csv", "").replace("expected", "")
        or "161" not in result.output
    )


def test_an_existing_file_is_kept(run, tmp_path):
    (tmp_path / "runs.nc").write_text("mine")
    words = (*RUN, "--runs", 1, "--rounds", 1, "--out", "runs.nc")
    assert "exists already" in run(*words, code=2).stderr
    assert (tmp_path / "runs.nc").read_text() == "mine"
    run(*words, "--force")
    assert load(tmp_path / "runs.nc").sizes["run"] == 1
    assert os.listdir(tmp_path) == ["runs.nc"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--values", "nowhere.txt"), "nowhere.txt: No such file or directory"),
        (("--values", "uniform:1:0"), "finite numbers LO ≤ HI"),
        (("--values", "uniform:a:b"), "uniform:LO:HI with two numbers"),
        (("--record", "most"), "is none of final, average, every:K"),
        (("--record", "every:0"), "every must be a whole number of at least 1"),
        (("--record", "every:"), "is none of"),
        (("--record", "agents:1,x"), "is none of"),
        (("--record", "agents:99"), "recorded agents must be numbers from 0 to 19, got 99"),
        (("--runs", 0), "0 is not a whole number from 1"),
        (("--out", "nowhere/runs.nc"), "there is no directory nowhere"),
        (("--record", "everything", "--rounds", 10**7), "memory"),
        (("--failure-probability", 0), "must be in (0, 1)"),
        (("--tolerance", -1), "tolerance must be a positive number"),
    ],
)
def test_mistakes(run, words, sentence):
    assert sentence in " ".join(run(*RUN, *words, code=2).stderr.split())
