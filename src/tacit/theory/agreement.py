"""After how many rounds agents agree, by bounds that are proved and err on the safe side.

Where noise moves all agents alike the answer is exact and certain. Elsewhere disagreement has a part
from the initial values, which is certain, and a part from noise, which is bounded with probability
1 − b in three ways, each of them the best somewhere (docs/proofs/convergence.md):

- by second moments (Markov), in the norm weighted by γ;
- agent by agent, by the tail of a Laplace variable (Chernoff), for many agents;
- around a server, by the spread that one mean can cause in agents of different mixing.

All of it is for one component of the states; for k components divide b by k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from tacit.arrays import FloatArray, IntArray
from tacit.errors import ParameterError
from tacit.mechanism import Distributed, Fading, Mechanism
from tacit.theory.rates import hears_all, mixing, moves_as_one, spectral_gap, step_sizes

_EPS = float(np.finfo(np.float64).eps)
_MARGIN = 1 + 1e-12  # rounding of a handful of exponentials


def rounds_to_agreement(
    mechanism: Mechanism, tolerance: float, spread: float, failure_probability: float = 0.05
) -> int:
    """Rounds T after which every two agents differ by at most `tolerance`.

    Certain, and the least such T, where noise moves all agents alike: spread·(1−σ)^T ≤ tolerance, where
    equality up to rounding counts. Elsewhere it holds in each round from T on with probability
    at least 1 − failure_probability.

    Parameters
    ----------
    mechanism : Mechanism
    tolerance : float
        Positive.
    spread : float
        Largest minus smallest initial value.
    failure_probability : float
        In (0, 1); not used where the answer is certain.

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
    bound = _Bound.of(mechanism, spread, failure_probability)
    if bound.after(0, later=True) <= tolerance:
        return 0
    low, high = 0, 1
    while bound.after(high, later=True) > tolerance:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bound.after(middle, later=True) <= tolerance else (middle, high)
    return high


def disagreement(
    mechanism: Mechanism, rounds: int, spread: float, failure_probability: float = 0.05
) -> float:
    """How far apart two agents can be after so many rounds.

    Certain where noise moves all agents alike; elsewhere all pairs are within it at that round with
    probability at least 1 − failure_probability. See `rounds_to_agreement`.
    """
    if rounds != int(rounds) or rounds < 0:
        raise ParameterError(f"rounds must be a whole number of at least 0, got {rounds}.")
    _check(spread, failure_probability)
    if mechanism.n == 1 or rounds == 0:
        return 0.0 if mechanism.n == 1 else float(spread)
    if moves_as_one(mechanism):
        return float(spread * math.exp(rounds * math.log1p(-float(mixing(mechanism)[0]))))
    return _Bound.of(mechanism, spread, failure_probability).after(int(rounds), later=False)


def _check(spread: float, failure_probability: float) -> None:
    if not (0 <= spread < math.inf):
        raise ParameterError(f"spread must be a number of at least 0, got {spread}.")
    if not (0 < failure_probability < 1):
        raise ParameterError(f"failure probability must be in (0, 1), got {failure_probability}.")


def _certain_rounds(sigma: float, tolerance: float, spread: float) -> int:
    """Return the least T with spread·(1−σ)^T ≤ tolerance."""
    if spread <= tolerance:
        return 0
    shrink = -math.log1p(-sigma)
    exact = (math.log(spread) - math.log(tolerance)) / shrink
    # without slack 0.7² would miss 0.49: the logarithms are rounded, and 1 − σ in each factor of a power
    slack = _EPS * (4 + abs(math.log(spread)) + abs(math.log(tolerance)) + min(exact, 1000))
    return max(1, math.ceil(exact - slack / shrink))


