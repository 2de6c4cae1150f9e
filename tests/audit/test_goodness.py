"""Each property of the noise: declared noise passes at the stated rate, the bug that breaks it does not."""

import numpy as np
import pytest
from scipy.stats import binom

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.audit import Deployed, Simulated
from tacit.audit import goodness as tests
from tacit.audit.residual import Noise, join, noise_of
from tacit.audit.seeds import GENERATORS, guessable

PAPER = Fading(0.8, 10, 0.6)
SERVER = ClientServer(PAPER, agents=3)
ODD = 1e-9


def made(r, update=None):
    """Noise as given, everyone present in every round."""
    _runs, slots, columns = r.shape
    updates = np.broadcast_to(np.arange(slots)[None, :, None], (1, slots, columns)).copy()
    return Noise(r, np.full(r.shape, np.nan), updates, np.arange(columns), np.ones(slots, bool))


def good(seed=0, shape=(500, 6, 3)):
    return np.random.default_rng([seed, 99]).laplace(size=shape)


def worst(found):
    return min(oddity.p_value for oddity in found)


NOISE = [tests.scale, tests.shape, tests.tails, tests.missing]
PROPERTIES = [*NOISE, tests.predictable, tests.reuse, tests.repeats]


@pytest.mark.parametrize("look", [*PROPERTIES, guessable], ids=lambda f: f.__name__)
def test_declared_noise_is_not_odd(look):
    for seed in range(5):
        assert worst(look(made(good(seed)))) > 1e-5


def test_probabilities_are_what_they_claim_to_be():
    """Over many samples, no property is odder than 5 % more often than 5 % of the time."""
    counts = {look.__name__: 0 for look in PROPERTIES}
    asked = dict.fromkeys(counts, 0)
    for seed in range(150):
        noise = made(good(seed, (60, 4, 2)))
        for look in PROPERTIES:
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
    (tests.missing, one_in_a_thousand_bare),
    (tests.predictable, same_signs),
    (tests.predictable, sizes_follow),
    (tests.predictable, each_session_twice),
    (tests.reuse, shared_by_two),
    (tests.reuse, used_again_later),
    (tests.repeats, some_sessions_repeat),
]


@pytest.mark.parametrize(("look", "bug"), BUGS, ids=lambda f: f.__name__)
def test_each_bug_is_odd(look, bug):
    r = good(3, (2000, 6, 3)) if look in (tests.tails, tests.predictable, tests.shape) else good(3)
    assert worst(look(made(bug(r)))) < ODD
    assert worst(look(made(r))) > 1e-5


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


def test_late_rounds_that_doubles_cannot_resolve_are_left_out_of_equality():
    seen = Simulated(ClientServer(Fading(0.9, 1.0, 0.2), agents=2), lattice=False)([1000.0, 0], 8, 20, 1)
    noise = noise_of(seen, [1000.0, 0])
    assert noise.exact[0]
    assert not noise.exact[-1]
    assert noise.flat.shape[1] < 16
