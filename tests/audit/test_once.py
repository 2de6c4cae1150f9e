"""The audit of bits and staircase noise: sound agents pass, and every planted fault is caught."""

import pytest
from click.testing import CliRunner

from tacit import ClientServer, Count
from tacit.base.errors import LawError, ParameterError
from tacit.cli import audit, main
from tacit.core.law import Bits, Staircase
from tacit.lab.audit import examine, loss_law
from tacit.lab.audit.once import PLANTED, examine_once

BITS = ClientServer(Bits.best_of(0.5, loss=1.0, low=0.0, domain=10.0), agents=3)
STAIRS = ClientServer(Staircase.best_of(0.5, loss=2.0, low=0.0, domain=10.0), agents=3)
HOW = {"transcripts": 4000, "failure_probability": 1e-6, "seed": 1}


@pytest.mark.parametrize("mechanism", [BITS, STAIRS], ids=["bits", "staircase"])
def test_what_is_deployed_passes_and_most_of_its_loss_is_seen(mechanism):
    found = examine(mechanism, **HOW)
    assert found.passed, found.alarms
    assert found.promised == pytest.approx(mechanism.law.whole_loss)
    assert 0.7 * found.promised < found.measured <= found.promised


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ("rounded-down", "distance"),
        ("float-probability", "probability"),
        ("reused-draw", "fresh draws at the low end"),
    ],
)
def test_a_planted_fault_is_caught_by_its_test(fault, test):
    alarms = [finding.test for finding in examine_once(BITS, planted=fault, **HOW).alarms]
    assert test in alarms


def test_a_reused_draw_of_staircase_noise_is_caught():
    alarms = [finding.test for finding in examine_once(STAIRS, planted="reused-draw", **HOW).alarms]
    assert alarms == ["fresh draws at the low end", "fresh draws at the high end"]


def test_the_command_line_has_the_same_faults():
    assert set(audit.ONCE_BUGS) == set(PLANTED)
    run = CliRunner().invoke(main, ["audit", "--broken", "rounded-down", "--sessions", "400"])
    assert run.exit_code == 1
    assert "distance" in run.output
    words = ["--agents", "3", "--mixing", "0.5", "--noise", "10", "--decay", "0.9", "--broken", "reused-draw"]
    assert CliRunner().invoke(main, ["audit", *words]).exit_code == 2


def test_what_is_for_laplace_noise_is_refused():
    with pytest.raises(LawError):
        loss_law(BITS.law, 1, 10.0)
    with pytest.raises(ParameterError):
        examine(BITS, distance=1.0, **HOW)
    with pytest.raises(ParameterError):
        examine(BITS, question=Count(), **HOW)
    with pytest.raises(ParameterError):
        examine_once(BITS, planted="nothing", **HOW)
