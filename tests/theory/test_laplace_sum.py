"""The exact law against closed forms and against sampling.

Closed forms are computed in high precision.
"""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.base.errors import ParameterError
from tacit.core.theory.laplace_sum import LaplaceSum


def of(scales, ratio=0.0, rounds=1, count=1.0):
    scale = np.asarray(scales, dtype=float)
    return LaplaceSum(scale, np.full(scale.shape, ratio), np.full(scale.shape, count), rounds)


def partial_fractions(scales, r):
    """Return P(V > r) for distinct scales.

    It is ½ Σ_k e^{−r/w_k} Π_{j≠k} w_k²/(w_k² − w_j²).
    """
    with mp.workdps(120):
        w = [mp.mpf(float(s)) for s in scales]
        total = mp.mpf(0)
        for k, wk in enumerate(w):
            term = mp.e ** (-mp.mpf(r) / wk) / 2
            for j, wj in enumerate(w):
                if j != k:
                    term *= wk**2 / (wk**2 - wj**2)
            total += term
        return total


@pytest.mark.parametrize("r", [0.0, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("ratio", [0.3, 0.6, 0.9])
def test_tail_encloses_the_closed_form(ratio, r):
    rounds = 60 if ratio < 0.9 else 40
    exact = partial_fractions([ratio**t for t in range(rounds)], r)
    low, high = of([1.0], ratio, rounds).tail(r)
    assert low <= exact <= high
    assert high - low <= 1e-9 * high


def test_a_single_draw_is_laplace():
    law = of([2.0])
    for b in (0.9, 0.5, 0.05, 1e-6):
        low, high = law.quantile(b)
        assert low <= -2 * math.log(b) <= high
        assert high - low <= 1e-13 * high


def test_equal_draws_match_the_exact_law_of_two():
    # two of scale 1: P(V > r) = e^{-r}(2 + r)/4
    low, high = of([1.0], count=2.0).tail(3.0)
    assert low <= math.exp(-3) * 5 / 4 <= high
    assert high - low < 1e-9 * high


@given(
    st.lists(st.floats(0.05, 20.0), min_size=1, max_size=6, unique=True),
    st.floats(0.0, 40.0),
)
@settings(max_examples=40, deadline=None)
def test_any_distinct_scales(scales, r):
    if len(scales) > 1 and min(abs(a / b - 1) for a in scales for b in scales if a is not b) < 1e-3:
        return  # the oracle, not the law, needs them apart
    low, high = of(scales).tail(r)
    assert low <= partial_fractions(scales, r) <= high


@given(st.floats(1e-6, 0.99), st.floats(0.0, 3.0), st.floats(0.1, 0.95))
@settings(max_examples=30, deadline=None)
def test_quantile_inverts_exceedance(b, offset, ratio):
    law = LaplaceSum(np.array([1.0, 0.4]), np.array([ratio, 0.5]), np.array([3.0, 2.0]), None)
    low, high = law.quantile(b, offset)
    assert 0 <= low <= high <= low * (1 + 1e-8) + 1e-9
    assert law.exceedance(high, offset).low <= b
    assert law.exceedance(low, offset).high >= b


def test_offset_shifts_both_tails():
    law, r, beta = of([1.0], count=2.0), 3.0, 0.7
    exact = sum(math.exp(-x) * (2 + x) / 4 for x in (r - beta, r + beta))
    for offset in (beta, -beta):
        low, high = law.exceedance(r, offset)
        assert low <= exact <= high


def test_endless_sum_is_the_limit_of_long_ones():
    endless = LaplaceSum(np.array([1.0]), np.array([0.7]), np.array([5.0]), None)
    long = LaplaceSum(np.array([1.0]), np.array([0.7]), np.array([5.0]), 200)
    assert endless.variance == pytest.approx(long.variance, rel=1e-14)
    assert endless.quantile(0.01).high == pytest.approx(long.quantile(0.01).high, rel=1e-11)


def test_groups_are_what_they_stand_for():
    grouped = LaplaceSum(np.array([1.0, 0.5]), np.array([0.6, 0.2]), np.array([3.0, 2.0]), 4)
    spelled = [1.0 * 0.6**t for t in range(4)] * 3 + [0.5 * 0.2**t for t in range(4)] * 2
    assert grouped.variance == pytest.approx(2 * sum(w * w for w in spelled))
    assert grouped.tail(2.0).high == pytest.approx(of(spelled).tail(2.0).high, rel=1e-11)


@pytest.mark.parametrize("count", [1e3, 1e6, 1e12])
def test_many_draws_are_nearly_gaussian(count):
    law = LaplaceSum(np.array([1 / math.sqrt(2 * count)]), np.array([0.0]), np.array([count]), 1)
    assert law.quantile(0.05).high == pytest.approx(1.959964, rel=3 / count + 1e-6)


def test_far_tails_stay_relatively_exact():
    law = LaplaceSum(np.array([1.0]), np.array([0.0]), np.array([2.0]), 1)
    r = 690.0
    low, high = law.tail(r)
    exact = math.exp(-r) * (2 + r) / 4
    assert low <= exact <= high
    assert high <= exact * (1 + 1e-6)


def test_without_noise_there_is_no_deviation():
    law = LaplaceSum(np.array([1.0]), np.array([0.5]), np.array([3.0]), 0)
    assert law.variance == 0
    assert law.quantile(0.05) == (0.0, 0.0)
    assert law.quantile(0.05, offset=-2.0) == (2.0, 2.0)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, math.nan])
