"""Design inverts analysis; what cannot be had says what would do, and that does."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Graph
from tacit.errors import Infeasible, ParameterError
from tacit.theory import accuracy
from tacit.theory.design import design
from tacit.theory.optimum import best_fading, price_of_smoothness
from tacit.theory.privacy import epsilon

STAR = Graph.from_name("star:8")


def test_the_best_decay_of_the_issue():
    answer = design(agents=500, epsilon=0.15, mixing=0.8)
    assert answer.answered == "accuracy"
    assert answer.mechanism.parameters.q == pytest.approx(0.2 ** (1 / 3))
    assert answer.promise.epsilon <= 0.15


@given(st.integers(1, 10**6), st.floats(0.01, 10), st.floats(0.05, 0.95), st.floats(0.001, 0.5))
@settings(max_examples=12, deadline=None)
def test_privacy_accuracy_and_size_invert_each_other(agents, eps, sigma, b):
    common = {"mixing": sigma, "failure_probability": b}
    radius = design(agents=agents, epsilon=eps, **common).promise.radius
    back = design(agents=agents, radius=radius, **common)
    assert back.answered == "privacy"
    assert back.promise.radius <= radius
    assert back.promise.epsilon == pytest.approx(eps, rel=1e-6)
    size = design(epsilon=eps, radius=radius * (1 + 1e-9), **common)
    assert size.answered == "size"
    assert size.promise.radius <= radius * (1 + 1e-9)
    assert size.mechanism.n == agents
    probability = design(agents=agents, epsilon=eps, radius=radius, mixing=sigma, failure_probability=None)
    assert probability.promise.failure_probability == pytest.approx(b, rel=1e-5)


def test_one_agent_less_would_not_do():
    answer = design(epsilon=1.0, radius=0.2, mixing=0.5)
    n = answer.mechanism.n
    assert accuracy.radius(answer.mechanism, 0.05) <= 0.2
    fewer = type(answer.mechanism)(best_fading(0.5, 1.0), agents=n - 1)
    assert accuracy.radius(fewer, 0.05) > 0.2


def test_all_given_answers_the_rounds_and_the_smoothest_motion():
    answer = design(agents=500, epsilon=0.15, radius=2.0)
    assert answer.answered == "rounds"
    assert answer.promise.rounds == 2  # 0.01² of the spread is within a thousandth
    assert answer.smoothest is not None
    assert design(agents=500, epsilon=0.15, radius=2.0, mixing=answer.smoothest).promise.radius <= 2.0
    with pytest.raises(Infeasible):
        design(agents=500, epsilon=0.15, radius=2.0, mixing=answer.smoothest - 0.002)


def test_fewer_rounds_cost_less_noise_for_the_same_privacy():
    endless = design(agents=10, epsilon=1.0, mixing=0.3)
    short = design(agents=10, epsilon=1.0, mixing=0.3, rounds=20)
    assert short.promise.horizon == short.promise.rounds == 20
    assert epsilon(short.mechanism.parameters, 20) <= 1.0 < epsilon(short.mechanism.parameters, 21)
    assert short.promise.radius < endless.promise.radius


@pytest.mark.parametrize(
    "question",
    [
        {"agents": 50, "epsilon": 0.15, "radius": 0.5, "mixing": 0.5},
        {"agents": 50, "epsilon": 0.15, "radius": 3.0, "mixing": 0.3},
        {"agents": 50, "epsilon": 0.15, "radius": 0.5},
        {"graph": STAR, "epsilon": 1.0, "radius": 0.3},
        {"agents": 50, "epsilon": 1.0, "rounds": 3, "mixing": 0.2},
        {"graph": Graph.from_name("ring:12"), "epsilon": 1.0, "rounds": 5, "mixing": 0.5},
        {"agents": 50, "epsilon": 0.15, "radius": 0.0},
    ],
)
def test_what_has_to_give_is_enough_when_given(question):
    with pytest.raises(Infeasible) as caught:
        design(**question)
    assert caught.value.gives
    assert "would do" in str(caught.value)
    for name, value in caught.value.gives.items():
        answer = design(**{**question, name: value})
        assert answer.promise.radius <= {**question, name: value}.get("radius", math.inf)


def test_one_shot_noise_is_named_where_it_would_do():
    with pytest.raises(Infeasible, match="So would one-shot noise, with radius"):
        design(agents=500, epsilon=0.15, radius=1.0, mixing=0.3)


def test_zero_radius_says_why_not():
    for question in ({"agents": 5, "epsilon": 1.0}, {"epsilon": 1.0}, {"agents": 5}):
        with pytest.raises(Infeasible, match="no private mechanism of this kind reaches the exact average"):
            design(radius=0.0, **question)


def test_one_shot_is_the_baseline():
    answer = design(agents=10_000, epsilon=0.5, mixing=0.8)
    assert answer.baseline.epsilon <= 0.5
    assert answer.baseline.variance == pytest.approx(2 / (0.25 * 10_000))
    assert answer.advantage == pytest.approx(price_of_smoothness(0.8), rel=1e-3)
    assert "1.5 times smaller" in answer.notes()[0]


def test_the_true_average_on_a_graph():
    weighted = design(graph=STAR, epsilon=1.0, mixing=0.9)
    assert weighted.promise.target == "weighted"
    assert any("weighted average" in note for note in weighted.notes())
    average = design(graph=STAR, epsilon=1.0, mixing=0.9, true_average=True)
    assert average.promise.target == "average"
    assert np.max(average.mechanism.parameters.sigma) == pytest.approx(0.9)
    assert average.baseline.variance == pytest.approx(2 / 8)
    server = design(agents=3, epsilon=1.0, mixing=[0.2, 0.5, 0.9], true_average=True)
    assert server.promise.target == "average"


def test_each_agent_keeps_its_own_dynamics():
    answer = design(agents=3, epsilon=1.0, mixing=[0.2, 0.5, 0.9])
    assert answer.mechanism.parameters.sigma == pytest.approx([0.2, 0.5, 0.9])
    assert answer.promise.epsilon == pytest.approx(1.0)


def test_loss_is_epsilon_times_adjacency():
    by_loss = design(agents=100, loss=1.0, adjacency=10.0, mixing=0.8)
    by_epsilon = design(agents=100, epsilon=0.1, adjacency=10.0, mixing=0.8)
    assert by_loss.promise.loss == pytest.approx(1.0)
    assert by_loss.promise.radius == pytest.approx(by_epsilon.promise.radius)


def test_answers_can_be_written_as_json():
    for answer in (design(agents=5, epsilon=1.0), design(graph=STAR, epsilon=1.0, true_average=True)):
        facts = json.loads(json.dumps(answer.as_dict()))
        assert facts["feasible"] is True
        assert {
            "epsilon",
            "loss",
            "radius",
            "radius_chebyshev",
            "variance",
            "rate",
            "rounds",
            "target",
        } <= set(facts)
        assert {"mixing", "noise", "decay", "one_shot", "advantage"} <= set(facts)


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"agents": 5}, "at least two of privacy"),
        ({"agents": 5, "graph": STAR, "epsilon": 1.0}, "not both"),
        ({"agents": 5, "epsilon": 1.0, "loss": 1.0}, "not both"),
        ({"agents": 5, "epsilon": -1.0}, "epsilon must be a positive number, got -1.0"),
        ({"agents": 5, "epsilon": math.nan}, "epsilon must be a positive number"),
        ({"agents": 5, "epsilon": 1.0, "radius": -1.0}, "radius must be a number of at least 0"),
        ({"agents": 5, "epsilon": 1.0, "rounds": 0}, "rounds must be at least 1"),
        ({"agents": 5, "epsilon": 1.0, "tolerance": 0.0}, "tolerance must be a positive number"),
        ({"agents": 5, "epsilon": 1.0, "adjacency": 0.0}, "adjacency must be a positive number"),
        ({"agents": 5, "epsilon": 1.0, "mixing": 1.0}, r"mixing \(sigma\) must be in \(0, 1\)"),
        (
            {"agents": 5, "epsilon": 1.0, "failure_probability": 1.0},
            r"failure probability must be in \(0, 1\)",
        ),
        ({"agents": 5, "epsilon": 1.0, "failure_probability": None}, "give epsilon, radius and a size"),
        ({"agents": 0, "epsilon": 1.0}, "agents must be a whole number of at least 1"),
    ],
)
def test_questions_that_make_no_sense(question, sentence):
    with pytest.raises(ParameterError, match=sentence):
        design(**question)
