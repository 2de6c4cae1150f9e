"""Each property of the noise: declared noise passes at the stated rate, the bug that breaks it does not."""

import numpy as np
import pytest
from scipy.stats import binom

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.lab.audit import Deployed, Simulated
from tacit.lab.audit import goodness as tests
from tacit.lab.audit.residual import Noise, _spread_rounded, _spread_whole, join, noise_of
from tacit.lab.audit.seeds import GENERATORS, guessable

PAPER = Fading(0.8, 10, 0.6)
SERVER = ClientServer(PAPER, agents=3)
ODD = 1e-9


def made(r, step=0.0):
    """Noise as given, everyone present in every round; on a lattice of so large a step."""
    _runs, slots, columns = r.shape
    updates = np.broadcast_to(np.arange(slots)[None, :, None], (1, slots, columns)).copy()
    ones, nan = np.ones((1, slots, columns)), np.full(r.shape, np.nan)
    whole = np.rint(r / step).astype(np.int64) if step else None
    return Noise(
        r=r,
        size=np.abs(r if whole is None else whole * step),
        pull=nan,
        state=nan,
        scale=ones,
        update=updates,
        agent=np.arange(columns),
        exact=np.ones(slots, bool),
        step=step * ones,
        start=np.arange(len(r)) % 2,
        drawn=whole,
        sent=whole,
    )


def good(seed=0, shape=(500, 6, 3)):
    return np.random.default_rng([seed, 99]).laplace(size=shape)


def worst(found):
    return min(oddity.p_value for oddity in found)


NOISE = [tests.scale, tests.shape, tests.tails, tests.sessions, tests.missing]
PROPERTIES = [*NOISE, tests.predictable, tests.dependence, tests.reuse, tests.repeats]
WHOLE = [
    tests.missing,
    tests.every_bit,
    tests.digits,
    tests.grain,
    tests.distinct,
    tests.reuse,
    tests.repeats,
]


@pytest.mark.parametrize("look", [*PROPERTIES, guessable], ids=lambda f: f.__name__)
def test_declared_noise_is_not_odd(look):
    for seed in range(3):
        assert worst(look(made(good(seed)))) > 1e-5


@pytest.mark.parametrize("look", [*WHOLE, guessable], ids=lambda f: f.__name__)
@pytest.mark.parametrize("bits", [3, 8, 14, 20, 30])
def test_declared_noise_is_not_odd_on_any_lattice(look, bits):
    assert worst(look(made(good(bits), step=2.0**-bits))) > 1e-5


@pytest.mark.parametrize("samples", [30, pytest.param(2000, marks=pytest.mark.long)])
def test_probabilities_are_what_they_claim_to_be(samples):
    """Over many samples, no property is odder than 5 % more often than 5 % of the time."""
    looks = [*PROPERTIES, tests.every_bit, tests.digits, tests.grain, tests.distinct]
    counts = {look.__name__: 0 for look in looks}
    asked = dict.fromkeys(counts, 0)
    for seed in range(samples):
        noise = made(good(seed, (60, 4, 2)), step=2.0 ** -(6 + seed % 20))
        for look in looks:
            p = [oddity.p_value for oddity in look(noise)]
            counts[look.__name__] += int(p[seed % len(p)] <= 0.05)  # one per sample: they are independent
            asked[look.__name__] += 1
    for name, count in counts.items():
        assert binom.sf(count - 1, asked[name], 0.05) > 1e-6, name


def scaled(r):
    return 0.9 * r


def gaussian(r):
    return np.random.default_rng(1).normal(0, 2**0.5, r.shape)


def one_agent_scaled(r):
    return r * np.array([1, 1, 0.8])


def clipped(r):
    return np.clip(r, -6, 6)


def rarely_small(r):
    return np.where(np.arange(len(r))[:, None, None] % 100 == 7, 0.2 * r, r)


def rarely_large_late(r):
    late = np.arange(r.shape[1])[:, None] >= r.shape[1] // 2
    return np.where(late & (np.arange(len(r))[:, None, None] % 100 == 7), 4 * r, r)


def one_in_a_thousand_bare(r):
    return np.where(np.random.default_rng(1).random(r.shape) < 1e-3, 0.0, r)


