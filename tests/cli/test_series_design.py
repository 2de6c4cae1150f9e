"""`tacit design --series`: the reference numbers, and what is refused."""

import pytest

ASKED = ["design", "--agents", "1000", "--range", "0:10", "--keepers", "1", "--series", "35040"]


def test_a_year_of_quarter_hours(answer, run):
    made = answer(*ASKED, "--hides", "step:2")
    assert made["deviation"] == pytest.approx(0.0371531, rel=4e-6)
    assert made["loss"] == 1
    assert made["mechanism"] == "square-root"
    assert made["costs"]["one day"] == pytest.approx(0.972, abs=1e-3)
    shown = run(*ASKED, "--hides", "step:2")
    assert "0.0371531" in shown.output
    assert "NOT hidden" in shown.output.split("the same hour every day")[1].splitlines()[0]


def test_a_reading_and_a_day(answer):
    assert answer(*ASKED, "--hides", "reading")["deviation"] == pytest.approx(0.0141421, rel=1e-5)
    assert answer(*ASKED, "--hides", "window:96")["deviation"] == pytest.approx(0.41393, rel=1e-4)


@pytest.mark.parametrize(
    ("more", "code", "sentence"),
    [
        (["--hides", "window:35040"], 3, "no noise hides window:35040"),
        ([], 2, "must say what it hides"),
        (["--hides", "habits"], 2, "must be reading, window:SLOTS, step"),
        (["--hides", "step:2", "--mixing", "0.5"], 2, "cannot use mixing"),
        (["--hides", "step:20"], 2, "at most the range"),
    ],
)
def test_what_is_refused(run, more, code, sentence):
    done = run(*ASKED, *more, code=code)
    assert sentence in " ".join(done.output.split())
