"""Numbers, tables and files as the verbs show and write them."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.base.errors import FileError
from tacit.base.report import Grid, Row, Summary, each, jsonable, near, up
from tacit.cli import output


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_up_is_never_too_small_and_never_far_off(value):
    shown = float(up(value).replace(",", ""))
    assert value <= shown <= value * (1 + 1.1e-5)


@pytest.mark.parametrize(
    ("value", "shown"), [(0.15, "0.15"), (0.14, "0.14"), (0.8944271909, "0.894428"), (0, "0")]
)
def test_up_is_short(value, shown):
    assert up(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2.0, "2"),
        (1e6, "1,000,000"),
        (0.1234567, "0.123457"),
        (math.nan, "-"),
        (math.inf, "inf"),
        (-3.5, "-3.5"),
    ],
)
def test_near(value, shown):
    assert near(value) == shown


def test_each():
    assert each(0.5) == "0.5"
    assert each([0.5, 0.5]) == "0.5"
    assert each([0.7, 0.5]) == "0.5 to 0.7"


def test_json_has_only_what_json_has(capsys, tmp_path):
    answer = {
        "a": math.inf,
        "b": np.float64("nan"),
        "c": np.arange(2),
        "d": (1, None),
        "e": tmp_path,
        "f": np.int64(3),
    }
    found = jsonable(answer)
    assert found == {"a": None, "b": None, "c": [0, 1], "d": [1, None], "e": str(tmp_path), "f": 3}
    output.print_json(found)
    assert capsys.readouterr().out.startswith("{\n")


def test_require_writable(tmp_path):
    output.require_writable(tmp_path / "new", force=False)
    (tmp_path / "old").touch()
    with pytest.raises(FileError, match="exists already"):
        output.require_writable(tmp_path / "old", force=False)
    output.require_writable(tmp_path / "old", force=True)
    with pytest.raises(FileError, match="there is no directory"):
        output.require_writable(tmp_path / "nowhere" / "new", force=True)


def test_tables_in_a_pipe_have_no_colours_and_no_trailing_blanks(capsys):
    rows = [Row("name", "1", "meaning"), Row("other", "2", "[bold]not markup")]
    output.print_summary(Summary("Title", {"Part": rows}, ("Note.",)))
    output.print_tables(Grid("", ("a", "b"), [("1", "2")]))
    text = capsys.readouterr().out
    assert "[bold]not markup" in text
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.split("\n"))


def test_only_results_make_rows():
    # docs/decisions/results.md: the command line renders what results say; the demo is its own result
    source = Path(output.__file__).parent
    modules = [path for path in source.glob("*.py") if re.search(r"\b(Row|Summary)\(", path.read_text())]
    assert modules == []
