"""The exact samplers, under all choices that chance can make.

A tape makes the choices, and all tapes above a weight are tried. The probability of a result then lies
between the weight of the tapes that lead to it and that weight with all tapes that were cut off. Each
function is tried with ideal ones in place of those that it calls, so that few choices decide: uniform numbers
from bits, coins from uniform numbers, noise from coins. Only the comparisons with OpenDP are random; they
have a false-alarm rate of 1e-6 each.
"""

import inspect
import itertools
import math
import os
import types
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from tacit.base.errors import StateError
from tacit.core.noise import exact

FALSE_ALARM = 1e-6
SOURCE = inspect.getsource(exact)


def copy(old="", new=""):
    """Return a copy of the module with its functions free to be replaced, and perhaps a fault in it."""
    assert SOURCE.count(old) == 1 or not old, old
    module = types.ModuleType("copy")
    exec(compile(SOURCE.replace(old, new) if old else SOURCE, "copy", "exec"), vars(module))
    return module


class CutOff(Exception):
    """The tape has no more choices."""


class Again(Exception):
    """All was rejected, and everything begins again as it began."""


class Tape:
    """Makes choices in order, each of them once."""

    def __init__(self, choices):
        self.choices, self.next, self.wanted = choices, 0, ()
        self.asked = self.begun = 0

    def choose(self, chances):
        if self.next == len(self.choices):
            self.wanted = chances
            raise CutOff
        self.next += 1
        return self.choices[self.next - 1]

    def uniform(self, n):
        self.asked += 1
        assert self.asked < 500, "it never ends"
        return self.choose([1 / n] * n) if n > 1 else 0

    def attempt(self, n, count=1):
        """Propose numbers below n: the first choice of each attempt."""
        self.begun += 1
        if self.begun > 1:
            raise Again
        return [self.uniform(n) for _ in range(count)]

    def coin(self, chance):
        return chance == 1 or (chance > 0 and self.choose([1 - chance, chance]) == 1)


def weights(run, least=1e-4):
    """Return the weight of the tapes that lead to each result, and the rest.

    A tape that is too short is tried again with every choice after it, unless its weight is below `least`.
    """
    found, again, waiting = Counter(), 0.0, [(1.0, ())]
    while waiting:
        weight, choices = waiting.pop()
        tape = Tape(choices)
        try:
            result = run(tape)
        except CutOff:
            if weight >= least:
                waiting += [(weight * chance, (*choices, c)) for c, chance in enumerate(tape.wanted)]
        except Again:
            again += weight
        except StateError:  # words of so few bits cannot hold the number
            pass
        else:
            assert tape.next == len(choices)
            found[result] += weight
    found = {result: weight / (1 - again) for result, weight in found.items()}
    return found, 1 - sum(found.values())


def require(run, probability, *, rest_below=0.01):
    """Compare what the tapes say with the probability that each result should have."""
    found, rest = weights(run)
    assert rest < rest_below, rest
    for result, weight in found.items():
        assert weight - 1e-9 <= probability(result) <= weight + rest + 1e-9, (result, weight, rest)


def together(probability):
    """Of independent results that have the same probabilities."""
    return lambda results: math.prod(map(probability, results))


def coin(chance):
    return lambda yes: chance if yes else 1 - chance


def laplace_chance(scale):
    return lambda k: math.tanh(1 / (2 * scale)) * math.exp(-abs(k) / scale)


def gaussian_chance(s):
    whole = sum(math.exp(-(k**2) / (2 * s * s)) for k in range(-100, 101))
    return lambda k: math.exp(-(k**2) / (2 * s * s)) / whole


def judge_one(module):
    """Try the samplers of one number."""
    for n in range(1, 10):
        found, rest = weights(lambda tape, n=n: module.below(n, lambda k: tape.uniform(2**k)), 1e-2)
        assert sorted(found) == list(range(n))
        assert max(found.values()) - min(found.values()) < 1e-12  # all equally likely, to the last tape
        assert rest < 0.2
    module.below = lambda n, tape: tape.uniform(n)
    for p, q in ((0, 1), (1, 1), (1, 2), (1, 3), (2, 3)):
        require(lambda tape, p=p, q=q: module.survives(p, q, tape), coin(math.exp(-p / q)))
    module.survives = lambda p, q, tape: tape.coin(math.exp(-p / q))
    module.below = lambda n, tape: tape.attempt(n)[0]
    for scale in (1.0, 1.5, 2.0, 2.25, 5.0):
        require(lambda tape, scale=scale: module.laplace(scale, tape), laplace_chance(scale))
    for s in (1.0, 1.5):
        chances = [laplace_chance(int(s) + 1)(k) for k in range(-12, 13)]
        module.laplace = lambda scale, tape, s=s, chances=chances: proposal(
            tape, chances, scale == int(s) + 1
        )
        require(lambda tape, s=s: module.gaussian(s, tape), gaussian_chance(s))


