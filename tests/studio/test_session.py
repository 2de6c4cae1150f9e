"""A session to watch: what is drawn is what happened."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tacit.base.errors import InputError
from tacit.cli.values import read_values
from tacit.core.noise import SimulatedNoise
from tacit.core.theory import accuracy, privacy
from tacit.lab.audit.beliefs import ADVERSARIES as ALL
from tacit.lab.audit.beliefs import belief
from tacit.studio import charts_watch
from tacit.studio.form import Form
from tacit.studio.watched_run import ADVERSARIES, Watching, agents_named, edges, perform, places, scene

ROUND = Form(find="accuracy", agents="12", high="10", unit="kW", budget="4", mixing="0.3", rounds="15")
ROUND = Form(**{**vars(ROUND), "tolerance": "1"})
NET = Form(find="accuracy", place="graph", graph="karate", high="10", budget="30", mixing="0.5")


@pytest.fixture(scope="module")
def played():
    return perform(ROUND, 7)


def test_the_session_is_that_of_the_seed(played):
    mechanism = played.plan.design.mechanism
    values = read_values("uniform:0:10", 12, 7)
    noise = SimulatedNoise(7).draw(mechanism.law, 15, 12)
    np.testing.assert_array_equal(played.history.theta, mechanism.execute(values, noise).theta)
    assert played.target == pytest.approx(values.mean())
    np.testing.assert_allclose(played.average, played.history.theta.mean(axis=1))
    assert perform(ROUND, 8).target != played.target


def test_the_loss_is_that_of_the_rounds_so_far(played):
    parameters = played.plan.design.mechanism.law
    assert len(played.spent) == 16
    for t in (0, 1, 15):
        assert played.spent[t] == pytest.approx(10 * privacy.epsilon(parameters, t), rel=1e-12)
    assert played.spent[-1] <= played.plan.design.promise.loss <= 4


def test_the_fan_is_the_exact_radius(played):
    mechanism = played.plan.design.mechanism
    assert played.fan.failure_probability == (0.5, 0.05)
    assert played.fan.radius[1, -1] == pytest.approx(accuracy.radius(mechanism, 0.05, 15), rel=2e-3)
    drawn = {series["name"]: series for series in charts_watch.trajectories(played, 4, 0)["series"]}
    floor, band = (
        np.array(drawn[name]["data"]) for name in ("95% of runs end here floor", "95% of runs end here")
    )
    np.testing.assert_allclose(floor[:, 1] + band[:, 1], played.target + played.fan.radius[1], rtol=1e-4)
    np.testing.assert_allclose(floor[:, 1], played.target - played.fan.radius[1], atol=1e-4)


def test_only_the_past_is_drawn(played):
    for t in (0, 4, 15):
        series = {one["name"]: one["data"] for one in charts_watch.trajectories(played, t, 3)["series"]}
        assert len(series["agent 0"]) == len(series["average of all"]) == t + 1
        assert series["chosen agent"][t][1] == pytest.approx(played.history.theta[t, 3], rel=1e-5)
        assert len(charts_watch.spent(played, t)["series"][0]["data"]) == t + 1
    json.dumps(charts_watch.trajectories(played, 15, 0), allow_nan=False)


def test_agents_are_coloured_by_their_distance_from_the_target(played):
    nodes = charts_watch.network(played, 0, 2)["series"][0]["data"]
    assert len(nodes) == 13  # and the server
    assert len(edges(played)) == 12
    start = played.history.theta[0] - played.target
    farthest = nodes[int(np.argmax(np.abs(start)))]["itemStyle"]["color"]
    assert farthest == ("#d55e00" if start[np.argmax(np.abs(start))] > 0 else "#0072b2")
    assert charts_watch._colour(0.0) == "#cdd0d4"
    assert nodes[2]["itemStyle"]["borderWidth"] > nodes[3]["itemStyle"]["borderWidth"]


def test_a_graph_is_drawn_where_it_lies():
    session = perform(NET, 1)
    assert len(edges(session)) == 78
    assert session.places.shape == (34, 2)
    assert places("grid:4x5", 20).shape == (20, 2)
    assert places("karate", 34) is places("karate", 34)  # worked out once
    assert places(None, 5000) is None


@pytest.mark.parametrize("adversary", [name for name in ADVERSARIES if name != "conspirators"])
def test_the_belief_is_the_auditors(played, adversary):
    made = scene(Watching(ROUND, "7", "0", adversary, "1-3, 5"))
    told = (1, 2, 3, 5) if adversary in ("compromised", "insiders") else ()
    truth = belief(made.session.history, 0, prior=(0, 10), adversary=adversary, compromised=told, points=161)
    np.testing.assert_array_equal(made.belief.density, truth.density)
    options = charts_watch.density(made.belief, made.session, 9)
    now = next(series for series in options["series"] if series["name"] == "now")
    np.testing.assert_allclose(np.array(now["data"])[:, 1], truth.density[9], rtol=1e-5)
    start = made.session.history.theta[0, 0]
    assert now["markLine"]["data"][0]["xAxis"] == pytest.approx(start, rel=1e-5)
    band = charts_watch.interval(made.belief, made.session, 9)["series"][1]["data"]
    assert len(band) == 10
    assert band[9][1] == pytest.approx(truth.high[9] - truth.low[9], rel=1e-4)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_an_eavesdropper_with_and_without_keepers(played, adversary):
    """Whoever thinks, beside it stands what an eavesdropper would believe without keepers."""
    form = replace(ROUND, keepers="2")
    made = scene(Watching(form, "7", "0", adversary, "1-3, 5"))
    assert made.wrong == {}
    history = made.session.history
    assert (history.mechanism.keepers, made.belief.adversary) == (2, adversary)
    assert history.theta[0, 0] == played.history.theta[0, 0]  # the same made-up values
    alone = belief(played.history, 0, prior=(0, 10), points=161)
    np.testing.assert_array_equal(made.without.density, alone.density)
    options = charts_watch.density(made.belief, made.session, 15, made.without)
    drawn = {series["name"]: series["data"] for series in options["series"]}
    np.testing.assert_allclose(np.array(drawn["without keepers"])[:, 1], alone.density[-1], rtol=1e-5)
    np.testing.assert_allclose(np.array(drawn["with keepers"])[:, 1], made.belief.density[-1], rtol=1e-5)
    json.dumps(charts_watch.network(made.session, 3, 0), allow_nan=False)


def test_every_adversary_of_the_auditor_can_be_chosen():
    assert set(ADVERSARIES) == set(ALL)


@pytest.mark.parametrize(
    ("asked", "field", "says"),
    [
        (Watching(ROUND, seed="x"), "seed", "not a whole number"),
        (Watching(ROUND, agent="99"), "agent", "0 to 11"),
        (Watching(ROUND, agent="-1"), "agent", "whole number"),
        (Watching(ROUND, agent="2", adversary="compromised"), "compromised", "must not be compromised"),
        (Watching(ROUND, adversary="insiders", compromised=""), "compromised", "must be named"),
        (Watching(ROUND, adversary="insiders", compromised="a"), "compromised", "whole number"),
        (Watching(NET, adversary="server"), "adversary", "no server on a graph"),
        (Watching(ROUND, adversary="conspirators"), "adversary", "no keepers"),
        (Watching(Form(radius="x")), "", "not a finite number"),
        (Watching(Form(radius="0")), "", "exact average"),
        (Watching(Form(agents="5000")), "", "tacit simulate"),
    ],
)
def test_what_cannot_be_watched_is_said_at_its_field(asked, field, says):
    made = scene(asked)
    assert says in made.wrong[field]
    assert made.belief is None


def test_numbers_of_agents():
    assert agents_named("1, 2 5-7,") == (1, 2, 5, 6, 7)
    assert agents_named("") == ()
    with pytest.raises(InputError, match="too many"):
        agents_named("0-99999999")
