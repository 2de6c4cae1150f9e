"""The platoon: the numbers of its page come from the library, and a slow recursion has them too."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def drove(ran):
    return ran("platoon")


def test_deviations_and_radii_are_the_reference_numbers(drove):
    found = drove.found
    assert found["schedule"]["deviation"] == pytest.approx(0.928850471, abs=1e-9)
    assert found["schedule"]["radius"] == pytest.approx(1.820816017, abs=1e-8)
    assert found["once"]["deviation"] == pytest.approx(0.223606798, abs=1e-9)
    assert found["once"]["radius"] == pytest.approx(0.439433219, abs=1e-9)
    assert drove.row("radius, m/s") == ["1.83", "1.84", "1.94", "1.88", "9.58", "0.44"]
    assert {column["loss"] <= 1 < column["loss"] * (1 + 1e-9) for column in found.values()} == {True}
    assert drove.picture.stat().st_size > 10_000


TABLE = {  # rms and peak acceleration of the first 30 s
    "schedule": (0.1958, 0.651),
    "best c·q^t": (0.1975, 0.704),
    "q=ρ^⅓": (0.2083, 0.856),
    "q=0.95": (0.2017, 0.641),
    "constant": (0.516, 0.516),
    "once": (0.0220, 0.094),
}


def test_accelerations_are_the_reference_numbers(drove):
    for name, (rms, peak) in TABLE.items():
        assert drove.found[name]["rms"] == pytest.approx(rms, abs=6e-4)
        assert drove.found[name]["peak"] == pytest.approx(peak, abs=6e-4)


@pytest.mark.parametrize("name", ["schedule", "once"])
def test_accelerations_are_those_of_drives(drove, name):
    """The covariance against simulated trucks; the seed is fixed."""
    early, law = drove.module.EARLY, drove.module.laws()[name]
    shaken = drove.module.drive(law, np.zeros(drove.module.TRUCKS), 1, 200, early)[:, 1:, 0, 1]
    assert np.sqrt(np.mean(shaken**2)) == pytest.approx(drove.found[name]["rms"], rel=0.1)
    assert np.sqrt(np.mean(shaken**2, axis=0)).max() == pytest.approx(drove.found[name]["peak"], rel=0.25)


def test_damping_decides_what_fresh_noise_costs(drove):
    """Gains ¼, ½, 1, 2: the price of smooth motion for Laplace and for Gaussian noise."""
    prices = []
    for gain in (0.25, 0.5, 1, 2):
        a = drove.module.truck(gain).influence_table(900)[:, 0]
        last = abs(drove.module.truck(gain).settling[0])
        prices.append((np.cbrt(a**2).sum() ** 1.5 / last, a.sum() / last))
    assert [laplace for laplace, _ in prices] == pytest.approx([6.72, 4.15, 4.51, 12.67], abs=5.1e-3)
    assert [gaussian for _, gaussian in prices] == pytest.approx([1, 1, 1.286, 2.946], abs=5.1e-4)


def test_the_controller_first_and_then_the_noise_costs_five_times_as_much(drove):
    made = drove.module.design()
    costs = [one.cost.total for one in (made.first, made.together, made.once)]
    assert costs == pytest.approx([1486, 297, 107], rel=3e-3)
