"""Constant noise is an ordinary law everywhere.

In loss, radius, simulation, lattice, audit, sessions and command line.
"""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from tests.doubles import Harness, ScriptedNoise, known_session

import tacit
from tacit import ClientServer, Constant, Distributed, Fading, Graph, Linear, OneShot
from tacit.base.errors import LawError, ParameterError
from tacit.cli import main
from tacit.core.mechanism.lattice import Lattice
from tacit.core.noise import SimulatedNoise
from tacit.core.noise.accounting import account
from tacit.core.noise.approximate import epsilon_delta
from tacit.core.protocol.roster import Member
from tacit.core.theory import accuracy, convergence, privacy
from tacit.core.theory.plan import Plan
from tacit.core.theory.promise import analyze
from tacit.lab.audit import examine
from tacit.lab.simulation.engine import simulate
from tacit.lab.simulation.oracle import reference
from tacit.lab.simulation.record import Record
from tacit.live.identity.identity import provision
from tacit.live.identity.roster import Roster
from tacit.live.sessions.design import draft

LAW = Constant(0.8, 10)
SERVER = ClientServer(LAW, agents=5)
GRAPH = Distributed(Constant([0.5, 0.6, 0.7, 0.4, 0.5], 2.0), Graph.from_name("ring:5"))
SLACK = 0.025  # five standard deviations of a share of 0.1 in 4,000 runs
VALUES = np.array([0.1, 0.9, 0.4, 0.75, 0.2])


def test_its_loss_is_finite_even_for_an_endless_run():
    assert privacy.epsilon(LAW) == 0.125
    assert privacy.epsilon(LAW, 3) == pytest.approx((1 + 0.2 + 0.04) / 10, rel=1e-15)
    assert privacy.epsilon(LAW, 5000) == pytest.approx(0.125, rel=1e-14)
    # the limit of ever slower decay
    assert privacy.epsilon(Fading(0.8, 10, 1 - 1e-12), 50) == pytest.approx(
        privacy.epsilon(LAW, 50), rel=1e-9
    )
    assert privacy.rounds_within(LAW, 0.125) is None
    assert privacy.rounds_within(LAW, 0.121) == 2
    assert epsilon_delta(LAW, None, 1.0, 1e-6) <= 0.125
    least = Constant.best(0.8, 0.3, 4)
    assert privacy.epsilon(least, 4) <= 0.3 < privacy.epsilon(least, 4) * (1 + 1e-12)


def test_its_radius_grows_with_the_rounds_and_has_no_end():
    one, many = accuracy.variance(SERVER, 1), accuracy.variance(SERVER, 100)
    assert many == pytest.approx(100 * one)
    assert one == pytest.approx(2 * 0.8**2 * 10**2 / 5)
    with pytest.raises(LawError, match="no radius over an endless run"):
        accuracy.radius(SERVER, 0.05)
    with pytest.raises(LawError, match="agents never agree"):
        convergence.rounds_to_agreement(GRAPH, 0.1, 1.0)
    assert convergence.rate(GRAPH) == 1
    assert convergence.rate(SERVER) == pytest.approx(0.2)


@pytest.mark.parametrize("mechanism", [SERVER, GRAPH], ids=["server", "graph"])
def test_the_engine_does_what_the_reference_does(mechanism):
    fast = simulate(mechanism, VALUES, 8, runs=2, seed=3, record=Record(everything=True))
    slow = reference(mechanism, VALUES, SimulatedNoise(3).draw(mechanism.law, 8, 5, run=1))
    np.testing.assert_allclose(fast["theta"].values[1], slow.theta, rtol=1e-12)
    assert (fast.attrs["law"], "decay" in fast) == ("constant", False)


@pytest.mark.parametrize("mechanism", [SERVER, GRAPH], ids=["server", "graph"])
def test_what_is_promised_holds_for_what_is_simulated(mechanism):
    """Fixed seed."""
    made = analyze(mechanism, rounds=8, spread=1.0, failure_probability=0.1)
    end = simulate(mechanism, VALUES, 8, runs=4000, seed=5)["theta"].values[:, -1]
    off = np.abs(end - accuracy.target(mechanism, VALUES)).max(axis=1)
    assert np.mean(off > made.radius) <= 0.1 + SLACK
    assert np.mean(np.ptp(end, axis=1) > made.disagreement) <= 0.1 + SLACK
    assert np.var(end @ accuracy.weights(mechanism)) == pytest.approx(made.variance, rel=0.2)


def test_on_the_lattice_it_costs_what_theory_says():
    lattice = Lattice.fitting(LAW, 50, 0, 1)
    assert account(lattice.agent(LAW), 50).total == pytest.approx(0.125, rel=1e-9)


def test_the_auditor_examines_it():
    report = examine(SERVER, rounds=4, transcripts=600, failure_probability=1e-6)
    assert report.passed, report


@pytest.mark.parametrize("graph", [None, "ring:4"])
def test_a_session_runs(graph):
    session = known_session(4, 3, graph=graph, law="constant")
    assert session.decay is None
    assert type(session).decode(session.encode()).id == session.id
    harness = Harness(session, [0.2, 0.4, 0.6, 0.8], ScriptedNoise(np.arange(12).reshape(3, 4) * 1000))
    harness.start()
    assert harness.run()


def invoke(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def test_the_command_line_has_it():
    given = ("--agents", 5, "--mixing", 0.8, "--noise", 10, "--law", "constant", "--rounds", 6, "--json")
    made = json.loads(invoke("analyze", *given).stdout)
    assert (made["law"], made["decay"]) == ("constant", None)
    assert made["epsilon"] == pytest.approx(privacy.epsilon(LAW, 6))
    ran = json.loads(invoke("simulate", *given, "--runs", 5).stdout)
    assert ran
    once = json.loads(invoke("analyze", *given[:-5], "--law", "one-shot", "--json").stdout)
    assert once["law"] == "one-shot"
    assert "no decay" in invoke("analyze", *given, "--decay", 0.5, code=2).stderr
    assert "endless run" in invoke("analyze", *given[:-3], code=2).stderr
    assert "must be one of fading" in invoke("analyze", *given[:6], "--law", "loud", code=2).stderr


def test_it_is_a_noun_of_the_package():
    assert tacit.Constant is Constant
    assert Constant(0.5, 1) == Constant(0.5, 1.0) != Constant(0.5, 2)
    assert hash(Constant(0.5, [1, 2])) == hash(Constant(0.5, [1.0, 2.0]))
    assert Constant(0.5, 1) != Fading(0.5, 1, 0.9)


def test_a_session_can_be_drafted_with_it(tmp_path):
    keys = provision(tmp_path, ["coordinator", "a", "b", "c"])
    roster = Roster(
        tuple(Member(name, keys[name].public_key) for name in "abc"), keys["coordinator"].public_key
    )
    asked = {"low": 0.0, "high": 1.0, "loss": 1.0, "law": Constant}
    made = draft("s", roster, Plan(**asked, rounds=5, tolerance=0.5), anyway=True)
    assert (made.law, made.decay) == ("constant", None)
    assert made.promise().loss <= 1.0
    with pytest.raises(LawError, match="Give a number of rounds"):
        draft("s", roster, Plan(**asked))


@pytest.mark.parametrize("moves", [0.5, Linear([[0.5]], [0.5], [1], private={0: 1.0})])
def test_noise_once_needs_a_loss(moves):
    for epsilon in (0, -1.0, float("nan")):
        with pytest.raises(ParameterError, match="epsilon must be a positive number"):
            OneShot.best(moves, epsilon)
