"""Exact samplers of discrete Laplace and Gaussian noise, in whole numbers.

Rejection sampling as by Canonne, Kamath and Steinke (2020), without a single float: docs/proofs/sampler.md
follows this file line by line. One number is drawn in plain Python, many in numpy. Random bits are an
argument, so that tests can try all of them; `os.urandom` is the default, and each bit is used once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tacit.base.arrays import IntArray
from tacit.base.errors import StateError

if TYPE_CHECKING:
    import numpy.typing as npt

Whole: TypeAlias = "npt.NDArray[np.uint64]"
Bits = Callable[[int], int]
"""Returns a whole number below 2^k, all of them equally likely, for k ≥ 1."""

_MULTIPLES = 1024
"""With fewer multiples, u + n·v < 2^53 + 2^53·2^10 fits 64 bits."""


def system_bits(k: int) -> int:
    """Return k random bits of the operating system."""
    return int.from_bytes(os.urandom((k + 7) // 8)) >> (-k % 8)


# One number, in plain Python


def below(n: int, bits: Bits) -> int:
    """Return a whole number below n, all of them equally likely."""
    k = (n - 1).bit_length()
    while k:
        drawn = bits(k)
        if drawn < n:
            return drawn
    return 0


def survives(p: int, q: int, bits: Bits) -> bool:
    """Return True with probability exp(−p/q), for 0 ≤ p ≤ q."""
    k = 1
    while below(q * k, bits) < p:
        k += 1
    return k % 2 == 1


def laplace(scale: float, bits: Bits = system_bits) -> int:
    """Return k with probability ∝ exp(−|k|/scale), for a scale of at least 1."""
    n, d = scale.as_integer_ratio()
    while True:
        u, negative = divmod(below(2 * n, bits), 2)
        if not survives(u, n, bits):
            continue
        while survives(1, 1, bits):
            u += n
        if u >= d or not negative:  # 0 has no sign: otherwise it would be drawn twice as often
            return -(u // d) if negative else u // d


def staircase(width: int, first: int, over: int, under: int, bits: Bits = system_bits) -> int:
    """Return k with probability ∝ exp(−stair·over/under).

    The stair of k is 0 for |k| < first, and one more for every further `width`.
    """
    while True:
        u, negative = divmod(below(2 * width, bits), 2)
        if u >= first and not falls(over, under, bits):
            continue
        while falls(over, under, bits):
            u += width
        if u or not negative:  # 0 has no sign: otherwise it would be drawn twice as often
            return -u if negative else u


def falls(over: int, under: int, bits: Bits) -> bool:
    """Return True with probability exp(−over/under), also above 1."""
    whole, rest = divmod(over, under)
    return all(survives(1, 1, bits) for _ in range(whole)) and survives(rest, under, bits)


def gaussian(deviation: float, bits: Bits = system_bits) -> int:
    """Return k with probability ∝ exp(−k²/(2·deviation²))."""
    accepted = _acceptance(deviation, bits)
    proposed = float(int(deviation) + 1)
    while not accepted(k := laplace(proposed, bits)):
        pass
    return k


def _acceptance(deviation: float, bits: Bits) -> Callable[[int], bool]:
    """Return what accepts k with probability exp(−(|k| − s²/t)²/(2s²)).

    s is the deviation, t = ⌊s⌋ + 1 the scale of the proposals.
    """
    n, d = deviation.as_integer_ratio()
    t = int(deviation) + 1
    a, b, q = t * d * d, n * n, 2 * (t * d * n) ** 2

    def accepted(k: int) -> bool:
        whole, p = divmod((abs(k) * a - b) ** 2, q)
        return all(survives(1, 1, bits) for _ in range(whole)) and survives(p, q, bits)

    return accepted


# Many numbers, in numpy


class Words:
    """Random words of the operating system, for vectors of draws."""

    narrow, wide = 16, 64

    def take(self, count: int, width: int) -> Whole:
        """Return `count` words of `width` bits."""
        return np.frombuffer(os.urandom(count * width // 8), f"<u{width // 8}").astype(np.uint64)

    def below(self, n: int, count: int) -> Whole:
        """Return whole numbers below n, all of them equally likely."""
        if n == 1:
            return np.zeros(count, np.uint64)
        width = self.narrow if n.bit_length() <= self.narrow // 2 else self.wide
        if n > 1 << width:
            raise StateError(f"a word of {width} bits cannot hold a number below {n}. Report this fault.")
        # Words at or above the largest multiple of n are taken again: otherwise small rests were likelier.
        last = (1 << width) // n * n - 1
        words = self.take(count, width)
        while len(rejected := np.flatnonzero(words > last)):
            words[rejected] = self.take(len(rejected), width)
        return words % n


def survivors(p: Whole, q: int, words: Words) -> npt.NDArray[np.bool_]:
    """Return for each p True with probability exp(−p/q), for 0 ≤ p ≤ q."""
    odd, going, k = np.ones(len(p), np.bool_), np.arange(len(p)), 1
    while len(going):
        going = going[words.below(q * k, len(going)) < p[going]]
        k += 1
        odd[going] = k % 2 == 1
    return odd


def geometric(count: int, words: Words) -> Whole:
    """Return whole numbers v ≥ 0 with probability ∝ exp(−v)."""
    v, going = np.zeros(count, np.uint64), np.arange(count)
    while len(going):
        going = going[survivors(np.ones(len(going), np.uint64), 1, words)]
        v[going] += np.uint64(1)
    return v


def _proposals(missing: int) -> int:
    """Return how many numbers to propose: mostly, enough are accepted."""
    return missing + missing // 2 + 8


def laplaces(scale: float, size: int, words: Words | None = None) -> IntArray:
    """Return `size` draws like `laplace`, for scales from 1 to 2^52."""
    words = words or Words()
    n, d = scale.as_integer_ratio()  # n < 2^53, and d is a power of two
    parts, missing, one = [np.empty(0, np.int64)], size, np.uint64(1)
    while missing > 0:
        drawn = words.below(2 * n, _proposals(missing))
        drawn = drawn[survivors(drawn >> one, n, words)]
        u, negative, v = drawn >> one, (drawn & one).astype(np.bool_), geometric(len(drawn), words)
        if v.max(initial=0) < _MULTIPLES:
            steps = ((u + n * v) // d).astype(np.int64)
        else:  # once in exp(1024) draws. Python's whole numbers have no limit; a result beyond 64 bits raises
            steps = ((u.astype(object) + n * v.astype(object)) // d).astype(np.int64)
        kept = (steps > 0) | ~negative  # 0 has no sign: otherwise it would be drawn twice as often
        parts.append(np.where(negative, -steps, steps)[kept][:missing])
        missing -= len(parts[-1])
    return np.concatenate(parts)


def gaussians(deviation: float, size: int, words: Words | None = None, bits: Bits = system_bits) -> IntArray:
    """Return `size` draws like `gaussian`, for deviations from 1 to 2^52."""
    accepted = _acceptance(deviation, bits)
    proposed = float(int(deviation) + 1)
    parts, missing = [np.empty(0, np.int64)], size
    while missing > 0:
        drawn = [k for k in laplaces(proposed, _proposals(missing), words).tolist() if accepted(k)]
        parts.append(np.array(drawn[:missing], np.int64))
        missing -= len(parts[-1])
    return np.concatenate(parts)
