"""The audit of a series: every planted bug is caught by the test that is for it, and the right one passes."""

import numpy as np
import pytest

from tacit.base.errors import ParameterError
from tacit.cli.series import BUGS
from tacit.core.series import Hides, design_series
from tacit.lab.audit.series import SERIES_BUGS, SLOTS, SeriesTrial, challenges, examine_series

CAUGHT = {
    "backlog": {"loss: only the last slot used"},
    "resend": {"loss: a step"},
    "opened-twice": {"one opening per update"},
    "reused-draw": {"noise: reuse", "noise: from slot to slot"},
    "restart": {"loss: a step"},
    "rounded-reading": {"loss: readings up and down"},
    "half-noise": {"noise: size", "noise: law"},
    "held-reading": {"loss: a reading, then no readings"},
}


def made(hides="step:2", low=0.0, high=10.0, loss=1.0):
    kind = Hides.parse(hides).runs_with
    return design_series(
        SLOTS, hides, agents=10_000, low=low, high=high, keepers=1, loss=loss, mechanism=kind
    )


def test_the_command_line_names_every_bug():
    assert set(BUGS) == set(SERIES_BUGS) == set(CAUGHT)


@pytest.mark.parametrize("bug", CAUGHT)
def test_every_bug_is_caught(bug):
    hides = {"rounded-reading": "step:10", "held-reading": "reading"}.get(bug, "step:2")
    report = examine_series(made(hides), bug=bug, seed=1, seedable=True)
    assert CAUGHT[bug] <= {finding.test for finding in report.alarms}


@pytest.mark.parametrize("bug", [name for name, bug in SERIES_BUGS.items() if "window" in bug.where])
def test_bugs_of_a_series_that_hides_a_window_are_caught(bug):
    report = examine_series(made("window:3"), bug=bug, seed=1, seedable=True)
    caught = {"held-reading": {"loss: a window, then no readings"}, "resend": {"loss: a window"}}
    assert {**CAUGHT, **caught}[bug] <= {finding.test for finding in report.alarms}


@pytest.mark.parametrize("hides", ["step:0.3", "step:2", "step:10", "reading", "window:3", "window:48"])
def test_the_right_mechanism_passes(hides):
    report = examine_series(made(hides, low=-3, high=7), seed=1, seedable=True)
    assert report.passed
    assert 0.2 < report.measured < 1  # the test is strong enough to see most of what is there


def test_the_right_mechanism_passes_with_exact_noise():
    assert examine_series(made(), sessions=200).passed


def test_challenges_are_pairs_that_the_series_hides():
    for hides in ("step:0.3", "step:2", "step:10"):
        design = made(hides)
        for challenge in challenges(design):
            one, two = challenge.streams
            assert min(one.min(), two.min()) >= design.low
            assert max(one.max(), two.max()) <= design.high
            d = np.diff(two - one, prepend=0)
            assert np.abs(d).sum() <= design.hides.size * (1 + 1e-9)
    for hides, many in (("reading", 1), ("window:5", 5)):
        for challenge in challenges(made(hides)):
            one, two = challenge.streams
            assert np.array_equal(np.isnan(one), np.isnan(two))
            assert np.sum(np.nan_to_num(one - two) != 0) == many


def test_what_is_refused():
    laplace = design_series(SLOTS, "reading", agents=10_000, low=0, high=10, keepers=1)
    assert laplace.pure
    with pytest.raises(ParameterError, match="runs with independent noise"):
        examine_series(laplace)
    with pytest.raises(ParameterError, match="reading or a window"):
        examine_series(made(), bug="held-reading")
    with pytest.raises(ParameterError, match="hides a step"):
        examine_series(made("reading"), bug="restart")
    with pytest.raises(ParameterError):
        examine_series(made(), bug="habit")
    with pytest.raises(ParameterError):
        examine_series(made(), sessions=10)


def test_a_trial_without_a_seed_never_repeats():
    trial, challenge = SeriesTrial(made()), challenges(made())[0]
    one, two = (trial.run(challenge.streams[0], challenge.used, 2, [1]) for _ in range(2))
    assert not np.any(one.draws == two.draws)
