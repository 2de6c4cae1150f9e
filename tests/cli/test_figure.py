"""`tacit figure`: numbers, files, and what is never overwritten."""

import os
from xml.etree import ElementTree

import numpy as np
import pytest

FIGURES = {
    "tradeoff": ("--agents", 5, "--decay", "0.4,0.7"),
    "radius": ("--agents", "5,50", "--epsilon", "0.1,1"),
    "trajectories": ("--agents", 4, "--rounds", 3),
    "belief": ("--agents", 4, "--rounds", 3),
}
COLUMNS = {
    "tradeoff": {"decay", "epsilon", "radius", "chebyshev_radius"},
    "radius": {"agents", "epsilon", "radius", "one_shot", "chebyshev_radius"},
    "trajectories": {"round", "deviation", "spread", "radius_0.5", "radius_0.05"},
    "belief": {"round", "mean", "low", "high", "learned", "promised", "epsilon"},
}


def test_the_table_of_the_paper(answer):
    found = answer("figure", "tradeoff", "--decay", "0.25,0.6,0.95")
    facts = {name: found[name] for name in ("agents", "mixing", "noise", "failure_probability")}
    assert facts == {"agents": 500, "mixing": 0.8, "noise": 10.0, "failure_probability": 0.5}
    table = {name: np.array(column) for name, column in found["table"].items()}
    q = table["decay"]
    assert q.tolist() == [0.25, 0.6, 0.95]
    assert table["epsilon"] == pytest.approx(q / (10 * (q - 0.2)))
    assert table["chebyshev_radius"] == pytest.approx(10 * np.sqrt(2 * 0.64 / 500 / (0.5 * (1 - q**2))))
    assert table["radius"][1] == pytest.approx(0.426457, abs=1e-6)
    assert (table["radius"] < table["chebyshev_radius"] / 2).all()


def test_the_default_table_is_even(answer):
    assert answer("figure", "tradeoff")["table"]["decay"] == [round(0.25 + 0.05 * k, 2) for k in range(15)]


@pytest.mark.parametrize("name", FIGURES)
def test_json_has_the_table_and_draws_nothing(answer, tmp_path, name):
    found = answer("figure", name, *FIGURES[name])
    assert found["figure"] == name
    assert set(found["table"]) == COLUMNS[name]
    assert len({len(column) for column in found["table"].values()}) == 1
    assert found["file"] is None
    assert os.listdir(tmp_path) == []


DRAWN = {"radius", "graph", "loss"}  # with a number, a session, and many sessions; tests/plots has all


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (n not in DRAWN)) for n in FIGURES]
)
def test_svg_is_well_formed(run, tmp_path, name):
    assert f"Drawn: {name}.svg" in run("figure", name, *FIGURES[name]).output
    drawn = (tmp_path / f"{name}.svg").read_bytes()
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
    assert b"dc:date" not in drawn


def test_the_same_figure_is_the_same_bytes_every_time(run, tmp_path):
    for out in ("a.svg", "b.svg"):  # of a simulated session; of the library tests/plots shows it
        run("figure", "trajectories", *FIGURES["trajectories"], "--out", out)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG\r\n"), ("pdf", b"%PDF-"), ("SVG", b"<?xml")])
