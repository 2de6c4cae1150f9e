"""Whatever is typed, the answer is a result, one sentence, or what has to give: never a traceback."""

import json
import os
import warnings

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.cli import main

NUMBERS = st.one_of(
    st.sampled_from(
        [
            "0",
            "-1",
            "1",
            "nan",
            "inf",
            "-inf",
            "1e400",
            "1e-320",
            "1e300",
            "",
            " ",
            "x",
            "1,2",
            "0.5,",
            "@",
            "@/",
            "½",
        ]
    ),
    st.floats(0.01, 0.99).map(str),
    st.floats(allow_nan=False).map(str),
    st.integers(-3, 50).map(str),
)
SIZES = st.one_of(
    st.integers(-1, 30).map(lambda n: ("--agents", str(n))),
    st.sampled_from(
        ["ring:5", "karate", "star:4", "ring:0", "grid:2x2", "grid:x", "", "erdos:5:0.5", "/", "nope"]
    ).map(lambda name: ("--graph", name)),
    st.just(()),
)
FUZZ = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def words_of(*names):
    """Return some of the options, each with something for a number."""
    pairs = [
        st.one_of(st.just(()), NUMBERS.map(lambda value, name=name: (f"--{name}", value))) for name in names
    ]
    return st.tuples(SIZES, *pairs).map(lambda parts: [word for part in parts for word in part])


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def check(verb, words, codes=(0, 2, 3)):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = CliRunner().invoke(main, [verb, *words, "--json"])
    assert result.exit_code in codes, (words, result.output)
    assert "Traceback" not in result.output
    if result.exit_code == 2:
        assert result.stdout == ""
        assert "Error: " in result.stderr
    else:
        json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
        assert result.stderr == ""


@FUZZ
@given(
    words_of("mixing", "noise", "decay", "adjacency", "failure-probability", "rounds", "tolerance", "spread")
)
def test_analyze(words):
    check("analyze", words)


@FUZZ
@given(
    st.lists(st.sampled_from(["--mixing=0.5", "--noise=2", "--decay=0.8", "--agents=3"]), unique=True),
    NUMBERS,
)
def test_analyze_with_one_odd_value(words, value):
    for name in (
        "--mixing",
        "--noise",
        "--decay",
        "--adjacency",
        "--tolerance",
        "--failure-probability",
    ):
        check(
            "analyze",
            ["--agents=3", "--mixing=0.5", "--noise=2", "--decay=0.8", f"{name}={value}", *words[:1]],
        )


@FUZZ
@given(
    words_of(
        "epsilon", "radius", "mixing", "adjacency", "failure-probability", "rounds", "tolerance", "spread"
    )
)
def test_design(words):
    check("design", words)


@FUZZ
@given(NUMBERS, NUMBERS, NUMBERS)
def test_design_with_odd_values(epsilon, mixing, more):
    check("design", ["--agents=10", f"--epsilon={epsilon}", f"--mixing={mixing}"])
    check("design", ["--agents=10", "--epsilon=1", "--mixing=0.5", f"--radius={more}"])


@FUZZ
@given(st.text(max_size=12))
def test_graph(name):
    check("graph", ["--", name])


@settings(FUZZ, max_examples=10)
@given(NUMBERS, st.sampled_from(["runs", "rounds", "seed", "record", "values", "spread", "tolerance"]))
def test_simulate(value, name):
    words = [
        "--agents=3",
        "--mixing=0.5",
        "--noise=2",
        "--decay=0.8",
        "--runs=2",
        "--rounds=2",
        f"--{name}={value}",
    ]
    if name in ("runs", "rounds") and len(value) > 3:
        return  # a large number is no mistake, only work
    check("simulate", words)
    assert os.listdir() == []
