"""What the page says of speed is what was measured, and written by the same code."""

import json

import pytest

from benchmarks import report

MEASURED = json.loads(report.KEPT.read_text())


def test_the_page_is_the_one_of_what_was_measured():
    assert report.PAGE.read_text() == report.page(MEASURED)


def test_every_goal_is_on_the_page_reached_or_not():
    goals = [row for row in report.rows(MEASURED) if row.goal is not None]
    assert goals
    lines = report.PAGE.read_text().splitlines()
    for row in goals:
        start, end = f"| {row.question} | {row.peer} |", f"| {row.spread} | {row.verdict} |"
        assert any(line.startswith(start) and line.endswith(end) for line in lines), start


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