def test_probability_must_be_inside(bad):
    with pytest.raises(ParameterError, match=r"failure probability must be in \(0, 1\)"):
        of([1.0]).quantile(bad)


@given(
    st.lists(st.floats(0.05, 20.0), min_size=1, max_size=4),
    st.floats(0.0, 0.95),
    st.floats(0.0, 1e12),
    st.one_of(st.floats(1e-200, 1e-3), st.floats(1e-3, 0.999)),
)
@settings(max_examples=10, deadline=None)
def test_an_offset_far_beyond_the_noise_is_added_to_it(scales, ratio, offset, b):
    """Lines at a positive abscissa overflowed for a large offset.

    It was hundreds of times the noise.
    """
    law = of(scales, ratio, rounds=5)
    low, high = law.quantile(b, offset=offset)
    widest = law.quantile(b / 2).high if b <= 0.5 else law.quantile(0.25 * (1 - b)).high
    assert max(offset - widest, 0.0) <= high <= (offset + widest) * (1 + 1e-9)
    assert low <= high
    assert law.exceedance(high, offset).low <= b * (1 + 1e-9)


def test_two_agents_on_both_sides_are_covered_at_once():
    """P(V > r − above) + P(V > r − below) in closed form.

    It is that of one Laplace draw.
    """
    low, high = of([1.0]).quantile_of_all(0.05, above=3.0, below=2.0)
    r = math.log((math.exp(3) + math.exp(2)) / (2 * 0.05))
    assert low <= r <= high
    assert high - low < 1e-6 * r


@pytest.mark.parametrize("rounds", [None, 10**9])
@pytest.mark.parametrize("decay", [1 - 1e-6, 1 - 1e-9, 1 - 1e-13])
def test_slow_decay_needs_no_more_memory_than_fast_decay(decay, rounds):
    """Counted, not timed.

    Terms are taken one by one only where there are few enough of them.
    """
    law = LaplaceSum(np.array([1.0, 1e-3]), np.array([decay, 0.5]), np.array([3.0, 1.0]), rounds)
    high = law.quantile(0.05).high
    assert high == pytest.approx(1.959964 * math.sqrt(law.variance), rel=1e-4)  # so many terms are normal
    assert law.quantile(1e-200).high > 29 * math.sqrt(law.variance)
    assert max(parts.squares.size for *_, parts in law._splits) <= 2**19


def log_mgf_in_50_digits(law, z):
    with mp.workdps(50):
        total = mp.mpc(0)
        for scale, ratio, count in zip(law.scale, law.ratio, law.count, strict=True):
            for t in range(law.rounds):
                weight = mp.mpf(float(scale)) * mp.mpf(float(ratio)) ** t
                total -= mp.mpf(float(count)) * mp.log(1 - (weight * mp.mpc(z)) ** 2)
        return total


@pytest.mark.parametrize(
    "law",
    [
        of([1.0], 0.6, 40),
        of([1.0, 0.37], 0.95, 60, count=1e6),  # most terms go into the series
        of([1.0], 0.999, 300, count=3.0),  # many terms near the pole
    ],
)
def test_the_rounding_bound_of_log_mgf_covers_the_error(law):
    """docs/proofs/exact-radius.md, "Rounding": against numbers of 50 digits."""
    for a in (0.01, 0.6, 0.99, 1 - 1e-9):
        z = a / max(law.scale) * np.array([1, 1 + 0.3j, 1 + 2j, 1 + 40j])
        ulps = np.zeros(z.size)
        for found, bound, node in zip(law.log_mgf(z, ulps), ulps, z, strict=True):
            error = abs(mp.mpc(found) - log_mgf_in_50_digits(law, node))
            assert error <= bound * np.finfo(float).eps
            assert bound * np.finfo(float).eps <= 1e-9 * (1 + abs(found)) / (1 - a)


def test_the_rounding_bound_is_small_where_it_matters():
    low, high = LaplaceSum(np.array([0.8]), np.array([0.6]), np.array([500.0]), None).quantile(0.05)
    assert high - low <= 1e-11 * high


@pytest.mark.parametrize("law", [of([1.0, 0.4], 0.6, 40), of([0.1, 0.2], 0.0, 1, count=2.0)])
@pytest.mark.parametrize("r", [-0.2, 0.0, 0.4, 3.0])
def test_the_quick_sum_is_the_slow_one(law, r):
    line = law._line(1.0)
    slow, error = line._sum(r)
    assert line.quick_tail(r) == pytest.approx(slow, rel=1e-11, abs=error)
    h = 1e-5
    assert line.quick_density(r) == pytest.approx(
        (line._sum(r - h)[0] - line._sum(r + h)[0]) / (2 * h), rel=1e-5
    )
