"""The page promises what the command promises, in every digit, and says what has to give."""

import contextlib
import io
import json
import shlex
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner
from tests.doubles import known_key

from tacit import Plan
from tacit.base.report import near
from tacit.base.rounding import shown_up
from tacit.cli import main
from tacit.core.protocol.roster import Member
from tacit.live.identity.roster import Roster
from tacit.live.sessions.design import draft
from tacit.studio import charts, planning
from tacit.studio.compare import differences
from tacit.studio.form import Form
from tacit.studio.graphs import graph
from tacit.studio.plan_answer import steps
from tacit.studio.planned_once import sketch
from tacit.studio.words import percent, with_unit

plan = cache(planning.plan)
METERS = Form(agents="1,000", low="0", high="10", unit="kW", radius="0.2", probability="95")
FORMS = {
    "meters": METERS,
    "accuracy": Form(find="accuracy", agents="50", budget="0.7", mixing="0.5"),
    "size": Form(find="size", privacy="epsilon", budget="0.15", high="1", radius="0.5", mixing="0.8"),
    "all": Form(find="all", agents="500", high="1", budget="2", radius="0.5"),
    "graph": Form(find="accuracy", place="graph", graph="karate", high="1", budget="1"),
    "weighted": Form(place="graph", graph="star:9", average=False, low="-1", high="1", radius="0.4"),
    "rounds": Form(rounds="7", mixing="0.9", tolerance="0.5", probability="99"),
    "adjacency": Form(adjacency="3", privacy="epsilon", find="accuracy"),
    "keepers": replace(METERS, keepers="2"),
}


def command(words):
    done = CliRunner().invoke(main, [*shlex.split(words)[1:], "--json"])
    return done, json.loads(done.stdout)


@pytest.mark.parametrize("name", FORMS)
def test_the_command_gives_the_numbers_of_the_page(name):
    found = plan(FORMS[name])
    done, answer = command(found.command)
    assert done.exit_code == 0, done.output
    sections = dict(found.summary.sections)
    once = {line.name: line.value for line in sections.pop("One-shot", [])}
    shown = {line.name: line.value for lines in sections.values() for line in lines}
    for key, line in {
        "loss": "loss",
        "epsilon": "epsilon",
        "radius": "radius",
        "chebyshev_radius": "Chebyshev",
    }.items():
        assert shown[line] == shown_up(answer[key]), line
    assert once.get("radius", shown["radius"]) == shown_up(answer["one_shot"]["radius"])
    assert bool(once) == (answer["law"] != "one-shot")
    assert shown["rounds"] == f"{answer['rounds']:,}"
    assert found.design.notes() == answer["notes"]
    assert found.design.mechanism.n == answer["agents"]


@pytest.mark.parametrize("name", FORMS)
def test_the_python_lines_give_the_numbers_of_the_page(name):
    found = plan(FORMS[name])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found.python, {})
    loss, radius = map(float, printed.getvalue().split("\n")[-2].split())
    assert (loss, radius) == (found.design.promise.loss, found.design.promise.radius)
    assert repr(found.design.mechanism.law).split("(")[0] in printed.getvalue()


def test_a_new_users_question():
    found = plan(METERS)
    assert found.command == "tacit design --agents 1000 --radius 0.2 --range 0:10"
    assert found.headline == "Privacy loss 4.384"
    assert "within 0.2\u00a0kW of their true mean, with probability 95%" in found.plain
    assert "right at most 98.8% of the time" in found.plain
    assert found.plain.endswith("Protection: hardly any.")


def test_what_has_to_give_is_enough_when_given():
    found = plan(Form(find="all", agents="500", high="1", budget="0.15", radius="0.5", mixing="0.5"))
    done, answer = command(found.command)
    assert done.exit_code == 3
    assert found.refusal == answer["reason"]
    assert list(answer["gives"]) == ["radius", "loss", "failure_probability", "agents"]
    named = [way.words.rpartition(" ")[0] for way in found.ways]
    assert named == ["mean within ±", "privacy loss", "probability", "agents"]  # as the form names them
    for way in found.ways:
        assert plan(way.form).refusal == "", way.words
    assert found.curve.point is None
    assert found.curve.asked == (0.15, 0.5)


def test_too_few_rounds_can_give_too():
    found = plan(Form(rounds="1", mixing="0.5"))
    assert {way.words.split()[0] for way in found.ways} == {"rounds", "mixing"}
    for way in found.ways:
        assert not plan(way.form).refusal


