"""Fields as people type them, and the question they ask."""

from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tacit.base.errors import InputError
from tacit.cli import main
from tacit.studio.compare import two_forms, two_forms_query, with_more_agents
from tacit.studio.form import EXAMPLE, FieldErrors, Form, failure, from_query, number, read, whole
from tacit.studio.panel import SCALES
from tacit.studio.scales import STEP, STEPS, Scale


def test_numbers_as_people_write_them():
    assert number("1,000") == 1000
    assert number(" 0.2 ") == 0.2
    assert whole("1,000,000") == whole("1e6") == whole("1_000_000") == 10**6
    assert failure("95") == 0.05
    assert failure("99.9") == 0.001


@pytest.mark.parametrize("text", ["", "abc", "nan", "inf", "1e999", "0,2", "1,00"])
def test_what_is_no_number_gets_the_sentence_of_the_command_line(text):
    with pytest.raises(FieldErrors) as refused:
        read(Form(radius=text))
    said = refused.value.fields["radius"]
    printed = CliRunner().invoke(main, ["design", "--agents", "10", "--radius", text]).output
    assert said in printed


@pytest.mark.parametrize("text", ["", "many", "0", "-3", "1.5", "1e30"])
def test_what_is_no_number_of_agents_gets_the_sentence_of_the_command_line(text):
    with pytest.raises(FieldErrors) as refused:
        read(Form(agents=text))
    said = refused.value.fields["agents"]
    printed = CliRunner().invoke(main, ["design", "--agents", text, "--radius", "1"]).output
    if text != "1e30":  # shown as it was typed there
        assert said in printed
    assert "whole number" in said


def test_every_bad_field_is_named_at_once():
    with pytest.raises(FieldErrors) as refused:
        read(Form(agents="x", low="y", probability="z", mixing="w"))
    assert set(refused.value.fields) == {"agents", "low", "probability", "mixing"}


def test_a_range_goes_up():
    with pytest.raises(FieldErrors, match="low < high"):
        read(Form(low="3", high="3"))


def test_only_what_the_question_needs_is_asked():
    base, known = {"low": "0", "high": "10"}, {"low": 0.0, "high": 10.0}
    assert read(Form(find="privacy", **base)).given() == {
        "agents": 500,
        "radius": 5.0,
        "low": 0.0,
        "high": 10.0,
    }
    assert read(Form(find="accuracy", **base)).given() == {
        "agents": 500,
        "loss": 1.0,
        "low": 0.0,
        "high": 10.0,
    }
    assert read(Form(find="size", **base)).given() == {"radius": 5.0, "loss": 1.0, **known}
    graph = read(Form(place="graph", graph="karate", privacy="epsilon", find="all", **base)).given()
    assert graph["graph"] == "karate"
    assert graph["true_average"] is True
    assert graph["epsilon"] == 1.0
    narrow = read(Form(adjacency="1", **base)).given()
    assert narrow == {"agents": 500, "radius": 5.0, "low": 0.0, "high": 10.0, "adjacency": 1.0}


@pytest.mark.parametrize(
    "form",
    [
        EXAMPLE,
        Form(unit="kW & more", average=False, place="graph", graph="karate"),
        Form(find="size", budget="0.2", privacy="epsilon", keepers="3"),
        Form(find="all", rounds="9", mixing="0.5", adjacency="1", tolerance="3", components="2"),
    ],
)
def test_a_question_survives_the_address_of_a_page(form):
    """What counts is written whole, so that a link means the same whatever the defaults become."""
    query = form.query()
    assert read(from_query(query)) == read(form)
    assert set(query) == {name for name in form.used() if getattr(form, name) != ""}
    assert from_query(query).query() == query


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"nonsense": "1"}, "no field 'nonsense'"),
        ({"find": "gold"}, "find must be one of privacy, accuracy, size, all, got 'gold'"),
        ({"place": "moon"}, "place must be"),
        ({"average": "maybe"}, "average must be"),
        ({"keepers": "99"}, "keepers must be"),
        ({"agents": "-1"}, "agents: -1 is not a whole number"),
        ({"radius": "x" * 900}, "is not a finite number"),
        ({"low": "9", "high": "1"}, "low < high"),
    ],
)
def test_an_address_that_cannot_be_used_gets_one_short_sentence(query, says):
    with pytest.raises(InputError) as refused:
        from_query(query)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 200


def test_two_settings_survive_the_address_of_a_page():
    first = Form(agents="1,000", high="10", radius="0.2", rounds="5", tolerance="9")
    for second in (
        with_more_agents(first),
        replace(first, find="accuracy", budget="0.5"),
        replace(first, rounds="", tolerance=""),
        replace(first, place="graph", graph="karate"),
        first,
    ):
        query = two_forms_query(first, second)
        assert [read(form) for form in two_forms(query)] == [read(first), read(second)]
    assert {k for k in two_forms_query(first, with_more_agents(first)) if k[:2] == "b-"} == {"b-agents"}


@given(st.integers(0, STEPS), st.booleans())
def test_a_slider_is_where_its_number_is(position, log):
    scale = Scale(0.05, 0.99, log=log, digits=6)
    value = float(scale.text(position))
    assert 0.05 <= value <= 0.99
    assert scale.position(value) == position


@given(st.integers(0, STEPS))
def test_a_slider_of_agents_has_whole_numbers_of_few_digits(position):
    text = Scale(2, 1_000_000, whole=True, digits=2).text(position)
    assert 2 <= int(text) <= 1_000_000
    assert len(text.rstrip("0")) <= 2


@pytest.mark.parametrize("name", SCALES)
def test_an_arrow_key_always_changes_the_number(name):
    numbers = [float(SCALES[name].text(position)) for position in range(0, STEPS + 1, STEP)]
    least = 7 if name in ("agents", "slots") else 1  # from two to three takes several keys
    assert all(later > earlier for earlier, later in zip(numbers, numbers[least:], strict=False))


def test_what_is_beyond_a_slider_is_at_its_end():
    scale = Scale(1, 10)
    assert (scale.position(-5), scale.position(100)) == (0, STEPS)
