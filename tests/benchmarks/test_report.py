"""What the page says of speed is what was measured, and written by the same code."""

import json

import pytest

from benchmarks import harness, report

MEASURED = json.loads(report.KEPT.read_text())


def test_the_page_is_the_one_of_what_was_measured():
    assert report.PAGE.read_text() == report.page(MEASURED)


def test_every_goal_is_on_the_page_reached_or_not():
    rows = list(report.rows(MEASURED))
    assert any(row.goal is not None for row in rows)
    lines = report.markdown(rows).splitlines()[2:]
    for row, above, line in zip(rows, [None, *rows], lines, strict=False):
        question = "" if above and above.question == row.question else row.question
        assert line.startswith(f"| {question} | {row.peer} |")
        assert f"| {row.spread} |" in line
        assert line.endswith(f"| {row.verdict} |")
    assert len(lines) == len(rows)


@pytest.mark.parametrize(("ratio", "says"), [(0.29, "0.3: MISSED"), (0.31, "0.3: reached")])
def test_a_goal_is_missed_when_it_is(ratio, says):
    answer = {
        "title": "t", "unit": "u", "seconds": {"peer": [ratio], "tacit": [1.0]},
        "core_seconds": {"peer": [1.0], "tacit": [1.0]}, "others": [0.0],
        "goals": [{"against": "peer", "ratio": 0.3}],
    }  # fmt: skip
    (row,) = report.rows({"script": {"answers": [answer]}})
    assert row.verdict == says
    assert row.ratio == pytest.approx((ratio,) * 3)


def test_busy_turns_count_in_every_column_like_quiet_ones():
    """A page once showed ratios of quiet turns beside milliseconds of all turns."""
    answer = {
        "title": "t", "unit": "u",
        "seconds": {"peer": [4.0, 4.0, 4.0, 2.0, 2.0, 2.0, 2.0], "tacit": [1.0] * 7},
        "core_seconds": {"peer": [3.0] * 7, "tacit": [2.0] * 7}, "others": [0.0] * 3 + [0.9] * 4,
        "goals": [{"against": "peer", "ratio": 3.0}],
    }  # fmt: skip
    (row,) = report.rows({"script": {"answers": [answer]}})
    assert row.milliseconds == (2000.0, 1000.0)
    assert row.ratio == (2.0, 2.0, 4.0)
    assert row.core_ratio == pytest.approx(1.5)
    assert row.verdict == "3: MISSED"
    assert "| 1e+03 | u | 2 (2 to 4) | 1.5 | 3: MISSED |" in report.markdown([row])


def test_the_number_of_turns_does_not_depend_on_what_they_measure(monkeypatch):
    """A busy machine gets no further turns, and a quiet one no fewer."""
    for used in (0.0, 1e9):
        moments = iter([0.0, used] * 5)
        monkeypatch.setattr(harness, "_busy", lambda moments=moments: next(moments))
        idle = harness.Contestant("idle", lambda: None)
        assert harness.race(harness.Question("t", "u", [idle]), 5).turns == 5
