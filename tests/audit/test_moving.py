"""The auditor knows motion: every planted mistake is caught, by name, and what is right passes."""

import numpy as np
import pytest

import tacit
from tacit.base.errors import ParameterError
from tacit.core.graph import Graph
from tacit.core.law import OneShot, Scheduled
from tacit.core.mechanism import ClientServer, Distributed
from tacit.core.motion import Linear
from tacit.lab.audit.moving import MOTION_BUGS, SimulatedMotion

TRUCK = Linear([[1, 0.25], [-0.25, 0.5]], [0, 0.25], [1, 0], private={0: 1.0})
LIVELY = Linear([[1, 0.25], [-1, 0.5]], [0, 1], [1, 0], private={1: 1.0})
ROUNDS = 12


def fresh(motion=TRUCK):
    return ClientServer(Scheduled.best(motion, 1.0, ROUNDS), agents=3)


def once(motion=TRUCK):
    return ClientServer(OneShot.best(motion, 1.0), agents=3)


@pytest.mark.parametrize(
    "mechanism",
    [
        fresh(),
        fresh(LIVELY),
        fresh(Linear(TRUCK.A, TRUCK.B, TRUCK.C, private={0: 1.0, 1: 0.5})),
        once(),
        once(LIVELY),
    ],
)
def test_what_keeps_its_promise_passes(mechanism):
    report = tacit.examine(mechanism, rounds=ROUNDS, transcripts=4000, seed=3)
    assert report.passed, report
    assert 0.1 * report.promised < report.measured <= report.promised


CAUGHT = {
    "half-noise": (fresh(), {"noise scale", "noise law"}),
    "off-by-one": (fresh(), {"noise scale"}),
    "redraw": (fresh(), {"one draw per update"}),
    "by-round": (fresh(), {"noise scale"}),
    "own-feedback": (fresh(), {"noise independence"}),
    "transposed": (fresh(LIVELY), {"noise independence"}),
    "clamped": (fresh(), {"noise independence"}),
    "measured-once": (once(), {"shadow follows"}),
}


@pytest.mark.parametrize("bug", CAUGHT)
def test_every_mistake_is_caught_by_name(bug):
    mechanism, expected = CAUGHT[bug]
    subject = SimulatedMotion(mechanism, bug)
    report = tacit.examine(subject, rounds=ROUNDS, transcripts=8000, seed=3)
    assert expected <= {finding.test for finding in report.alarms}, report
    assert report.subject == bug


def test_every_mistake_is_planted():
    assert set(CAUGHT) == set(MOTION_BUGS)


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(ParameterError, match="needs rounds"):
        tacit.examine(fresh())
    with pytest.raises(ParameterError, match="around a server"):
        tacit.examine(Distributed(fresh().law, Graph.from_edges([(0, 1), (1, 2)])), rounds=5)
    with pytest.raises(ParameterError, match="a bug must be one of"):
        SimulatedMotion(fresh(), "gremlins")
    assert np.isfinite(tacit.examine(fresh(), rounds=5, transcripts=400).measured)
