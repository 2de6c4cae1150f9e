"""The exact law of a weighted sum of independent Laplace variables.

The deviation of a consensus value is such a sum, V = Σ_k w_k·L_k with L_k ~ Lap(1). Its moment
generating function M(z) = Π_k 1/(1 − (w_k z)²) is known in closed form, and the upper tail
follows by integrating along the line Re z = a with 0 < a < 1/max w:

    P(V > r) = (1/2π) ∫ e^{−(a+is)r} M(a+is)/(a+is) ds.

It is computed by the trapezoidal rule. By Poisson summation the error of the rule is a sum of positive terms,
each below a Chernoff bound. As log|M| is concave in log s, the part that is cut off is bounded, too. So the
results are enclosures, not estimates (docs/proofs/exact-radius.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.polynomial.polynomial import polyval

from tacit.base.arguments import inside_unit
from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import ParameterError
from tacit.core.theory.one_dimension import lowest_point, zero

ComplexArray = npt.NDArray[np.complex128]

_SERIES_TERMS = 28  # of −log(1 − u²) for |u| ≤ 1/2: the rest is below 4^−28
_POWERS = np.arange(_SERIES_TERMS + 1)
_MAX_NODES = 2**18
_CHUNK = 2**21  # complex numbers held at once
_FEW = 16  # so few points are computed together
_RELATIVE = 1e-13  # target for each error of the rule, relative to the tail
_POLE = 25.0  # lines stop a relative e^−25 before the nearest pole
_MOST_SINGLE = 2**18  # terms computed one by one if noise fades slowly
_NOTHING = -700.0  # logarithm of tails that are treated as 0
_EPS = float(np.finfo(np.float64).eps)
_SLACK = 1.01  # for products of errors, and for the rounding of the error bounds themselves


_EXTREME = 300  # scales outside 2^±this are divided by a power of two first
_FAR = 1e30  # offsets this many scales away are added without the exact law


class Bounds(NamedTuple):
    """Two numbers that enclose the true one."""

    low: float
    high: float


class _Parts(NamedTuple):
    """The terms of a sum, split by how they are computed.

    Large terms are computed one by one (squared weights, multiplicities), the others by a series in
    (z·largest)².
    """

    squares: FloatArray
    counts: FloatArray
    largest: float
    series: FloatArray


def _ldexp(value: float, exponent: int) -> float:
    """Return value·2^exponent; infinite if it is too large for a number."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(math.inf, value)


def _ldexp_up(value: float, exponent: int) -> float:
    """Return value·2^exponent for a positive value, and never less."""
    found = _ldexp(value, exponent)
    return found if found >= 2.0**-1000 else math.nextafter(found, math.inf)