def proposal(tape, chances, right):
    assert right, "proposed with another scale"
    tape.attempt(1)
    return tape.choose(chances) - len(chances) // 2


def judge_many(module):
    """Try the samplers of vectors: two numbers, which must be independent."""
    for width in (1, 2, 3, 4):
        words = words_of(module, width)
        for n in range(1, 2**width + 1):
            found, _ = weights(lambda tape, n=n, words=words: tuple(words(tape).below(n, 2).tolist()), 1e-2)
            assert sorted(found) == list(itertools.product(range(n), repeat=2)), (width, n)
            assert max(found.values()) - min(found.values()) < 1e-12
        with pytest.raises(StateError):
            words(Tape(())).below(2**width + 1, 1)

    class Ideal(module.Words):
        def __init__(self, tape):
            self.tape = tape

        def below(self, n, count):
            return np.array([self.tape.uniform(n) for _ in range(count)], np.uint64)

    def drawn(function, *given):
        return lambda tape: tuple(function(*given, Ideal(tape)).tolist())

    for p, q in ((0, 1), (1, 1), (1, 2)):
        run = drawn(module.survivors, np.full(2, p, np.uint64), q)
        require(run, together(coin(math.exp(-p / q))), rest_below=0.1)
    module.survivors = lambda p, q, words: np.array([words.tape.coin(math.exp(-int(each) / q)) for each in p])
    law = [(1 - math.exp(-1)) * math.exp(-v) for v in range(12)]
    require(drawn(module.geometric, 2), together(lambda v: law[v]))
    assert module.geometric(2, Ideal(Tape((0, 0)))).dtype == np.uint64
    module.geometric = lambda count, words: np.array(
        [words.tape.choose(law) for _ in range(count)], np.uint64
    )
    Ideal.below = lambda self, n, count: np.array(self.tape.attempt(n, count), np.uint64)
    module._proposals = lambda missing: missing
    for scale in (1.0, 1.5, 2.25):
        require(drawn(module.laplaces, scale, 1), together(laplace_chance(scale)))
    require(drawn(module.laplaces, 1.5, 2), together(laplace_chance(1.5)), rest_below=0.1)


def words_of(module, bits):
    """Return words of so few bits, from a tape."""

    class Words(module.Words):
        narrow = wide = bits

        def __init__(self, tape):
            self.tape = tape

        def take(self, count, width):
            return np.array([self.tape.uniform(2**width) for _ in range(count)], np.uint64)

    return Words


def test_one_number_has_exactly_its_law():
    judge_one(copy())


def test_a_vector_has_exactly_its_law():
    judge_many(copy())


