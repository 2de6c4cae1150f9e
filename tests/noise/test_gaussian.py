"""Discrete Gaussian noise: its distribution, and what it refuses.

It cannot be repeated.
"""

import inspect
import math

import numpy as np
import pytest
from scipy import stats

from tacit.base.errors import ParameterError
from tacit.core.noise import SafeGaussian

FALSE_ALARM = 1e-6


def test_small_draws_have_the_discrete_gaussian_distribution():
    s, n = 2.5, 20_000
    k = np.arange(-40, 41)
    p = np.exp(-(k**2) / (2 * s * s))
    p /= p.sum()
    found = SafeGaussian().draw(s, n)
    seen = np.array([np.sum(found == each) for each in k])
    common = n * p >= 20
    observed = np.append(seen[common], n - seen[common].sum())
    expected = np.append(n * p[common], n * (1 - p[common].sum()))
    assert stats.chi2.sf(np.sum((observed - expected) ** 2 / expected), common.sum()) > FALSE_ALARM


def test_large_draws_are_gaussian_down_to_their_lowest_bit():
    s, n = 1.3 * 2.0**33, 20_000
    found = SafeGaussian().draw(s, n)
    assert stats.kstest(found / s, "norm").pvalue > FALSE_ALARM
    assert stats.binomtest(int(np.sum(found & 1)), n).pvalue > FALSE_ALARM


@pytest.mark.parametrize("deviation", [0.0, 0.5, -1.0, math.nan, math.inf, 2.0**53])
def test_deviations_that_do_not_protect_are_refused(deviation):
    with pytest.raises(ParameterError):
        SafeGaussian().draw(deviation)


def test_it_cannot_be_seeded_and_never_repeats():
    assert "seed" not in inspect.signature(SafeGaussian).parameters
    assert len({SafeGaussian().draw(2.0**40) for _ in range(10)}) == 10
