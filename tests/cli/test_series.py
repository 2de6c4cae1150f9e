"""`tacit series` and `tacit figure series`: what they print, keep and refuse."""

import csv

import pytest

SMALL = ["--slots", "24", "--agents", "50", "--loss", "20"]


def test_design_says_the_same_as_tacit_design(answer):
    asked = ["--hides", "step:2", "--agents", "1000", "--range", "0:10", "--keepers", "1"]
    assert answer("series", "design", "--slots", "96", *asked) == answer("design", "--series", "96", *asked)


def test_simulate_measures_beside_the_promise(answer, run):
    found = answer("series", "simulate", "--runs", "300", "--seed", "1")
    assert found["deviation"] == pytest.approx(0.0212782, rel=1e-5)
    assert found["measured"]["deviation"] == pytest.approx(0.0212782, rel=0.1)
    assert "0.0212783" in run("series", "simulate", "--seed", "1").output


def test_simulate_keeps_the_curve_and_reads_readings(run, answer, tmp_path):
    (tmp_path / "readings.csv").write_text("1,2,3\n3,4,25\n")
    asked = ["--slots", "3", "--agents", "2", "--loss", "100", "--readings", "readings.csv"]
    run("series", "simulate", *asked, "--out", "curve.csv")
    rows = list(csv.reader((tmp_path / "curve.csv").read_text().splitlines()))[1:]
    assert [float(row[1]) for row in rows] == [2.0, 3.0, 6.5]  # 25 counts as 10
    run("series", "simulate", *asked, "--out", "curve.csv", code=2)
    refused = run("series", "simulate", "--slots", "4", *asked[2:], code=2)
    assert "2 rows of 4" in refused.output


def test_simulate_with_missing_agents_on_the_grid(answer):
    found = answer("series", "simulate", *SMALL, "--missing", "0.1", "--on-grid", "--exact", "--runs", "3")
    assert found["measured"]["missing"] == 0.1


def test_compare_has_every_mechanism(answer, run):
    found = answer("series", "compare", *SMALL, "--runs", "20")
    names = [row["name"] for row in found["mechanisms"]]
    assert set(names) == {"square-root", "tree", "pure tree", "independent"}
    assert [row["deviation"] for row in found["mechanisms"]] == sorted(
        row["deviation"] for row in found["mechanisms"]
    )
    assert "Fichtenberger" in run("series", "compare", "--slots", "24", "--runs", "5").output


def test_audit_passes_and_alarms(run):
    from click.testing import CliRunner

    from tacit.cli import main

    passed = run("series", "audit", "--simulated", "--seed", "1")
    assert passed.output.startswith("PASS: series")
    caught = CliRunner().invoke(main, ["series", "audit", "--simulated", "--broken", "backlog"])
    assert caught.exit_code == 1
    assert caught.output.startswith("ALARM: backlog")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["simulate", "--missing", "1"], 2),
        (["simulate", "--hides", "habit"], 2),
        (["simulate", "--range", "10"], 2),
        (["audit", "--hides", "reading", "--broken", "restart"], 2),
        (["audit", "--broken", "habit"], 2),
        (["design", "--hides", "window:96"], 0),
        (["design", "--slots", "35040", "--hides", "window:35040"], 3),
    ],
)
def test_what_is_refused(run, words, code):
    run("series", *words, code=code)


def test_figure(run, answer, tmp_path):
    run("figure", "series", "--out", "series.svg")
    assert (tmp_path / "series.svg").stat().st_size > 5000
    table = answer("figure", "series", "--slots", "96,35040")["table"]
    assert table["square_root"] == pytest.approx([0.0212782, 0.0371531], rel=1e-5)
    assert table["independent"] == pytest.approx([0.0827865, 1.5816331], rel=1e-5)
