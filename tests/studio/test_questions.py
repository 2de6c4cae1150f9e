"""Plan and Watch with a question: what the page says is what the library says."""

import json
import shlex
from functools import cache

import pytest
from click.testing import CliRunner

from tacit.base.errors import InputError
from tacit.cli import main
from tacit.core.question import Count, Histogram, Mean
from tacit.studio import charts, planning
from tacit.studio.form import ASKS, Form, from_query, read
from tacit.studio.planned_once import sketch
from tacit.studio.watched_run import Watching, scene

plan = cache(planning.plan)
FORMS = {
    "sum": Form(find="accuracy", ask="sum", high="10", unit="kW", keepers="2"),
    "count": Form(ask="count", radius="5", agents="1,000", keepers="2"),
    "histogram": Form(find="accuracy", ask="histogram", agents="1,000", keepers="2"),
    "quantile": Form(find="accuracy", ask="quantile", agents="1,000", keepers="2"),
    "variance": Form(find="accuracy", ask="variance", high="10", keepers="2"),
    "word": Form(find="accuracy", ask="word", domain="group-by:a,b:count", place="graph", graph="ring:9"),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_command_gives_the_intervals_of_the_page(name):
    found = plan(FORMS[name])
    assert found.wrong == {}
    done = CliRunner().invoke(main, [*shlex.split(found.command)[1:], "--json"])
    told = json.loads(done.stdout)
    assert told["answer"] == json.loads(json.dumps(found.design.promise.answer.as_dict()))
    assert told["loss"] == found.design.promise.loss


def test_every_question_can_be_asked():
    assert set(FORMS) | {"mean"} == set(ASKS)
    assert read(Form()).asked == Mean(0, 100)
    assert read(FORMS["count"]).question == Count()
    assert read(Form(ask="histogram", domain="red , green")).question == Histogram(["red", "green"])


def test_words_and_curve_are_in_the_unit_of_the_answer():
    found = plan(FORMS["histogram"])
    assert found.headline == "Within 8.227\u00a0records"
    assert "All 4 parts at once are within 11.43" in found.plain
    assert found.curve.point == pytest.approx((1, 8.226), rel=1e-3)
    assert sketch(FORMS["histogram"]).point[1] == pytest.approx(8.226, rel=1e-3)
    assert charts.tradeoff({"": found.curve})["yAxis"]["name"].startswith("answer within")
    assert plan(FORMS["variance"]).curve is None  # no single radius


def test_the_chart_has_an_interval_for_each_part_and_for_all():
    answer = plan(FORMS["histogram"]).design.promise.answer
    drawn = charts.intervals(answer, "records")
    assert drawn["xAxis"]["data"] == ["0 to 1", "1 to 2", "2 to 5", "5 to 10"]
    _, each, _, every = (series["data"] for series in drawn["series"])
    assert each == pytest.approx([2 * 8.2260066] * 4)
    assert every == pytest.approx([2 * 11.42525] * 4, rel=1e-5)
    assert [len(series["data"]) for series in charts.intervals(None, "")["series"]] == [0] * 4


@pytest.mark.parametrize(
    ("form", "field"),
    [
        (Form(ask="histogram", domain="2, 1"), "domain"),
        (Form(ask="word", domain="mode"), "domain"),
        (Form(ask="sum", low="3", high="1"), "high"),
        (Form(ask="sum", low="x"), "low"),
        (Form(ask="variance"), "radius"),  # how private for a radius: it has none
        (Form(ask="count", find="size"), ""),  # the number of agents is not among the fields
        (Form(find="accuracy", ask="count", rounds="x"), "rounds"),
    ],
)
def test_bad_input_is_refused_at_its_field(form, field):
    assert set(plan(form).wrong) == {field}


def test_a_link_keeps_its_question():
    form = FORMS["histogram"]
    assert from_query(form.query()).query() == form.query()
    assert {"low", "high", "components", "adjacency"}.isdisjoint(form.query())
    with pytest.raises(InputError):
        from_query({"ask": "mode"})


@pytest.mark.parametrize("name", ["histogram", "variance", "word"])
def test_watch_has_a_simulated_answer(name):
    found = scene(Watching(FORMS[name]))
    assert found.wrong == {}
    answer, truth = found.session.answers
    assert answer.records == truth.records == found.session.agents
    assert all(part.low <= part.estimate <= part.high for part in answer.parts)
    assert found.session.history.theta.shape[-1] == found.session.agents
    assert found.belief is not None
    assert scene(Watching(Form(agents="20"))).session.answers is None


def test_the_first_part_of_a_simulated_answer_is_that_of_the_played_states():
    session = scene(Watching(FORMS["histogram"])).session
    answer, _ = session.answers
    assert answer.parts[0].estimate == pytest.approx(session.agents * float(session.average[-1]))
