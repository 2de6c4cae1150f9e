"""Bits of messages are fair coins, and so are the digits of their noise.

A leak can be in any single bit. On a lattice, the low bits of a message are nearly fair coins, whatever the
state is. High bits are not, but their probability is known. The auditor turns them into fair coins: it
changes some of them at random. Then the number of coins that agree with anything known before is binomial
(docs/proofs/audit.md, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from tacit.base.arrays import FloatArray, IntArray
from tacit.lab.audit.oddity import Oddity
from tacit.lab.audit.residual import Noise

_MOST_COLUMNS = 24  # agents and components that are tested
_MOST_SESSIONS = 2000  # of each start, in which bits are compared with the bits known before
_BEYOND = 3  # bits of more than 2^3 noise scales are hardly ever random
_MOST_BITS = 61
_EVEN = 2.0**-10  # noise scales: bits of less weight are used as they are
_DIGITS = 36  # of e^−|r|
_ROUNDING = 2.0**-50  # bounds the error of e^−|r| in doubles
_OWN = (0x7AC17, 0xB175)  # keeps the random stream of this module apart from all others


@dataclass
class _Worst:
    """The least likely of many counts of fair coins."""

    p: float = 1.0
    place: str = "everywhere"
    seen: str = "nothing odd"
    asked: int = 0

    def look(
        self,
        ones: IntArray,
        tossed: int,
        excess: FloatArray | float,
        *,
        place: str,
        first: int = 0,
        seen: str = "are 1",
    ) -> None:
        """Take counts of ones among so many tosses, one count for each bit.

        `excess` bounds how far the probability of a one is from ½. The numbers of the bits, counted from
        `first`, are put into the name of the place.
        """
        self.asked += ones.size if tossed else 0
        more = np.maximum(ones, tossed - ones)
        p = np.asarray(2 * binom.sf(more - 1, tossed, np.minimum(1.0, 0.5 + excess)))
        at = np.unravel_index(int(np.argmin(p)), p.shape)
        if p[at] < self.p:
            self.p, self.place = float(p[at]), place.format(*(int(i) + first for i in at))
            self.seen = f"{ones[at] / tossed:.4f} {seen}, 0.5 expected"

    def oddity(self, test: str) -> Iterator[Oddity]:
        """Correct for the number of counts."""
        if self.asked:
            yield Oddity(test, self.place, min(1.0, self.asked * self.p), self.seen)


def every_bit(noise: Noise) -> Iterator[Oddity]:
    """Test that each bit of messages and draws is a fair coin.

    Each agent is tested from each start alone and from both together: a bit that tells the start is constant
    within each. In some sessions, each bit is also compared with every bit of the state and of the message
    before.
    """
    if noise.drawn is None or noise.sent is None:
        return
    rng, single, pair = np.random.default_rng(_OWN), _Worst(), _Worst()
    for column, name in enumerate(noise.names[:_MOST_COLUMNS]):
        told, sent = np.isfinite(noise.r[:, :, column]), noise.sent[:, :, column]
        drawn, step = noise.drawn[:, :, column], noise.step[:, :, column]
        widest = float(step.max(initial=0.0))
        width, state, luck = bits_above(widest), sent - drawn, rng.random(sent.shape)
        # The bound on a probability's error: half a step, and what is left of the bits that are not changed.
        excess = widest / 2 + _EVEN**2 / 8
        said = fair_bits(sent, state, step, luck, width)
        for what, coins in (("message", said), ("noise", fair_bits(drawn, None, step, luck, width))):
            for start, ones, tossed in _counts(noise, coins, told):
                single.look(ones, tossed, excess, place=f"{name}{start}: {what} bit {{}}")
        before = np.zeros_like(sent)
        before[:, 1:] = sent[:, :-1]
        for what, known in (("the state", state), ("the message before", before)):
            for start, mine in _starts(noise):
                few = mine[:_MOST_SESSIONS]
                one, two = (_signs(z[told[few]]) for z in (said[few], bits_of(known[few], width)))
                differ = np.rint((len(one) - one.T @ two) / 2).astype(np.int64)
                place = f"{name}{start}: message bit {{}} and bit {{}} of {what}"
                pair.look(differ, len(one), excess, place=place, seen="differ")
    yield from single.oddity("bits")
    yield from pair.oddity("bits")


def digits(noise: Noise) -> Iterator[Oddity]:
    """Test that each binary digit of e^−|r| is a fair coin.

    And whether each equals the next. e^−|r| is uniform. If noise is made from uniform numbers of few bits,
    e^−|r| is near a multiple of a power of two, just below or just above: its further digits are all equal.
    """
    if noise.drawn is None:
        return
    worst = _Worst()
    excess = np.ldexp(2 * _ROUNDING, np.arange(1, _DIGITS + 1))
    for column, name in enumerate(noise.names[:_MOST_COLUMNS]):
        r = noise.r[:, :, column]
        told = np.isfinite(r)
        uniform = np.where(told, np.exp(-np.abs(np.where(told, r, 0.0))), 0.0)
        number = (uniform * 2.0**_DIGITS).astype(np.int64)
        looks = (("", "are 1", number), (" and the one before", "differ", number ^ number >> 1))
        for other, seen, coded in looks:
            coins = bits_of(coded, _DIGITS)[..., ::-1]
            for start, ones, tossed in _counts(noise, coins, told):
                place = f"{name}{start}: digit {{}}{other}"
                worst.look(ones, tossed, excess, place=place, first=1, seen=seen)
    yield from worst.oddity("digits")


def bits_of(numbers: IntArray, width: int) -> npt.NDArray[np.uint8]:
    """Return the bits of whole numbers in a last axis, the lowest first."""
    data = np.ascontiguousarray(numbers, dtype="<i8")[..., None].view(np.uint8)
    return np.unpackbits(data, axis=-1, count=width, bitorder="little")


def bits_above(step: float) -> int:
    """How many bits are random, if a step is this part of the noise."""
    return min(_MOST_BITS, max(1, _BEYOND + math.ceil(-math.log2(step)))) if step > 0 else 1


def fair_bits(
    numbers: IntArray, state: IntArray | None, step: FloatArray, luck: FloatArray, width: int
) -> npt.NDArray[np.uint8]:
    """Return the bits of messages, changed so that each is a fair coin.

    Parameters
    ----------
    numbers : int array
        Messages in steps of the lattice: state plus noise.
    state : int array like `numbers`, or None
        What the noise was added to; None for 0.
    step : array
        Of the lattice, divided by the scale of the noise; broadcasts to `numbers`.
    luck : array like `numbers`
        Uniform random numbers of the auditor, independent of everything.
    """
    coins = bits_of(numbers, width)
    same = np.zeros(1, np.int64) if state is None else state
    widest = float(step.max(initial=0.0))
    for j in range(width):
        block = 1 << j
        if block * widest <= _EVEN:
            continue
        # Bit j of the message differs from bit j of the state with this probability p, at most ½. If it is
        # the same, it is changed with probability (½ − p)/(1 − p). Then it differs with probability ½.
        low = ((same & (block - 1)) + 0.5) * step
        high = block * step
        p = (np.exp(low - high) + np.exp(-low)) / (2 * (1 + np.exp(-high)))
        kept = coins[..., j] == ((same >> j) & 1)
        coins[..., j] ^= kept & (luck < (0.5 - p) / (1 - p))
    return coins


def _starts(noise: Noise) -> Iterator[tuple[str, IntArray]]:
    """Yield a name and the sessions of each start."""
    starts = np.unique(noise.start)
    for start in starts:
        yield f", start {start + 1}" if len(starts) > 1 else "", np.flatnonzero(noise.start == start)


def _counts(
    noise: Noise, coins: npt.NDArray[np.uint8], told: npt.NDArray[np.bool_]
) -> Iterator[tuple[str, IntArray, int]]:
    """Yield the ones in each bit and the tosses: of each start, and of all."""
    parts = [(start, coins[mine][told[mine]]) for start, mine in _starts(noise)]
    counts = [(start, part.sum(axis=0, dtype=np.int64), len(part)) for start, part in parts]
    yield from counts
    if len(counts) > 1:
        yield "", np.sum([ones for _, ones, _ in counts], axis=0), sum(tossed for *_, tossed in counts)


def _signs(coins: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    return (1 - 2 * coins.astype(np.int8)).astype(np.float32)
