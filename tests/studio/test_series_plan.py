"""The page promises of a series what the command promises, in every digit."""

import contextlib
import io
import json
import math
import shlex
from dataclasses import replace

import pytest
from click.testing import CliRunner

from tacit.base.errors import InputError
from tacit.base.rounding import shown_up
from tacit.cli import main
from tacit.studio import charts
from tacit.studio.form import SERIES_EXAMPLE as STEP
from tacit.studio.form import from_query
from tacit.studio.planned_series import PART
from tacit.studio.planning import form_of, plan

FORMS = {
    "step": STEP,
    "reading": replace(STEP, hides="reading", slots="96", every="60"),
    "window": replace(
        STEP, hides="window", size="96", slots="1,000", keepers="1", budget="0.5", delta="1e-9"
    ),
    "own noise": replace(STEP, keepers="0", agents="1e6", low="-5", high="5.5", unit=""),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_command_and_the_python_lines_give_the_numbers_of_the_page(name):
    found = plan(FORMS[name])
    done = CliRunner().invoke(main, [*shlex.split(found.command)[1:], "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert found.summary.row("Each mean", "deviation").value == shown_up(answer["deviation"])
    assert found.summary.row("Whole series", "loss").value == shown_up(answer["loss"])
    assert shown_up(answer["deviation"], 4) in found.headline
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found.python, {})
    assert list(map(float, printed.getvalue().split()[-2:])) == [answer["deviation"], answer["loss"]]


@pytest.mark.parametrize("name", FORMS)
def test_a_series_survives_the_address_of_a_page(name):
    form = FORMS[name]
    assert PART.read(form_of(form.query())) == PART.read(form)
    assert form_of(form.query(), STEP).used() == form.used()


def test_a_form_keeps_what_it_has_when_it_is_asked_about_another_time():
    once = replace(STEP, when="once", ask="count")
    assert form_of(once.query(), STEP).when == "once"
    assert "slots" not in once.query()
    assert not {"ask", "radius", "probability", "find"} & set(STEP.query())
    assert plan(replace(once, when="series")).series == plan(STEP).series
    with pytest.raises(InputError, match="under Plan"):
        from_query(STEP.query())  # what Compare and Watch read


@pytest.mark.parametrize("query", [{"nonsense": "1"}, {"hides": "all"}, {"keepers": "9"}, {"slots": "-1"}])
def test_an_address_that_cannot_be_used_is_refused(query):
    with pytest.raises(InputError):
        form_of(query, STEP)


def test_what_cannot_be_had_says_what_could():
    found = plan(replace(STEP, hides="window", size="35040", agents="300"))
    assert "standard deviation" in found.refusal
    assert {way.words.split()[0] for way in found.ways} == {"privacy", "agents"}
    for way in found.ways:
        assert plan(way.form).series is not None, way.words
    keepers = plan(replace(STEP, hides="window", size="96", keepers="0")).ways[0]
    assert keepers.words == "trust one of two keepers"
    assert plan(keepers.form).series is not None


def test_the_words_name_how_long_and_what():
    found = plan(FORMS["step"])
    assert "one every 15 minutes for 365 days" in found.plain
    assert "a lasting change of an agent's readings by up to 2\u00a0kW" in found.plain
    assert "a day of 24 slots" in plan(replace(STEP, every="60")).summary.notes[0]


def test_the_chart_has_every_mechanism_and_the_answer():
    found = plan(FORMS["step"])
    options = charts.over_slots(found.slots, found.series.mechanism, 35_040, "kW")
    names = options["legend"]["data"]
    assert names[0] == "square root (chosen)"
    assert len(names) == 4
    at = next(series for series in options["series"] if series["name"] == "asked")["data"][0]
    assert at[0] == 35_040
    assert math.isclose(at[1], found.series.deviation, rel_tol=1e-4)
    json.dumps(options, allow_nan=False)


@pytest.mark.parametrize("name", ["slots", "every", "size", "agents", "low", "high", "budget", "delta"])
def test_no_field_can_break_the_page(name):
    for text in ("-1", "0", "1e308", "-1e308", "1e-320", "", "nan", "x", "9" * 5000):
        found = plan(
            replace(STEP, slots="50", **{name: text}) if name != "slots" else replace(STEP, slots=text)
        )
        assert found.series is not None or found.refusal or all(found.wrong.values())
        assert all(len(sentence) < 200 for sentence in found.wrong.values())
