"""The platoon: safe, in agreement, and told apart no better than promised."""

import numpy as np
import pytest
from scipy.stats import binom

from tacit.core.theory.accuracy import radius
from tacit.core.theory.answers import design


@pytest.fixture(scope="module")
def drove(ran):
    return ran("platoon")


@pytest.fixture(scope="module")
def mechanisms(drove):
    p = drove.module
    answer = design(agents=p.TRUCKS, loss=p.LOSS, adjacency=p.ADJACENCY, mixing=p.MIXING)
    return {"fading": answer.mechanism, "one-shot": answer.baseline.mechanism}


def test_the_loss_is_the_one_of_the_lemmas(drove, mechanisms):
    fading, one_shot = (mechanisms[name].law for name in ("fading", "one-shot"))
    lemma = fading.q / (fading.c * (fading.q + fading.sigma - 1))
    assert drove.found["fading"]["loss"] == pytest.approx(lemma * drove.module.ADJACENCY, rel=1e-12)
    assert drove.found["one-shot"]["loss"] == pytest.approx(1 / one_shot.c, rel=1e-12)
    assert drove.row("privacy loss") == ["inf", "1", "1"]


def test_without_noise_every_speed_and_position_is_known_exactly(drove):
    assert drove.found["naive"]["guessed"] == 0
    assert drove.found["naive"]["placed"] == 0


def test_with_noise_they_are_not(drove):
    for name in ("fading", "one-shot"):
        assert drove.found[name]["guessed"] > 0.5
        assert drove.found[name]["placed"] > 5


def test_the_trucks_agree_and_keep_their_distance(drove):
    for part in drove.found.values():
        assert part["spread"] < 0.01
        assert part["headway"] >= drove.module.HEADWAY
        assert part["brake"] < 4
    assert drove.picture.stat().st_size > 10_000


@pytest.mark.parametrize("name", ["fading", "one-shot"])
def test_the_radius_is_missed_as_often_as_promised(drove, mechanisms, name):
    mechanism, runs = mechanisms[name], 300
    promised = radius(mechanism, drove.module.FAILURE)
    assert drove.row("promised, m/s")[1:] == ["2.49", "0.44"]
    speed = np.linspace(drove.module.SLOWEST, drove.module.FASTEST, mechanism.n)
    ends = [drove.module.agree(mechanism, speed, seed).theta[-1].mean() for seed in range(runs)]
    missed = np.sum(np.abs(np.array(ends) - speed.mean()) > promised)
    # two-sided, a false alarm has probability 1e-6
    assert binom.ppf(5e-7, runs, 0.05) <= missed <= binom.isf(5e-7, runs, 0.05)


def test_whoever_knows_the_first_speeds_can_follow_the_trucks(drove, mechanisms):
    p, mechanism = drove.module, mechanisms["one-shot"]
    speed, position = np.linspace(21, 27, mechanism.n), -80.0 * np.arange(1, mechanism.n + 1)
    run = p.agree(mechanism, speed, 3)
    true = p.drive(run.theta[:-1], position)[0]
    assert np.abs(p.follow(run, speed, position) - true).max() < 1e-9
    assert np.abs(p.follow(run, speed + 1, position) - true).max() > 5


def test_a_truck_behind_a_slow_one_brakes_in_time(drove):
    reference = np.tile([20.0, 28.0], (60, 1))
    p, v, a = drove.module.drive(reference, np.array([0.0, -60.0]))
    assert (p[:, 0] - p[:, 1]).min() > drove.module.ROOM + drove.module.HEADWAY * 20 - 1
    assert v[-1, 1] == pytest.approx(20, abs=0.1)
    assert a.min() >= -4.5