def test_the_suffix_decides_the_format(run, tmp_path, suffix, magic):
    run("figure", "radius", *FIGURES["radius"], "--out", f"a.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes().startswith(magic)
    assert os.listdir(tmp_path) == [f"a.{suffix}"]


def test_table_and_picture_together(run, tmp_path):
    text = run("figure", "radius", *FIGURES["radius"], "--table", "--out", "a.svg").output
    assert "chebyshev radius" in text
    assert text.endswith("Drawn: a.svg\n")
    assert (tmp_path / "a.svg").exists()


def test_shown_promises_round_up(run, answer):
    words = ("figure", "tradeoff", "--decay", "0.35,0.65")
    found = answer(*words)["table"]
    rows = [line.split() for line in run(*words, "--table").output.splitlines()[1:]]
    for place, row in enumerate(rows):
        for name, cell in zip(("decay", "epsilon", "radius", "chebyshev_radius"), row, strict=True):
            assert float(cell) >= found[name][place]


def test_an_existing_picture_is_kept(run, tmp_path):
    (tmp_path / "radius.svg").write_text("mine")
    assert "exists already" in run("figure", "radius", code=2).stderr
    assert (tmp_path / "radius.svg").read_text() == "mine"


def test_a_picture_that_cannot_be_finished_leaves_nothing(run, tmp_path, monkeypatch):
    from tacit.lab.plots import style

    def half(_figure, file):
        file.write_text("<svg")
        raise KeyboardInterrupt

    monkeypatch.setattr(style, "save", half)
    (tmp_path / "radius.svg").write_text("mine")
    run("figure", "radius", *FIGURES["radius"], "--force", code=130)
    assert (tmp_path / "radius.svg").read_text() == "mine"
    assert os.listdir(tmp_path) == ["radius.svg"]


def test_trajectories_on_a_graph(answer):
    found = answer("figure", "trajectories", "--graph", "karate", "--rounds", 2)
    assert found["agents"] == 34
    assert found["table"]["round"] == [0, 1, 2]
    assert found["table"]["deviation"][0] == 0
    assert found["table"]["radius_0.5"][0] == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("tradeoff", "--out", "a.jpg"), "written as .svg, .png, .pdf, got 'a.jpg'"),
        (("tradeoff", "--out", "nowhere/a.svg"), "there is no directory nowhere"),
        (("tradeoff", "--table", "--mixing", 2), "mixing (sigma) must be in (0, 1), got 2.0"),
        (("tradeoff", "--table", "--decay", 0.1), "decay must be in (1 - mixing, 1)"),
        (("tradeoff", "--table", "--failure-probability", 1), "must be in (0, 1)"),
        (("radius", "--table", "--epsilon", "1,-1"), "epsilon must be positive numbers"),
        (("radius", "--table", "--agents", "0"), "0 is not a whole number"),
        (("trajectories", "--table", "--values", "nowhere"), "nowhere: No such file"),
        (("trajectories", "--table", "--epsilon", 0), "epsilon must be a positive number"),
        (("belief", "--table", "--agents", 3, "--agent", 3), "agent must be a number from 0 to 2"),
        (("belief", "--table", "--agents", 3, "--range", "1"), "'1' is not a range like 0:10"),
        (("belief", "--table", "--agents", 3, "--range", "2:1"), "in rising order"),
        (("belief", "--table", "--graph", "ring:5", "--adversary", "server"), "no server on a graph"),
        (("belief", "--table", "--agents", 3, "--compromised", "1"), "leave them out"),
        (("belief", "--table", "--agents", 3, "--adversary", "conspirators"), "no keepers"),
        (("belief", "--table", "--graph", "ring:5", "--keepers", 2), "keepers need a server"),
    ],
)
def test_mistakes(run, words, sentence):
    assert sentence in " ".join(run("figure", *words, code=2).stderr.split())


def test_vectors_have_no_trajectories(run, tmp_path):
    (tmp_path / "vectors.csv").write_text("1,2\n3,4\n")
    words = ("--agents", 2, "--values", "vectors.csv", "--table")
    assert "values that are numbers" in run("figure", "trajectories", *words, code=2).stderr


def test_a_belief_knows_the_range_of_made_up_values_and_asks_for_that_of_a_file(run, answer, tmp_path):
    found = answer("figure", "belief", *FIGURES["belief"], "--values", "uniform:2:6")
    assert (found["table"]["mean"][0], found["table"]["low"][0]) == pytest.approx((4, 2.1))
    (tmp_path / "values.csv").write_text("3.21\n4\n")
    words = ("figure", "belief", "--agents", 2, "--values", "values.csv", "--rounds", 2)
    message = run(*words, "--table", code=2).stderr
    assert "give --range" in message
    assert "3.21" not in message
    assert answer(*words, "--range", "0:10")["table"]["mean"][0] == pytest.approx(5)


def test_the_compromised_are_named(answer):
    words = ("figure", "belief", *FIGURES["belief"])
    alone = answer(*words)
    helped = answer(*words, "--adversary", "compromised", "--compromised", "1,2")
    assert helped["adversary"] == "compromised"
    assert helped["table"] == alone["table"]


def test_a_belief_of_conspirators_is_drawn(run, tmp_path):
    out = tmp_path / "belief.svg"
    run("figure", "belief", *FIGURES["belief"], "--keepers", 2, "--adversary", "conspirators", "--out", out)
    assert "All others and all keepers but one" in out.read_text()


def test_the_choice_of_adversaries_is_the_librarys():
    from tacit.cli import figure_sessions
    from tacit.lab.audit import ADVERSARIES

    assert figure_sessions.ADVERSARIES == ADVERSARIES


def test_widths_are_the_librarys():
    from tacit.cli import drawing
    from tacit.lab.plots import sheets

    assert drawing.COLUMNS == tuple(sheets.COLUMNS)


def test_a_figure_has_the_width_asked_for(run, tmp_path):
    for width, points in (("one-column", 252), ("4.5", 324)):
        run("figure", "radius", *FIGURES["radius"], "--width", width, "--out", "a.svg", "--force")
        svg = ElementTree.parse(tmp_path / "a.svg").getroot()
        assert float(svg.get("width").removesuffix("pt")) == pytest.approx(points)
    for wrong in ("three-columns", "0.5", "-1"):
        text = run("figure", "radius", "--width", wrong, "--out", "b.svg", code=2).output
        assert "Traceback" not in text
        assert not (tmp_path / "b.svg").exists()


def test_the_figures_are_those_in_the_help(run):
    from tacit.cli.figure import command

    assert set(command.commands) == set(FIGURES)
    text = run("figure", "--help").output
    assert all(f"  {name} " in text for name in FIGURES)
