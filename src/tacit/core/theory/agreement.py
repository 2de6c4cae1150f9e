"""How many rounds agents need to agree, by proved bounds.

The bounds err on the safe side. If noise moves all agents alike, the answer is exact and certain. For up to
some hundred agents and one number of rounds, `tacit.core.theory.every_agent` has a close bound. Otherwise
disagreement has two parts. The part from the initial values is certain. The part from noise is bounded with
probability 1 − b in two ways, and the smaller bound is used (docs/proofs/convergence.md):

- by second moments (Markov), in the norm weighted by γ;
- agent by agent, by the tail of a sum of Laplace variables (Chernoff), for many agents.

All of it is for one component of the states; for k components divide b by k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import ParameterError
from tacit.core.mechanism import Mechanism
from tacit.core.motion.mixing import kept, log_kept
from tacit.core.theory import every_agent
from tacit.core.theory.rates import (
    all_equal,
    hears_all,
    largest_weight,
    mixing,
    moves_as_one,
    spectral_gap,
    squares_heard,
    squares_spread,
    step_sizes,
)

_EPS = float(np.finfo(np.float64).eps)
_MARGIN = 1 + 1e-12  # rounding of a handful of exponentials
_TILTS = 1 / (1 + np.exp(-np.linspace(-25, 25, 4001)))  # where Chernoff's bound is tried, in (0, 1)


class Apart(NamedTuple):
    """Two bounds on how far agents are apart, which hold together.

    `own` bounds the distance of any agent from the average weighted by γ, `pair` the distance of any two
    agents. Both hold in the same event, so the failure probability counts once.
    """

    own: float
    pair: float


def rounds_to_agreement(
    mechanism: Mechanism, tolerance: float, spread: float, failure_probability: float = 0.05
) -> int:
    """Rounds T after which every two agents differ by at most `tolerance`.

    If noise moves all agents alike, this is certain, and T is the least such number: spread·(1−σ)^T ≤
    tolerance, up to rounding. Otherwise it holds in each round from T on with probability at least
    1 − failure_probability.

    Parameters
    ----------
    mechanism : Mechanism
    tolerance : float
        Positive.
    spread : float
        Largest minus smallest initial value.
    failure_probability : float
        In (0, 1); not used if the answer is certain.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> rounds_to_agreement(ClientServer(Fading(0.5, 1, 0.9), agents=10), tolerance=0.125, spread=1)
    3
    """
    if not (0 < tolerance < math.inf):
        raise ParameterError(
            f"tolerance must be a positive number, got {tolerance}: agents never agree exactly."
        )
    _check(spread, failure_probability)
    if mechanism.n == 1:
        return 0
    if moves_as_one(mechanism):
        return _certain_rounds(float(mixing(mechanism)[0]), tolerance, spread)
    bound = _Bound.of(mechanism, spread, failure_probability, None)
    if bound.after(0, later=True).pair <= tolerance:
        return 0
    # With `later` the bound never grows with the rounds, so doubling and halving find the first that is
    # enough.
    low, high = 0, 1
    while bound.after(high, later=True).pair > tolerance:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bound.after(middle, later=True).pair <= tolerance else (middle, high)
    return high


def disagreement(
    mechanism: Mechanism, rounds: int, spread: float, failure_probability: float = 0.05
) -> float:
    """How far apart two agents can be after a number of rounds.

    Certain if noise moves all agents alike. Otherwise all pairs are within it in that round with
    probability at least 1 − failure_probability. See `rounds_to_agreement`.
    """
    _check(spread, failure_probability, rounds)
    close = None
    if not moves_as_one(mechanism):
        close = every_agent.disagreement(mechanism, int(rounds), spread, failure_probability)
    return apart(mechanism, rounds, spread, failure_probability).pair if close is None else close


def apart(mechanism: Mechanism, rounds: int, spread: float, failure_probability: float = 0.05) -> Apart:
    """Bound how far agents are from their average and each other.

    The average is weighted by γ. The bounds take O(N + E) numbers, so they are for any number of agents and
    of rounds, and wider than those of `tacit.core.theory.every_agent`.
    """
    _check(spread, failure_probability, rounds)
    if mechanism.n == 1:
        return Apart(0.0, 0.0)
    if moves_as_one(mechanism):
        sigma = float(mixing(mechanism)[0])
        # A plain power keeps short decimals exact. For a small σ, 1 − σ would lose digits of σ.
        left = kept(sigma) ** rounds if sigma > 1e-3 else math.exp(rounds * log_kept(sigma))
        pair = float(spread * left)
        return Apart(pair * (1 - 1 / mechanism.n), pair)
    bound = _Bound.of(mechanism, spread, failure_probability, int(rounds))
    if rounds == 0:
        return Apart(bound.most * spread, spread)
    return bound.after(int(rounds), later=False)


def _check(spread: float, failure_probability: float, rounds: int = 0) -> None:
    if rounds != int(rounds) or rounds < 0:
        raise ParameterError(f"rounds must be a whole number of at least 0, got {rounds}.")
    if not (0 <= spread < math.inf):
        raise ParameterError(f"spread must be a number of at least 0, got {spread}.")
    if not (0 < failure_probability < 1):
        raise ParameterError(f"failure probability must be in (0, 1), got {failure_probability}.")


def _certain_rounds(sigma: float, tolerance: float, spread: float) -> int:
    """Return the least T with spread·(1−σ)^T ≤ tolerance."""
    if spread <= tolerance:
        return 0
    shrink = -log_kept(sigma)
    exact = (math.log(spread) - math.log(tolerance)) / shrink
    # The slack is for rounded logarithms and powers: without it 0.7² would count as above 0.49.
    slack = _EPS * (4 + abs(math.log(spread)) + abs(math.log(tolerance)) + min(exact, 1000))
    return max(1, math.ceil(exact - slack / shrink))


@dataclass(frozen=True)
class _Bound:
    """The numbers of a mechanism that the bounds need.

    They are computed once, in O(N + E). Noise is kept in groups of equal decay, as logarithms: `log_decay` is
    log q, or log(1 − σ) for noise that is drawn once, because the influence of an agent's initial value fades
    at that rate. Norms are weighted by γ, and Π removes the part along 1.
    """

    drawn_once: bool
    spread: float
    failure_probability: float
    log_rate: float  # log ρ, of the spectral rate
    log_server: float | None  # log(1 − σ_min) where everyone hears everyone
    pair: float  # √(d_i + d_j), at most: |θ_i − θ_j| over the norm
    own: float  # √(d_i − 1/Γ), at most: distance from the weighted average over the norm
    most: float  # 1 − the least weight in the average: distance from it over the distance of two agents
    start: float  # √Γ / 2: norm of the initial disagreement over its spread, at most
    gain: float  # σ_max, at least the norm of ΣW
    n: int
    log_decay: FloatArray
    entering: FloatArray  # per group: Σ_j 2c_j² ‖Π ΣW e_j‖²
    resting: FloatArray  # per group: Σ_j 2c_j² ‖Π e_j‖²
    heaviest: float  # the largest weight of any draw in a state, at most
    fresh: float  # Σ weight² of one round's noise of decay 1 in a state, at most, however late it is
    settling: tuple[tuple[float, float], ...]  # (B, log r): also at most B·r^{2m}, m rounds later

    @classmethod
    def of(
        cls, mechanism: Mechanism, spread: float, failure_probability: float, rounds: int | None
    ) -> _Bound:
        """Compute the numbers of a mechanism.

        They are for a number of rounds; None for an endless run.
        """
        n, law = mechanism.n, mechanism.law
        sigma, d = mixing(mechanism), step_sizes(mechanism)
        gamma, total = 1 / d, float(np.sum(1 / d))
        # Every bound below grows with the scales, so an upper envelope of the law can replace them.
        above, fading = law.envelope(rounds), not mechanism.shadowed
        # With m keepers each state gets m draws instead of N, all of the same weight: m/N of the squares.
        squared = np.broadcast_to(np.asarray(above.c) ** 2, (n,)) * (mechanism.sources / n)
        decay = above.q if fading else np.asarray(mechanism.motion.keep)
        decays, group = np.unique(np.broadcast_to(decay, (n,)), return_inverse=True)
        two = np.partition(d, n - 2)[n - 2 :]
        log_rate = math.log1p(-spectral_gap(mechanism))
        log_server = log_kept(float(sigma.min())) if hears_all(mechanism) else None
        # A draw's weight in a state: at most the largest σ_iW_ij per round, and at most the sum over rounds.
        heaviest = float(np.max(sigma * largest_weight(mechanism)))
        weight = heaviest if fading else min(1.0, heaviest / float(sigma.min()))
        in_average = (mechanism.stationary if fading else gamma) / total
        settling = [(float(two[-1] * np.max(squared * gamma)) * float(sigma.max()) ** 2, log_rate)]
        if fading and all_equal(sigma):  # R and P commute, so the first mean can be applied first
            heard = float(np.max(sigma**2 * squares_heard(mechanism, d)))
            settling.append((float(np.max(squared * gamma)) * heard, log_rate))
        if log_server is not None:
            settling.append((float(np.ptp(sigma) / n) ** 2 * float(squared.sum()), log_server))
        return cls(
            drawn_once=mechanism.shadowed,
            spread=spread,
            failure_probability=failure_probability,
            log_rate=log_rate,
            log_server=log_server,
            pair=math.sqrt(two.sum()),
            own=math.sqrt(float(two[-1])),
            most=1 - float(gamma.min()) / total,
            start=math.sqrt(total) / 2,
            gain=float(sigma.max()),
            n=n,
            log_decay=np.log(decays),
            entering=_group_sums(group, 2 * squared * _entering(mechanism, d, total)),
            resting=_group_sums(group, 2 * squared * gamma * (1 - gamma / total)),
            heaviest=weight * float(np.max(above.c)),
            fresh=float((sigma.max() if fading else 1.0) * weight * squared.max() + squared @ in_average**2),
            settling=tuple(settling),
        )

    def after(self, rounds: int, later: bool) -> Apart:
        """Bound how far apart agents are after some rounds.

        If `later`, the bound holds in each round from then on.
        """
        root_b = math.sqrt(self.failure_probability)
        spectral = self.spread * self.start * math.exp(self.log_rate * rounds)
        moments = math.sqrt(self._energy(rounds, later))
        pair = min(self.spread, self.pair * spectral)
        if self.log_server is not None:
            pair = min(pair, self.spread * math.exp(self.log_server * rounds))
        own = min(self.most * pair, self.own * spectral)
        total, largest = self._weights(rounds, later)
        # A union bound over the agents: each may fail with b/N.
        each = _chernoff(total, largest, self.failure_probability / self.n)
        # Noise has mean 0, so the mean square of start and noise together is the sum of both. Markov's
        # inequality then pays 1/√b once for both parts. This is smaller once noise dominates.
        in_norm = math.hypot(spectral, moments) / root_b
        # All three hold with probability 1 − b, and which is smallest does not depend on the noise. So the
        # smallest holds with 1 − b, too.
        found = min(
            Apart(own + each, pair + 2 * each),
            Apart(own + self.own * moments / root_b, pair + self.pair * moments / root_b),
            Apart(self.own * in_norm, self.pair * in_norm),
            key=lambda bounds: bounds.pair,
        )
        return Apart(found.own * _MARGIN, found.pair * _MARGIN)

    def _energy(self, rounds: int, later: bool) -> float:
        """Bound E‖Z‖² from above.

        Z is the part of the disagreement that is due to noise.
        """
        if not self.drawn_once:
            series = _geometric(rounds, 2 * self.log_rate, 2 * self.log_decay, later)
            return float(self.entering @ series)
        left = np.exp(self.log_rate * rounds) + np.exp(self.log_decay * rounds)
        series = _geometric(rounds, self.log_rate, self.log_decay, later)
        return float(np.sum(np.minimum(self.resting * left**2, self.entering * series**2)))

    def _weights(self, rounds: int, later: bool) -> tuple[float, float]:
        """Bound Σ weight² and the largest weight from above.

        These are the weights of the noise in one agent's distance.
        """
        slowest = self.log_decay[-1:]
        if not self.drawn_once:
            slow = float(slowest[0])
            each = [_faded(rounds, slow, self.fresh, b, rate, later=later) for b, rate in self.settling]
            largest = [_largest(rounds, slow, self.heaviest, b, rate) for b, rate in self.settling]
            return min(each), min(largest)
        total = self.fresh
        for bound, rate in self.settling:
            reach = float(_geometric(rounds, rate, slowest, later)[0])
            if rate == self.log_rate:
                left = math.exp(rate * rounds) + math.exp(slowest[0] * rounds)
                reach = min(reach, left / self.gain)
            total = min(total, bound * reach**2)
        return total, self.heaviest


def _group_sums(group: IntArray, values: FloatArray) -> FloatArray:
    return np.asarray(np.bincount(group, weights=values), dtype=np.float64)


def _entering(mechanism: Mechanism, d: FloatArray, total: float) -> FloatArray:
    """Return ‖Π ΣW e_j‖² for every agent j.

    It is Σ_i ω_iσ_iW_ij² − ω_j²/Σγ; in the paper ω_iσ_iW_ij² is d_i.
    """
    omega = mechanism.stationary
    heard = squares_spread(mechanism, omega**2 * d)
    # the subtraction may lose digits: rounding must not make the result too small
    return np.asarray(np.maximum(heard - omega**2 / total, 0) + 8 * _EPS * heard)


def _faded(rounds: int, log_q: float, fresh: float, settled: float, log_r: float, *, later: bool) -> float:
    """Bound Σ weight² of fading noise in one agent's distance.

    This is Σ_{s<T} q^{2s}·min(fresh, settled·r^{2(T−1−s)}); if `later`, its largest value from T on.
    """
    turn = 0
    if settled > fresh:
        turn = math.ceil(math.log(fresh / settled) / (2 * log_r))  # the number of rounds until it settles
    q2 = np.array([2 * log_q])

    def total(t: int) -> float:
        recent = min(turn, t)
        new = (
            fresh
            * math.exp(2 * log_q * (t - recent))
            * math.expm1(2 * log_q * recent)
            / math.expm1(2 * log_q)
        )
        old = settled * math.exp(2 * log_r * recent) * float(_geometric(t - recent, 2 * log_r, q2, False)[0])
        return new + (old if t > recent else 0.0)

    if not later:
        return total(rounds)
    # The sum rises to one peak and then falls, so a search for the peak finds its largest value.
    low, high = rounds, rounds + 1
    while total(high + 1) > total(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if total(middle + 1) > total(middle) else (low, middle)
    return max(total(low), total(low + 1), total(high), total(high + 1))


def _largest(rounds: int, log_q: float, heaviest: float, settled: float, log_r: float) -> float:
    """Bound the largest weight of any draw after T rounds.

    This is q^s·min(heaviest, √settled·r^{T−1−s}) over s < T. The bound never grows with T.
    """
    root, last = math.sqrt(settled), max(rounds - 1, 0)
    if log_r >= log_q:  # old noise settles more slowly than new noise fades
        return min(heaviest, root * math.exp(log_r * last))
    turn = max(math.log(heaviest / root) / log_r, 0.0) if root > heaviest else 0.0
    return min(heaviest, root) * math.exp(log_q * max(last - turn, 0.0))


def _geometric(rounds: int, log_a: float, log_b: FloatArray, later: bool) -> FloatArray:
    """Return Σ_{s<T} a^{T−1−s} b^s for a, b < 1.

    If `later`, return its largest value from T on. The sum rises to one peak and then falls, so from T on it
    is largest at T or at the peak.
    """
    slow = np.maximum(log_a, log_b)
    apart = np.maximum(np.abs(log_a - log_b), 1e-300)  # for a = b this gives the limit, T a^{T−1}
    peak = np.log1p(apart / -slow) / apart
    t = np.maximum(rounds, peak) if later else np.full_like(slow, rounds)
    # Written with the slower rate in front and expm1 of the difference: a^T − b^T over a − b would lose all
    # digits where the two rates are close.
    return np.asarray(np.exp(slow * (t - 1)) * (np.expm1(-apart * t) / np.expm1(-apart)))


def _chernoff(squares: float, largest: float, probability: float) -> float:
    """Return y with Pr(|Z| > y) ≤ probability.

    Z is a sum of Laplace variables: `squares` is at least Σ w², `largest` at least every weight w. As −log(1
    − x)/x grows with x, the sum's moment generating function is at most that of squares/largest² variables of
    scale `largest`.
    """
    largest = min(largest, math.sqrt(squares))
    if largest == 0:
        return 0.0
    many = squares / largest**2
    exponents = (many * -np.log1p(-(_TILTS**2)) + math.log(2 / probability)) / _TILTS
    return float(largest * np.min(exponents))
