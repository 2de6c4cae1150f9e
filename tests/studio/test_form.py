"""Fields as people type them, and the question they ask."""

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tacit.cli import main
from tacit.studio.form import FieldErrors, Form, failure, number, read, whole
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


def test_a_form_survives_the_address_of_a_page():
    form = Form(agents="1,000", unit="kW & more", average=False, place="graph")
    assert Form.from_query(form.query()) == form
    assert Form.from_query({"nonsense": "1"}) == Form()
    assert Form().query() == {}


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
    least = 7 if name == "agents" else 1  # from two agents to three takes several keys
    assert all(later > earlier for earlier, later in zip(numbers, numbers[least:], strict=False))


def test_what_is_beyond_a_slider_is_at_its_end():
    scale = Scale(1, 10)
    assert (scale.position(-5), scale.position(100)) == (0, STEPS)
