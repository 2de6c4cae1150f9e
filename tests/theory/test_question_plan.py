"""A plan with a question: range, adjacency and components follow from it."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import binom

from tacit import ClientServer, Fading, OneShot, Plan, analyze, design
from tacit.base.errors import Infeasible, ParameterError
from tacit.cli import main
from tacit.core.question import Count, GroupBy, Histogram, Mean, Own, Quantile, Several, Sum, Variance
from tacit.core.theory.mean_noise import ComponentNoise
from tacit.lab.simulation import simulate

TWENTY = Histogram(range(21))
FALSE_ALARM = 1e-6


def test_a_design_has_the_reference_numbers():
    """N = 1000, loss 1, probability .05, two keepers that draw once."""
    for question, radius, every in (
        (Sum(0, 10), 41.130033, 41.130033),
        (Count(), 4.1130033, 4.1130033),
        (TWENTY, 8.2260066, 15.0566642),
    ):
        found = design(agents=1000, keepers=2, loss=1, question=question).promise
        assert found.loss <= 1
        assert found.answer.radius == pytest.approx(radius, rel=2e-7)
        assert found.answer.radius_all_parts == pytest.approx(every, rel=2e-7)
        assert found.adjacency == question.adjacency
        assert found.components == question.components
    alone = design(agents=1000, loss=1, question=TWENTY).promise
    assert 1000 * alone.variance**0.5 == pytest.approx(89.4427, abs=5e-5)


def test_a_mean_is_its_range_alone():
    asked = Plan(agents=10, loss=1, question=Mean(0, 10, 3))
    assert asked == Plan(agents=10, loss=1, low=0, high=10, components=3)
    assert Plan(question="mean:0:10", adjacency=2).scope.adjacency == 2
    assert Plan(low=0, high=2).asked == Mean(0, 2)
    mechanism = ClientServer(OneShot(0.5, 1.0), agents=10)
    assert analyze(mechanism, question=Mean(0, 10)) == analyze(mechanism, low=0, high=10)


def test_a_radius_is_in_the_unit_of_the_answer():
    found = design(agents=1000, keepers=2, radius=5, question="count")
    assert found.promise.loss == pytest.approx(4.1130033 / 5, rel=1e-6)
    assert found.promise.answer.radius <= 5 * (1 + 1e-12)
    with pytest.raises(Infeasible) as refused:
        design(agents=1000, keepers=2, radius=5, loss=0.5, question="count")
    radius = next(way["radius"] for way in refused.value.alternatives if "radius" in way)
    assert radius == pytest.approx(8.227, abs=1e-3)
    assert design(agents=1000, keepers=2, radius=radius, loss=0.5, question="count")


def test_a_plan_keeps_its_question_when_it_is_asked_again():
    asked = Plan(agents=10, loss=1, question="histogram:0,1,2")
    assert asked.question == Histogram([0.0, 1.0, 2.0])
    assert Plan(**asked.given()) == asked
    assert hash(Plan(**asked.given())) == hash(asked)
    assert asked.span == (0.0, 1.0)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"question": "histogram:2,1"}, "question"),
        ({"question": "mode"}, "question"),
        ({"question": 3}, "question"),
        ({"question": Count(), "low": 0, "high": 1}, "low"),
        ({"question": Count(), "components": 2}, "components"),
        ({"question": Count(), "spread": 1}, "spread"),
        ({"question": Count(), "adjacency": 0.5}, "adjacency"),
        ({"question": Count(), "law": "fading"}, "law"),
        ({"question": Variance(0, 1), "law": "constant"}, "law"),
    ],
)
def test_what_a_question_excludes_is_refused_at_its_field(given, field):
    with pytest.raises(ParameterError) as refused:
        Plan(**given)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"agents": 9, "radius": 1, "question": Variance(0, 1)}, "radius"),
        ({"agents": 9, "radius": 1, "question": Quantile([0, 1])}, "radius"),
        ({"loss": 1, "radius": 1, "question": Count()}, "agents"),
        ({"graph": "star:5", "loss": 1, "question": Count(), "weights": "closed"}, "weights"),
    ],
)
def test_a_design_that_makes_no_sense_is_refused_at_its_field(given, field):
    with pytest.raises(ParameterError) as refused:
        design(**given)
    assert refused.value.field == field


def test_fading_noise_is_for_numbers_that_move():
    mechanism = ClientServer(Fading(0.8, 10, 0.6), agents=5)
    with pytest.raises(ParameterError, match="drawn once"):
        analyze(mechanism, question=Count())
    with pytest.raises(ParameterError, match="any change of a record"):
        analyze(ClientServer(OneShot(0.8, 1.0), agents=5), question=Count(), adjacency=3)
    assert analyze(mechanism, question=Sum(0, 10)).answer.radius > 0
    assert design(agents=5, loss=1, mixing=0.5, question=Sum(0, 10)).mechanism.law.name == "fading"
    assert design(agents=5, loss=1, mixing=0.5, question=Count()).mechanism.law.name == "one-shot"


def test_a_graph_reaches_the_mean_vector():
    found = design(graph="karate", loss=1, question=TWENTY)
    assert found.promise.target == "average"
    assert found.mechanism.topology.name == "metropolis"
    after = design(graph="karate", loss=1, question=TWENTY, rounds=60, tolerance=2)
    assert after.promise.answer.radius >= after.promise.average_radius * 34


@pytest.mark.parametrize("rounds", [4, 12])
def test_intervals_after_some_rounds_are_those_of_every_agent(rounds):
    """On a graph each agent decodes its own vector; the worst start has all of one kind at one end."""
    asked = Plan(graph="ring:8", question=Count(), mixing=0.9, noise=1, law="one-shot")
    mechanism = asked.mechanism()
    law = ComponentNoise.of(mechanism, rounds, 1.0)
    records = np.array([1.0] * 4 + [0.0] * 4)
    last = simulate(mechanism, records, rounds, runs=400, seed=3).theta.isel(round=-1).values
    for agent in range(8):
        parts = [Count().decode([x], 8, law, 0.05).parts[0] for x in last[:, agent].tolist()]
        misses = sum(not part.low <= 4 <= part.high for part in parts)
        assert misses <= binom.isf(FALSE_ALARM, 400, 0.05)
    assert law.radius(0.05) > ComponentNoise.of(mechanism, rounds).radius(0.05)
    both = law.radius(0.05, (1.0, -1.0))
    assert both < 2 * law.radius(0.025)
    assert both > law.radius(0.05)


@pytest.mark.parametrize(
    "question",
    [
        Quantile(range(11), [0.25, 0.5]),
        Variance(0, 10),
        GroupBy(["a", "b"], Variance(0, 10)),
        Several([Count(), Mean(0, 10)]),
        Own(lambda x: [x], [0], 1, answer=lambda mean: mean[0]),
        Histogram(range(40)),
    ],
)
def test_every_question_has_a_table_and_a_dictionary(question):
    found = design(agents=1000, keepers=2, loss=1, question=question)
    assert question.kind in str(found)
    told = json.loads(json.dumps(found.as_dict()))
    assert [part["name"] for part in told["answer"]["parts"]] == [
        p.name for p in found.promise.answer.each.parts
    ]
    for part, wider in zip(told["answer"]["parts"], told["answer"]["together"], strict=True):
        if part["low"] is not None:
            assert wider["low"] <= part["low"] <= part["estimate"] <= part["high"] <= wider["high"]


def test_the_command_line_takes_a_question():
    run = CliRunner().invoke
    text = "design --agents 1000 --keepers 2 --loss 1 --ask histogram:0,1,2,5,10 --json"
    told = run(main, text.split())
    assert told.exit_code == 0
    found = json.loads(told.output)
    assert found["question"] == "histogram:0,1,2,5,10"
    assert found["answer"]["radius"] == pytest.approx(8.2260066, abs=5e-7)
    text = "analyze --agents 1000 --keepers 2 --mixing 0.5 --noise 1 --ask count --json"
    assert json.loads(run(main, text.split()).output)["answer"]["radius"] == pytest.approx(
        4.1130033, abs=5e-7
    )
    for wrong in ("histogram:2,1", "mode", "quantile:0,1:2", "weighted-mean:0:1:0", "histogram:a,a"):
        refused = run(main, ["design", "--agents", "9", "--loss", "1", "--ask", wrong])
        assert refused.exit_code == 2
        assert "Traceback" not in refused.output
