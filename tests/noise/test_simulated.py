"""SimulatedNoise: a pure function, Laplace to the last bits.

It is a function of (seed, run, round, agent, component).
"""

import functools
import hashlib
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit import ClientServer, Fading, OneShot
from tacit.base.errors import InputError
from tacit.core.noise import SimulatedNoise

# ---------------------------------------------------------------- the oracle: whole numbers and a mask

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix64(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def absorb(key: int, value: int) -> int:
    return mix64((mix64(key) + GOLDEN * (value + 1)) & MASK)


def stream(seed: int, run: int, component: int, t: int) -> tuple[int, int]:
    state = 0
    for part in (seed, run, component, t):
        state = absorb(state, part)
    start = mix64((state + GOLDEN) & MASK)
    gamma = ((state ^ (state >> 33)) * 0xFF51AFD7ED558CCD) & MASK
    gamma = ((gamma ^ (gamma >> 33)) * 0xC4CEB9FE1A85EC53) & MASK
    gamma = (gamma ^ (gamma >> 33)) | 1
    if (gamma ^ (gamma >> 1)).bit_count() < 24:
        gamma ^= 0xAAAAAAAAAAAAAAAA
    return start, gamma


def laplace(word: int) -> float:
    m = word & (MASK >> 1) | 1
    below_one = 2**63 - m
    magnitude = -math.log1p(-below_one / 2**63) if below_one < 2**62 else -math.log(m / 2**63)
    return math.copysign(magnitude, -1 if word >> 63 else 1)


def plain(seed: int, run: int, t: int, agent: int, component: int = 0) -> float:
    start, gamma = stream(seed, run, component, t)
    return laplace(mix64((start + (agent + 1) * gamma) & MASK))


words = st.one_of(st.integers(0, 50), st.integers(0, MASK))


@settings(max_examples=60, deadline=None)
@given(seed=words, run=words, agents=st.integers(1, 40), rounds=st.integers(1, 4), k=st.integers(1, 3))
def test_every_draw_is_what_plain_arithmetic_says(seed, run, agents, rounds, k):
    eta = SimulatedNoise(seed).draw(1.0, rounds, agents, components=k, run=run)
    expected = [
        [[plain(seed, run, t, i, component) for component in range(k)] for i in range(agents)]
        for t in range(rounds)
    ]
    np.testing.assert_allclose(eta, expected, rtol=2e-15, atol=2**-52)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(words, st.integers(0, 62).map(lambda b: MASK >> b), st.integers(0, 63).map(lambda b: 1 << b))
)
def test_the_word_to_laplace_map_at_every_magnitude(word):
    got = drawn_from(word)
    assert len(set(got)) == 1  # every lane does the same
    assert got[0] == pytest.approx(laplace(word), rel=2e-15, abs=2**-52)
    assert math.copysign(1, got[0]) == (-1 if word >> 63 else 1)


