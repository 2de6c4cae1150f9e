"""Rows are made once: text, HTML and LaTeX say the same.

Their numbers are never below JSON's exact ones.
"""

import io
import json
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tacit import ClientServer, Fading, Graph, analyze, design, simulate
from tacit.base.report import (
    Grid,
    Row,
    Summary,
    counted,
    down,
    each,
    html,
    json_text,
    latex,
    near,
    result_row,
    some_rounds,
    text,
    typed,
    up,
)
from tacit.cli import output
from tacit.core.theory.graph_facts import graph_facts_of
from tacit.lab.simulation import measure
from tacit.live.ledger.ledger import Ledger
from tacit.live.ledger.overview import overview_of

SUMMARY = Summary(
    "50% & <more>", {"Part": [Row("a_1", "2", "x^2 {y}", "kW")], "Other": [Row("b", "3")]}, ("so: $5 #1",)
)


class Cells(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.said = []
        self.feed(page)

    def handle_data(self, data):
        self.said.append(data)


def rows(summary):
    return [row for section in summary.sections.values() for row in section]


@given(st.floats(1e-300, 1e300), st.integers(1, 12))
def test_a_promise_is_never_too_small_and_a_finding_never_too_large(value, digits):
    assert float(up(value, digits)) >= value * (1 - 1e-15)
    assert float(down(value, digits)) <= value * (1 + 1e-15)
    assert float(up(value, digits)) <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)


def test_other_numbers():
    assert (near(1234567.0), near(0.1234567), near(float("nan"))) == ("1,234,567", "0.123457", "-")
    assert (down(-2.0000004), down(0.0), down(0), down(1.9999999)) == ("-2.00001", "0", "0", "1.99999")
    assert (counted(1, "round"), counted(2000, "round")) == ("1 round", "2,000 rounds")
    assert (each([1.0, 2.0]), each(np.array([3.0, 3.0])), each(4)) == ("1 to 2", "3", "4")
    assert (typed(0.1 + 0.2), typed(2.0), typed(np.array([0.5, 0.25]))) == (
        "0.30000000000000004", "2", "0.25 to 0.5",
    )  # fmt: skip


def test_names_bring_no_markup():
    page, tex = html(SUMMARY), latex(SUMMARY)
    assert "<more>" not in page
    assert {"50% & <more>", "a_1", "2\u00a0kW", "x^2 {y}", "so: $5 #1"} <= set(Cells(page).said)
    assert r"50\% \& $<$more$>$" in tex
    assert r"a\_1 & 2~kW & x\textasciicircum{}2 \{y\} \\" in tex
    assert r"so: \$5 \#1" in tex


def test_text_keeps_sections_and_notes(capsys):
    output.print_summary(SUMMARY)
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "50% & <more>"
    assert "Part" in said
    assert "so: $5 #1" in said


