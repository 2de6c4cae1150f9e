"""`tacit compare` as a user runs it: the table, JSON, the picture, and mistakes in one sentence."""

import json

import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from tacit import Graph
from tacit.cli import main
from tacit.cli.compare import NAMES
from tacit.lab.comparison import METHODS, compare
from tacit.lab.plots import style
from tacit.lab.plots.compare import draw_compare

SMALL = ("--graph", "ring:8", "--epsilon", 1, "--rounds", 30, "--runs", 40)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")

    def invoke(*words, code=0):
        result = CliRunner().invoke(main, ["compare", *map(str, words)])
        assert "Traceback" not in result.output
        assert "cannot explain" not in result.output
        assert result.exit_code == code, result.output
        return result

    return invoke


def test_names_are_those_of_the_library(run):
    assert tuple(METHODS) == NAMES
    text = " ".join(run("--help").output.split())
    assert all(name in text.replace("- ", "-") for name in NAMES)


def test_the_table_has_every_method_and_says_what_is_not_private(run):
    text = run(*SMALL).stdout
    assert all(len(line) <= 110 for line in text.splitlines())
    for title in (
        "plain consensus",
        "fading, server",
        "one-shot, graph",
        "zero-sum, graph",
        "Gaussian gossip",
    ):
        assert text.count(title) == 2
    line = next(line for line in text.splitlines() if line.startswith(" zero-sum, graph"))
    assert "not differentially private" in line
    assert "ε" not in line
    assert "times as accurate as the paper's fading noise" in " ".join(text.split())
    assert "…" not in text
    row = text.rpartition(" fading, server ")[2].partition("\n")[0]
    assert row.count(" ±") == 2  # the error of the average and that of an agent, with their standard errors


def test_json_is_what_the_library_answers(run):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    answer = json.loads(run(*SMALL, "--seed", 3, "--json").stdout, parse_constant=refuse)
    assert [row["name"] for row in answer["rows"]] == list(NAMES)
    assert answer["rows"][0]["guarantee"]["epsilon"] is None
    assert answer["file"] is None
    assert answer["seed"] == 3
    assert answer["rounds"] == 30


def test_some_methods_and_a_picture(run, tmp_path):
    out = run(*SMALL, "--methods", "one-shot, graph", "--out", "c.svg").stdout
    assert "Drawn: c.svg" in out
    assert "zero-sum" not in out
    assert (tmp_path / "c.svg").stat().st_size > 5000
    assert "exists already" in run(*SMALL, "--out", "c.svg", code=2).stderr
    run(*SMALL, "--methods", "plain", "--out", "c.svg", "--force")


def test_values_from_a_file_are_used_and_never_shown(run, tmp_path):
    (tmp_path / "v.csv").write_text("\n".join(["987654.25"] * 8))
    text = run(*SMALL, "--values", "v.csv", "--methods", "plain,one-shot", "--json").stdout
    assert "987654" not in text
    assert json.loads(text)["rows"][0]["agreed_after"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--epsilon", 1), "--graph"),
        (("--graph", "ring:8"), "--epsilon"),
        ((*SMALL, "--methods", "magic"), "'magic' is none of plain"),
        ((*SMALL, "--epsilon", 0), "epsilon must be a positive number"),
        ((*SMALL, "--mixing", 1), "mixing must be in (0, 1)"),
        ((*SMALL, "--agent", 8), "agent must be a number from 0 to 7"),
        ((*SMALL, "--out", "c.txt"), "a figure is written as"),
        ((*SMALL, "--out", "nowhere/c.svg"), "no directory"),
        ((*SMALL, "--values", "missing.csv"), "missing.csv"),
        (("--graph", "nonsense:8", "--epsilon", 1), "nonsense"),
    ],
)
def test_mistakes_are_one_sentence_and_2(run, words, said, tmp_path):
    result = run(*words, code=2)
    assert said in " ".join(result.stderr.split())
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def found():
    return compare(Graph.from_name("regular:12:3:seed=1"), range(12), epsilon=1.0, runs=30, rounds=20)


def test_the_picture_shows_every_method(found):
    figure = draw_compare(found)
    assert isinstance(figure, Figure)
    left = figure.axes[0]
    names = " ".join(tick.get_text() for tick in left.get_yticklabels())
    assert all(row.title.split(", ")[0] in names for row in found.rows)
    for ax in figure.axes:
        assert ax.get_title(loc="left")
        assert ax.get_xlabel()
    lengths = [[bar.get_width() for bar in ax.patches] for ax in figure.axes]
    assert len(lengths[0]) == len(lengths[1]) == len(lengths[2]) == len(left.get_yticks()) <= len(found.rows)
    for row in found.rows:  # each is in a bar of methods with nearly the same error
        assert any(abs(length - row.error) <= 0.25 * row.error + 1e-9 for length in lengths[0])
    assert max(lengths[2]) == max(row.agreed_after or found.case.rounds for row in found.rows)
    least = {round(row.least_error, 9) for row in found.rows if row.least_error is not None}
    marks = {round(float(line.get_xdata()[0]), 9) for line in left.get_lines()} - {0.0}
    assert marks <= least
    assert len(marks) >= 2  # of agents alone, and with keepers


def test_the_same_comparison_is_the_same_picture(tmp_path):
    two = compare(Graph.from_name("ring:4"), range(4), epsilon=1.0, runs=5, methods=["plain", "one-shot"])
    for name in ("a.svg", "b.svg"):
        style.save(draw_compare(two), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_the_attacked_agent_has_the_name_of_the_file(run, tmp_path):
    (tmp_path / "rooms.csv").write_text("attic,cellar\ncellar,hall\nhall,attic\n")
    words = ("--graph", "rooms.csv", "--epsilon", 1, "--runs", 5, "--methods", "plain", "--agent", 1)
    assert "value of agent cellar," in " ".join(run(*words).stdout.split())
    answer = json.loads(run(*words, "--json").stdout)
    assert (answer["attacked_agent"], answer["attacked_label"]) == (1, "cellar")
