"""Radius and disagreement of all agents at once, after some rounds.

For up to some hundred agents every coefficient is known: how far the start can push each agent, and the
weights of the noise in each state. The bounds are unions over the agents (or pairs of agents), made tight in
two ways (docs/proofs/ending.md): errors that all agents share are counted once, and a start that is the worst
for one agent is not the worst for all others.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.core.mechanism import Mechanism
from tacit.core.theory import accuracy
from tacit.core.theory.laplace_sum import LaplaceSum
from tacit.core.theory.laplace_tails import Sums, tails
from tacit.core.theory.moments import OneRound
from tacit.core.theory.one_dimension import zero
from tacit.core.theory.rates import mixing
from tacit.core.theory.targets import weights

MOST_AGENTS = 512
"""Dense matrices of more agents take too long."""

_SINGLE = 512  # rounds whose weights are all looked at, at most; earlier ones are taken in blocks
_WORK = 2e9  # multiplications for these rounds, about
_KEPT = 16  # results kept for a search that asks again
_EPS = float(np.finfo(np.float64).eps)
_WORST_ERROR = 1e-3  # more rounding error than this: no result
_FEWER = 2000  # sums that a search looks at; all others are checked at its end
_SHARES = (0.999, 0.95, 0.75, 0.4)  # of the failure probability, for what all agents share
_STARTS = 8  # classes of starts
_WORTHWHILE = 0.7  # looking at starts must save at least this share of the failure probability
_MARGIN = 1 + 1e-9
_LEAST = 1e-140  # times the noise: weights below it may have underflowed


class Heaviest(NamedTuple):
    """Upper bounds on Σ w⁴ and max w of the noise, one entry per agent."""

    fourths: FloatArray
    largest: FloatArray


@dataclass(frozen=True, eq=False)
class Reach:
    """How far starts and noise can push each agent.

    Noise is divided by its largest scale, `unit`, and starts by their spread. A state is the target, plus
    what the start adds, plus V + Z_i: the noise in the average, and the rest.

    Attributes
    ----------
    bias, pair_bias : array
        The most that a start of spread 1 adds to the error of each agent, and to the difference of each pair.
    target : array
        π: the weight of each agent in the target.
    products : array, shape (n + 1, n + 1)
        Σ w w' over all draws, for the weights in Z_1, …, Z_n and V.
    state, own : Heaviest
        Of V + Z_i, and of Z_i.
    average : LaplaceSum
        The law of V.
    """

    bias: FloatArray
    pair_bias: FloatArray
    target: FloatArray
    products: FloatArray
    state: Heaviest
    own: Heaviest
    average: LaplaceSum
    error: float
    _quantiles: dict[float, float] = field(default_factory=dict, init=False, repr=False)

    def less_average(self, share: FloatArray) -> Sums:
        """Return the sums Z_i + (1 − share_i)·V."""
        n, left = self.bias.size, 1 - share
        own, both, average = np.diag(self.products)[:n], self.products[:n, n], self.products[n, n]
        squares = np.maximum(own + left * (2 * both + left * average), 0)
        squares += self.error * (np.max(own) + left**2 * average)
        fourths = (left * self.state.fourths**0.25 + share * self.own.fourths**0.25) ** 4
        return Sums(squares, fourths, left * self.state.largest + share * self.own.largest)

    def pairs(self) -> Sums:
        """Return the differences Z_i − Z_j of all pairs i < j."""
        n = self.bias.size
        i, j = np.triu_indices(n, 1)
        own, (fourths, largest), state = np.diag(self.products)[:n], self.own, self.state
        squares = np.maximum(own[i] + own[j] - 2 * self.products[i, j], 0) + 4 * self.error * np.max(own)
        # The weights in states are not negative, so their differences are at most the larger one.
        root = fourths**0.25
        return Sums(
            squares,
            np.minimum((root[i] + root[j]) ** 4, state.fourths[i] + state.fourths[j]),
            np.minimum(largest[i] + largest[j], np.maximum(state.largest[i], state.largest[j])),
        )

    def radius(self, probability: float, spread: float) -> float:
        """Return r such that an agent is outside with at most this probability.

        Outside is farther from the target, for the worst start within the spread. Both are in units of the
        noise.
        """
        pushed = self.bias * spread
        # The radius of each agent by itself, from its own worst start.
        alone = self.less_average(np.zeros_like(pushed))
        found = _level(alone, pushed, probability)
        found = min(found, self._level_of_starts(alone, pushed, spread, probability, found))
        for share in _SHARES:
            found = min(found, self._anchored(alone, pushed, probability, share, found))
        return found

    def missed(self, radius: float, spread: float) -> float:
        """Return about the probability for which `radius` finds this one."""
        low, high = -700.0, math.log(0.999)
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (low, middle) if self.radius(math.exp(middle), spread) <= radius else (middle, high)
        return math.exp(high)

    def disagreement(self, probability: float, spread: float) -> float:
        """Return d such that a pair is farther apart with this probability."""
        return _level(self.pairs(), self.pair_bias * spread, probability)

    def _average_quantile(self, probability: float) -> float:
        if probability not in self._quantiles:
            self._quantiles[probability] = self.average.quantile(probability).high
        return self._quantiles[probability]

    def _anchored(
        self, alone: Sums, pushed: FloatArray, probability: float, share: float, most: float
    ) -> float:
        """Return a radius that counts the average's error once for all agents.

        Either |V| is above R, or some agent is outside R + y although |V| is not.
        """
        reached = self._average_quantile(share * probability)
        if reached >= most:
            return most
        average = self.products[-1, -1]
        common = self.products[:-1, -1] + average

        def missed(y: float) -> float:
            r = reached + y
            # The best share of V to subtract, if all were normal.
            room = np.maximum(r - pushed, 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                less = (reached * alone.squares - room * common) / (reached * common - room * average)
            less = np.clip(np.nan_to_num(less, nan=1.0), 0, 1)
            level = (1 - less) * r + less * y
            return _both(level, pushed, self.less_average(less))

        left = (1 - share) * probability
        if missed(most - reached) >= left:
            return most
        return reached + _root(missed, left, 0.0, most - reached)

    def _level_of_starts(
        self, alone: Sums, pushed: FloatArray, spread: float, probability: float, most: float
    ) -> float:
        """Return a union's radius: no start pushes all agents at once.

        Pushes add up to 0 in the average, and no two differ by more than the largest pair's. So if one agent
        is pushed far up, the others are not pushed far down, and few others are pushed far up. Starts are
        classed by how far down they push an agent.
        """
        apart = float(np.max(self.pair_bias, initial=0.0)) * spread
        lightest = min(float(self.target.min()), 0.4)
        if apart == 0:
            return most
        edges = apart * np.concatenate([[0.0], np.geomspace(lightest, 0.5, _STARTS)])

        def missed(r: float) -> float:
            worst = 0.0
            for least_down, most_down in pairwise(edges.tolist()):
                down, up = np.minimum(pushed, most_down), np.minimum(pushed, apart - least_down)
                low, high = _each(r, down, alone), _each(r, up, alone)
                # A fractional knapsack: who is pushed up, if the pushes add up to 0.
                gain, cost = np.maximum(high - low, 0), self.target * (up + down)
                order = np.argsort(-gain / np.maximum(cost, 1e-300))
                cost, room = cost[order], float(self.target @ down) * _MARGIN
                before = np.cumsum(cost) - cost
                taken = np.clip((room - before) / np.maximum(cost, 1e-300), 0, 1)
                worst = max(worst, float(low.sum() + gain[order] @ taken))
            return worst * _MARGIN

        low = float(pushed.max())  # tails are convex only on one side of the middle
        return _root(missed, probability, low, most) if missed(most) < _WORTHWHILE * probability else most


def _each(level: float | FloatArray, pushed: FloatArray, sums: Sums) -> FloatArray:
    """Bound P(|S + pushed| > level) for each sum."""
    return tails(level - pushed, sums) + tails(level + pushed, sums)


def _both(level: float | FloatArray, pushed: FloatArray, sums: Sums) -> float:
    """Bound P(|S + pushed| > level for some sum)."""
    return float(np.sum(_each(level, pushed, sums)))


def _level(sums: Sums, pushed: FloatArray, probability: float) -> float:
    """Return x with P(|S + pushed| > x for some sum) at most this."""
    if not np.any(sums.squares > 0):
        return float(np.max(pushed))
    each = math.log(2 * pushed.size / probability)
    ends = pushed + 2 * np.sqrt(sums.squares * each) + 2 * sums.largest * each  # by Chernoff's bound, about
    if pushed.size > _FEWER:
        chosen = np.argpartition(-ends, _FEWER)[:_FEWER]
        found = _level(sums.some(chosen), pushed[chosen], probability * (1 - 1e-3))
        while _both(found, pushed, sums) > probability:
            found *= 1.01
        return found
    high = float(np.max(ends))
    while _both(high, pushed, sums) > probability:
        high *= 2
    return _root(lambda x: _both(x, pushed, sums), probability, float(np.max(pushed)), high)


def _root(missed: Callable[[float], float], probability: float, low: float, high: float) -> float:
    """Return x with missed(x) at most the probability, near the least such x."""
    target = math.log(probability)

    def excess(x: float) -> float:
        return math.log(max(missed(x), 1e-300)) - target

    at_low = excess(low)
    if at_low <= 0:
        return low
    found = zero(excess, (low, at_low), (high, min(excess(high), -1e-300)), 1e-11)
    step = 1e-10
    while missed(found) > probability:
        found, step = min(found * (1 + step), high), 2 * step
    return found


# ---- the weights of the noise --------------------------------------------------------------------------


_known: OrderedDict[bytes, Reach] = OrderedDict()


def reach(mechanism: Mechanism, rounds: int) -> tuple[Reach, float] | None:
    """Return how far starts and noise push agents, and the noise's unit.

    None if there are too many agents, or so many rounds that rounding errors would matter.
    """
    n, law = mechanism.n, mechanism.law
    error = 64 * _EPS * n * (rounds + 1)
    if n > MOST_AGENTS or rounds < 1 or error > _WORST_ERROR:
        return None
    single = 1 if mechanism.shadowed else min(rounds, _SINGLE, max(16, int(_WORK / n**3)))
    scales = np.array([np.broadcast_to(law.scale(np.float64(rounds - 1 - k)), (n,)) for k in range(single)])
    if mechanism.shadowed:
        scales = np.broadcast_to(np.asarray(law.c, dtype=np.float64), (1, n))
    above = law.envelope(rounds) if rounds > single and not mechanism.shadowed else None
    first = np.broadcast_to(np.asarray(above.c if above else 0.0, dtype=np.float64), (n,))
    unit = float(max(scales.max(), first.max()))
    decay = float(np.max(above.q)) if above else 0.0
    noise = _Noise(scales / unit, first / unit, decay, rounds)
    one = OneRound(mechanism, off_consensus=True)
    moved = one.move(one.settled(np.eye(n)))
    key = blake2b(digest_size=16)
    for part in (
        moved,
        mixing(mechanism),
        noise.recent,
        noise.first,
        np.array([decay, rounds, mechanism.sources, mechanism.shadowed]),
    ):
        key.update(np.ascontiguousarray(part).tobytes())
    if key.digest() not in _known:
        _known[key.digest()] = _reach(mechanism, one, noise, error, unit)
        while len(_known) > _KEPT:
            _known.popitem(last=False)
    return _known[key.digest()], unit


class _Noise(NamedTuple):
    """Scales of recent rounds, newest first, and a bound on the others."""

    recent: FloatArray
    first: FloatArray
    decay: float
    rounds: int


def _reach(mechanism: Mechanism, one: OneRound, noise: _Noise, error: float, unit: float) -> Reach:
    law = accuracy.deviation(mechanism, noise.rounds)
    weighed = _Weighed(mechanism, one)
    power = weighed.drawn_once(noise) if mechanism.shadowed else weighed.fading(noise)
    bias = np.sum(np.abs(power), axis=1) / 2
    pair_bias = [np.sum(np.abs(power[k + 1 :] - power[k]), axis=1) / 2 for k in range(mechanism.n)]
    share = mechanism.sources / mechanism.n  # m keepers make m draws of the same weight, not N
    return Reach(
        bias=bias + error * np.max(bias),
        pair_bias=np.concatenate(pair_bias) + 2 * error * np.max(bias),
        target=weights(mechanism),
        products=weighed.products * share,
        state=_up(weighed.state, share, error),
        own=_up(weighed.own, share, error),
        average=LaplaceSum(law.scale / unit, law.ratio, law.count, law.rounds),
        error=error,
    )


def _up(found: Heaviest, share: float, error: float) -> Heaviest:
    fourths, largest = found.fourths * share, found.largest
    return Heaviest(fourths + 4 * error * np.max(fourths), largest + error * np.max(largest))


class _Weighed:
    """Collects the weights of the noise, by rounds or blocks of rounds."""

    def __init__(self, mechanism: Mechanism, one: OneRound) -> None:
        n = mechanism.n
        self.mechanism, self.one, self.target = mechanism, one, weights(mechanism)
        self.products = np.zeros((n + 1, n + 1))
        self.state = self.own = Heaviest(np.zeros(n), np.zeros(n))

    def draws(self, own: FloatArray, average: FloatArray) -> None:
        """Count draws by their weights in the Z_i and in V, one per column."""
        every = np.vstack([own, average])
        self.products += every @ every.T
        self.own = _counted(self.own, own**2)
        self.state = _counted(self.state, (own + average) ** 2)

    def block(self, products: FloatArray, own: FloatArray, average: FloatArray) -> None:
        """Count many draws, by Σ w w' and upper bounds on their weights."""
        self.products += products
        squares, both = np.diag(products)[:-1], products[:-1, -1]
        for name, largest, total in (
            ("own", np.max(np.abs(own)), squares),
            ("state", np.max(own + average), squares + 2 * both + products[-1, -1]),
        ):
            last: Heaviest = getattr(self, name)
            setattr(
                self,
                name,
                Heaviest(
                    last.fourths + largest**2 * np.maximum(total, 0),
                    np.maximum(last.largest, largest),
                ),
            )

    def drawn_once(self, noise: _Noise) -> FloatArray:
        """Count the only draws, and return P^T off the consensus."""
        power = self.one.power(noise.rounds)
        kept = np.broadcast_to(self.mechanism.motion.influence(noise.rounds), (self.mechanism.n,))
        # θ(T) = P^T θ(0) + (P^T − diag(1−σ)^T) η
        own = power - self.one.settled(np.diag(kept))
        self.draws(own * noise.recent[0], self.target * (1 - kept) * noise.recent[0])
        return power

    def fading(self, noise: _Noise) -> FloatArray:
        """Count the draws of all rounds, and return P^T off the consensus."""
        n, one = self.mechanism.n, self.one
        plain = OneRound(self.mechanism)
        average = self.target @ plain.mix(np.eye(n))
        own, power = one.mix(np.eye(n)), one.settled(np.eye(n))
        for scale in noise.recent:
            self.draws(own * scale, average * scale)
            own, power = one.move(own), one.move(power)
        age = len(noise.recent)
        if age == noise.rounds:
            return power
        blocks = self._blocks(np.vstack([one.mix(np.eye(n)), average]) * noise.first, noise, age)
        while age < noise.rounds:
            # Old noise is larger, but mixed more. A block of ages a to 2a has weights of about one size.
            length = 2 ** int(math.log2(min(age, noise.rounds - age)))
            step, products, fresh = blocks[length]
            faded = noise.decay ** (noise.rounds - age - length)
            whole = _beside(power)
            # P averages, so no weight of an older draw is above the largest one at age a.
            self.block(whole @ products @ whole.T * faded**2, power @ fresh[:-1] * faded, fresh[-1:] * faded)
            power, age = one.settled(power @ step), age + length
        return power

    def _blocks(
        self, fresh: FloatArray, noise: _Noise, age: int
    ) -> dict[int, tuple[FloatArray, FloatArray, FloatArray]]:
        """Return P^L and Σ w w' of L rounds' draws, for powers of two L."""
        step, products, length = self.one.move(self.one.settled(np.eye(self.mechanism.n))), fresh @ fresh.T, 1
        found = {}
        while length <= noise.rounds - age:
            found[length] = step, products, fresh
            whole = _beside(step)
            products = whole @ products @ whole.T + noise.decay ** (2 * length) * products
            step, length = self.one.settled(step @ step), 2 * length
        return found