@dataclass(frozen=True)
class _Bound:
    """What the bound needs of a mechanism, worked out once in O(N + E).

    Noise is kept in groups of equal decay, as logarithms: `log_decay` is log q, or log(1 − σ) with
    one-shot noise, whose effect fades as an agent leaves its start behind. Norms are those
    weighted by γ, and Π takes out the part along 1.
    """

    one_shot: bool
    spread: float
    failure_probability: float
    log_rate: float  # log ρ, of the spectral rate
    log_server: float | None  # log(1 − σ_min) where everyone hears everyone
    pair: float  # √(d_i + d_j), at most: |θ_i − θ_j| over the norm
    start: float  # √Σγ / 2: norm of the initial disagreement over its spread, at most
    gain: float  # σ_max, at least the norm of D(A+I)
    log_decay: FloatArray
    entering: FloatArray  # per group: Σ_j 2c_j² ‖Π D(A+I)e_j‖²
    resting: FloatArray  # per group: Σ_j 2c_j² ‖Π e_j‖²
    each: float  # the worst two agents' noise over `_reach`, at their quantile
    server: float  # the spread that the noise of round 0 causes in one mean, at its quantile

    @classmethod
    def of(cls, mechanism: Mechanism, spread: float, failure_probability: float) -> _Bound:
        """Work out the numbers of a mechanism."""
        n, parameters = mechanism.n, mechanism.parameters
        sigma, d = mixing(mechanism), step_sizes(mechanism)
        gamma, total = 1 / d, float(np.sum(1 / d))
        squared = np.broadcast_to(np.asarray(parameters.c) ** 2, (n,))
        decay = parameters.q if isinstance(parameters, Fading) else 1 - np.asarray(parameters.sigma)
        decays, group = np.unique(np.broadcast_to(decay, (n,)), return_inverse=True)
        two = np.partition(d, n - 2)[n - 2 :]
        quantile = _laplace_quantile(failure_probability / n)
        return cls(
            one_shot=mechanism.one_shot,
            spread=spread,
            failure_probability=failure_probability,
            log_rate=math.log1p(-spectral_gap(mechanism)),
            log_server=math.log1p(-float(sigma.min())) if hears_all(mechanism) else None,
            pair=math.sqrt(two.sum()),
            start=math.sqrt(total) / 2,
            gain=float(sigma.max()),
            log_decay=np.log(decays),
            entering=_group_sums(group, 2 * squared * _entering(mechanism, d, total)),
            resting=_group_sums(group, 2 * squared * gamma * (1 - gamma / total)),
            each=float(np.sqrt(two).sum() * np.sqrt(np.max(squared * gamma))) * quantile,
            server=float(np.ptp(sigma) / n * np.sqrt(2 * squared.sum() / failure_probability)),
        )

    def after(self, rounds: int, later: bool) -> float:
        """Bound on |θ_i − θ_j| after so many rounds; if `later`, in any round from then on."""
        spectral = self.spread * self.pair * self.start * math.exp(self.log_rate * rounds)
        certain = min(self.spread, spectral)
        root_b = math.sqrt(self.failure_probability)
        moments = self.pair * math.sqrt(self._energy(rounds, later))
        noise = [moments / root_b, self.each * self._reach(rounds, later)]
        if self.log_server is not None:
            certain = min(certain, self.spread * math.exp(self.log_server * rounds))
            slowest = self.log_decay[-1:]
            noise.append(self.server * float(_geometric(rounds, self.log_server, slowest, later)[0]))
        return min(certain + min(noise), math.hypot(spectral, moments) / root_b) * _MARGIN

    def _energy(self, rounds: int, later: bool) -> float:
        """At least E‖Z‖², Z being what noise added to disagreement."""
        if not self.one_shot:
            series = _geometric(rounds, 2 * self.log_rate, 2 * self.log_decay, later)
            return float(self.entering @ series)
        left = np.exp(self.log_rate * rounds) + np.exp(self.log_decay * rounds)
        series = _geometric(rounds, self.log_rate, self.log_decay, later)
        return float(np.sum(np.minimum(self.resting * left**2, self.entering * series**2)))

    def _reach(self, rounds: int, later: bool) -> float:
        """At least the norm of how noise, weighted by its scale, comes to one agent."""
        slowest = self.log_decay[-1:]
        if not self.one_shot:
            series = _geometric(rounds, 2 * self.log_rate, 2 * slowest, later)
            return self.gain * math.sqrt(series[0])
        left = math.exp(self.log_rate * rounds) + math.exp(slowest[0] * rounds)
        return min(left, self.gain * float(_geometric(rounds, self.log_rate, slowest, later)[0]))


def _group_sums(group: IntArray, values: FloatArray) -> FloatArray:
    return np.asarray(np.bincount(group, weights=values), dtype=np.float64)


def _entering(mechanism: Mechanism, d: FloatArray, total: float) -> FloatArray:
    """‖Π D(A+I)e_j‖² = Σ_{i ∈ N(j) ∪ {j}} d_i − (|N(j)|+1)²/Σγ for every agent j."""
    if isinstance(mechanism, Distributed):
        heard = d + mechanism.graph.neighbour_sums(d)
    else:
        heard = np.broadcast_to(d.sum(), d.shape)
    # the difference may cancel: never let rounding make it too small
    return np.asarray(np.maximum(heard - mechanism.closed_degrees**2 / total, 0) + 8 * _EPS * heard)


def _geometric(rounds: int, log_a: float, log_b: FloatArray, later: bool) -> FloatArray:
    """Σ_{s<T} a^{T−1−s} b^s for a, b < 1; if `later`, its largest value from T on.

    Rises to one peak and then falls, so from T on it is largest at T or at the peak.
    """
    slow = np.maximum(log_a, log_b)
    apart = np.maximum(np.abs(log_a - log_b), 1e-300)  # at a = b the limit, T a^{T−1}
    peak = np.log1p(apart / -slow) / apart
    t = np.maximum(rounds, peak) if later else np.full_like(slow, rounds)
    return np.asarray(np.exp(slow * (t - 1)) * (np.expm1(-apart * t) / np.expm1(-apart)))


def _laplace_quantile(probability: float) -> float:
    """Return y with Pr(|Z| > y·w) ≤ probability, for sums Z of Laplace variables with Σ scale² = w².

    By Chernoff: E e^{lZ/w} ≤ 1/(1 − l²), as if the sum were one Laplace variable of scale w.
    """

    def excess(y: float) -> float:
        best = y / (math.sqrt(1 + y * y) + 1)  # of l in e^{−ly}/(1 − l²)
        return math.log(2) - best * y - math.log1p(-best * best) - math.log(probability)

    return float(brentq(excess, 1e-3, 1e4, xtol=1e-9)) + 1e-8
