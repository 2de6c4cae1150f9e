"""Linear agents in a comparison: errors are those that are proved."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import tacit
from tacit.base.errors import MotionError, ParameterError
from tacit.cli import main
from tacit.core.motion import Linear

TRUCK = Linear([[1, 0.25], [-0.25, 0.5]], [0, 0.25], [1, 0], private={0: 1.0})
VALUES = np.linspace(20, 28, 6)


def test_errors_are_those_that_are_proved():
    found = tacit.compare("ring:6", VALUES, epsilon=1.0, rounds=60, runs=800, seed=1, motion=TRUCK)
    assert [row.name for row in found.rows] == [
        f"{place} {law}"
        for law in ("scheduled", "fading", "constant", "one-shot")
        for place in ("server", "graph")
    ]
    for row in found.rows:
        assert row.error == pytest.approx(row.error_closed_form, rel=0.12), row.name
        assert abs(row.bias) <= 5 * row.bias_standard_error
        assert row.error_quantile <= row.radius * 1.15
        assert row.guarantee.epsilon <= 1
        assert row.attack_error > 0.9
    best = {row.name: row.error_closed_form for row in found.rows}
    assert (
        best["server one-shot"] < best["server scheduled"] < best["server fading"] < best["server constant"]
    )
    told = json.loads(json.dumps(found.as_dict()))
    assert (told["motion"], told["mixing"]) == ("linear", None)
    assert any("computed by the agent itself" in note for note in told["notes"])
    assert "scheduled, server" in str(found.grids()[0].rows)


def test_what_cannot_be_compared_is_refused():
    def compared(motion, graph="ring:4", **more):
        return tacit.compare(graph, VALUES[:4], epsilon=1.0, rounds=20, runs=2, motion=motion, **more)

    with pytest.raises(MotionError, match="a Linear with one private component"):
        compared(Linear(TRUCK.A, TRUCK.B, TRUCK.C, private={0: 1.0, 1: 1.0}))
    with pytest.raises(MotionError, match=r"weigh them 0\.5 times"):
        compared(Linear(TRUCK.A, TRUCK.B, TRUCK.C, private={1: 1.0}))
    with pytest.raises(ParameterError, match="leave out methods"):
        compared(TRUCK, methods=["server"])
    measured = compared(Linear(TRUCK.A, TRUCK.B, TRUCK.C, private={0: 1.0}, measured=True))
    assert not any("one-shot" in row.name for row in measured.rows)


FILE = """
[motion]
A = [[1, 0.25], [-0.25, 0.5]]
B = [0, 0.25]
C = [1, 0]
private = {z0 = 1.0}
"""


def test_a_file_is_compared(tmp_path):
    (tmp_path / "truck.toml").write_text(FILE)
    words = ["compare", "--graph", "ring:5", "--epsilon", "1", "--rounds", "30", "--runs", "20"]
    words += ["--motion", str(tmp_path / "truck.toml")]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "compare.svg")])
    assert done.exit_code == 0, done.output
    assert "one-shot, server" in done.stdout
    assert json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)["motion"] == "linear"
    odd = CliRunner().invoke(main, [*words, "--mixing", "0.5"])
    assert (odd.exit_code, "leave out --mixing" in odd.stderr) == (2, True)
