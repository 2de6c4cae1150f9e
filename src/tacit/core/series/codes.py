"""Series on a grid: what agents send, and which mean is published.

All functions are pure. A code says how readings become messages, and how sums of messages become sums of
readings again:

- `SquareRoot`: w(t) = Σ_s g(t−s)·x(s), and back with f. One message per slot, for all time.
- `BinaryTree`: the change of the reading over 1, 2, 4, … slots, whenever such a block of slots is full.
- `Independent`: the reading itself.

Noise is added to the sums of messages, once per message. Readings are never rounded; messages are rounded to
a grid that is far finer than the noise (`SeriesGrid`). Proofs: docs/proofs/series.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, final

import numpy as np

from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import ParameterError, StateError
from tacit.core.question import Question
from tacit.core.series.vectors import SlotVector

MOST_SLOTS: Final = 10_000_000
"""A series longer than this would overflow the proof's rounding allowance."""
GRID_BITS: Final = 32
"""The rounding error of a message is at most 2^−GRID_BITS of the noise."""
_COMPUTED: Final = 51
"""Messages are computed within 2^−51 of the range, before they are rounded."""
_SLACK: Final = 1 + 2.0**-30  # covers float64 rounding


def decoding_filter(slots: int) -> FloatArray:
    """Return f(k) = binom(2k, k)/4^k for k < slots.

    Convolved with itself it is all ones.
    """
    k = np.arange(1, require_slots(slots), dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def encoding_filter(slots: int) -> FloatArray:
    """Return the filter g that agents run.

    g(0) = 1 and g(k) = −f(k)/(2k−1). Its running sums are f.
    """
    found = decoding_filter(slots)
    found[1:] /= 1 - 2 * np.arange(1, slots)
    return found


@lru_cache(maxsize=64)
def energy(slots: int) -> float:
    """F(T) = Σ_{k<T} f(k)², which grows like (ln T + γ + 4 ln 2)/π."""
    return float(math.fsum(np.square(decoding_filter(slots)).tolist()))


def require_slots(slots: int, components: int = 1) -> int:
    """Return a number of slots that a series can have.

    The bound is about the numbers of all slots together.
    """
    if not 1 <= slots <= MOST_SLOTS:
        raise ParameterError(f"a series must have from 1 to {MOST_SLOTS:,} slots, got {slots}.")
    if slots * components > MOST_SLOTS:
        raise ParameterError(
            f"a series of a question must have at most {MOST_SLOTS:,} numbers in all slots together, got "
            f"{slots:,} slots of {components:,}: take fewer slots, or a question with fewer parts."
        )
    return int(slots)


# ---- codes ------------------------------------------------------------------------------------------


class SeriesCode(ABC):
    """How readings become messages, and back.

    It is about the readings of all slots. Sums of messages become sums of readings.

    Parameters
    ----------
    slots : int
        How many slots the series has (T).

    Attributes
    ----------
    sent_in : array of int
        The slot in which each message is sent.
    """

    holds: ClassVar[bool] = True
    """Whether a slot without a reading counts as the last reading again.

    If not, nothing is sent for it. To hold is sound where a step is hidden. Where a reading or a window is
    hidden, a held reading would be in many slots, each with fresh noise (docs/proofs/series.md, section 7).
    """

    def __init__(self, slots: int) -> None:
        self.slots = require_slots(slots)
        self.sent_in: IntArray = np.arange(self.slots)

    @abstractmethod
    def encode(self, readings: FloatArray) -> FloatArray:
        """Return the messages of readings of shape (…, slots).

        This is the fast way, for simulations.
        """

    @abstractmethod
    def messages(self, readings: Sequence[float]) -> tuple[float, ...]:
        """Return the messages of the slot that was read last.

        They follow from all readings so far.
        """

    @abstractmethod
    def decode(self, sums: FloatArray) -> FloatArray:
        """Return sums of readings, of shape (…, slots), from sums of messages."""

    @abstractmethod
    def variances(self) -> FloatArray:
        """Return the variance of each slot's published sum.

        It is for draws of variance 1.
        """


@final
class SquareRoot(SeriesCode):
    """The square root of summation.

    Agents filter with g, and published sums are filtered with f.
    """

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self._f, self._g = decoding_filter(slots), encoding_filter(slots)

    def encode(self, readings: FloatArray) -> FloatArray:
        """Convolve with g."""
        return _convolved(self._g, readings)

    def messages(self, readings: Sequence[float]) -> tuple[float, ...]:
        """Return w(t), within 2^−51 of the largest reading.

        Only the products are rounded, not their sum.
        """
        last = self._g[: len(readings)][::-1] * np.asarray(readings, dtype=np.float64)
        return (math.fsum(last.tolist()),)

    def decode(self, sums: FloatArray) -> FloatArray:
        """Convolve with f."""
        return _convolved(self._f, sums)

    def variances(self) -> FloatArray:
        """F(1), F(2), …, F(T)."""
        return np.asarray(np.cumsum(np.square(self._f)))


@final
class BinaryTree(SeriesCode):
    """A binary tree over the changes of the reading.

    Node m of level j is x(m·2^j − 1) − x((m−1)·2^j − 1). A node is sent in its last slot. The reading of slot
    t is a sum of nodes, at most one per level: one for each one bit of t + 1. Messages are listed level by
    level.
    """

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.levels = self.slots.bit_length()
        counts = [self.slots >> j for j in range(self.levels)]
        self._starts = np.concatenate([[0], np.cumsum(counts)])
        self.sent_in = np.concatenate([(np.arange(1, c + 1) << j) - 1 for j, c in enumerate(counts)])

    def encode(self, readings: FloatArray) -> FloatArray:
        """Take differences of readings that are 2^j slots apart."""
        before = np.concatenate([np.zeros((*readings.shape[:-1], 1)), readings], axis=-1)
        return np.concatenate([np.diff(before[..., :: 1 << j]) for j in range(self.levels)], axis=-1)

    def messages(self, readings: Sequence[float]) -> tuple[float, ...]:
        """One message per node that ends in this slot, from the lowest level on."""
        t = len(readings)
        widths = (1 << j for j in range(self.levels) if t % (1 << j) == 0)
        return tuple(readings[t - 1] - (readings[t - width - 1] if t > width else 0.0) for width in widths)

    def decode(self, sums: FloatArray) -> FloatArray:
        """Add up the nodes of each slot."""
        t = np.arange(1, self.slots + 1)
        found = np.zeros((*sums.shape[:-1], self.slots))
        for j in range(self.levels):
            uses = (t >> j) & 1 == 1
            found[..., uses] += sums[..., self._starts[j] + (t[uses] >> j) - 1]
        return found

    def variances(self) -> FloatArray:
        """How many one bits t + 1 has."""
        return np.bitwise_count(np.arange(1, self.slots + 1)).astype(np.float64)


@final
class Independent(SeriesCode):
    """The readings themselves, with independent noise.

    A message depends on the reading of its own slot only.
    """

    holds = False

    def encode(self, readings: FloatArray) -> FloatArray:
        """Return the readings."""
        return readings

    def messages(self, readings: Sequence[float]) -> tuple[float, ...]:
        """Return the last reading."""
        return (float(readings[-1]),)

    def decode(self, sums: FloatArray) -> FloatArray:
        """Return the sums."""
        return sums

    def variances(self) -> FloatArray:
        """One draw each."""
        return np.ones(self.slots)


def _convolved(first: FloatArray, second: FloatArray) -> FloatArray:
    """Convolve along the last axis by Fourier transforms.

    The result has as many slots as the first array. The error is about 10^−15 of the largest reading. Only
    simulations use this; agents use `messages`.
    """
    slots = first.shape[-1]
    size = min(p << max((-(-(2 * slots - 1) // p) - 1).bit_length(), 0) for p in (1, 3, 5, 9, 15))
    product = np.fft.rfft(first, size) * np.fft.rfft(second, size)
    return np.asarray(np.fft.irfft(product, size)[..., :slots])


# ---- the grid ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class SeriesGrid:
    """The grid of messages: whole numbers of steps h = 2^exponent.

    Readings count from `low`, and are clamped to the range.

    Attributes
    ----------
    exponent : int
    low, high : float
    """

    exponent: int
    low: float
    high: float

    @classmethod
    def fitting(cls, noise: float, low: float, high: float, bits: int = GRID_BITS) -> SeriesGrid:
        """Return the grid for this noise.

        The noise is a deviation (Gaussian) or a scale (Laplace). A message is computed within e = 2^−51 of
        the range and rounded to the nearest step, so rounding moves two streams' messages apart by at most h
        + 2e. The grid is so fine that this is at most 2^−bits of the noise: h is at most half of that, and a
        range for which 2e exceeds the other half is refused.
        """
        widest = _COMPUTED - 2 - bits
        if not (0 < noise < math.inf and high - low <= noise * 2.0**widest):
            raise ParameterError(
                f"the noise of a series must be at least the range over 2^{widest}, got {noise:g} for a "
                f"range of {high - low:g}: messages could not be rounded finely enough. Take less "
                "loss, or hide a larger change."
            )
        return cls(math.frexp(noise)[1] - 2 - bits, low, high)

    @property
    def step(self) -> float:
        """The grid step h."""
        return math.ldexp(1.0, self.exponent)

    @property
    def moved(self) -> float:
        """The most by which rounding moves two messages apart: h + 2e."""
        return self.step + 2 * (self.high - self.low) * 2.0**-_COMPUTED

    def clamp(self, reading: float) -> float:
        """Return a reading clamped to the range, counted from its low end."""
        if math.isnan(reading):
            raise StateError("a reading must be a number.")
        return min(max(float(reading), self.low), self.high) - self.low

    def rounded(self, messages: Iterable[float]) -> tuple[int, ...]:
        """Round messages to whole grid steps. Scaling by a power of two is exact."""
        return tuple(round(math.ldexp(message, -self.exponent)) for message in messages)


# ---- one agent, one sum -----------------------------------------------------------------------------


@final
class SeriesAgent:
    """One agent of a series: it reads once per slot and sends whole numbers.

    Readings and messages are private. A message never depends on whether earlier messages were used. A
    message that was not used is lost. `SeriesCode.holds` decides what a slot without a reading is.

    Parameters
    ----------
    asked : Question, optional
        What is asked, if readings are more than numbers of the range. Each component has a filter of its own.
    """

    def __init__(self, code: SeriesCode, grid: SeriesGrid, asked: Question | None = None) -> None:
        self._code, self._grid, self._vector = code, grid, SlotVector(grid, asked)
        self._nothing = (0.0,) * self._vector.components
        self._readings = [list[float]() for _ in self._nothing]

    def __repr__(self) -> str:
        return f"<SeriesAgent, {self.slot} of {self._code.slots} slots read>"

    @property
    def slot(self) -> int:
        """The slot that is read next."""
        return len(self._readings[0])

    @property
    def last(self) -> float | tuple[float, ...]:
        """The clamped reading of the last slot, from the origin. Private.

        Where the slot had none it is what the slot counts as: the reading before if the code holds, and 0
        otherwise and before the first reading. Of a question it is a vector.
        """
        last = self._last
        return last[0] if self._vector.plain else last

    @property
    def _last(self) -> tuple[float, ...]:
        return tuple(column[-1] for column in self._readings) if self.slot else self._nothing

    def _append(self, vector: Sequence[float], times: int = 1) -> None:
        for column, number in zip(self._readings, vector, strict=True):
            column.extend([number] * times)

    def pass_until(self, slot: int) -> None:
        """Pass all slots before this one without a reading.

        Nothing is sent for them.
        """
        if not self.slot <= slot <= self._code.slots:
            raise StateError(f"slots go forward, up to {self._code.slots}: {slot} cannot follow {self.slot}.")
        self._append(self._last if self._code.holds else self._nothing, slot - self.slot)

    def restore(self, slot: int, last: float | Sequence[float]) -> None:
        """Restore the clamped reading of a slot from stored records.

        Nothing is computed.
        """
        self.pass_until(slot)
        self._append((last,) if isinstance(last, float | int) else last)

    def read(self, reading: Any) -> tuple[int, ...]:
        """Take the reading of the next slot, and return what is sent.

        None if there is no reading: the last one is repeated if the code holds, and nothing is sent
        otherwise. Before its first reading an agent counts as being at the origin: the low end of the range,
        or the question's stand-in. The messages of each component follow one another.
        """
        if self.slot >= self._code.slots:
            raise StateError(f"the series has {self._code.slots} slots, and all of them were read.")
        if reading is None:
            self.pass_until(self.slot + 1)
            if not self._code.holds:
                return ()
        else:
            self._append(self._vector.read(reading))
        said = (self._code.messages(column) for column in self._readings)
        return self._grid.rounded(number for numbers in said for number in numbers)


@final
class SeriesDecoder:
    """Published means, slot by slot, from the opened sums.

    They are the same floats on every machine. A slot without a sum is lost: it has no mean. The square-root
    code needs its sum for later slots, so it is replaced by the sum with which the previous mean would have
    stayed the same (docs/proofs/series.md, section 7).

    Parameters
    ----------
    code : SeriesCode
        `SquareRoot` or `Independent`.
    grid : SeriesGrid
    noise : float
        The standard deviation of the noise in a sum, by all keepers together; only `deviation` needs it.
    asked : Question, optional
        What is asked, if readings are more than numbers of the range. Components are decoded alike.
    """

    def __init__(
        self, code: SeriesCode, grid: SeriesGrid, noise: float = 0.0, asked: Question | None = None
    ) -> None:
        if not isinstance(code, SquareRoot | Independent):
            raise ParameterError(f"means cannot be decoded slot by slot from a {type(code).__name__}.")
        self._grid, self._filtered = grid, isinstance(code, SquareRoot)
        self._f = decoding_filter(code.slots) if self._filtered else np.ones(1)
        self._vector = SlotVector(grid, asked)
        # (N_s/|U_s|)·S(s), or its replacement in a lost slot
        self._scaled = np.zeros((self._vector.components, code.slots))
        self.slot = 0
        """The slot whose sum comes next."""
        self.members = 0
        """How many agents are members: their messages were used at least once."""
        self._used = np.zeros(code.slots, np.int64)  # |U_s|
        self._noise = noise * _SLACK
        self._scale = np.zeros(code.slots)  # N_s/|U_s|, 0 in a lost slot
        self._held = np.zeros(code.slots)  # a bound on the noise in a lost slot's replacement, per `noise`

    def __repr__(self) -> str:
        return f"<SeriesDecoder, {self.slot} slots>"

    def add(self, total: int | Sequence[int], used: int, members: int) -> None:
        """Take the opened sum of the next slot, in grid steps.

        It is one whole number for each component. If `used` is 0, the slot is lost. This is cheap, except for
        lost slots. `mean` computes the mean of the last slot.
        """
        if used == 0:
            held = self._sum(self.slot - 1) if self.members and self._filtered else 0.0
            self._scaled[:, self.slot] = held - self._sum(self.slot) if self._filtered else 0.0
            self._held[self.slot] = self._spread(-np.diff(self._f[: self.slot + 1])) if self._filtered else 0
        else:
            if not (members >= used >= 1 and members >= self.members):
                raise ParameterError("used must be at most members in every slot.")
            self.members = members
            self._scale[self.slot] = members / used
            numbers = [total] if isinstance(total, int) else total
            if len(numbers) != len(self._scaled):
                raise ParameterError(f"a sum must have {len(self._scaled)} numbers, got {len(numbers)}.")
            for j, number in enumerate(numbers):
                scaled = math.ldexp(float(number), self._grid.exponent) * (members / used)
                self._scaled[j, self.slot] = scaled
        self._used[self.slot] = used
        self.slot += 1

    def mean(self) -> float | tuple[float, ...] | None:
        """Return the published mean of the last slot; None if it is lost.

        It is a vector if it has more than one component.
        """
        if not self.used:
            return None
        return self._vector.mean((self._sum(self.slot - 1) / self.members).tolist())

    def deviation(self) -> float | None:
        """Return the standard deviation of the noise in the last mean.

        It is that of each component.

        It is for the messages that were used, rounded up, and None if the slot is lost. In a lost slot the
        previous mean is repeated, with its noise; this part is bounded by the triangle inequality
        (docs/proofs/series.md, section 7). What missing members would have added is not in it.
        """
        if not self.used:
            return None
        weights = self._f[: self.slot] if self._filtered else self._f
        return self._noise * self._spread(weights) / self.members * _SLACK

    @property
    def used(self) -> int:
        """How many messages the last slot has; 0 if it is lost."""
        return int(self._used[self.slot - 1]) if self.slot else 0

    def incomplete(self, agents: int) -> int:
        """In how many slots so far not all of so many agents were used."""
        return int(np.sum(self._used[: self.slot] < agents))

    @property
    def incomplete_before(self) -> int:
        """In how many earlier slots members of now were missing that still count.

        Without a filter a mean depends on its own slot only. With one, a member that came late does no harm.
        But it cannot be told from one whose first messages were lost, so these slots are counted.
        """
        return int(np.sum(self._used[: self.slot - 1] < self.members)) if self._filtered and self.slot else 0

    def _spread(self, weights: FloatArray) -> float:
        """Return the deviation of a weighted sum of the last slots, per `noise`.

        The first weight is that of the last slot that was added.
        """
        first, last = self.slot - len(weights), self.slot
        own = np.square(weights[::-1] * self._scale[first:last]).sum()
        return math.sqrt(float(own)) + float(weights[::-1] @ self._held[first:last])

    def _sum(self, slot: int) -> FloatArray:
        if not self._filtered:
            return self._scaled[:, slot]
        products = self._f[: slot + 1][::-1] * self._scaled[:, : slot + 1]
        return np.array([math.fsum(row.tolist()) for row in products])


def published(
    code: SeriesCode,
    grid: SeriesGrid,
    sums: FloatArray,
    members: FloatArray | float,
    used: FloatArray | float,
) -> FloatArray:
    """Return the published mean of every slot.

    Parameters
    ----------
    sums : array, shape (…, messages)
        Sums over the used agents' messages with their noise, in the units of the readings.
    members, used : number or array, shape (slots,)
        N_s and |U_s| of each slot. The factor N_s/|U_s| makes up for members whose message was not used.
    """
    n, u = (np.broadcast_to(np.asarray(each, dtype=np.float64), code.slots) for each in (members, used))
    if not (np.all(u >= 1) and np.all(n >= u)):
        raise ParameterError("in every slot at least one member must be used, and no more than there are.")
    return code.decode(sums * (n / u)[code.sent_in]) / n + grid.low