def _counted(last: Heaviest, squares: FloatArray) -> Heaviest:
    fourths = last.fourths + np.sum(squares**2, axis=1)
    return Heaviest(fourths, np.maximum(last.largest, np.sqrt(np.max(squares, axis=1))))


def _beside(power: FloatArray) -> FloatArray:
    """Return the matrix that moves all Z_i and keeps V."""
    n = len(power)
    whole = np.zeros((n + 1, n + 1))
    whole[:n, :n], whole[n, n] = power, 1.0
    return whole


def radius(mechanism: Mechanism, rounds: int, spread: float, failure_probability: float) -> float | None:
    """Return the radius of all agents at once.

    None where `reach` has no answer.
    """
    found = reach(mechanism, rounds)
    if found is None:
        return None
    known, unit = found
    return (known.radius(failure_probability, spread / unit) + _LEAST) * unit * _MARGIN


def missed(mechanism: Mechanism, rounds: int, spread: float, radius: float) -> float | None:
    """Return about the probability that a radius is missed.

    None where `reach` has no answer.
    """
    found = reach(mechanism, rounds)
    return None if found is None else found[0].missed(radius / found[1], spread / found[1])


def disagreement(
    mechanism: Mechanism, rounds: int, spread: float, failure_probability: float
) -> float | None:
    """Return the disagreement of all pairs.

    None where `reach` has no answer.
    """
    found = reach(mechanism, rounds)
    if found is None:
        return None
    known, unit = found
    return (known.disagreement(failure_probability, spread / unit) + _LEAST) * unit * _MARGIN


