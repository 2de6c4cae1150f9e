"""Initial values from files and from the seed."""

import numpy as np
import pytest

from tacit.base.errors import FileError, StateError
from tacit.cli.values import made_up_spread, read_values


def read(tmp_path, text, n=None):
    (tmp_path / "values").write_text(text)
    return read_values(str(tmp_path / "values"), n, 0)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1\n2\n3\n", [1, 2, 3]),
        ("watt\n1e3\n-2.5\n", [1000, -2.5]),
        ("# a note\n\n1 # one\n2\n", [1, 2]),
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("x;y\n1;2\n3;4\n", [[1, 2], [3, 4]]),
        ("1\t2\r\n3  4\r\n", [[1, 2], [3, 4]]),
        ("\ufeff1\n2\n", [1, 2]),
    ],
)
def test_formats(tmp_path, text, values):
    assert read(tmp_path, text).tolist() == values


@pytest.mark.parametrize("text", ["", "only words\n", "1\nx\n", "1\n2,3\n", "1\ninf\n"])
def test_what_is_no_table_of_numbers_is_refused(tmp_path, text):
    with pytest.raises(FileError):
        read(tmp_path, text)


def test_a_binary_file_is_refused(tmp_path):
    (tmp_path / "values").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(FileError, match="not a text file"):
        read_values(str(tmp_path / "values"), 1, 0)


def test_one_value_per_agent(tmp_path):
    with pytest.raises(StateError, match="each of the 3 agents, got 2"):
        read(tmp_path, "1\n2\n", n=3)


def test_made_up_values():
    values = read_values("uniform:2:4", 1000, 5)
    assert values.tolist() == read_values("uniform:2:4", 1000, 5).tolist()
    assert values.tolist() != read_values("uniform:2:4", 1000, 6).tolist()
    assert 2 <= values.min() < 2.1
    assert 3.9 < values.max() <= 4
    assert made_up_spread("uniform:2:4") == 2
    assert made_up_spread("uniform:2:2") is None
    assert np.ptp(read_values("uniform:2:2", 3, 0)) == 0


def test_the_spread_of_a_file_is_private(tmp_path):
    (tmp_path / "values").write_text("1\n5\n")
    assert made_up_spread(str(tmp_path / "values")) is None


def test_a_file_goes_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "uniform:0:1").write_text("7\n")
    assert read_values("uniform:0:1", 1, 0).tolist() == [7]
