"""Results show themselves: tables that are escaped and right, pictures that need no backend."""

from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from tacit import ClientServer, Distributed, Fading, Graph
from tacit.base.errors import ParameterError
from tacit.base.report import Grid, html
from tacit.core.series import design_series
from tacit.core.theory.answers import design
from tacit.core.theory.promise import analyze
from tacit.lab.audit import NOT_PROVED, AuditFinding, AuditReport, belief
from tacit.lab.comparison import compare
from tacit.lab.plots import curves, runs, show, style
from tacit.lab.simulation import Record, simulate, sweep
from tacit.lab.simulation.series import household_readings, simulate_series

EXECUTION = ClientServer(Fading(0.5, 1.0, 0.8), agents=2).execute([1.2345, 6.0], [[0.5, -0.5], [0.1, 0.3]])
REPORT = AuditReport(
    subject="a <b>bold</b> name", declared="3 agents", agent=0, distance=1.0, adjacency=1.0, rounds=2,
    transcripts=1000, failure_probability=1e-6, promised=0.1234567, measured=0.1234967,
    findings=(AuditFinding("scale", "pass", "fine & well"), AuditFinding("reuse", "alarm", "twice")),
)  # fmt: skip


class Cells(HTMLParser):
    """The text of every row, and what else was said; refuses tags that do not close."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.notes, self.open, self.tags = [], [], [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, _attrs):
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        else:
            self.notes.append(data)


def cells(result):
    return Cells(result._repr_html_())


def test_text_is_escaped_and_rows_are_kept():
    grid = Grid("a < b", ["x", "<i>"], [["1", "<u>&"], ["<script>", "2"]], ("so <a> so",))
    found = Cells(html(grid))
    assert found.rows == [["x", "<i>"], ["1", "<u>&"], ["<script>", "2"]]
    assert found.notes == ["a < b", "so <a> so"]
    assert not found.tags & {"i", "u", "a", "script"}


def test_a_promise_shows_its_numbers_rounded_up():
    made = analyze(ClientServer(Fading(0.8, 10, 0.6), agents=500), failure_probability=0.5)
    found = cells(made)
    rows = {row[0]: row[1] for row in found.rows if len(row) > 1}
    assert rows["epsilon"] == "0.15"
    assert rows["radius"] == "0.426458"
    assert float(rows["radius"]) >= made.radius
    assert rows["rounds"] == str(made.rounds)
    assert found.notes[0] == "500 agents around a server, fading noise: mixing 0.8, noise 10, decay 0.6"


def test_a_promise_of_each_agents_own_shows_ranges():
    made = analyze(Distributed(Fading([0.5, 0.6, 0.7], 1, 0.9), Graph.from_name("path:3")), rounds=9)
    found = cells(made)
    assert "mixing 0.5 to 0.7" in found.notes[0]
    assert {row[0]: row[-1] for row in found.rows}["epsilon"] == "ε per unit of adjacency, over 9 rounds"
    one_shot = design(agents=50, epsilon=1.0).baseline
    assert "decay" not in cells(one_shot).notes[0]


def test_a_design_shows_its_answer_the_limit_and_its_notes():
    answer = design(agents=500, epsilon=0.15, mixing=0.8)
    found = cells(answer)
    radii = [row[1] for row in found.rows if row[0] == "radius"]
    assert [float(radius) for radius in radii] >= [answer.promise.radius, answer.baseline.radius]
    assert "answered: accuracy" in found.notes[0]
    assert set(answer.notes()) <= set(found.notes)


def test_a_report_shows_every_test_and_what_it_does_not_prove():
    found = cells(REPORT)
    assert ["scale", "pass", "fine & well"] in found.rows
    assert ["reuse", "ALARM", "twice"] in found.rows
    assert ["promised", "0.123457", "at most, starts 1 apart, 2 rounds"] in found.rows
    assert ["measured", "0.1234", "at least, 1,000 sessions"] in found.rows  # a lower bound rounds down
    assert "a <b>bold</b> name" in found.notes[0]
    assert found.notes[0].startswith("ALARM")
    passed = replace(REPORT, findings=REPORT.findings[:1])
    assert set(NOT_PROVED) <= set(cells(passed).notes)


def test_a_belief_shows_its_rounds():
    seen = belief(EXECUTION, 0, prior=(0, 8))
    found = cells(seen)
    assert found.rows[0] == ["rounds", "mean", "95% interval", "ε so far"]
    assert found.rows[1] == ["0", "4", "0.2 to 7.8", "0"]
    assert [row[0] for row in found.rows[1:]] == ["0", "1", "2"]
    assert found.rows[3][1] == f"{seen.mean[2]:.6g}"


def test_nothing_private_is_in_a_table():
    assert "1.2345" not in belief(EXECUTION, 0, prior=(0, 8))._repr_html_()
    assert "1.2345" not in EXECUTION._repr_html_()


@cache
def series():
    return design_series(24, "step:2", agents=50, low=0.0, high=10.0, keepers=1, loss=1.0)


PICTURES = {
    "belief": lambda: belief(EXECUTION, 0, prior=(0, 8)),
    "report": lambda: REPORT,
    "execution": lambda: EXECUTION,
    "tradeoff": lambda: curves.tradeoff(q=[0.4, 0.6]),
    "radius": lambda: curves.radius_curves((10,), epsilon=[0.1, 1]),
    "smoothness": lambda: curves.smoothness((10,), sigma=[0.2, 0.5]),
    "bounds": lambda: curves.bounds((10,), failure_probability=[0.5, 0.1]),
    "convergence": lambda: runs.Convergence("ring:4", 0.9, np.array([2.0, 1.0]), np.array([2.0, 1.1]), 10),
    "design": lambda: design(agents=50, epsilon=1.0, mixing=0.5),
    "promise": lambda: analyze(ClientServer(Fading(0.5, 1.0, 0.8), agents=2), rounds=4),
    "graph": lambda: Graph.from_name("ring:5"),
    "comparison": lambda: compare(
        "ring:4", range(4), epsilon=1.0, runs=5, rounds=5, methods=["plain", "one-shot"]
    ),
    "closeness": lambda: curves.closeness((0.2, 0.8)),
    "tail": lambda: curves.tail_curves(1, 0.5, 2, (0.1, 1e-9)),
    "series": lambda: curves.series_curves((4, 96)),
    "series design": series,
    "series runs": lambda: simulate_series(
        series(), household_readings(24, 0.0, 10.0, seed=1), runs=2, seed=1
    ),
    "final states": lambda: simulate(ClientServer(Fading(0.5, 1.0, 0.8), 3), np.arange(3.0), 4, runs=9),
    "all states": lambda: simulate(
        ClientServer(Fading(0.5, 1.0, 0.8), 3), np.arange(3.0), 4, runs=9, record=Record(every=1)
    ),
    "loss": lambda: runs.LossCurves(
        0.5, 3, 100, 1e-6, np.array([2.0, 4.0]), np.array([1.0, 2.0]), {"a": np.array([0.5, 1.5])}
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_result_has_a_picture_that_shows_itself(name):
    figure = show(PICTURES[name]())
    assert isinstance(figure, style.Sheet)
    if name in ("report", "graph"):  # to lay a figure out takes most of the time
        assert ElementTree.fromstring(figure._repr_svg_()).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_sweep_has_a_picture(tmp_path):
    asked = {"rounds": 5, "runs": 20, "method": "outcome"}
    grid = {"agents": [10, 100], "mixing": [0.5, 0.8], "epsilon": [1.0]}
    found = sweep(grid, path=tmp_path / "a.jsonl", **asked)
    axes = show(found).axes[0]
    promised = found.average_radius.sel(mixing=0.5).squeeze().to_numpy()
    drawn = [line.get_ydata() for line in axes.get_lines()]
    assert any(np.shape(y) == promised.shape and np.allclose(y, promised) for y in drawn)
    many = sweep({**grid, "mixing": [k / 10 for k in range(2, 10)], "agents": list(range(2, 12))},
                 path=tmp_path / "b.jsonl", **asked)  # fmt: skip
    with pytest.raises(ParameterError, match="at most 6 curves"):
        show(many)
    single = sweep({"agents": [10], "mixing": [0.5], "epsilon": [1.0]}, path=tmp_path / "c.jsonl", **asked)
    with pytest.raises(ParameterError, match="several numbers"):
        show(single)


def test_pictures_pass_on_axes_and_width():
    mine = Figure()
    assert show(PICTURES["design"](), ax=mine.subplots()) is mine
    assert show(PICTURES["graph"](), width="one-column").get_figwidth() == 3.5


def test_what_has_no_picture_is_said():
    vectors = simulate(ClientServer(Fading(0.5, 1.0, 0.8), 2), np.ones((2, 2)), 2)
    with pytest.raises(ParameterError, match="as numbers"):
        show(vectors)
    with pytest.raises(ParameterError, match="no picture of a int"):
        show(3)
