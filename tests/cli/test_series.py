"""`simulate`, `compare` and `audit` with --series: what they print, keep and refuse."""

import csv

import pytest

from tacit.cli.series import BUGS
from tacit.lab.audit.series import SERIES_BUGS

ABOUT = ["--hides", "step:2", "--range", "0:10", "--keepers", "1"]
DAY = ["--series", "96", "--agents", "1000", *ABOUT]
SMALL = ["--series", "24", "--agents", "50", "--loss", "20", *ABOUT]


def test_the_bugs_are_those_of_the_audit():
    assert tuple(SERIES_BUGS) == BUGS


def test_simulate_measures_beside_the_promise(answer, run):
    found = answer("simulate", *DAY, "--runs", "300", "--seed", "1")
    assert found["deviation"] == pytest.approx(0.0212782, rel=1e-5)
    assert found["measured"]["deviation"] == pytest.approx(0.0212782, rel=0.1)
    assert "0.0212783" in run("simulate", *DAY, "--seed", "1").output


def test_simulate_keeps_the_curve_and_reads_readings(run, answer, tmp_path):
    (tmp_path / "readings.csv").write_text("1,2,3\n3,4,25\n")
    asked = ["--series", "3", "--agents", "2", "--loss", "100", "--readings", "readings.csv", *ABOUT]
    run("simulate", *asked, "--out", "curve.csv")
    rows = list(csv.reader((tmp_path / "curve.csv").read_text().splitlines()))[1:]
    assert [float(row[1]) for row in rows] == [2.0, 3.0, 6.5]  # 25 counts as 10
    run("simulate", *asked, "--out", "curve.csv", code=2)
    refused = run("simulate", "--series", "4", *asked[2:], code=2)
    assert "2 rows of 4" in refused.output


def test_simulate_with_missing_agents_on_the_grid(answer):
    found = answer("simulate", *SMALL, "--missing", "0.1", "--on-grid", "--runs", "3")
    assert found["measured"]["missing"] == 0.1


def test_compare_has_every_mechanism(answer, run):
    found = answer("compare", *SMALL, "--runs", "20")
    names = [row["name"] for row in found["mechanisms"]]
    assert set(names) == {"square-root", "tree", "pure tree", "independent"}
    assert [row["deviation"] for row in found["mechanisms"]] == sorted(
        row["deviation"] for row in found["mechanisms"]
    )
    assert "Fichtenberger" in run("compare", *SMALL, "--runs", "5").output


def test_compare_takes_a_series_without_keepers(answer):
    own = answer("compare", *SMALL, "--runs", "2", "--keepers", "0")
    kept = answer("compare", *SMALL, "--runs", "2", "--keepers", "1")
    assert own["mechanisms"][0]["deviation"] > 2 * kept["mechanisms"][0]["deviation"]


def test_audit_passes_and_alarms(run):
    from click.testing import CliRunner

    from tacit.cli import main

    passed = run("audit", "--series", "48", *DAY[2:], "--simulated", "--seed", "1")
    assert passed.output.startswith("PASS: series")
    caught = CliRunner().invoke(
        main, ["audit", "--series", "48", *DAY[2:], "--simulated", "--broken", "backlog"]
    )
    assert caught.exit_code == 1
    assert caught.output.startswith("ALARM: backlog")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["simulate", *DAY, "--missing", "1"], "missing"),
        (["simulate", *DAY, "--hides", "habit"], "must be reading"),
        (["simulate", *DAY, "--range", "10"], "not a range"),
        (["simulate", *DAY, "--mixing", "0.5"], "cannot use mixing"),
        (["simulate", *DAY, "--ask", "count"], "can be designed and run"),
        (["simulate", *DAY[:4], *ABOUT[2:]], "must say what it hides"),
        (["simulate", "--series", "96", *ABOUT], "needs a number of agents"),
        (["simulate", "--series", "96", "--agents", "5", "--hides", "reading"], "needs a range"),
        (
            ["compare", "--graph", "ring:5", "--epsilon", "1", "--range", "0:10"],
            "--range can be given for a series only",
        ),
        (["compare", *DAY, "--graph", "karate"], "cannot use graph"),
        (["compare", "--graph", "karate"], "--graph and --epsilon"),
        (["compare", "--graph", "ring:4", "--epsilon", "1", "--keepers", "0"], "keepers must be"),
        (["simulate", *SMALL, "--missing", "1"], "missing, the share of messages"),
        (["audit", *DAY, "--hides", "reading", "--broken", "restart"], "restart"),
        (["audit", *DAY, "--broken", "redraw"], "must be one of backlog"),
        (["audit", *DAY, "--broken", "habit"], "habit"),
        (["audit", "--broken", "backlog"], "must be one of redraw"),
    ],
)
def test_what_is_refused(run, words, sentence):
    assert sentence in " ".join(run(*words, code=2).output.split())
