"""Smart meters: a real grid, a year of means, and what an eavesdropper learns of one household."""

import math
from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("pandapower") is None:  # to import it takes a second, in every worker
    pytest.skip("pandapower is in the extra `examples`", allow_module_level=True)


@pytest.fixture(scope="module")
def metered(ran):
    return ran("smart_meters")


def test_the_curves_are_as_good_as_promised(metered):
    for kind, agents in (("series", 177), ("town", 1506)):
        found = metered.found[kind]
        assert found["deviation"] == pytest.approx(math.sqrt(2) * 0.0371531 * 1000 / agents, rel=1e-5)
        assert 0 < found["error"] < 3 * found["deviation"]
    assert metered.picture.exists()


def test_the_same_accuracy_costs_repeated_sessions_a_hundred_times_the_loss(metered):
    assert metered.found["series"]["loss"] == 1
    assert metered.found["repeated"]["deviation"] == metered.found["series"]["deviation"]
    assert metered.found["repeated"]["loss"] > 50
    assert metered.row("privacy loss") == ["inf", "97.9", "1", "1"]


def test_an_eavesdropper_is_sure_of_repeated_sessions_and_learns_little_of_the_series(metered):
    assert metered.found["naive"]["week"] == 100
    assert metered.found["repeated"]["year"] > 99.9
    assert 25 < metered.found["series"]["year"] < 75
    assert "13.3 times as far: not hidden" in metered.text


def test_beliefs_are_right_as_often_as_the_promise_allows(metered):
    """At even odds, μ-Gaussian privacy lets the best guess be right with probability Φ(μ/2) at most."""
    meters = metered.module
    made = meters.planned(177)
    moved = meters.APPLIANCE * meters.decoding_filter(meters.YEAR)[:: meters.YEAR // 400]
    right = np.mean([meters.beliefs(moved, made.noise_deviation, seed)[-1] > 0.5 for seed in range(2000)])
    assert right < 0.547 + 5 * math.sqrt(0.25 / 2000)


def test_the_power_flow_follows_the_mean(metered):
    truth, found = metered.found["truth"], metered.found["series"]
    drawn = 100 * truth["mean"] * 177 / 400  # % of 400 kVA, before losses and reactive power
    assert drawn < truth["loading"] < 1.13 * drawn
    assert found["loading"] == pytest.approx(truth["loading"] * found["mean"] / truth["mean"], rel=0.03)
    assert 85 < found["voltage"] < 100


def test_the_grid_is_the_town_s(metered):
    assert metered.module.town().load.bus.nunique() == 1506
