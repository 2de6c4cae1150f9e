"""One question: its fields are checked once, for every interface."""

import inspect
import subprocess
import sys
from dataclasses import dataclass, fields

import numpy as np
import pytest

from tacit import Constant, Fading, Graph, OneShot, Plan, analyze, design
from tacit.base.errors import LawError, ParameterError
from tacit.cli import main
from tacit.core.law import Law
from tacit.core.theory.plan import KINDS, asked
from tacit.studio.form import _TYPED_IN, Form

VERBS = {
    "analyze": ("analyze",), "audit": ("audit",), "design": ("design",), "simulate": ("simulate",),
    "session": ("session", "new"),
}  # fmt: skip


def command(words):
    found = main
    for word in words:
        found = found.get_command(None, word)
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_every_field_of_a_verb_is_an_option(verb):
    options = {option.name for option in command(VERBS[verb]).params}
    range_of = {"low": "span", "high": "span"}  # one option for both
    assert {range_of.get(name, name) for name in Plan.names(verb)} <= options


def test_verbs_are_spelled_as_they_are():
    assert {verb for name in Plan.names() for verb in asked(name).verbs} == {*VERBS, "studio"}


def test_the_studio_has_a_text_for_each_of_its_fields():
    texts = {field.name for field in fields(Form)}
    for name in Plan.names("studio"):
        assert _TYPED_IN.get(name, name) in texts, f"add {name} to tacit.studio.form.Form and read it"


def test_python_takes_the_same_fields_with_the_same_defaults():
    ours = inspect.signature(Plan).parameters
    assert dict(inspect.signature(design).parameters) == dict(ours)
    rest = dict(list(inspect.signature(analyze).parameters.items())[1:])
    assert rest.pop("delta").default is None  # of Gaussian noise only
    assert set(rest) == set(Plan().promised())
    assert {name: rest[name].default for name in rest} == {name: ours[name].default for name in rest}


def test_every_field_says_what_it_is():
    for name in Plan.names():
        assert (
            asked(name)
            .help.rstrip("]")
            .rstrip()
            .endswith((".", "given", "fading", "adjacency", "1000", "closed"))
        )
        assert asked(name).kind in KINDS


BAD = {
    "number": ("x", float("inf"), True), "positive": (0, -1.0, float("nan"), "1"), "at least 0": (-1e-9,),
    "whole": (0, 2.5, True), "probability": (0, 1, 2.0), "per agent": (float("nan"), [0.5, "x"]),
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in Plan.names() if asked(n).kind in BAD])
def test_an_error_names_its_field(name):
    for value in BAD[asked(name).kind]:
        with pytest.raises(ParameterError) as refused:
            Plan(**{name: value})
        assert refused.value.field == name
        assert name.replace("_", " ") in str(refused.value)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"agents": 3, "graph": "karate"}, "graph"),
        ({"epsilon": 1.0, "loss": 1.0}, "loss"),
        ({"spread": 1.0, "low": 0.0, "high": 1.0}, "low"),
        ({"low": 0.0}, "high"),
        ({"low": 1.0, "high": 1.0}, "high"),
        ({"low": -1.7e308, "high": 1.7e308}, "high"),
    ],
)
def test_fields_that_exclude_each_other(given, field):
    with pytest.raises(ParameterError) as refused:
        Plan(**given)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"mixing": 0.5, "noise": 1, "decay": 0.8}, "agents"),
        ({"agents": 3, "mixing": 0.5, "noise": 1}, "decay"),
        ({"agents": 3, "mixing": 0.5, "noise": 1, "decay": 0.8, "law": "one-shot"}, "decay"),
        ({"agents": 3, "mixing": 2, "noise": 1, "decay": 0.8}, "mixing"),
        ({"agents": 3, "mixing": 0.5, "noise": 0, "decay": 0.8}, "noise"),
    ],
)
def test_a_mechanism_needs_just_the_parameters_of_its_law(given, field):
    with pytest.raises(ParameterError) as refused:
        Plan(**given).mechanism()
    assert refused.value.field == field


def test_the_mechanism_described():
    found = Plan(graph="ring:3", mixing=np.array([0.5, 0.6, 0.7]), noise=1, law="one-shot").mechanism()
    assert found.law == OneShot(np.array([0.5, 0.6, 0.7]), 1.0)
    assert found.graph.n == 3
    assert Plan(graph=Graph.from_name("ring:4"), mixing=0.5, noise=2, law=Constant).mechanism().n == 4
    assert Plan(agents=2, mixing=0.8, noise=10, decay=0.6).mechanism().law == Fading(0.8, 10, 0.6)


def test_defaults_that_depend_on_other_fields():
    assert Plan().scope == (1.0, 1.0, 0.001)
    assert Plan(adjacency=2).scope == (2.0, 2.0, 0.002)
    assert Plan(spread=5).scope == (1.0, 5.0, 0.005)
    assert Plan(low=0, high=10, components=3).scope == (30.0, 10.0, 0.01)
    assert Plan(low=0, high=10, adjacency=1, tolerance=2).scope == (1.0, 10.0, 2.0)


def test_what_was_given_asks_the_same_again():
    question = Plan(agents=3, mixing=[0.5, 0.6, 0.7], loss=1, low=0, high=2)
    assert Plan(**question.given()) == question
    assert hash(Plan(**question.given())) == hash(question)
    assert Plan().given() == {}


def test_a_design_finds_noise_and_decay():
    with pytest.raises(ParameterError, match="leave it out"):
        design(agents=3, epsilon=1, decay=0.8)


def test_a_law_without_a_best_noise_is_refused_by_the_missing_method():
    @dataclass(frozen=True, eq=False)
    class Harmonic(Law):
        name = "harmonic"

        def scale(self, u):
            return self.c / (u + 1)

    with pytest.raises(LawError, match="'harmonic' does not define best"):
        design(agents=3, epsilon=1, law=Harmonic)
    assert design(agents=3, epsilon=1, rounds=20, law="constant").mechanism.law.name == "constant"


def test_asking_needs_no_numbers():
    code = "import sys, tacit; tacit.Plan(agents=5, loss=1); assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"agent": 3},
            r"^design\(\) has no parameter 'agent'\. Did you mean 'agents'\? It has agents, graph, ",
        ),
        ({"zzz": 3}, r"^design\(\) has no parameter 'zzz'\. It has agents, graph, "),
    ],
)
def test_a_wrong_keyword_is_told_in_the_words_of_the_caller(given, words):
    with pytest.raises(TypeError, match=words) as told:
        design(epsilon=1, **given)
    assert "__init__" not in str(told.value)


def test_parameters_are_given_by_name():
    with pytest.raises(TypeError, match=r"^design\(\) takes parameters by name only, like design\(agents="):
        design(3)
