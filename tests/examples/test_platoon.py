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


def test_accelerations_are_those_of_the_covariance(drove):
    """Simulated ones against P⁺ = FPF' + 2s²BB'/N; the seed is fixed."""
    truck, early, n = drove.module.TRUCK, drove.module.EARLY, drove.module.TRUCKS
    loop = truck.A + np.outer(truck.B, truck.C)
    for name, law in drove.module.laws().items():
        P, once, exact = np.zeros((2, 2)), np.zeros(2), []
        for scale in law.scales(early):
            if law.shadowed:  # the mean of all shadows stays where the noise has put it
                once = truck.A @ once + truck.B * np.sqrt(2 / n)
                P = np.outer(once, once)
            else:
                P = loop @ P @ loop.T + 2 * scale**2 / n * np.outer(truck.B, truck.B)
            exact.append(P[1, 1])
        assert drove.found[name]["rms"] == pytest.approx(np.mean(exact) ** 0.5, rel=0.1)
        assert drove.found[name]["peak"] == pytest.approx(np.max(exact) ** 0.5, rel=0.25)