def chain(shape, keep):
    """Fair coins, each like the one before with probability `keep`."""
    flips = np.where(np.random.default_rng(1).random(shape) < keep, 1.0, -1.0)
    flips[:, 0] = np.sign(np.random.default_rng(2).random(shape)[:, 0] - 0.5)
    return np.cumprod(flips, axis=1)


def same_signs(r):
    return np.abs(r) * chain(r.shape, 0.54)


def sizes_follow(r):
    """Large noise after large noise, with the right law for each draw."""
    small = -np.log(1 - np.random.default_rng(3).random(r.shape) / 2)  # below log 2
    return np.sign(r) * np.where(chain(r.shape, 0.54) > 0, np.abs(r) + np.log(2), small)


def sign_from_size(r):
    """The sign is the one of whether another agent's last draw was large."""
    changed = r.copy()
    large = np.abs(r[:, :-1, 0]) > np.log(2)
    changed[:, 1:, 1] = np.abs(r[:, 1:, 1]) * np.where(large, 1, -1)
    return changed


def function_of(r, column, lag):
    """Draws of agent 2 have sizes that follow from other draws, and the right law each."""
    changed = r.copy()
    u = np.exp(-np.abs(r[:, : r.shape[1] - lag, column]))
    changed[:, lag:, 2] = np.sign(r[:, lag:, 2]) * -np.log(np.maximum(7 * u % 1, 1e-300))
    return changed


def function_of_another(r):
    return function_of(r, 0, 0)


def function_of_another_before(r):
    return function_of(r, 1, 1)


def function_of_another_long_before(r):
    return function_of(r, 1, 3)


def correlated(r):
    return np.where(np.random.default_rng(1).random(r.shape) < 0.3, np.abs(r) * np.sign(r[:, :, :1]), r)


def late_scale(r):
    changed = r.copy()
    changed[:, -1] *= 0.85
    return changed


