"""`tacit design`: each side of the question, and what is said when there is no answer."""

import pytest

ASKED = ("design", "--agents", 500, "--mixing", 0.8)


def test_must_show(answer):
    found = answer(*ASKED, "--epsilon", 0.15)
    assert found["decay"] == pytest.approx(0.2 ** (1 / 3), abs=1e-8)
    assert f"{found['decay']:.10f}".startswith("0.584803")
    assert found["epsilon"] <= 0.15
    assert found["answered"] == "accuracy"


def test_it_compares_with_one_shot_noise(answer, run):
    found = answer(*ASKED, "--epsilon", 0.15)
    assert found["one_shot"]["radius"] < found["radius"]
    assert found["advantage"] == pytest.approx(found["radius"] / found["one_shot"]["radius"])
    text = run(*ASKED, "--epsilon", 0.15).output
    assert "One-shot" in text
    assert "times smaller" in text


def test_a_design_answers_what_analysis_asks(answer):
    made = answer(*ASKED, "--epsilon", 0.15)
    words = [f"--{name}={made[name]!r}" for name in ("mixing", "noise", "decay")]
    found = answer("analyze", "--agents", 500, *words)
    same = ("epsilon", "loss", "radius", "chebyshev_radius", "variance", "rate", "rounds", "target")
    assert {name: found[name] for name in same} == {name: made[name] for name in same}


def test_each_side_is_answered(answer):
    radius = answer(*ASKED, "--epsilon", 0.15)["radius"]
    privacy = answer(*ASKED, "--radius", radius)
    assert privacy["answered"] == "privacy"
    assert privacy["epsilon"] == pytest.approx(0.15, rel=1e-6)
    size = answer("design", "--epsilon", 0.15, "--radius", 3 * radius, "--mixing", 0.8)
    assert (size["answered"], size["radius"] <= 3 * radius) == ("size", True)
    assert 500 / 9 - 2 < size["agents"] < 500 / 9 + 2
    failure = answer(*ASKED, "--epsilon", 0.15, "--radius", radius, "--failure-probability", "open")
    assert failure["failure_probability"] == pytest.approx(0.05, rel=1e-6)
    rounds = answer("design", "--agents", 500, "--epsilon", 0.15, "--radius", 1.01 * radius)
    assert rounds["answered"] == "rounds"
    assert rounds["smoothest"] == pytest.approx(0.8, abs=0.02)


def test_loss_is_another_way_to_say_epsilon(answer):
    by_loss = answer(*ASKED, "--loss", 0.3, "--adjacency", 2)
    by_epsilon = answer(*ASKED, "--epsilon", 0.15, "--adjacency", 2)
    assert by_loss == by_epsilon
    assert by_loss["loss"] == pytest.approx(0.3)


def test_the_true_average_on_a_graph(answer, run):
    words = ("design", "--graph", "star:8", "--epsilon", 1)
    assert answer(*words)["target"] == "weighted"
    found = answer(*words, "--true-average")
    assert found["target"] == "average"
    assert found["mixing"] == pytest.approx(answer(*words, "--weights", "metropolis")["mixing"])
    assert "a weighted average, NOT the true one" in run(*words).output
    assert "the true average of all values" in run(*words, "--true-average").output


def shown(text, name, section):
    """What the report says of a quantity."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().startswith(section))
    return next(line.split(f" {name} ")[1].split()[0] for line in lines[start:] if f" {name} " in line)


@pytest.mark.parametrize(
    "words",
    [
        ("--agents", 500, "--epsilon", 0.15, "--mixing", 0.8),
        ("--agents", 37, "--epsilon", 0.7, "--rounds", 3, "--failure-probability", 0.01),
        ("--agents", 12, "--radius", 3, "--mixing", 0.0123456789),
        ("--graph", "ring:9", "--epsilon", 2, "--rounds", 60),
        ("--graph", "star:8", "--radius", 1.5),
        ("--epsilon", 0.15, "--radius", 0.5, "--rounds", 4),
    ],
)
def test_parameters_as_printed_give_what_is_printed(answer, run, words):
    text = run("design", *words).output
    once = "Laplace noise, drawn once" in text
    names = ("mixing", "noise") if once else ("mixing", "noise", "decay")
    typed = [*(f"--{name}={shown(text, name, 'Parameters')}" for name in names), *["--law=one-shot"] * once]
    asked = dict(zip(words[::2], words[1::2], strict=True))
    kept = {k: v for k, v in asked.items() if k in ("--graph", "--rounds", "--failure-probability")}
    if "--graph" not in asked:
        kept["--agents"] = text.split()[0].replace(",", "")
    found = answer("analyze", *typed, *(word for pair in kept.items() for word in pair))
    for name, section in (("radius", "Accuracy"), ("epsilon", "Privacy"), ("loss", "Privacy")):
        assert found[name] <= float(shown(text, name, section))
        assert found[name] >= float(shown(text, name, section)) * (1 - 2e-5)


def test_mixing_is_chosen_for_the_question(answer, tmp_path):
    """The issue's own questions: with mixing 0.99 none of them had an answer."""
    (tmp_path / "bipartite.txt").write_text("".join(f"{i} {40 + j}\n" for i in range(40) for j in range(40)))
    found = answer("design", "--graph", "bipartite.txt", "--epsilon", 1, "--rounds", 40)
    assert found["mixing"] < 0.95
    assert found["disagreement"] <= found["tolerance"]
    given = answer("design", "--graph", "bipartite.txt", "--epsilon", 1, "--rounds", 40, "--mixing", 0.8)
    assert found["radius"] <= given["radius"]
    exact = answer("design", "--agents", 3, "--epsilon", 0.01, "--rounds", 3, "--tolerance", 1e-6)
    assert exact["mixing"] == 0.99  # 0.01³ is the tolerance, and with so much noise less is better
    short = answer("design", "--agents", 500, "--epsilon", 0.15, "--rounds", 1)
    assert short["mixing"] == 0.999


