"""What the README and the page say of speed is what was measured, and written by the same code."""

import json

import pytest

from benchmarks import report

MEASURED = json.loads(report.KEPT.read_text())


def test_the_readme_has_the_table_that_was_measured():
    text = report.README.read_text()
    block = report.BLOCK.search(text)
    assert block is not None
    assert block[0] == report.for_readme(MEASURED)


def test_the_page_is_the_one_of_what_was_measured():
    assert report.PAGE.read_text() == report.page(MEASURED)


def test_every_goal_is_in_the_readme_reached_or_not():
    goals = [row for row in report.rows(MEASURED) if row.goal is not None]
    assert goals
    for row in goals:
        assert f"| {row.question} | {row.peer} | {row.spread} | {row.verdict} |" in report.for_readme(
            MEASURED
        )


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