def one_in_many_sessions_repeat(r):
    changed = r.copy()
    changed[len(r) // 2 :] = r[: len(r) - len(r) // 2]
    return changed


def each_session_twice(r):
    return r.repeat(2, axis=0)[: len(r)]


def shared_by_two(r):
    changed = r.copy()
    changed[::50, :, 1] = -r[::50, :, 0]
    return changed


def used_again_later(r):
    changed = r.copy()
    changed[::50, 4] = r[::50, 1]
    return changed


def some_sessions_repeat(r):
    changed = r.copy()
    changed[7] = r[300]
    return changed


BUGS = [
    (tests.scale, scaled),
    (tests.scale, one_agent_scaled),
    (tests.shape, gaussian),
    (tests.tails, gaussian),
    (tests.tails, clipped),
    (tests.sessions, rarely_small),
    (tests.sessions, rarely_large_late),
    (tests.missing, one_in_a_thousand_bare),
    (tests.predictable, same_signs),
    (tests.predictable, sizes_follow),
    (tests.predictable, each_session_twice),
    (tests.reuse, shared_by_two),
    (tests.reuse, used_again_later),
    (tests.repeats, some_sessions_repeat),
    (tests.repeats, one_in_many_sessions_repeat),
    (tests.scale, late_scale),
    (tests.predictable, correlated),
    (tests.predictable, sign_from_size),
    (tests.dependence, function_of_another),
    (tests.dependence, function_of_another_before),
    (tests.dependence, function_of_another_long_before),
]


@pytest.mark.parametrize(("look", "bug"), BUGS, ids=lambda f: f.__name__)
def test_each_bug_is_odd(look, bug):
    large = (tests.scale, tests.tails, tests.sessions, tests.predictable, tests.shape)
    r = good(3, (2000, 6, 3)) if look in large else good(3)
    assert worst(look(made(bug(r)))) < ODD
    assert worst(look(made(r))) > 1e-5


def coarser_lattice(r):
    return np.rint(r * 2.0**6) * 2.0**-6


def few_values(r):
    """From uniform numbers of 16 bits."""
    u = (np.floor(2.0**16 * np.random.default_rng(1).random(r.shape)) + 0.5) * 2.0**-16
    return np.sign(u - 0.5) * -np.log(1 - 2 * np.abs(u - 0.5))


def odd_only(r):
    step = 2.0**-20
    return (2 * np.rint(r / step / 2) + 1) * step


WHOLE_BUGS = [
    (tests.grain, coarser_lattice),
    (tests.every_bit, odd_only),
    (tests.every_bit, coarser_lattice),
    (tests.digits, few_values),
    (tests.distinct, coarser_lattice),
    (tests.distinct, few_values),
    (tests.reuse, used_again_later),
    (tests.repeats, some_sessions_repeat),
    (tests.missing, one_in_a_thousand_bare),
]


@pytest.mark.parametrize(("look", "bug"), WHOLE_BUGS, ids=lambda f: f.__name__)
def test_each_bug_is_odd_on_a_lattice(look, bug):
    r, step = good(3, (2000, 6, 3)), 2.0**-20
    assert worst(look(made(bug(r), step=step))) < ODD
    assert worst(look(made(r, step=step))) > 1e-5


@pytest.mark.parametrize("bits", [8, 12])
def test_what_happens_every_time_is_odd_on_a_coarse_lattice_too(bits):
    step = 2.0**-bits
    reused, twice = good(3), good(3)
    reused[:, 4, 1] = -reused[:, 0, 0]
    twice[7] = twice[300]
    assert worst(tests.reuse(made(reused, step=step))) < ODD
    assert worst(tests.repeats(made(twice, step=step))) < ODD


@pytest.mark.parametrize("name", GENERATORS)
def test_guessable_seeds_are_guessed(name):
    r = good(4)
    for seed in (0, 42, 9999):
        seeded = r.copy()
        seeded[17, 0, :] = GENERATORS[name](seed)[:3]
        found = {oddity.place: oddity.p_value for oddity in guessable(made(seeded))}
        assert found[name] < ODD
        assert sum(p < ODD for p in found.values()) == 1


def test_seeds_that_the_caller_adds_are_tried_too():
    r = good(4)
    r[3] = np.random.default_rng(1_790_000_000).laplace(size=(6, 3))
    assert worst(guessable(made(r))) == 1.0
    assert worst(guessable(made(r), seeds=range(1_789_999_990, 1_790_000_010))) < ODD


def test_generators_are_the_ones_people_use():
    """`random.seed` and the textbook, written out once more."""
    import math
    import random

    random.seed(5)
    expected = []
    for _ in range(4):
        u = random.random() - 0.5
        expected.append(-math.copysign(1, u) * math.log(1 - 2 * abs(u)))
    assert GENERATORS["random.seed"](5) == pytest.approx(expected)
    assert np.array_equal(GENERATORS["numpy.random.seed"](5), np.random.RandomState(5).laplace(size=4))
    assert np.array_equal(GENERATORS["numpy.random.default_rng"](5), np.random.default_rng(5).laplace(size=4))


MECHANISMS = {
    "server": SERVER,
    "per agent": ClientServer(Fading([0.8, 0.7, 0.6], [10.0, 5.0, 4.0], [0.6, 0.5, 0.7]), agents=3),
    "graph": Distributed(Fading(0.5, 2, 0.9), Graph.from_edges([(0, 1), (1, 2)])),
    "one-shot": ClientServer(OneShot(0.8, 10), agents=3),
}


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("subject", ["plain", "missed", "lattice", "vectors"])
def test_noise_follows_from_known_starts(name, subject):
    mechanism, values = MECHANISMS[name], np.array([1, 2, 4.0])
    if subject == "vectors":
        values = np.arange(6.0).reshape(3, 2)
    if subject == "lattice":
        seen = Deployed(mechanism, 0, 20, seedable=True)(values, 6, 400, 1)
    else:
        missed = subject == "missed"
        seen = Simulated(mechanism, misses=missed, retries="repeat" if missed else "none")(values, 6, 400, 1)
    noise = noise_of(seen, values)
    assert noise.r.shape[2] == values.size
    draws = noise.r[np.isfinite(noise.r)]
    assert len(draws) >= 400 * values.size
    assert all(oddity.p_value > 1e-6 for oddity in tests.oddities(noise))
    # from a wrong start it is not what was declared
    wrong = noise_of(seen, values + 8)
    assert worst(tests.scale(wrong)) < ODD


def test_joined_noise_keeps_the_updates_of_each_session():
    parts = [noise_of(Simulated(SERVER, misses=m)([1, 2, 4.0], 6, 50, 1), [1, 2, 4.0]) for m in (False, True)]
    both = join(parts)
    assert both.update.shape == both.r.shape == (100, 6, 3)
    assert worst(tests.scale(both)) > 1e-5
    assert join([parts[0], parts[0]]).update.shape[0] == 1


def test_parts_are_spread_independently():
    values = np.array([1.1, 2.3, 4.7])
    seen = Deployed(SERVER, 0, 20, bits=8, seedable=True)(values, 2, 20, 1)
    one, same, other = (noise_of(seen, values, stream=stream).r for stream in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.any(one == other)


def test_late_rounds_that_doubles_cannot_resolve_are_left_out_of_equality():
    seen = Simulated(ClientServer(Fading(0.9, 1.0, 0.2), agents=2), lattice=False)([1000.0, 0], 8, 20, 1)
    noise = noise_of(seen, [1000.0, 0])
    assert noise.exact[0]
    assert not noise.exact[-1]
    assert noise.flat.shape[1] < 16


# ---------------------------------------------------------------- lattices


def lattice_noise(bits, seed, runs=300, seedable=True):
    values = np.array([1.1, 2.3, 4.7])
    return noise_of(Deployed(SERVER, 0, 20, bits=bits, seedable=seedable)(values, 4, runs, seed), values)


@pytest.mark.parametrize("bits", [8, 9, 12, 16, 20, 40])
def test_a_right_mechanism_is_not_odd_on_a_lattice_of_few_bits(bits):
    """Deployed, in whole numbers; and rounded, from half a bit to many."""
    assert all(oddity.p_value > 1e-6 for oddity in tests.oddities(lattice_noise(bits, 5)))
    values = np.array([1.1, 2.3, 4.7])
    rounded = noise_of(Simulated(SERVER, bits=bits - 8)(values, 4, 1000, 5), values)
    assert all(oddity.p_value > 1e-6 for oddity in tests.oddities(rounded))


def test_exact_noise_is_not_odd_on_the_finest_lattice():
    """Fifty-one bits: noise in steps does not fit a double."""
    noise = lattice_noise(51, 0, runs=150, seedable=False)
    assert np.abs(noise.drawn).max() > 2**53
    assert all(oddity.p_value > 1e-9 for oddity in tests.oddities(noise))


def discrete_laplace(step, rng, n):
    """Multiples of a step with P(k) proportional to e^(−|k|·step): a difference of geometric numbers."""
    up, down = rng.geometric(-np.expm1(-step), (2, n))
    return step * (up - down)


@pytest.mark.parametrize("step", [2.0, 0.5, 0.05])
@pytest.mark.parametrize("how", ["whole", "rounded"])
def test_noise_on_a_lattice_is_spread_to_the_exact_law(step, how):
    """Steps as wide as the noise: what is not spread, or spread evenly, has another law."""
    rng, n = np.random.default_rng(5), 20_000
    steps = np.full(n, step)
    if how == "whole":
        r = _spread_whole(discrete_laplace(step, rng, n), steps, rng)
    else:
        state = 0.3 * step
        r = _spread_rounded(np.rint((state + rng.laplace(size=n)) / step) * step - state, steps, rng)
    for v in (step / 3, step / 2, step, 1.7 * step, 1.0, 2.0):
        for side in (r > v, r < -v):
            share = np.exp(-v) / 2
            assert min(binom.cdf(side.sum(), n, share), binom.sf(side.sum() - 1, n, share)) > 1e-6
    assert min(binom.cdf(np.sum(r > 0), n, 0.5), binom.sf(np.sum(r > 0) - 1, n, 0.5)) > 1e-6


@pytest.mark.long
def test_no_lattice_makes_a_right_mechanism_odd():
    """All of them, with many seeds: the smallest of all probabilities is what chance makes it."""
    lowest = []
    for bits in range(8, 45, 3):
        for seed in range(15):
            found = [oddity.p_value for oddity in tests.oddities(lattice_noise(bits, 100 + seed, runs=500))]
            lowest.append(min(found) * len(found))
    counts = np.array(lowest)
    for rate in (0.5, 0.1, 0.01):
        assert binom.sf(np.sum(counts <= rate) - 1, len(counts), rate) > 1e-6