@pytest.mark.parametrize(
    ("form", "field", "options"),
    [
        (Form(radius="-1"), "radius", "--agents 500 --radius -1 --adjacency 100"),
        (Form(mixing="2"), "mixing", "--agents 500 --radius 5 --adjacency 100 --mixing 2"),
        (Form(probability="100"), "probability", "--agents 500 --radius 5 --failure-probability 0"),
        (Form(find="size", budget="-1"), "budget", "--radius 5 --loss -1 --adjacency 100"),
        (Form(place="graph", graph="ring"), "graph", "--graph ring --radius 5"),
        (Form(place="graph", graph="blob:3"), "graph", "--graph blob:3 --radius 5"),
        (Form(tolerance="-1"), "tolerance", "--agents 500 --radius 5 --tolerance -1"),
        (Form(find="accuracy", budget="1e-320"), "", "--agents 500 --loss 1e-320 --adjacency 100"),
    ],
)
def test_bad_input_gets_the_sentence_of_the_command_line_at_its_field(form, field, options):
    found = plan(form)
    done = CliRunner().invoke(main, ["design", *options.split()])
    assert done.exit_code == 2
    assert done.output.strip() == f"Error: {found.wrong[field]}"
    assert (found.design, found.curve) == (None, None)


def test_a_radius_of_zero_is_refused_with_why():
    found = plan(Form(radius="0"))
    assert "exact average" in found.refusal
    assert sketch(Form(radius="0")) is None


@pytest.mark.parametrize(
    "name",
    ["ring:100000000", "complete:5000", "hypercube:18", "hypercube:99999", "grid:900x900", "erdos:20000:0.5",
     "geometric:20000:0.5", "regular:10000:900", "barabasi:20000:400:seed=3"],
)  # fmt: skip
def test_graphs_too_large_for_a_page_are_refused_before_they_are_built(name):
    assert "tacit design" in plan(Form(place="graph", graph=name)).wrong["graph"]


def test_graphs_that_a_page_waits_for():
    for name in ("complete:300", "hypercube:6", "torus:9x9", "erdos:200:0.1", "geometric:100:0.3", "karate"):
        assert graph(name).is_connected


@pytest.mark.parametrize(("field", "text"), [("rounds", "1e9"), ("mixing", "1e-9"), ("agents", "9e18")])
def test_what_would_take_too_long_is_refused_at_its_field(field, text):
    form = Form(**{field: text})
    assert "tacit design" in plan(form).wrong[field]
    assert sketch(form) is None


@pytest.mark.parametrize("name", FORMS)
def test_the_curve_goes_through_the_answer(name):
    found = plan(FORMS[name])
    loss, radius = found.curve.point
    assert (loss, radius) == (found.design.promise.loss, found.design.promise.radius)
    assert found.curve.radii(np.array([loss]))["this design"][0] == pytest.approx(radius, rel=1e-6)
    once = found.curve.radii(np.array([loss])).get("one-shot")  # none if it is the design itself
    assert (once is None) == found.design.drawn_once
    assert once is None or once[0] == pytest.approx(found.design.baseline.radius, rel=1e-6)
    assert steps(found.curve)[0] < loss < steps(found.curve)[-1]


def test_the_sketch_is_the_curve_of_the_answer_without_its_wait():
    for form in FORMS.values():
        if form.find != "size":
            assert sketch(form).designed == plan(form).curve.designed
            assert sketch(form).point == pytest.approx(plan(form).curve.point, rel=1e-6)
    assert sketch(FORMS["size"]) is None
    assert sketch(Form(radius="x")) is None


def test_a_chart_keeps_its_shape_so_that_an_update_is_a_merge():
    def shape(options):
        return [(series["type"], series["name"]) for series in options["series"]]

    empty, full = charts.tradeoff({"": None}), charts.tradeoff({"": plan(METERS).curve})
    assert shape(empty) == shape(full)
    infeasible = plan(Form(find="all", budget="0.01", radius="0.01"))
    refused = charts.tradeoff({"": infeasible.curve})
    assert shape(refused) == shape(full)
    found, asked = full["series"][-2:]
    assert found["data"] == [list(plan(METERS).curve.point)]
    assert asked["data"] == []
    assert refused["series"][-2]["data"] == []
    assert refused["series"][-1]["data"] == [[0.01, 0.01]]
    json.dumps(full, allow_nan=False)


def test_two_settings_side_by_side():
    rows = {
        row.name: row for row in differences(plan(METERS), plan(Form(**{**vars(METERS), "agents": "4000"})))
    }
    assert (rows["agents"].first, rows["agents"].second, rows["agents"].ratio) == ("1,000", "4,000", "× 4")
    assert rows["radius"].ratio == "same"
    assert rows["privacy loss"].ratio == "× 0.5"
    assert rows["with probability"].first == "95%"
    assert differences(plan(METERS), plan(Form(radius="x"))) == ()


def test_words_round_to_the_safe_side():
    assert percent(0.95) == "95%"
    assert percent(0.999999) == "99.9999%"
    assert near(1234567) == "1,234,567"
    assert with_unit("3", "") == "3"


BAD = ("-1", "0", "-1e308", "1e308", "1e-320", "", "nan", "x", "101")