FAULTS = {
    "numbers taken modulo n instead of again": (
        "        if drawn < n:\n",
        "        drawn %= n\n        if True:\n",
    ),
    "one more number": ("        if drawn < n:\n", "        if drawn <= n:\n"),
    "one bit too few": ("k = (n - 1).bit_length()", "k = max(0, (n - 1).bit_length() - 1)"),
    "the coin's first step left out": ("    k = 1\n    while", "    k = 2\n    while"),
    "the same coin at every step": ("below(q * k, bits)", "below(q, bits)"),
    "a coin that counts one too many": ("below(q * k, bits) < p", "below(q * k, bits) <= p"),
    "the coin turned over": ("    return k % 2 == 1", "    return k % 2 == 0"),
    "a zero of both signs": ("if u >= d or not negative", "if True"),
    "no zero at all": ("if u >= d or not negative", "if u >= d"),
    "no rejection": ("if not survives(u, n, bits):", "if False:"),
    "half a multiple": ("u += n\n", "u += n // 2 + 1\n"),
    "rounded to nearest": (
        "return -(u // d) if negative else u // d",
        "return -round(u / d) if negative else round(u / d)",
    ),
    "one sign": ("return -(u // d) if negative", "return (u // d) if negative"),
    "half the scale": (
        "n, d = scale.as_integer_ratio()\n    while",
        "n, d = (scale / 2).as_integer_ratio()\n    while",
    ),
    "a proposal too narrow": (
        "    proposed = float(int(deviation) + 1)\n    while",
        "    proposed = float(int(deviation))\n    while",
    ),
    "a centre moved": ("a, b, q = t * d * d, n * n,", "a, b, q = t * d * d, n,"),
    "twice the variance": ("2 * (t * d * n) ** 2", "4 * (t * d * n) ** 2"),
    "whole parts left out": ("all(survives(1, 1, bits) for _ in range(whole)) and ", ""),
    "a vector's numbers taken modulo n": ("last = (1 << width) // n * n - 1", "last = (1 << width) - 1"),
    "a vector's last number left out": ("// n * n - 1", "// n * n - 2"),
    "rejected words given to others": (
        "words[rejected] = self.take(len(rejected), width)",
        "words[rejected] = self.take(1, width)",
    ),
    "a vector's coin at every step": ("words.below(q * k, len(going))", "words.below(q, len(going))"),
    "a vector's coin turned over": ("odd[going] = k % 2 == 1", "odd[going] = k % 2 == 0"),
    "one coin for all": (
        "going = going[words.below(q * k, len(going)) < p[going]]",
        "going = going[words.below(q * k, 1)[0] < p[going]]",
    ),
    "a vector's zero of both signs": ("kept = (steps > 0) | ~negative", "kept = (steps >= 0) | ~negative"),
    "a vector's sign": ("np.where(negative, -steps, steps)", "np.where(negative, steps, steps)"),
    "the sign's bit in the number": ("survivors(drawn >> _ONE, n, words)", "survivors(drawn % n, n, words)"),
    "multiples of another number": ("steps = ((u + n * v) // d)", "steps = ((u + d * v) // d)"),
    "multiples that stop": ("        v[going] += _ONE\n", "        v[going] = _ONE\n"),
}
"""Each with the words of the source that it replaces."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_caught(fault):
    def judge():
        judge_one(copy(*FAULTS[fault]))
        judge_many(copy(*FAULTS[fault]))

    with pytest.raises((AssertionError, IndexError, StateError)):
        judge()


def test_words_are_all_bytes_of_the_system_in_order(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda count: bytes(range(1, count + 1)))
    assert exact.Words().take(2, 64).tolist() == [0x0807060504030201, 0x100F0E0D0C0B0A09]
    assert exact.Words().take(2, 16).tolist() == [0x0201, 0x0403]
    assert exact.system_bits(16) == 0x0102
    assert exact.system_bits(9) == 0x0102 >> 7
    assert exact.system_bits(64) == 0x0102030405060708


def test_the_largest_numbers_do_not_overflow(monkeypatch):
    n = 2**53 - 1
    scale = n / 2  # not whole: d = 2, and n as large as it gets
    for v in (1023, 1024):
        words = types.SimpleNamespace(below=lambda n, count: np.full(count, n - 2, np.uint64))
        monkeypatch.setattr(exact, "survivors", lambda p, _, __: np.ones(len(p), bool))
        monkeypatch.setattr(exact, "geometric", lambda count, _, v=v: np.full(count, v, np.uint64))
        found = exact.laplaces(scale, 2, words)
        assert found.dtype == np.int64
        assert found.tolist() == [(n - 1 + n * v) // 2] * 2
    monkeypatch.setattr(exact, "geometric", lambda count, _: np.full(count, 2**12, np.uint64))
    with pytest.raises(OverflowError):
        exact.laplaces(scale, 2, words)


@pytest.mark.parametrize("scale", [1.0, 1.5, 10 / 3, 2.0**20, 2.0**52])
def test_draws_are_like_those_of_opendp(scale):
    """As far as 3,000 draws of each can tell, in the tails too."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    theirs = np.array(dp.m.make_laplace(*space, scale=scale)(np.zeros(3000, np.int64)))
    for ours in (exact.laplaces(scale, 3000), np.array([exact.laplace(scale) for _ in range(3000)])):
        cells = np.array([-np.inf, -4, -2, -1, -0.5, 0.0, 0.5, 1, 2, 4, np.inf]) * scale + 0.25
        table = [np.histogram(draws, cells)[0] for draws in (ours, theirs)]
        filled = np.sum(table, axis=0) > 0
        assert stats.chi2_contingency(np.array(table)[:, filled]).pvalue > FALSE_ALARM
