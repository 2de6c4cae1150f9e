"""Series: reference numbers, and what each pattern costs."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr

from tacit.base.errors import Infeasible, ParameterError
from tacit.core.law import gaussian
from tacit.core.question import Histogram
from tacit.core.series import Hides, design_series
from tacit.core.series import design as series

YEAR = 35_040


def exact_filter(slots):
    return [Fraction(math.comb(2 * k, k), 4**k) for k in range(slots)]


@pytest.mark.parametrize("slots", [1, 2, 3, 17])
def test_filters_are_square_roots_of_summation(slots):
    f = exact_filter(slots)
    np.testing.assert_allclose(series.decoding_filter(slots), [float(each) for each in f], rtol=1e-14)
    g = [Fraction(1)] + [-f[k] / (2 * k - 1) for k in range(1, slots)]
    np.testing.assert_allclose(series.encoding_filter(slots), [float(each) for each in g], rtol=1e-14)
    for t in range(slots):
        assert sum(f[s] * f[t - s] for s in range(t + 1)) == 1  # B·C = A
        assert sum(f[s] * g[t - s] for s in range(t + 1)) == (t == 0)  # decoding undoes encoding
        assert sum(g[: t + 1]) == f[t]  # a step moves w by f


def test_the_worked_example():
    f, g = series.decoding_filter(3), series.encoding_filter(3)
    w = np.convolve(g, [2, 5, 3])[:3]
    assert w.tolist() == [2, 4, 0.25]
    published = np.convolve(f, w + np.array([3, -1, 4]) / 8)[:3]
    assert published.tolist() == [19 / 8, 81 / 16, 229 / 64]
    assert series.energy(3) == 89 / 64


@pytest.mark.parametrize(
    ("slots", "expected"),
    [(1, 1), (2, 1.25), (10, 1.7913439416), (96, 2.5183249824), (1000, 3.2650030807), (YEAR, 4.3971463906)],
)
def test_energy(slots, expected):
    assert series.energy(slots) == pytest.approx(expected, abs=6e-11)
    limit = (math.log(slots) + 0.5772156649 + 4 * math.log(2)) / math.pi
    assert slots < 96 or series.energy(slots) == pytest.approx(limit, abs=1 / slots)


def test_gaussian_privacy_there_and_back():
    assert series.mu_of(1, 1e-6) == pytest.approx(0.2367043807, abs=5e-11)
    for epsilon, delta in ((0.1, 1e-9), (1, 1e-6), (5, 1e-3)):
        mu = series.mu_of(epsilon, delta)
        assert series.delta_of(mu, epsilon) <= delta
        assert series.epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-9)


def test_the_normal_distribution_function_without_scipy():
    """An agent's machine may not have scipy."""
    assert "scipy" not in Path(series.__file__).read_text() + Path(gaussian.__file__).read_text()
    for x in (-400.0, -40.0, -30.1, -29.9, -5.0, 0.0, 3.0, 50.0):
        assert gaussian._log_phi(x) == pytest.approx(log_ndtr(x), rel=2e-13, abs=1e-300)


def test_too_little_loss_for_the_grid_is_refused():
    with pytest.raises(Infeasible):
        design_series(10_000_000, "step:2", agents=1000, low=0, high=10, keepers=1, loss=1e-7)


TABLE = {
    96: ("square-root", 13.40848, 0.0212782, 0.0300920, 0.0547581, 0.0484974, 0.0827865),
    YEAR: ("square-root", 17.71777, 0.0371531, 0.0525424, 0.1308969, 0.1752712, 1.5816331),
}


@pytest.mark.parametrize("slots", TABLE)
def test_the_reference_table(slots):
    kind, tau, one, two, tree, pure, independent = TABLE[slots]
    made = design_series(slots, "step:2", agents=1000, low=0, high=10, keepers=1)
    assert made.mechanism == kind
    assert made.noise_deviation == pytest.approx(tau, rel=1e-6)
    assert one <= made.deviation * (1 + 1e-6) <= one * (1 + 4e-6)
    second = design_series(slots, "step:2", agents=1000, low=0, high=10, keepers=2)
    assert second.deviation == pytest.approx(two, rel=2e-6)
    asked = {"agents": 1000, "span": 10.0, "keepers": 1, "epsilon": 1.0, "delta": 1e-6}
    found = series.candidates(slots, Hides("step", 2.0), **asked)
    expected = {"tree": tree, "pure tree": pure, "independent": independent}
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=2e-6)


def test_without_keepers_each_agent_adds_its_own():
    alone = design_series(YEAR, "step:2", agents=1000, low=0, high=10)
    assert alone.deviation == pytest.approx(1.1749, rel=1e-3)


def test_one_reading_a_day_and_a_year():
    reading = design_series(YEAR, "reading", agents=1000, low=0, high=10, keepers=1)
    assert (reading.mechanism, reading.delta) == ("independent laplace", 0.0)
    assert reading.deviation == pytest.approx(math.sqrt(2) * 10 / 1000, rel=1e-6)
    day = design_series(YEAR, "window:96", agents=1000, low=0, high=10, keepers=1)
    assert day.mechanism == "independent"
    assert day.deviation == pytest.approx(0.4139, abs=5e-5)
    with pytest.raises(Infeasible, match=r"7\.908"):
        design_series(YEAR, f"window:{YEAR}", agents=1000, low=0, high=10, keepers=1)