class Estimate(NamedTuple):
    """Parts of radius and disagreement that are due to start and noise.

    Those of the start are exact.
    """

    bias: float
    by_noise: float
    apart: float
    apart_by_noise: float


def rough(mechanism: Mechanism, rounds: int, spread: float, failure_probability: float) -> Estimate | None:
    """Estimate radius and disagreement as if all were normal.

    It is for comparing many mechanisms quickly. None where `reach` has no answer.
    """
    found = reach(mechanism, rounds)
    if found is None:
        return None
    known, unit = found
    n, normal = mechanism.n, NormalDist()
    once, each, pair = (
        -normal.inv_cdf(failure_probability / 2 / count) * math.sqrt(2)
        for count in (1, n, 10 * n * (n - 1) / 2)
    )
    own, average = np.diag(known.products)[:n], float(known.products[n, n])
    alone = math.sqrt(float(np.max(known.less_average(np.zeros(n)).squares)))
    farthest = math.sqrt(float(np.max(known.pairs().squares)))
    by_noise = min(each * alone, once * math.sqrt(average) + each * math.sqrt(float(np.max(own))))
    return Estimate(
        float(np.max(known.bias)) * spread,
        max(by_noise, 0.0) * unit,
        float(np.max(known.pair_bias)) * spread,
        max(pair, 0.0) * farthest * unit,
    )