ANSWERS = {
    "design": lambda: design(agents=500, epsilon=0.15, mixing=0.8),
    "vectors": lambda: design(agents=50, loss=1.0, low=0, high=10, components=3, rounds=9, tolerance=5),
    "one-shot": lambda: design(agents=50, epsilon=1.0, law="one-shot"),
    "constant": lambda: design(agents=50, epsilon=1.0, law="constant", rounds=30),
    "graph": lambda: design(graph="star:8", epsilon=1.0),
    "promise": lambda: analyze(ClientServer(Fading(0.8, 10, 0.6), agents=500), rounds=7),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_rendering_has_every_row(name, capsys):
    found = ANSWERS[name]()
    summary = found.summary("kW")
    output.print_summary(summary)
    text = " ".join(capsys.readouterr().out.split())
    page, tex = " ".join(Cells(html(summary)).said), latex(summary)
    for row in rows(summary):
        assert row.shown.replace("\u00a0", " ") in text
        assert row.shown in page
        assert row.value in tex
    for note in (*summary.notes, *summary.sections):
        assert note in page
    assert found._repr_html_() == html(found.summary())
    assert found._repr_latex_() == latex(found.summary())


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_shown_is_never_less_than_what_programs_read(name):
    found = ANSWERS[name]()
    exact, summary = found.as_dict(), found.summary()
    for section, row, key in [
        ("Privacy", "epsilon", "epsilon"), ("Privacy", "loss", "loss"), ("Accuracy", "radius", "radius"),
        ("Accuracy", "Chebyshev", "chebyshev_radius"),
    ]:  # fmt: skip
        assert exact[key] <= float(summary.row(section, row).value) <= exact[key] * (1 + 1e-5)
    if exact["components"] > 1:
        assert float(summary.row("Accuracy", "all components").value) >= exact["radius_all_components"]


def test_parameters_are_shown_in_full():
    found = design(agents=500, epsilon=0.15, mixing=0.8)
    shown = {row.name: row.value for row in found.summary().sections["Parameters"]}
    law = found.mechanism.law
    assert [float(shown[word]) for word in ("mixing", "noise", "decay")] == [law.sigma, law.c, law.q]
    assert "decay" not in {row.name for row in ANSWERS["one-shot"]().summary().sections["Parameters"]}


def test_json_has_no_numbers_that_are_none():
    assert json.loads(json_text({"a": np.inf, "b": np.array([1, 2]), "c": (np.float64(0.5),)})) == {
        "a": None, "b": [1, 2], "c": [0.5],
    }  # fmt: skip


def test_a_grid_renders_everywhere(capsys):
    grid = Grid("title", ("x", "ε"), [("1", "2")], ("note",), (1,))
    output.print_summary(grid)
    assert capsys.readouterr().out.split() == ["title", "x", "ε", "1", "2", "note"]
    assert Cells(html(grid)).said == ["title", "x", "ε", "1", "2", "note"]
    assert r"1 & 2 \\" in latex(grid)


def test_rows_need_no_numpy():
    code = "import sys, tacit.base.report; assert not {'numpy', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


RESULTS = {
    "simulated": lambda _: measured(),
    "graph": lambda _: graph_facts_of(Graph.load("karate"), name="karate"),
    "ledger": lambda folder: kept(folder / "a.ledger"),
}


def measured():
    mechanism, values = ClientServer(Fading(0.8, 10, 0.6), agents=5), np.arange(5.0)
    made = analyze(mechanism, rounds=6, spread=1.0)
    runs = simulate(mechanism, values, 6, runs=3, seed=1)
    return measure(runs, mechanism, values, made)


def kept(path):
    with Ledger(path) as ledger:
        ledger.reserve(b"s" * 32, "meter-7", planned=0.5, adjacency=2.0, diameter=2.0, cap=1.0)
        return overview_of(ledger, path)


@pytest.mark.parametrize("name", RESULTS)
def test_what_a_verb_prints_shows_itself_in_a_notebook(name, tmp_path):
    found = RESULTS[name](tmp_path)
    said = Cells(found._repr_html_()).said
    for row in rows(found.summary()):
        assert row.name in said
        assert row.shown in said
    assert set(found.summary().notes) <= set(said)
    assert json.loads(json_text(found.as_dict()))


def test_a_result_says_when_it_was_clamped():
    assert result_row("result", [1.0, 7.0], [1.0, 5.0], "mean") == (
        "result", "1, 5", "mean; clamped to the range", "",
    )  # fmt: skip
    assert result_row("result", [1.0] * 5, np.ones(5), "mean").value == "1, 1, 1, 1, …"
    assert result_row("result", [1.0], [1.0], "mean").meaning == "mean"


@pytest.mark.parametrize("width", [30, 40, 60, 100])
def test_a_table_that_is_too_wide_is_shown_in_parts(width):
    numbers = [f"{k}.{'123456789'}" for k in range(6)]
    table = Grid("", ("method", *"abcdef", "needs"), [("fading", *numbers, "a server of an operator")],
                 right=tuple(range(1, 7)))  # fmt: skip
    console = Console(width=width, file=io.StringIO())
    console.print(text(table))
    shown = console.file.getvalue()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for word in (*numbers, *"abcdef", "needs", "a", "server", "of", "an", "operator"):
        assert word in shown.split()
    assert (shown.count("fading") == 1) == (width == 100)


@pytest.mark.parametrize(("count", "words"), [(1, "one round"), (2, "2 rounds"), (12_000, "12,000 rounds")])
def test_rounds_in_words(count, words):
    assert some_rounds(count) == words