@pytest.mark.parametrize(
    ("hides", "keepers", "loss"), [(f"window:{YEAR}", 1, 1.0), ("step:10", 0, 0.2), ("window:96", 0, 0.5)]
)
def test_a_refused_series_says_what_would_work(hides, keepers, loss):
    asked = {"agents": 1000, "keepers": keepers, "loss": loss}
    with pytest.raises(Infeasible) as refused:
        design_series(YEAR, hides, low=0, high=10, **asked)
    gives = refused.value.gives
    assert "agents" in gives
    assert len(gives) >= 2
    for name, value in gives.items():
        assert design_series(YEAR, hides, low=0, high=10, **asked | {name: value}).deviation <= 5
        if name != "keepers":  # no more than needed, to the digits shown
            less = value - 1 if name == "agents" else value * (1 - 2e-3)
            with pytest.raises(Infeasible):
                design_series(YEAR, hides, low=0, high=10, **asked | {name: less})
    assert "hides reading" in str(refused.value)
    assert design_series(YEAR, "reading", low=0, high=10, **asked).deviation <= 5


def test_a_series_is_shown_in_its_unit_and_for_its_own_day():
    made = design_series(YEAR, "step:2", agents=1000, low=0, high=10, keepers=1)
    shown = made.summary("kW", slots_per_day=24)
    assert shown.row("Each mean", "deviation").shown == "0.0371531\u00a0kW"
    assert "for a day of 24 slots" in shown.notes[0]
    names = {row.name for row in shown.sections["Other changes"]}
    assert names == {"one reading", "one day", "half of the series", "the same hour every day"}


def test_what_other_changes_cost():
    costs = series.pattern_costs(YEAR)
    expected = {"one reading": 0.538, "one hour": 0.697, "one day": 0.972, "half of the series": 1.302}
    for name, cost in expected.items():
        assert costs[name] == pytest.approx(cost, abs=6e-4), name
    assert costs["the same hour every day"] == pytest.approx(13.3, abs=0.06)


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 39))
def test_whoever_is_used_when_the_messages_move_by_no_more_than_promised(used, start):
    """Leaving some messages out never adds to the norm.

    A step moves used messages by a part of δ·f.
    """
    slots = len(used)
    moved = np.zeros(slots)
    moved[min(start, slots - 1) :] = series.decoding_filter(slots)[: slots - min(start, slots - 1)]
    assert np.linalg.norm(moved[np.array(used)]) <= math.sqrt(series.energy(slots)) * (1 + 1e-12)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_total_variation_is_what_counts(increments):
    """A change of total variation δ moves w by at most δ√F.

    Its shape does not matter.
    """
    slots = len(increments)
    total = sum(map(abs, increments))
    w = np.convolve(series.decoding_filter(slots), increments)[:slots]
    assert np.linalg.norm(w) <= total * math.sqrt(series.energy(slots)) * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize(
    "asked",
    [
        {"hides": "habit"}, {"hides": "window:0"}, {"hides": "step:-1"}, {"hides": "step:11"}, {"slots": 0},
        {"agents": 0}, {"keepers": -1}, {"low": 10.0}, {"loss": 0.0}, {"delta": 1.0},
    ],
)  # fmt: skip
def test_mistakes(asked):
    right = {"slots": 96, "hides": "step:2", "agents": 10, "low": 0.0, "high": 10.0}
    with pytest.raises(ParameterError):
        design_series(**right | asked)


@pytest.mark.parametrize(
    ("slots", "hides", "counts"),
    [
        (1, "reading", 5.974596),
        (96, "step", 15.045980),
        (YEAR, "step", 26.271193),
        (96, "window:4", 11.949192),
    ],
)
def test_a_histogram_in_every_slot(slots, hides, counts):
    """Counts of 1,000 records, one keeper, (1, 1e-6): the root of two times what a number of 0 to 1 needs."""
    asked = Histogram([0, 1, 2, 5, 10])
    kind = Hides.parse(hides).runs_with
    made = design_series(slots, hides, agents=1000, keepers=1, question=asked, mechanism=kind)
    assert 1000 * made.deviation == pytest.approx(counts, rel=1e-6)
    number = design_series(slots, hides, agents=1000, low=0, high=1, keepers=1, mechanism=kind)
    assert made.deviation == pytest.approx(math.sqrt(2) * number.deviation, rel=1e-6)
    assert made.answer().radius == pytest.approx(1.959964 * counts, rel=1e-6)
    assert made.as_dict()["question"] == "histogram:0,1,2,5,10"
    many = design_series(slots, hides, agents=1000, keepers=1, question=Histogram(range(101)), mechanism=kind)
    assert many.deviation == pytest.approx(made.deviation, rel=1e-5)  # any number of buckets


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"hides": "step:1"}, "has no size"),
        ({"low": 0, "high": 10}, "has its own range"),
        ({"mechanism": "pure tree"}, "does not hide"),
        ({"slots": 3_000_000}, "at most 10,000,000 numbers"),
    ],
)
def test_a_series_of_a_question_refuses(given, words):
    asked = {"slots": 96, "hides": "step", "agents": 1000, "question": Histogram([0, 1, 2, 5, 10]), **given}
    with pytest.raises(ParameterError, match=words):
        design_series(**asked)
    with pytest.raises(ParameterError, match="or a question"):
        design_series(96, "step:1", agents=10)