@dataclass(frozen=True, eq=False)
class LaplaceSum:
    """A sum of Laplace variables whose scales fade geometrically.

    V = Σ_g Σ_{t<rounds} Σ_{k≤count_g} scale_g·ratio_g^t·L_{g,t,k}, with L ~ Lap(1).

    Parameters
    ----------
    scale, ratio, count : array
        Per group of equal terms: scale in round 0, decay per round in [0, 1), multiplicity.
    rounds : int or None
        Number of rounds; None for an endless sum.
    """

    scale: FloatArray
    ratio: FloatArray
    count: FloatArray
    rounds: int | None = None
    _splits: list[tuple[float, float, _Parts]] = field(default_factory=list, init=False, repr=False)

    @cached_property
    def _unit(self) -> tuple[LaplaceSum, int] | None:
        """Return the sum divided by 2^e, and e, if its scales are extreme.

        Otherwise None. Squares of extreme scales would underflow or overflow. V is linear in its scales, and
        dividing by a power of two is exact.
        """
        largest = float(np.max(self.scale, initial=0.0))
        exponent = math.frexp(largest)[1]
        if largest == 0 or abs(exponent) <= _EXTREME:
            return None
        return LaplaceSum(np.ldexp(self.scale, -exponent), self.ratio, self.count, self.rounds), exponent

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of V."""
        if self._unit is None:
            return math.sqrt(self.variance)
        unit, exponent = self._unit
        return _ldexp_up(math.sqrt(unit.variance), exponent)

    @cached_property
    def variance(self) -> float:
        """Var V = 2 Σ_k w_k², and positive even if that underflows."""
        if self._unit is not None:
            unit, exponent = self._unit
            return _ldexp_up(unit.variance, 2 * exponent)
        return float(2 * np.sum(self.count * self.scale**2 * self._geometric(2, np.zeros(1))))

    def tail(self, r: float) -> Bounds:
        """P(V > r), enclosed."""
        if self.variance == 0:
            return Bounds(float(r < 0), float(r < 0))
        if self._unit is not None:
            unit, exponent = self._unit
            return unit.tail(_ldexp(r, -exponent))
        if r < 0:  # use the symmetry of V: far below 0 the line integral would overflow
            above = self.tail(-r)
            return Bounds(1 - above.high, 1 - above.low)
        a = self._minimise(lambda a: self._k(a) - a * r)
        if self._k(a) - a * r < _NOTHING:
            return Bounds(0.0, math.exp(_NOTHING))
        return self._line(r).tail(r)

    def exceedance(self, r: float, offset: float = 0.0) -> Bounds:
        """Enclose P(|V + offset| > r).

        V is symmetric, so the sign of offset does not matter.
        """
        if self.variance == 0:
            return Bounds(float(r < abs(offset)), float(r < abs(offset)))
        near, far = self.tail(r - abs(offset)), self.tail(r + abs(offset))
        return Bounds(min(near.low + far.low, 1.0), min(near.high + far.high, 1.0))

    def quantile(self, probability: float, offset: float = 0.0) -> Bounds:
        """Enclose the r with P(|V + offset| > r) = probability."""
        beta = abs(offset)
        return self._solve(probability, beta, -beta)

    def quantile_of_all(self, probability: float, above: float, below: float) -> Bounds:
        """Enclose the r with P(V > r − above) + P(V < below − r) = probability.

        That is the radius for many agents at once, if one agent is shifted by `above` and another one by
        −`below`; both are at least 0.
        """
        return self._solve(probability, max(above, below), min(above, below))

    def _solve(self, probability: float, near: float, far: float) -> Bounds:
        """Enclose the r ≥ 0 at which two tails add up to `probability`.

        These are P(V > r − near) + P(V > r − far), with far ≤ near.
        """
        require_probability(probability)
        if self.variance == 0:
            return Bounds(near, near)
        if self._unit is not None:
            unit, exponent = self._unit
            ends = _ldexp(near, -exponent), _ldexp(far, -exponent)
            if max(map(abs, ends)) > _FAR:  # the noise is smaller than the rounding of `near`
                return Bounds(
                    0.0, math.nextafter(near + _ldexp_up(unit._chernoff(probability / 2), exponent), math.inf)
                )
            low, high = unit._solve(probability, *ends)
            return Bounds(_ldexp(low, exponent), _ldexp_up(high, exponent))
        # An upper end by Chernoff's bound, and a lower end: V is above 0 with probability 1/2. The line
        # integral would overflow much further below `near`.
        ceiling = near + self._chernoff(probability / 2)
        floor = near if probability <= 0.5 else max(near - self._chernoff((1 - probability) / 2), 0.0)
        r = ceiling
        for _ in range(5):  # the line is most accurate near the answer: move it there
            line = self._line(r - near)
            previous, r = r, _root(partial(line.excess, near, far, probability), floor, r, ceiling)
            if abs(r - previous) < 0.05 * (r - floor):
                break
        density = line.density(r, near, far)
        return Bounds(
            _walk(r, -1, density, lambda s: probability - line.two_tails(s, near, far).low),
            _walk(r, +1, density, lambda s: line.two_tails(s, near, far).high - probability),
        )

    def _chernoff(self, probability: float) -> float:
        """Return x with P(V > x) ≤ probability, by Chernoff's bound."""
        a = self._minimise(lambda a: (self._k(a) - math.log(probability)) / a)
        return (self._k(a) - math.log(probability)) / a

    def log_mgf(self, z: ComplexArray, ulps: FloatArray | None = None) -> ComplexArray:
        """The logarithm of M(z), −Σ_k log(1 − (w_k z)²), where |Re z| < 1/max w.

        If `ulps` is given, a bound on the rounding error of each result is added to it, in units of 2^−52
        (docs/proofs/exact-radius.md, "Rounding").
        """
        parts = self._parts(float(np.max(np.abs(z))))
        square = z * z
        inner = square * parts.largest**2
        few = z.size <= _FEW  # all powers at once are faster than one after the other
        total = parts.series @ inner ** _POWERS[:, None] if few else polyval(inner, parts.series)
        if ulps is not None:
            ulps += polyval(np.abs(square) * parts.largest**2, (22 * _POWERS + 60) * parts.series)
        size = max(1, _CHUNK // z.size)
        for i in range(0, parts.squares.size, size):
            counts, inner = parts.counts[i : i + size], parts.squares[i : i + size, None] * square
            # log1p, not log(1 − …): near the start of a line u² is tiny, and 1 − u² would lose digits.
            terms = np.log1p(-inner)
            total -= counts @ terms
            if ulps is not None:
                ulps += counts @ (14 * np.abs(inner / (1 - inner)) + 8)
                ulps += (counts * (8 + parts.squares.size)) @ np.abs(terms)
        return np.asarray(total, dtype=np.complex128)

    @cached_property
    def _logarithms(self) -> tuple[FloatArray, FloatArray]:
        """The logarithms of 2·scale and of 1/ratio."""
        with np.errstate(divide="ignore"):
            return np.log(2 * self.scale), -np.log(self.ratio)

    def _parts(self, reach: float) -> _Parts:
        """Split the terms into large ones and a series for the rest.

        Large are those with w·reach > 1/2.
        """
        # The split depends on `reach` only through how many rounds of each group are large. A search
        # evaluates many points with the same split.
        for low, high, parts in self._splits:
            if low < reach < high:
                return parts
        start, fall = self._logarithms
        with np.errstate(invalid="ignore"):  # −∞/∞ where a scale and its ratio are 0: no round is taken
            rounds = np.ceil((start + math.log(reach)) / fall).clip(min=1)
        rounds[self.scale * reach <= 0.5] = 0
        if self.rounds is not None:
            rounds = rounds.clip(max=self.rounds)
        parts = self._split(rounds.astype(np.int64))
        self._splits.append((*self._same(rounds), parts))
        return parts

    def _same(self, rounds: FloatArray) -> tuple[float, float]:
        """Return between which reaches as many rounds of each group are large.

        Round t of a group is large if reach > e^{fall·t}/(2·scale).
        """
        start, fall = self._logarithms
        with np.errstate(invalid="ignore", over="ignore"):  # 0·∞ where a ratio is 0
            first, last = (np.exp(np.where(t > 0, fall * t, 0.0) - start) for t in (rounds - 1, rounds))
        if self.rounds is not None:
            last[rounds == self.rounds] = math.inf
        return float(np.max(first[rounds > 0], initial=0.0)), float(np.min(last, initial=math.inf))

    def _split(self, rounds: IntArray) -> _Parts:
        groups = np.repeat(np.arange(rounds.size), rounds)
        t = np.arange(groups.size) - np.repeat(np.cumsum(rounds) - rounds, rounds)
        left = self.scale * self.ratio**rounds
        if self.rounds is not None:
            left[rounds == self.rounds] = 0.0
        largest = float(np.max(left, initial=0.0))
        relative = left / (largest or 1.0)  # plain powers up to 56 would underflow
        series = np.zeros(_SERIES_TERMS + 1)
        size = max(1, _CHUNK // max(1, rounds.size))
        for i in range(1, _SERIES_TERMS + 1, size):
            m = _POWERS[i : i + size, None]
            terms = self.count * relative ** (2 * m) * self._geometric(2 * m, rounds)
            series[i : i + size] = np.sum(terms, axis=1) / m[:, 0]
        squares = (self.scale[groups] * self.ratio[groups] ** t) ** 2
        return _Parts(squares, self.count[groups], largest, series)

    def _geometric(self, power: int | IntArray, first: npt.ArrayLike) -> FloatArray:
        """Σ_{t < rounds − first} ratio^{power·t} per group, for each power."""
        log_ratio = -power * self._logarithms[1]
        if self.rounds is None:
            # expm1, because noise that fades slowly has a ratio near 1, where 1 − ratio^power loses its
            # digits.
            return np.asarray(1 / -np.expm1(log_ratio))
        left = np.maximum(self.rounds - np.asarray(first), 0)
        with np.errstate(invalid="ignore"):  # 0·(−∞) where no round is left
            return np.where(left > 0, np.expm1(left * log_ratio) / np.expm1(log_ratio), 0.0)

    def _k(self, a: float) -> float:
        """Return the logarithm of M(a) for a real a > 0.

        The same as `log_mgf`, but several times faster.
        """
        parts, square = self._parts(a), a * a
        series = float(parts.series @ (square * parts.largest**2) ** _POWERS)
        return series - float(parts.counts @ np.log1p(-square * parts.squares))

    @cached_property
    def _top(self) -> float:
        """Where lines stop: at the nearest pole, or earlier.

        Every line below the nearest pole gives valid bounds. With hundreds of thousands of terms of nearly
        the same size, lines close to the pole help only for tails far below e^−700, so they stop earlier.
        """
        largest = float(np.max(self.scale))
        rounds = _MOST_SINGLE // int(np.sum(self.scale > largest / 2)) or 1
        if self.rounds is not None and self.rounds <= rounds:
            return 1 / largest
        # after this many rounds all terms have w·a ≤ 1/2 and go into the series
        return min(1 / largest, 0.5 / max(float(np.max(self.scale * self.ratio**rounds)), 1e-300))

    def _minimise(self, objective: Callable[[float], float], share: float = 1.0) -> float:
        """Return about where an objective on (0, share·top) is least.

        The objective must fall and then rise.
        """
        top = share * self._top
        bottom = math.log(min(1e-6 / (top * math.sqrt(self.variance)), 0.1))

        def place(v: float) -> float:  # resolves points near the pole at `top` as well as near 0
            return top / (1 + math.exp(-v))

        return place(lowest_point(lambda v: objective(place(v)), bottom, _POLE, 0.01))

    @cached_property
    def _only(self) -> float | None:
        """The weight of the only term, if there is just one."""
        if self.scale.size == 1 and self.count[0] == 1 and (self.ratio[0] == 0 or self.rounds == 1):
            return float(self.scale[0])
        return None

    def _line(self, r: float) -> _Tails:
        """Choose line, step and cut-off for tails near r."""
        if self._only is not None:  # M falls only like 1/s²: no line would be long enough
            return _OneTerm(self._only)
        # if lines stop before the pole, leave room for the second line
        share = 0.9 if self._top < 1 / float(np.max(self.scale)) else 1.0
        # The saddle point of the integrand. Here it is as small as the tail itself; on other lines it is
        # larger and oscillates, and digits cancel.
        a = self._minimise(lambda a: self._k(a) - a * r - math.log(a), share)
        k = self._k(a)
        # The rule also counts the tails at r ± j·period, weighted by e^{±ja·period}. Those to the left are at
        # most e^{−ja·period}, as probabilities are at most 1. The loop makes those to the right small, too.
        period = (abs(math.log(_RELATIVE)) + max(a * r - k, 0.0)) / a
        while True:
            far = r + period
            chernoff = self._minimise(lambda b, far=far: self._k(b) - b * far)  # type: ignore[misc]
            if chernoff > a:
                k_chernoff = self._k(chernoff)
                beyond = k_chernoff - chernoff * r - (chernoff - a) * period
                if beyond <= math.log(_RELATIVE) + k - a * r:
                    break
            period *= 1.5
        step = 2 * math.pi / period
        cut = 4 / math.sqrt(self.variance)
        while True:
            half, full = self.log_mgf(np.array([complex(a, cut / 2), complex(a, cut)])).real - k
            slope = (half - full) / math.log(2)  # of −log|M| over log s, which only grows
            missing = float(math.exp(full) / (math.pi * slope))
            if missing <= _RELATIVE or cut / step > _MAX_NODES / 2:
                break
            cut *= 2
        s = np.arange(math.ceil(cut / step) + 1, dtype=np.float64) * step
        z = np.asarray(a + 1j * s, dtype=np.complex128)
        ulps = np.zeros(z.size)
        # Without the factor e^k, which `_scale` puts back: M alone could overflow.
        exponent = self.log_mgf(z, ulps) - k
        values = np.exp(exponent) / z
        # The other half of the line is the complex conjugate, so every node counts twice, but s = 0 once.
        values[0] /= 2
        return _Line(a, k, period, chernoff, k_chernoff, missing, s, values, ulps + np.abs(exponent))


class _Tails(ABC):
    """Tail probabilities P(V > r), for any r.

    `tail` encloses them. The quick functions have no bound and serve a search.
    """

    @abstractmethod
    def tail(self, r: float) -> Bounds:
        """P(V > r), enclosed."""

    @abstractmethod
    def quick_tail(self, r: float) -> float:
        """P(V > r), about."""

    @abstractmethod
    def quick_density(self, r: float) -> float:
        """The density of V at r, about."""

    def two_tails(self, r: float, near: float, far: float) -> Bounds:
        """P(V > r − near) + P(V > r − far)."""
        first = self.tail(r - near)
        second = first if near == far else self.tail(r - far)
        return Bounds(min(first.low + second.low, 1.0), min(first.high + second.high, 1.0))

    def excess(self, near: float, far: float, probability: float, r: float) -> float:
        """About P(V > r − near) + P(V > r − far) − probability."""
        first = self.quick_tail(r - near)
        return first + (first if near == far else self.quick_tail(r - far)) - probability

    def density(self, r: float, near: float, far: float) -> float:
        """−d/dr of the two tails, about."""
        first = self.quick_density(r - near)
        return first + (first if near == far else self.quick_density(r - far))


@dataclass(frozen=True)
class _OneTerm(_Tails):
    """V = w·L: P(V > r) = e^{−r/w}/2 for r ≥ 0."""

    w: float

    def quick_tail(self, r: float) -> float:
        half = math.exp(-abs(r) / self.w) / 2
        return half if r >= 0 else 1 - half

    def quick_density(self, r: float) -> float:
        return math.exp(-abs(r) / self.w) / (2 * self.w)

    def tail(self, r: float) -> Bounds:
        half = math.exp(-abs(r) / self.w) / 2
        error = half * (abs(r) / self.w + 8) * _EPS
        return (
            Bounds(half - error, half + error)
            if r >= 0
            else Bounds(1 - half - error - _EPS, 1 - half + error + _EPS)
        )


@dataclass(frozen=True, eq=False)
class _Line(_Tails):
    """The trapezoidal rule on the line Re z = a, for any r.

    All its nodes are computed in advance.
    """

    a: float
    k: float
    period: float
    chernoff: float
    k_chernoff: float
    missing: float
    s: FloatArray
    values: ComplexArray
    ulps: FloatArray
    """Bounds on the relative rounding error of each value; 64 are added for the common factor."""

    @cached_property
    def _sizes(self) -> tuple[float, float, float]:
        """Sums over |value|: alone, and with two factors.

        The factors are its rounding error and its place on the line.
        """
        sizes = np.abs(self.values)
        return float(np.sum(sizes)), float(np.sum(sizes * self.ulps)), float(np.sum(sizes * self.s))

    def _sum(self, r: float) -> tuple[float, float]:
        """Return the rule's value and a bound on its rounding error."""
        scale, phase = self._scale(r), self.s * r
        # NumPy sums pairwise, so the rounding error of the sum is within the 64 units that `shared` allows.
        total = float(np.sum(self.values.real * np.cos(phase) + self.values.imag * np.sin(phase)))
        shared = abs(self.k) + abs(self.a * r) + 64
        size, with_ulps, with_s = self._sizes
        noise = with_ulps + with_s * abs(r) + size * shared
        return scale * total, scale * noise * _EPS * _SLACK

    def _scale(self, r: float) -> float:
        return math.exp(self.k - self.a * r) * 2 / self.period

    @cached_property
    def _table(self) -> ComplexArray:
        """The values, and those of the density, as square tables.

        Node i·columns + j is in row i and column j.
        """
        columns = math.isqrt(self.s.size) + 1
        table = np.zeros((2, columns, columns), dtype=np.complex128)
        table.reshape(2, -1)[:, : self.s.size] = self.values, self.values * (self.a + 1j * self.s)
        return table

    def quick_tail(self, r: float) -> float:
        """The rule's value."""
        return self._quick_sum(r, self._table[0])

    def quick_density(self, r: float) -> float:
        """The rule's value, differentiated."""
        return self._quick_sum(r, self._table[1])

    def _quick_sum(self, r: float, table: ComplexArray) -> float:
        """The rule without an error bound, fast enough for a search.

        The factor e^{−isr} of a node is a factor of its row times a factor of its column. So n nodes need
        about 2√n exponentials instead of n.
        """
        turns = np.arange(table.shape[0]) * (-1j * r * 2 * math.pi / self.period)
        # Not by BLAS: its threads wait for each other longer than this takes.
        rows = np.einsum("ij,j->i", table, np.exp(turns))
        return self._scale(r) * float(np.sum(np.exp(turns * table.shape[1]) * rows).real)

    def tail(self, r: float) -> Bounds:
        """Enclose P(V > r).

        Apart from cut-off and rounding, the rule is never too low.
        """
        value, rounding = self._sum(r)
        missing = self.missing * math.exp(self.k - self.a * r) * _SLACK
        before = _geometric_tail(self.a * self.period)
        after = _geometric_tail((self.chernoff - self.a) * self.period, self.k_chernoff - self.chernoff * r)
        low = value - rounding - missing - before - after  # upper bounds on all errors
        return Bounds(min(max(low, 0.0), 1.0), min(max(value + rounding + missing, 0.0), 1.0))


def _geometric_tail(exponent: float, shift: float = 0.0) -> float:
    """Σ_{k≥1} e^{shift − k·exponent}; the first factor alone could overflow."""
    return math.exp(shift - exponent) / -math.expm1(-exponent)


def _root(falling: Callable[[float], float], floor: float, start: float, ceiling: float) -> float:
    """Return the zero of a falling function in [floor, ceiling].

    The search goes from `start` outward. A line is inaccurate for tails far from the r that it was made for,
    so the search starts near it.
    """
    low = high = start
    at_low = at_high = falling(start)
    step = 1e-3 * (ceiling - floor)
    while at_low <= 0:
        if low == floor:
            return floor
        high, at_high = low, at_low
        low = max(low - step, floor)
        at_low, step = falling(low), 2 * step
    while at_high >= 0:
        if high == ceiling:
            return ceiling
        low, at_low = high, at_high
        high = min(high + step, ceiling)
        at_high, step = falling(high), 2 * step
    return zero(falling, (low, at_low), (high, at_high), 4 * _EPS)


def _walk(r: float, direction: int, density: float, excess: Callable[[float], float]) -> float:
    """Step away from r until `excess` is no longer positive.

    The result is a proved bound, because `excess` is one.
    """
    missing = excess(r)
    # A Newton step first; doubled steps are for places where the tail is flat.
    step = 4 * _EPS * r + abs(missing) / max(density, 1e-300)
    while missing > 0 and r > 0:
        r = max(float(r + direction * step), 0.0)
        missing, step = excess(r), 2 * step
    return r


def require_probability(probability: float) -> float:
    """Refuse a failure probability outside (0, 1)."""
    return inside_unit("failure probability", probability, "no bound on Laplace noise holds with certainty")


def per_component(failure_probability: float, components: int) -> float:
    """Return b' = 1 − (1−b)^(1/k), rounded down.

    If each of k independent components leaves its radius with probability b', then some component leaves it
    with probability b. Components are independent, because each component of a message has its own noise and
    all components have the same weights. This needs a choice of messages that does not depend on the noise.

    Parameters
    ----------
    failure_probability : float
        b, in (0, 1).
    components : int
        k. With 1 the failure probability is returned as it is.

    Examples
    --------
    >>> round(per_component(0.05, 10), 6)
    0.005116
    """
    require_probability(failure_probability)
    if components < 1:
        raise ParameterError(f"components must be at least 1, got {components}.")
    if components == 1:
        return failure_probability
    # Rounded down: a smaller failure probability gives a larger radius.
    return -math.expm1(math.log1p(-failure_probability) / components) * (1 - 2.0**-50)
