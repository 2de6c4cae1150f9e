"""Simulated series: the reference deviations, and missing agents.

Also on the grid.
"""

import math

import numpy as np
import pytest

from tacit.base.errors import ParameterError
from tacit.core.series import SeriesAgent, design_series, published
from tacit.lab.simulation.series import household_readings, simulate_series

YEAR = 35_040


def made(slots=96, hides="step:2", keepers=1, **more):
    return design_series(slots, hides, agents=1000, low=0, high=10, keepers=keepers, **more)


def flat(first, last):
    return np.full((last - first, 96), 2.0)


@pytest.mark.parametrize(
    ("mechanism", "keepers", "expected"),
    [
        ("square-root", 1, 0.0212782),
        ("square-root", 2, 0.0300920),
        ("tree", 1, 0.0547581),
        ("pure tree", 1, 0.0484974),
        ("independent", 1, 0.0827865),
    ],
)
@pytest.mark.parametrize("on_grid", [False, True])
def test_a_day_has_the_reference_deviations(mechanism, keepers, expected, on_grid):
    """2,000 runs: the estimate is good to about 1.5%.

    Errors of one run are correlated.
    """
    design = made(keepers=keepers, mechanism=mechanism)
    ran = simulate_series(design, flat, runs=2000, seed=7, on_grid=on_grid)
    assert ran.deviation == pytest.approx(expected, rel=0.05)
    variances = design.code.variances()
    assert ran.last == pytest.approx(expected * math.sqrt(variances[-1] / variances.max()), rel=0.07)


@pytest.mark.long
@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [("square-root", 0.0371531), ("tree", 0.1308969), ("pure tree", 0.1752712), ("independent", 1.5816331)],
)
def test_a_year_has_the_reference_deviations(mechanism, expected):
    design = made(YEAR, mechanism=mechanism)
    ran = simulate_series(design, lambda a, b: np.full((b - a, YEAR), 2.0), runs=600, seed=7)
    assert ran.deviation == pytest.approx(expected, rel=0.03)


@pytest.mark.long
def test_a_year_of_many_agents_on_the_grid():
    """The error is the decoded noise.

    Rounding of thousands of agents is nothing beside it.
    """
    agents = 2000
    design = design_series(YEAR, "step:2", agents=agents, low=0, high=10, keepers=1)
    readings = household_readings(YEAR, 0, 10, seed=1)
    ran = simulate_series(design, readings, runs=30, seed=7, on_grid=True)
    plain = simulate_series(design, readings, runs=30, seed=7)
    assert ran.deviation == pytest.approx(0.0371531 * 1000 / agents, rel=0.15)
    np.testing.assert_allclose(ran.first, plain.first, atol=100 * design.grid.step)


def test_exact_noise_keeps_the_promise_too():
    """Not repeatable: within 5.5 standard errors.

    96·10 draws are decoded back to white noise.
    """
    design = made()
    errors = np.concatenate(
        [
            design.code.encode((ran.first - ran.truth) * design.agents)
            for ran in (simulate_series(design, flat, runs=1, safe=True) for _ in range(10))
        ]
    )
    assert np.mean(errors**2) == pytest.approx(
        design.noise_deviation**2, rel=5.5 * math.sqrt(2 / errors.size)
    )


def test_blocks_are_the_agents_one_by_one():
    """The fast way, on the grid, against agents that speak slot by slot."""
    slots, agents = 12, 7
    design = design_series(slots, "step:2", agents=agents, low=0, high=10, keepers=1, mechanism="square-root")
    readings = household_readings(slots, 0, 10, seed=3, day=slots)
    ran = simulate_series(design, readings, seed=5, on_grid=True)
    rows = readings(0, agents)
    each = [SeriesAgent(design.code, design.grid) for _ in range(agents)]
    said = np.array([[agent.read(x)[0] for x in row] for agent, row in zip(each, rows, strict=True)])
    draws = np.random.default_rng([5, 1, 0]).standard_normal(slots) * design.noise_deviation
    noisy = said.sum(axis=0) * design.grid.step + np.rint(draws / design.grid.step) * design.grid.step
    expected = published(design.code, design.grid, noisy, agents, agents)
    np.testing.assert_allclose(ran.first, expected, atol=agents * design.grid.step)
    np.testing.assert_allclose(ran.truth, rows.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize(("missing", "extra"), [(0.05, 0.007), (0.2, 0.018)])
def test_missing_agents_add_what_was_worked_out(missing, extra):
    """Made-up households add about the error of the proof's example."""
    readings = household_readings(96, 0, 10, seed=1)
    ran = simulate_series(made(), readings, runs=300, seed=2, missing=missing)
    full = simulate_series(made(), readings, runs=300, seed=2)
    assert math.sqrt(ran.deviation**2 - full.deviation**2) == pytest.approx(extra, rel=0.3)


def test_what_is_refused():
    with pytest.raises(ParameterError):
        simulate_series(made(), flat, runs=0)
    with pytest.raises(ParameterError):
        simulate_series(made(), flat, missing=1.0)
    with pytest.raises(ParameterError, match="exact noise is slow"):
        simulate_series(made(), flat, runs=10**6, safe=True)
