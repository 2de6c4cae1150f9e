"""Series on the grid: agents, decoding, missing and joining agents.

Also how far one person moves messages.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.base.errors import ParameterError, StateError
from tacit.core.series import (
    BinaryTree,
    Hides,
    Independent,
    SeriesAgent,
    SeriesGrid,
    SquareRoot,
    decoding_filter,
    delta_of,
    design_series,
    energy,
    loss_with,
    published,
)

CODES = [SquareRoot, BinaryTree, Independent]
YEAR = 35_040


def all_messages(agent, readings):
    """Return what an agent says in each slot, the obvious way.

    It is in the order of `sent_in`.
    """
    code = agent._code
    by_slot = [list(agent.read(reading)) for reading in readings]
    found = np.zeros(len(code.sent_in))
    for k in np.argsort(code.sent_in, kind="stable"):  # within a slot from the lowest level on
        found[k] = by_slot[code.sent_in[k]].pop(0)
    return found


def test_the_worked_example_on_a_grid():
    """T = 3: the numbers of the proof, with noise of whole grid steps."""
    grid, code = SeriesGrid(-3, 0.0, 10.0), SquareRoot(3)
    agent = SeriesAgent(code, grid)
    said = [agent.read(x)[0] for x in (2, 5, 3)]
    assert said == [16, 32, 2]
    sums = np.array(said) + np.array([3, -1, 4])
    means = published(code, grid, sums * grid.step, 1, 1)
    np.testing.assert_allclose(means, [19 / 8, 81 / 16, 229 / 64], rtol=1e-14)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("slots", [1, 2, 3, 8, 21])
def test_decoding_undoes_encoding_and_both_ways_agree(code, slots):
    made = code(slots)
    readings = np.random.default_rng(slots).uniform(0, 10, (4, slots))
    fast = made.encode(readings)
    assert fast.shape == (4, len(made.sent_in))
    np.testing.assert_allclose(made.decode(fast), readings, atol=1e-12)
    grid = SeriesGrid.fitting(3.0, 0.0, 10.0)
    slow = np.array([all_messages(SeriesAgent(made, grid), row) for row in readings])
    assert np.max(np.abs(slow - np.rint(fast / grid.step))) <= 1  # a tie may fall either way
    assert np.max(np.abs(slow * grid.step - fast)) <= grid.step


@pytest.mark.parametrize("slots", [3, 40])
def test_messages_are_computed_as_exactly_as_the_account_says(slots):
    """Within 2^−51 of the range, against exact fractions.

    These are of the float filter's true values.
    """
    readings = np.random.default_rng(1).uniform(0, 10, slots).tolist()
    f = [Fraction(math.comb(2 * k, k), 4**k) for k in range(slots)]
    g = [Fraction(1)] + [-f[k] / (2 * k - 1) for k in range(1, slots)]
    code = SquareRoot(slots)
    for t in range(slots):
        exact = sum(g[t - s] * Fraction(readings[s]) for s in range(t + 1))
        (found,) = code.messages(readings[: t + 1])
        assert abs(Fraction(found) - exact) <= Fraction(10) / 2**50


def test_a_slot_without_a_reading_is_silent_and_readings_are_clamped():
    code, grid = Independent(4), SeriesGrid(-3, 1.0, 3.0)
    agent = SeriesAgent(code, grid)
    assert [agent.read(x) for x in (None, 2.0, None, 99.0)] == [(), (8,), (), (16,)]
    assert "2.0" not in repr(agent)
    with pytest.raises(StateError):
        agent.read(1.0)
    with pytest.raises(StateError):
        SeriesAgent(code, grid).read(math.nan)


@pytest.mark.parametrize("code", [SquareRoot(5), BinaryTree(5)])
def test_codes_with_a_memory_hold_the_last_reading(code):
    grid = SeriesGrid(-3, 1.0, 3.0)
    agent, steady = SeriesAgent(code, grid), SeriesAgent(code, grid)
    holes, filled = (None, 2.0, None, None, 3.0), (1.0, 2.0, 2.0, 2.0, 3.0)
    assert [agent.read(x) for x in holes] == [steady.read(x) for x in filled]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 39), st.floats(0, 8), st.floats(0, 2))
def test_rounded_messages_of_any_used_set_move_no_further_than_promised(used, start, low, step):
    """Two streams that differ by a step, on the grid.

    They are within δ√F + (h + 2e)√T for every pattern of U.
    """
    slots, grid = len(used), SeriesGrid.fitting(13.4, 0.0, 10.0)
    code = SquareRoot(slots)
    base = low + np.abs(np.sin(np.arange(slots)))
    other = np.minimum(base + step * (np.arange(slots) >= start), 10)
    one, two = (all_messages(SeriesAgent(code, grid), x) * grid.step for x in (base, other))
    moved = np.linalg.norm((two - one)[np.array(used)])
    d = np.diff(other - base, prepend=0)
    allowed = np.abs(d).sum() * math.sqrt(energy(slots)) + grid.moved * math.sqrt(slots)
    assert moved <= allowed * (1 + 1e-12)


def test_clamping_after_the_definition_would_cost_63_times_as_much():
    """Raw readings that differ by a step, clamped.

    The difference toggles in every slot.
    """
    raw = np.where(np.arange(YEAR) % 2, 10.0, 8.0)
    clamped = np.minimum(raw + 2, 10) - np.minimum(raw, 10)
    assert clamped[:4].tolist() == [2, 0, 2, 0]
    norm = np.linalg.norm(SquareRoot(YEAR).encode(clamped))
    assert norm / (2 * math.sqrt(energy(YEAR))) == pytest.approx(63, abs=0.5)


def test_toggling_costs_nothing_on_messages_and_63_times_on_readings():
    """An agent that is in and out of U.

    White noise on w is safe, correlated noise on x is not.
    """
    step, inside = np.full(YEAR, 2.0), np.arange(YEAR) % 2 == 0
    code, promised = SquareRoot(YEAR), 2 * math.sqrt(energy(YEAR))
    assert np.linalg.norm(code.encode(step) * inside) <= promised
    # Noise f∗z on the readings is white noise after filtering with g, and so is what the step becomes.
    assert np.linalg.norm(code.encode(step * inside)) / promised == pytest.approx(63, abs=0.5)


def test_missing_agents_do_not_bias_the_mean_and_dividing_by_all_does():
    rng = np.random.default_rng(3)
    agents, slots = 400, 96
    code, grid = SquareRoot(slots), SeriesGrid.fitting(13.4, 0.0, 10.0)
    readings = np.clip(rng.gamma(1.6, 1, (agents, 1)) + rng.normal(0, 0.2, (agents, slots)), 0, 10)
    messages = code.encode(readings)
    errors, naive = [], []
    for _ in range(300):
        used = rng.random((agents, slots)) > 0.2
        sums, count = (messages * used).sum(axis=0), used.sum(axis=0)
        errors.append(published(code, grid, sums, agents, count) - readings.mean(axis=0))
        naive.append(published(code, grid, sums, agents, agents) - readings.mean(axis=0))
    last = np.array(errors)[:, -1]
    assert abs(last.mean()) < 5 * last.std() / math.sqrt(300)
    assert np.array(naive)[:, -1].mean() < -0.2


def test_joining_starts_from_nothing_and_leaving_stays_in_the_count():
    slots = 10
    code, grid = SquareRoot(slots), SeriesGrid.fitting(13.4, 0.0, 10.0)
    x = np.full((3, slots), 4.0)
    x[2, :5] = 0.0  # joins in slot 5, and its filter has read the low end until then
    members = np.where(np.arange(slots) < 5, 2, 3)
    means = published(code, grid, code.encode(x).sum(axis=0), members, members)
    np.testing.assert_allclose(means, 4.0, atol=1e-12)
    joined = np.linalg.norm(code.encode(x[2]))
    assert joined <= 4 * math.sqrt(energy(slots)) * (1 + 1e-12)  # at most a step of its reading
    used = np.ones((3, slots))
    used[0, 7:] = 0  # left: nothing is sent any more, and it stays among the members
    sums = (code.encode(x) * used).sum(axis=0)
    counted = published(code, grid, sums, members, used.sum(axis=0) - (np.arange(slots) < 5))
    assert np.all(np.abs(counted - 4.0) < 0.5)


@pytest.mark.parametrize("used", [0, 5])
def test_a_slot_needs_somebody_and_no_strangers(used):
    with pytest.raises(ParameterError):
        published(Independent(2), SeriesGrid(-3, 0, 1), np.zeros(2), 4, used)


@pytest.mark.parametrize("noise", [0.0, -1.0, math.nan, math.inf, 1e-6])
def test_a_grid_that_cannot_follow_the_noise_is_refused(noise):
    with pytest.raises(ParameterError):
        SeriesGrid.fitting(noise, 0.0, 10.0)


# ---- the account ------------------------------------------------------------------------------------


@pytest.mark.parametrize("hides", ["step:2", "reading", "window:10"])
@pytest.mark.parametrize("loss", [0.2, 1.0, 4.0])
def test_the_account_of_what_is_drawn_keeps_the_promise(hides, loss):
    made = design_series(96, hides, agents=10_000, low=0, high=10, keepers=1, loss=loss)
    spent = loss_with(
        made.mechanism, 96, made.hides, grid=made.grid, steps=made.steps, delta=made.delta or 1e-6
    )
    assert loss * (1 - 1e-4) <= spent <= loss
    assert made.steps >= 2.0**33


def test_half_the_noise_is_accounted_for_as_such():
    made = design_series(96, "step:2", agents=1000, low=0, high=10, keepers=1)
    spent = loss_with("square-root", 96, Hides("step", 2.0), grid=made.grid, steps=made.steps / 2, delta=1e-6)
    assert spent > 2


def discrete_delta(shifts, tau, epsilon):
    """Return δ(ε) of discrete Gaussian draws under these shifts.

    By enumeration: losses depend on Σ shift·k.
    """
    k = np.arange(-12 * tau, 12 * tau + 1)
    p = np.exp(-(k**2) / (2 * tau * tau))
    law, reach = np.ones(1), 0
    for shift in shifts:
        spread = np.zeros(2 * shift * 12 * tau + 1)
        spread[:: max(shift, 1)] = p / p.sum()
        law, reach = np.convolve(law, spread), reach + shift * 12 * tau
    total = np.arange(-reach, reach + 1)
    loss = (2 * total + sum(s * s for s in shifts)) / (2 * tau * tau)
    return float(np.sum(law * np.maximum(-np.expm1(epsilon - loss), 0)))


def test_unequal_shifts_are_not_gaussian_private_and_the_allowance_covers_them():
    mu = math.sqrt(64 + 16 + 9) / 6
    assert discrete_delta((8, 4, 3), 6, 1.0) == pytest.approx(0.3490535, abs=5e-8)
    assert delta_of(mu, 1.0) == pytest.approx(0.3490454, abs=5e-8)
    assert discrete_delta((8, 4, 3), 6, 1.0) > delta_of(mu, 1.0)
    for shifts, tau in (((8, 4, 3), 6), ((5, 3, 1), 9), ((24, 12, 9), 18)):
        mu = math.sqrt(sum(s * s for s in shifts)) / tau
        for epsilon in (0.1, 1.0, 2.0):
            assert discrete_delta(shifts, tau, epsilon + 12 * 3 / tau**2) <= delta_of(mu, epsilon)


def test_a_step_is_the_filter_itself():
    moved = SquareRoot(50).encode(np.ones(50))
    np.testing.assert_allclose(moved, decoding_filter(50), atol=1e-13)