def unmix64(word: int) -> int:
    """Return the counter that mix64 turns into `word`.

    The test chooses words, the kernel takes counters.
    """
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        unshifted = word
        for _ in range(64 // shift):
            unshifted = word ^ (unshifted >> shift)
        word = (unshifted * pow(factor, -1, 1 << 64)) & MASK
    return word


@functools.cache
def one_vector():
    import numba

    from tacit.core.noise._kernels import next_draws
    from tacit.core.noise._lanes import LANES

    @numba.njit
    def draws(counter, step):
        counters, steps, out = np.full(LANES, counter), np.full(LANES, step), np.empty(LANES)
        next_draws(counters, steps, 0, out, 0)
        return counters, out

    return draws


def drawn_from(word: int) -> list[float]:
    counters, out = one_vector()(np.uint64(unmix64(word)), np.uint64(3))
    assert {int(counter) for counter in counters} == {(unmix64(word) + 3) & MASK}
    return out.tolist()


# ---------------------------------------------------------------- purity


def test_numbers_do_not_depend_on_what_else_is_drawn():
    noise = SimulatedNoise(5)
    whole = noise.draw(1.0, rounds=7, n=50, components=3, run=2)
    assert np.array_equal(whole[:4, :11], noise.draw(1.0, rounds=4, n=11, components=3, run=2))
    assert np.array_equal(whole[:, :, 0], noise.draw(1.0, rounds=7, n=50, run=2))
    assert np.array_equal(whole, noise.draw(1.0, rounds=7, n=50, components=3, run=2))


def test_numbers_stay_what_they_were():
    # Published results name a seed: these digits must never change.
    eta = SimulatedNoise(2012).draw(1.0, rounds=2, n=2, run=3)
    np.testing.assert_allclose(eta, PINNED, rtol=1e-14)


PINNED = [[2.501309237568433, -1.4824225998812282], [-0.31113830774567836, 0.033069703800100284]]


def test_every_part_of_the_name_matters():
    base = SimulatedNoise(3).draw(1.0, 2, 100, components=2, run=4)
    others = [
        SimulatedNoise(4).draw(1.0, 2, 100, components=2, run=3),
        SimulatedNoise(4).draw(1.0, 2, 100, components=2, run=4),
        SimulatedNoise(3).draw(1.0, 2, 100, components=2, run=5),
    ]
    everything = np.concatenate([np.abs(draw).reshape(-1) for draw in [base, *others]])
    assert len(np.unique(everything)) == everything.size


# ---------------------------------------------------------------- distribution, fixed seeds


@pytest.fixture(scope="module")
def sample():
    return SimulatedNoise(11).draw(1.0, rounds=40, n=50_000)


def test_kolmogorov_smirnov(sample):
    assert stats.kstest(sample.reshape(-1)[:500_000], stats.laplace.cdf).pvalue > 1e-3


def test_equal_bins(sample):
    cells = (stats.laplace.cdf(sample) * 4096).astype(int)
    assert stats.chisquare(np.bincount(cells.reshape(-1), minlength=4096)).pvalue > 1e-3


@pytest.mark.parametrize("beyond", [2.0, 5.0, 8.0, 10.0])
def test_tails_keep_falling_like_the_exponential_they_are(sample, beyond):
    tail = np.abs(sample[np.abs(sample) > beyond]) - beyond
    expected = sample.size * math.exp(-beyond)
    assert abs(len(tail) - expected) < 4 * math.sqrt(expected)
    assert stats.kstest(tail, stats.expon.cdf).pvalue > 1e-3


def test_small_draws_are_uniform_down_to_tiny_magnitudes(sample):
    small = np.abs(sample[np.abs(sample) < 1e-3])
    assert stats.kstest(-np.expm1(-small) / -math.expm1(-1e-3), stats.uniform.cdf).pvalue > 1e-3


def test_the_sign_is_fair_and_independent_of_the_size(sample):
    negative = sample < 0
    assert abs(negative.mean() - 0.5) < 4 * 0.5 / math.sqrt(sample.size)
    assert abs(np.corrcoef(negative.reshape(-1), np.abs(sample).reshape(-1))[0, 1]) < 4 / math.sqrt(
        sample.size
    )


def independent(a, b):
    """Whether pairs fill a 64 × 64 grid of equal cells evenly."""
    row = (stats.laplace.cdf(a) * 64).astype(int).reshape(-1)
    column = (stats.laplace.cdf(b) * 64).astype(int).reshape(-1)
    counts = np.bincount(64 * row + column, minlength=4096)
    return stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("lag", [1, 2, 8, 64])
def test_neighbouring_agents_are_independent(sample, lag):
    assert independent(sample[:, lag:], sample[:, :-lag])


@pytest.mark.parametrize("lag", [1, 2, 16])
def test_rounds_are_independent(sample, lag):
    assert independent(sample[lag:], sample[:-lag])


def test_components_are_independent():
    eta = SimulatedNoise(11).draw(1.0, rounds=20, n=50_000, components=2)
    assert independent(eta[..., 0], eta[..., 1])


@pytest.mark.parametrize("other", [1, 2, 1 << 32])
def test_runs_are_independent(sample, other):
    assert independent(sample, SimulatedNoise(11).draw(1.0, 40, 50_000, run=other))


@pytest.mark.parametrize("other", [10, 12, 11 ^ (1 << 63)])
def test_seeds_are_independent(sample, other):
    assert independent(sample, SimulatedNoise(other).draw(1.0, 40, 50_000))


def test_rounds_and_runs_swapped_are_independent():
    noise = SimulatedNoise(0)
    many_runs = np.concatenate([noise.draw(1.0, 2, 50_000, run=r)[1:2] for r in range(2, 42)])
    assert independent(many_runs, noise.draw(1.0, 42, 50_000, run=1)[2:])


def test_sums_over_agents_vary_as_they_should():
    # the accuracy lemmas are about such sums: weak long-range dependence would show here
    sums = SimulatedNoise(7).draw(1.0, rounds=4000, n=500).sum(axis=1) / math.sqrt(2 * 500)
    assert abs(sums.mean()) < 4 / math.sqrt(4000)
    assert abs(sums.var() - 1) < 4 * math.sqrt(2.01 / 4000)


# ---------------------------------------------------------------- use


def test_it_says_that_it_is_not_private():
    assert "NOT private" in SimulatedNoise.__doc__


def test_scales_follow_the_parameters():
    unit = SimulatedNoise(1).draw(1.0, 3, 2)
    fading = Fading(sigma=0.5, c=[2.0, 3.0], q=[0.9, 0.5])
    np.testing.assert_allclose(
        SimulatedNoise(1).draw(fading, 3, 2), unit * [[2, 3], [1.8, 1.5], [1.62, 0.75]], rtol=1e-14
    )
    np.testing.assert_allclose(SimulatedNoise(1).draw([4.0, 2.0, 0.0], 3, 2), unit * [[4], [2], [0]])
    one_shot = SimulatedNoise(1).draw(OneShot(sigma=0.5, c=2), 3, 2, components=4)
    assert one_shot.shape == (3, 2, 4)
    assert one_shot[0].all()
    assert not one_shot[1:].any()


def test_a_mechanism_runs_on_it():
    mechanism = ClientServer(Fading(0.5, 1, 0.9), agents=4)
    noise = SimulatedNoise(1).draw(mechanism.law, 5, 4, components=2)
    assert mechanism.execute(np.ones((4, 2)), noise).rounds == 5


@pytest.mark.parametrize("seed", [-1, 1 << 64, 1.5, "1", None, True])
def test_seeds_out_of_range_are_refused(seed):
    with pytest.raises(InputError, match="seed must be a whole number from 0"):
        SimulatedNoise(seed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scales": [1.0, 2.0], "rounds": 3, "n": 2}, r"one per round \(3,\)"),
        ({"scales": -1.0, "rounds": 3, "n": 2}, "scales must be finite numbers of at least 0"),
        ({"scales": float("nan"), "rounds": 3, "n": 2}, "scales must be finite"),
        ({"scales": 1.0, "rounds": -1, "n": 2}, "rounds must be"),
        ({"scales": 1.0, "rounds": 1, "n": 0}, "n must be"),
        ({"scales": 1.0, "rounds": 1, "n": 1, "components": -2}, "components must be"),
        ({"scales": 1.0, "rounds": 1, "n": 1, "run": -1}, "run must be"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        SimulatedNoise(1).draw(**arguments)


def test_importing_the_package_does_not_load_numba():
    import subprocess
    import sys

    code = "import sys, tacit.core.noise, tacit.core.noise.simulated; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("cpu", [pytest.param("haswell", marks=pytest.mark.long), "generic"])
def test_any_cpu_gives_the_same_bits(cpu):
    """AVX2 and plain SSE2 use other instructions than AVX-512.

    Without hardware support, fused steps are in software.
    """
    program = (
        "import hashlib; from tacit.core.noise.simulated import SimulatedNoise as N;"
        "print(hashlib.sha256(N(7).draw(1.0, 30, 1000).tobytes()).hexdigest())"
    )
    features = {"haswell": "+avx,+avx2,+bmi,+bmi2,+fma,+popcnt,+sse4.2", "generic": ""}[cpu]
    asked = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features}
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = SimulatedNoise(7).draw(1.0, 30, 1000)
    assert found.strip() == hashlib.sha256(here.tobytes()).hexdigest()
