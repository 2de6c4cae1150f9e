"""How far the mean of N bits, or staircase variables, is off.

Both classes have the methods of `LaplaceSum` that radii need. Their results are upper bounds, for the worst
values that agents can have (docs/proofs/bits.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.core.theory.laplace_sum import Bounds, require_probability
from tacit.core.theory.one_dimension import lowest_point, zero

if TYPE_CHECKING:
    from tacit.core.law import Law

_WIDER = 1 + 1e-9
"""Of radii: more than the rounding to a lattice, where c is at most 2^−30 larger, and that of a search."""
_LIKELIER = 1 + 1e-9
"""Of probabilities: more than the rounding of the functions that compute them."""
_EXACT = 5_000  # agents; beyond, worst starts are tried at some points, between which the tail is bounded
_COARSE, _PARTS, _MOST_POINTS = 500, 8, 32_000
_CLOSE = 1.01
_MOST_NODES = 2**21
_FEW, _FEW_NODES = 3, 2**17
_MANY, _FAR = 10**8, 10.0  # more agents have a nearly normal tail up to so many deviations
_EDGE = 25.0  # lines stop a relative e^−25 before the pole
_ALIAS = 1e-13  # of the trapezoidal rule, relative


class OnceSum(ABC):
    """The deviation of a mean around 0: upper bounds of its tails."""

    _radii: dict[float, float]

    @property
    @abstractmethod
    def variance(self) -> float:
        """The largest variance that values can lead to."""

    @abstractmethod
    def missed(self, r: float) -> float:
        """Bound P(|V| > r) from above."""

    @abstractmethod
    def far(self, log_probability: float) -> float:
        """Return r with P(|V| > r) of at most this logarithm, roughly."""

    @property
    def deviation(self) -> float:
        """The square root of the variance."""
        return math.sqrt(self.variance)

    def quantile(self, probability: float, offset: float = 0.0) -> Bounds:
        """Return r with P(|V + offset| > r) of at most the probability."""
        require_probability(probability)
        if probability not in self._radii:
            self._radii[probability] = self._radius(probability)
        return Bounds(0.0, self._radii[probability] + abs(offset))

    def quantile_of_all(self, probability: float, above: float, below: float) -> Bounds:
        """Return `quantile` with the larger one of two offsets."""
        return self.quantile(probability, max(above, below))

    def tail(self, r: float) -> Bounds:
        """Bound P(V > r)."""
        return self.exceedance(r) if r > 0 else Bounds(0.0, 1.0)

    def exceedance(self, r: float, offset: float = 0.0) -> Bounds:
        """Bound P(|V + offset| > r)."""
        within = r / _WIDER - abs(offset)
        return Bounds(0.0, min(self.missed(within), 1.0) if within > 0 else 1.0)

    def _radius(self, probability: float) -> float:
        if self.variance == 0:
            return 0.0

        def excess(r: float) -> float:
            return math.log(max(self.missed(r), 1e-320)) - math.log(probability)

        high = 2 * self.deviation
        while excess(high) > 0:
            high *= 1.5
        low = high / 1.5
        while low > 0 and excess(low) <= 0:
            low, high = low / 1.5, low
        if low > 0:
            high = zero(excess, (low, excess(low)), (high, excess(high)), 1e-11)
        while excess(high) > 0:  # on the side that holds
            high *= 1 + 1e-10
        return high * _WIDER


@final
@dataclass(frozen=True, eq=False)
class BitsSum(OnceSum):
    """The mean of N bits, minus the mean of the values.

    Parameters
    ----------
    agents : int
    apart : float
        Distance of the two values, times the share of the noise that is in the states.
    least, most : float
        Between these is the mean probability of the larger value.

    Examples
    --------
    >>> law = BitsSum(1000, 21.639534, 0.268941, 0.731059)
    >>> round(law.quantile(0.05).high, 5)
    0.67083
    """

    agents: int
    apart: float
    least: float
    most: float
    _radii: dict[float, float] = field(default_factory=dict, init=False, repr=False)

    @property
    def variance(self) -> float:
        """The variance with the worst start."""
        p = min(max(0.5, self.least), self.most)
        return self.apart**2 * p * (1 - p) / self.agents

    def missed(self, r: float) -> float:
        """Bound P(|V| > r), for the worst start.

        For at least one message, agents that are all alike are the worst (Hoeffding 1956). Between the
        points at which N·p ± N·r/apart is whole, the tail is largest at an end.
        """
        d = self.agents * r / self.apart
        if d < 1:
            return 1.0
        hoeffding = 2 * math.exp(-2 * self.agents * (r / self.apart) ** 2)
        if hoeffding < 1e-300:
            return hoeffding
        try:
            found = self._worst(d) if self.agents <= _EXACT else self._between(d)
        except ImportError:  # a machine that only takes part may lack SciPy: then the bound is Hoeffding's
            found = hoeffding
        return min(found * _LIKELIER, hoeffding * _LIKELIER, 1.0)

    def far(self, log_probability: float) -> float:
        """Return r for the logarithm of a probability, by Hoeffding."""
        return self.apart * math.sqrt((math.log(2) - log_probability) / (2 * self.agents)) * _WIDER

    def _worst(self, d: float) -> float:
        n = self.agents
        whole = np.arange(n + 1, dtype=np.float64)
        points = np.concatenate([(whole + d) / n, (whole - d) / n, [self.least, self.most]])
        points = points[(points >= self.least) & (points <= self.most)]
        # both limits: in one the message count at the edge is counted, too
        above, below = points * n + d, points * n - d
        slack = 1e-9 * (1 + n * 1e-6)
        return _two_tails(n, points, np.ceil(above - slack), np.floor(below + slack))

    def _between(self, d: float) -> float:
        """Bound the tail between points: it rises with p above, and falls below.

        Where the bound is far above what some point has, more points are taken.
        """
        n, ends = self.agents, np.linspace(self.least, self.most, _COARSE + 1)
        low, high, settled = ends[:-1], ends[1:], 0.0
        while True:
            upper = _above(n, high, np.floor(n * low + d)) + _above(n, 1 - low, np.floor(n * (1 - high) + d))
            middle = (low + high) / 2
            reached = _two_tails(n, middle, np.floor(n * middle + d) + 1, np.ceil(n * middle - d) - 1)
            open_ = upper > max(reached, settled) * _CLOSE
            settled = max(settled, float(np.max(upper[~open_], initial=0.0)))
            if not open_.any() or open_.sum() * _PARTS > _MOST_POINTS:
                return max(settled, float(np.max(upper[open_], initial=0.0)))
            steps = np.linspace(0.0, 1.0, _PARTS + 1)
            ends = low[open_, None] + (high - low)[open_, None] * steps
            low, high = ends[:, :-1].ravel(), ends[:, 1:].ravel()


def _above(n: int, p: FloatArray, k: FloatArray) -> FloatArray:
    """P(Bin(n, p) ≥ k)."""
    from scipy.special import betainc

    inside = (k >= 1) & (k <= n)
    at = np.where(inside, k, 1.0)
    return np.where(inside, betainc(at, n - at + 1, p), np.where(k < 1, 1.0, 0.0))


def _two_tails(n: int, p: FloatArray, above: FloatArray, below: FloatArray) -> float:
    """Return the largest P(K ≥ above) + P(K ≤ below) of a binomial K."""
    upper = _above(n, p, above)
    lower = _above(n, 1 - p, n - below)
    return float(np.max(upper + lower))


@final
@dataclass(frozen=True, eq=False)
class StaircaseSum(OnceSum):
    """The mean of N staircase variables, which do not depend on the values.

    Parameters
    ----------
    agents : int
    domain : float
        Width of a stair, times the share of the noise that is in the states, divided by N.
    inner, fall : float
        Of `Staircase`.

    Notes
    -----
    P(V > r) is an integral along a line, as for `LaplaceSum`. The trapezoidal rule is never below it: its
    error is a sum of positive terms. |M(a + is)| ≤ C/|s| for one variable, so what is cut off is bounded.
    """

    agents: int
    domain: float
    inner: float
    fall: float
    _radii: dict[float, float] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def variance(self) -> float:
        """N times the variance of one variable."""
        from tacit.core.law.staircase import _variance

        return self.agents * _variance(self.inner, self.fall) * self.domain**2

    @property
    def _top(self) -> float:
        """The density of one variable at 0, for stairs of width 1."""
        return (1 - self.fall) / (2 * (self.inner + self.fall * (1 - self.inner)))

    def _log_mgf(self, z: Any) -> Any:
        """Return ln E e^zX of one variable, for stairs of width 1."""
        q, w = self.fall, self.inner
        up = np.exp(z * w) / (1 - q * np.exp(z))
        down = np.exp(-z * w) / (1 - q * np.exp(-z))
        return np.log(self._top * (1 - q) / z * (up - down))

    def _chernoff(self, r: float) -> tuple[float, float]:
        """Return the a with the least M(a)^N·e^−ar, and its logarithm."""

        def log(a: float) -> float:
            return self.agents * float(self._log_mgf(a)) - a * r

        a = self._lowest(log)
        return a, log(a)

    def _lowest(self, of: Callable[[float], float]) -> float:
        """Return where a function of the line's place is about least."""
        most = -math.log(self.fall)

        def place(v: float) -> float:
            return most / (1 + math.exp(-v))

        return place(lowest_point(lambda v: of(place(v)), -_EDGE, _EDGE, 1e-4))

    def far(self, log_probability: float) -> float:
        """Return r for the logarithm of a probability, by Chernoff."""

        def bound(a: float) -> float:
            return (self.agents * float(self._log_mgf(a)) + math.log(2) - log_probability) / a

        return bound(self._lowest(bound)) * self.domain * _WIDER

    def missed(self, r: float) -> float:
        """Bound P(|V| > r)."""
        r = r / self.domain
        if self.agents == 1:
            return self._one(r)
        if self.agents > _MANY:
            # Chernoff with ln M(z) ≤ z²v/2·(1 + 10⁻³) for the z that are needed, below 10⁻³/deviation
            deviations = min(r * self.domain / self.deviation, _FAR)
            return 2 * math.exp(-(deviations**2) / 2 / (1 + 1e-3))
        a, log = self._chernoff(r)
        rough = 2 * math.exp(log)
        line = self._line(a, log, r)
        return min(rough, rough if line is None else line, 1.0) * (_LIKELIER + self.agents * 1e-14)

    def _one(self, r: float) -> float:
        """P(|X| > r) of one variable."""
        q, w = self.fall, self.inner
        period = math.floor(r)
        rest = r - period
        left = (w + (1 - w) * q) / (1 - q) - (rest if rest <= w else w + (rest - w) * q)
        return 2 * self._top * q**period * left

    def _line(self, a: float, log: float, r: float) -> float | None:
        """Bound P(|V| > r) by the integral; None if that takes too long."""
        n, q, w = self.agents, self.fall, self.inner
        scale = math.sqrt(self.variance) / self.domain
        # As P(V > r − period) ≤ 1, each term below of the error is e^−a·period; those above are Chernoff's.
        period = max(-math.log(_ALIAS) / a, 40 * scale, 4 * r) + 2 * r
        step = 2 * math.pi / period
        edge = self._top * (1 - q)
        c = edge * (math.exp(a * w) / (1 - q * math.exp(a)) + math.exp(-a * w) / (1 - q * math.exp(-a)))
        log_c = math.log(c) - (float(self._log_mgf(a)))  # |M(a + is)/M(a)| ≤ c/|s|
        far = math.exp(log_c + max(-math.log(_ALIAS * n), 0.0) / n)
        nodes = math.ceil(far / step) + 1
        if n <= _FEW:  # few variables fade slowly along the line: a larger part is cut off, and bounded
            nodes = min(nodes, _FEW_NODES)
        if nodes > _MOST_NODES:
            return None
        total = 0.5 * math.exp(0.0) / a
        for part in _chunks(nodes):
            s = step * part
            z = a + 1j * s
            terms = np.exp(n * (self._log_mgf(z) - float(self._log_mgf(a))) - 1j * s * r) / z
            total += float(np.sum(terms.real))
        cut = step * nodes
        rest = math.exp(n * (log_c - math.log(cut))) / n
        found = math.exp(log) * (step * total + rest) / math.pi
        return 2 * found


def _chunks(nodes: int) -> Iterator[FloatArray]:
    for first in range(1, nodes + 1, 2**16):
        yield np.arange(first, min(first + 2**16, nodes + 1), dtype=np.float64)


def _bits(law: Any, agents: int, followed: float) -> OnceSum:
    c, domain = float(law.c), float(law.domain)
    # Values are within domain/2 of the middle. (In a histogram they are not above it; that changes nothing.)
    least = (2 * c - domain) / (4 * c)
    return BitsSum(agents, 2 * c * followed, least, 1 - least)


def _staircase(law: Any, agents: int, followed: float) -> OnceSum:
    return StaircaseSum(agents, float(law.domain) * followed / agents, law.inner, law.fall)


_SUMS: dict[str, Callable[[Any, int, float], OnceSum]] = {"bit": _bits, "staircase": _staircase}


def once_sum(law: Law, agents: int, followed: float) -> OnceSum:
    """Return the deviation of a mean, of which states have a share."""
    if law.drawn not in _SUMS:
        raise law.undefined("its sum", "the radius")
    return _SUMS[law.drawn](law, agents, followed)
