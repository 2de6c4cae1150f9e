"""Questions in comparisons and sweeps."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from tacit import Histogram, Mean, Sum, compare
from tacit.base.errors import ParameterError, StateError
from tacit.cli import main
from tacit.lab.simulation import sweep
from tacit.lab.simulation.sweep_table import SweepTable


def test_methods_are_compared_on_the_parts_of_an_answer():
    records = [0.5] * 5 + [1.5] * 3
    found = compare(
        "ring:8", records, epsilon=2, question=Histogram([0, 1, 2, 3]), runs=300, seed=1,
        methods=["plain", "server-one-shot", "keepers"],
    )  # fmt: skip
    assert found.case.adjacency == 2
    assert found.row("plain").answers == pytest.approx({"0 to 1": 0, "1 to 2": 0, "2 to 3": 0}, abs=1e-6)
    one = found.row("server-one-shot")
    assert one.answers["1 to 2"] == pytest.approx(8 * one.error, rel=0.35)
    assert one.error == pytest.approx(one.error_closed_form, rel=0.25)
    assert "Error of the histogram" in [grid.columns[0] for grid in found.grids()]
    assert json.loads(json.dumps(found.as_dict()))["question"] == "histogram:0,1,2,3"


def test_a_mean_is_compared_as_its_numbers_are():
    numbers, how = np.linspace(0, 10, 6), {"epsilon": 1, "adjacency": 10, "runs": 20, "methods": ["one-shot"]}
    plain = compare("ring:6", numbers, **how)
    asked = compare("ring:6", numbers, question=Mean(0, 10), **how)
    assert asked.row("one-shot").error == plain.row("one-shot").error
    with pytest.raises(StateError, match="one record for each"):
        compare("ring:6", [1, 2], question=Sum(0, 3), epsilon=1)
    with pytest.raises(ParameterError, match="any change of a record"):
        compare("ring:6", numbers, question=Sum(0, 3), epsilon=1, adjacency=2)


def test_components_have_noise_of_their_own():
    how = {"epsilon": 20, "runs": 5, "methods": ["one-shot"]}
    found = compare("ring:6", [(5, 5)] * 6, question=Mean(0, 10, numbers=2), **how).row("one-shot").answers
    assert found["mean 0"] != found["mean 1"]


def test_a_sweep_has_questions_among_its_axes(tmp_path):
    words = ["count", "histogram:0,1,2"]
    grid = {"agents": [1000], "keepers": [2], "mixing": 0.5, "loss": 1, "question": words}
    how = {"rounds": 60, "runs": 5, "method": "outcome"}
    found = sweep(grid, path=tmp_path / "s.jsonl", **how)
    assert found.half_width.values.ravel() == pytest.approx([4.1130033, 8.2260066], rel=1e-6)
    assert found.adjacency.values.ravel().tolist() == [1, 2]
    assert found.sel(question="count").half_width_all.item() == pytest.approx(4.1130033, rel=1e-6)
    assert "answer ±" in SweepTable.of(found).summary().columns
    again = sweep(grid, path=tmp_path / "s.jsonl", **how)  # a finished sweep is read
    assert again.identical(found)
    for wrong in (
        grid | {"question": ["mode"]},
        grid | {"question": [3]},
        grid | {"law": ["fading"]},
        grid | {"epsilon": 1},
        {name: axis for name, axis in grid.items() if name != "question"},
    ):
        with pytest.raises(ParameterError):
            sweep(wrong, path=tmp_path / "wrong.jsonl", **how)
    assert not (tmp_path / "wrong.jsonl").exists()


def test_the_command_line_compares_and_sweeps_questions(tmp_path):
    run = CliRunner().invoke
    text = "compare --graph ring:6 --epsilon 1 --ask count --values VALUES --runs 5 --methods server --json"
    values = tmp_path / "solar.csv"
    values.write_text("yes\nno\nyes\nno\nno\n1\n")
    told = run(main, text.replace("VALUES", str(values)).split())
    assert told.exit_code == 0, told.output
    assert list(json.loads(told.output)["rows"][0]["answers"]) == ["count", "share"]
    out = str(tmp_path / "s.jsonl")
    text = "sweep --agents 9 --mixing 0.5 --loss 1 --ask count --runs 5 --method outcome --json --out"
    told = run(main, [*text.split(), out])
    assert told.exit_code == 0, told.output
    assert json.loads(told.output)["cells"][0]["question"] == "count"
