"""Noise that protects: its distribution, and what it refuses.

Nobody can repeat it. It is not seedable, so the statistical tests here have a false-alarm rate of 1e-6 each.
"""

import inspect
import math
import os
import random
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.base.errors import ParameterError
from tacit.core.noise import SafeNoise, WholeNoise
from tacit.core.noise.safe import message_loss

FALSE_ALARM = 1e-6
untimed = settings(deadline=None)  # a busy machine is no failure
LARGE = 1.3 * 2.0**40


def pmf(k, scale):
    return math.tanh(1 / (2 * scale)) * np.exp(-np.abs(k) / scale)


def chi_square(observed, expected):
    """The p-value of counts, cells in which little is expected taken as one."""
    rare = expected < 20
    observed, expected = (np.append(counts[~rare], counts[rare].sum()) for counts in (observed, expected))
    return stats.chi2.sf(np.sum((observed - expected) ** 2 / expected), len(observed) - 1)


@pytest.fixture(scope="module")
def wide():
    return SafeNoise().draw(LARGE, 40_000)


@pytest.mark.parametrize("scale", [1.0, 2.5, 10 / 3])
def test_draws_are_discrete_laplace(scale):
    n, far = 40_000, 60
    draws = SafeNoise().draw(scale, n)
    cells = np.arange(-far, far + 1)
    observed = np.bincount(np.clip(draws, -far, far) + far, minlength=2 * far + 1).astype(float)
    assert chi_square(observed, n * pmf(cells, scale)) > FALSE_ALARM


def test_wide_draws_are_laplace(wide):
    # steps of 2^-40 of the scale are nothing to this test
    assert stats.kstest(wide / LARGE, stats.laplace.cdf).pvalue > FALSE_ALARM


def test_the_low_bits_of_wide_draws_are_even(wide):
    assert stats.chisquare(np.bincount(wide & 255, minlength=256)).pvalue > FALSE_ALARM


def test_neighbouring_draws_are_independent(wide):
    signs, large = np.sign(wide), np.abs(wide) > LARGE * math.log(2)  # each half of the draws
    for half in (signs > 0, large):
        agree = int(np.sum(half[1:] == half[:-1]))
        assert stats.binomtest(agree, len(half) - 1, 0.5).pvalue > FALSE_ALARM


def test_draws_of_a_long_vector_differ():
    size = 20_000
    # two equal draws among n have a probability below n²/(8·2^52) = 1.2e-8
    assert len(np.unique(SafeNoise().draw(2.0**52, size))) == size


def test_one_draw_is_a_whole_number_of_pythons():
    assert type(SafeNoise().draw(2.0**40)) is int
    assert SafeNoise().draw(2.0**40, 0).shape == (0,)
    assert isinstance(SafeNoise(), WholeNoise)
    assert repr(SafeNoise()) == "SafeNoise()"


def test_it_cannot_be_seeded():
    assert "seed" not in inspect.signature(SafeNoise).parameters
    with pytest.raises(TypeError):
        SafeNoise(seed=1)
    with pytest.raises(AttributeError):
        SafeNoise().seed = 1
    drawn = []
    for _ in range(2):
        random.seed(7)
        np.random.seed(7)  # noqa: NPY002 - what somebody might try
        drawn.append(SafeNoise().draw(LARGE, 4).tolist())
    assert drawn[0] != drawn[1]


PROCESS = """
import os
from tacit.core.noise import SafeNoise
noise = SafeNoise()
noise.draw(2.0**40, 5)
child = os.fork()
os.write(1, (str(noise.draw(2.0**40, 4).tolist()) + "\\n").encode())
if child:
    os.waitpid(child, 0)
else:
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_processes_and_their_forks_draw_different_noise():
    said = []
    for _ in range(2):
        result = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, check=True)
        said += result.stdout.splitlines()
    assert len(said) == len(set(said)) == 4


@pytest.mark.parametrize("scale", [0.0, 1e-300, 0.999, -1.0, math.nan, math.inf, 2.0**53])
def test_scales_that_would_not_protect_are_refused(scale):
    for ask in (lambda: SafeNoise().draw(scale), lambda: message_loss(scale, 1)):
        with pytest.raises(ParameterError, match=r"must be from 1 to 2\^52"):
            ask()


def test_other_bad_requests_are_refused():
    with pytest.raises(ParameterError, match="size"):
        SafeNoise().draw(1.0, -1)
    with pytest.raises(ParameterError, match="adjacency"):
        message_loss(1.0, 2**1001)


@untimed
@given(st.floats(1, 2.0**52), st.integers(0, 2**80))
def test_a_loss_is_never_below_the_exact_one(scale, sensitivity):
    exact = Fraction(sensitivity) / Fraction(scale)
    loss = Fraction(message_loss(scale, sensitivity))
    assert exact <= loss <= exact * (1 + Fraction(1, 2**52))