def test_one_round_leaves_agents_near_their_start(answer):
    """With mixing 0.5 the average is within .413 after one round, but an agent can be .85 off."""
    words = ("design", "--agents", 500, "--epsilon", 0.15, "--rounds", 1, "--tolerance", 0.5)
    found = answer(*words, "--mixing", 0.5)
    assert found["average_radius"] == pytest.approx(0.413, abs=5e-4)
    assert found["radius"] == pytest.approx(0.847, abs=5e-3)


def test_reference_values(answer, run):
    assert "4.38308" in run("design", "--agents", 1000, "--radius", 0.2, "--adjacency", 10).output
    given = answer("design", "--agents", 1000, "--radius", 0.2, "--adjacency", 10, "--mixing", 0.99)
    assert given["loss"] == pytest.approx(4.65985, abs=1e-5)


def test_infeasible_says_what_has_to_give(answer, run):
    words = ("design", "--agents", 5, "--epsilon", 0.1, "--radius", 0.1)
    found = answer(*words, code=3)
    assert found["feasible"] is False
    assert {"radius", "epsilon", "agents", "failure_probability"} <= set(found["gives"])
    given = found["gives"]["radius"]
    assert answer("design", "--agents", 5, "--epsilon", 0.1, "--radius", given)["feasible"] is True
    result = run(*words, code=3)
    assert result.stdout == ""
    assert result.stderr.startswith("Infeasible: ")
    assert found["reason"] in result.stderr


def test_a_radius_of_zero_is_answered_with_why(run):
    assert "exact average" in run("design", "--agents", 5, "--epsilon", 1, "--radius", 0, code=3).stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "at least two of privacy (epsilon), accuracy (radius) and size"),
        (("--agents", 5), "at least two of privacy"),
        (("--agents", 5, "--graph", "karate", "--epsilon", 1), "not both"),
        (("--agents", 5, "--epsilon", 1, "--loss", 1), "give epsilon or loss"),
        (("--agents", 5, "--epsilon", 0), "epsilon must be a positive number, got 0.0"),
        (("--agents", 5, "--radius", -1), "radius must be a number of at least 0, got -1.0"),
        (("--agents", 5, "--epsilon", 1, "--mixing", 0), "mixing (sigma) must be in (0, 1), got 0.0"),
        (("--agents", 5, "--epsilon", 1, "--failure-probability", "open"), "give epsilon, radius and a size"),
        (("--agents", 5, "--epsilon", 1, "--failure-probability", "often"), "'often' is not a finite number"),
        (("--graph", "nothing", "--epsilon", 1), "does not begin with a graph family"),
    ],
)
def test_mistakes(run, words, sentence):
    assert sentence in " ".join(run("design", *words, code=2).stderr.split())


def test_a_radius_that_says_little_is_warned_about(answer, run):
    wide = ("design", "--agents", 3, "--loss", 1, "--adjacency", 50)
    assert "the result is useless" in answer(*wide)["warning"]
    assert "WARNING: The radius" in run(*wide).output
    assert (
        answer("design", "--agents", 3, "--loss", 1, "--adjacency", 1, "--range", "0:50")["warning"] is None
    )
    assert answer("design", "--agents", 3, "--epsilon", 0.1)["warning"] is None  # the range is not known