@pytest.mark.parametrize("find", ["privacy", pytest.param("all", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "name",
    ["agents", "low", "high", "radius", "probability", "budget", "rounds", "mixing", "adjacency", "tolerance",
     "components"],
)  # fmt: skip
def test_no_field_can_break_the_page(find, name):
    """A field is answered, or refused in a sentence; what is drawn at once never raises."""
    for text in BAD if name == "probability" else BAD[:-1]:
        form = replace(Form(find=find, agents="20"), **{name: text})
        charts.tradeoff({"": sketch(form)})
        found = plan(form)
        charts.tradeoff({"": found.curve})
        assert found.design is not None or found.refusal or all(found.wrong.values())


@pytest.mark.parametrize(
    ("name", "text"),
    [("radius", "-1"), ("budget", "-1"), ("adjacency", "-1"), ("tolerance", "-1"), ("mixing", "-1"),
     ("rounds", "-1"), ("agents", "-1"), ("probability", "-1"), ("high", "-1"), ("components", "-1")],
)  # fmt: skip
def test_what_is_negative_is_refused_at_its_field(name, text):
    found = plan(replace(Form(find="all"), **{name: text}))
    assert list(found.wrong) == [name]
    assert "must be" in found.wrong[name] or "is not" in found.wrong[name]


@pytest.mark.parametrize("components", [3, 10])
def test_a_radius_for_one_component_and_for_all_is_that_of_a_session(components):
    asked = {"low": 0.0, "high": 50.0, "loss": 1.0, "mixing": 0.8, "rounds": 10, "components": components}
    form = Form(
        find="accuracy", agents="6", high="50", mixing="0.8", rounds="10", components=str(components),
        tolerance="50",
    )  # fmt: skip
    keys = [known_key(i).public_key().public_bytes_raw() for i in range(7)]
    roster = Roster(tuple(Member(f"agent-{i}", key) for i, key in enumerate(keys[:6])), keys[6])
    session = draft("s", roster, Plan(tolerance=50.0, **asked), expires=2**33, anyway=True).promise(0.05)
    found = plan(form)
    shown = {line.name: float(line.value) for line in found.summary.sections["Accuracy"][1:]}
    assert shown["radius"] == pytest.approx(session.theory.radius, rel=1e-5)
    assert shown["all components"] == pytest.approx(session.theory.radius_all_components, rel=1e-5)
    assert f"In all {components} components together" in found.plain
    assert "in any one component" in found.plain


def test_one_number_per_value_is_not_called_a_component():
    found = plan(METERS)
    assert "component" not in found.plain
    assert "all components" not in {line.name for line in found.summary.sections["Accuracy"]}


def test_a_wide_radius_is_warned_about():
    assert plan(METERS).warning == ""
    assert "the result is useless" in plan(Form(find="accuracy", agents="3")).warning


def test_the_hint_has_the_scale_of_the_page_about_privacy():
    from tacit.core.theory.advice import scale
    from tacit.studio.panel import _HINTS

    assert scale() in _HINTS["budget"]


def test_both_answers_about_trust_stand_side_by_side():
    for keepers in ("0", "2"):
        nobody, two = plan(replace(METERS, keepers=keepers)).trust
        assert (nobody.whom, two.whom) == ("Nobody", "One of two keepers")
        assert (nobody.headline, two.headline) == ("Privacy loss 4.384", "Privacy loss 0.2057")
        assert "at most 98.8% of the time" in nobody.words
        assert "at most 55.2% of the time" in two.words
        assert (nobody.asked, two.asked) == (keepers == "0", keepers == "2")


def test_keepers_are_only_asked_about_around_a_server():
    found = plan(Form(find="accuracy", place="graph", graph="karate", high="1", budget="1", keepers="2"))
    assert found.trust == ()
    assert found.question.keepers == 0
    assert "up to 3 keepers" in plan(replace(METERS, keepers="7")).wrong["keepers"]


def test_what_cannot_be_had_without_keepers_is_out_of_reach():
    asked = Form(find="all", agents="1000", high="10", budget="0.3", radius="0.2", keepers="2")
    nobody, two = plan(asked).trust
    assert (nobody.headline, two.headline) == ("Out of reach", "Possible")


@pytest.mark.parametrize("form", [METERS, Form(find="accuracy", agents="2", keepers="3")])
def test_no_note_stands_twice_on_the_page(form):
    """A warning and what is assumed of keepers stand above the numbers."""
    from tacit.core.theory.advice import keeper_warnings
    from tacit.studio.page_plan import _notes_below

    found = plan(form)
    above = [*([found.warning] if found.warning else []), *keeper_warnings(found.keepers)]
    assert sorted([*above, *_notes_below(found)]) == sorted(found.design.notes())


def test_how_far_one_dishonest_agent_can_move_the_result():
    """As in the numbers below; silent where it is not one number."""
    found = plan(METERS)
    assert found.liar == "One dishonest agent can move the result by at most 0.138\u00a0kW."
    assert found.summary.row("Accuracy", "one liar").value == "0.138"
    assert "26\u00a0kW" in plan(replace(METERS, keepers="2")).liar
    assert "records" in plan(Form(find="accuracy", ask="count", keepers="2")).liar
    assert plan(Form(find="accuracy", ask="quantile", keepers="2")).liar == ""
