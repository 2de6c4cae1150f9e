"""Exact first and second moments of the states, without sampling.

The states are linear in the initial values and the noise, so their mean is the mechanism run without
noise, and their covariance obeys

    Cov(t+1) = P Cov(t) Pᵀ + R diag(2 c_i² q_i^{2t}) Rᵀ,    P = I − Σ + R,  R = ΣW

for feedback y = Wx; in the paper P = I − DL and R = D(A+I) (eq:P).

P and R are applied to the columns of a matrix by running one round of the mechanism. A server's feedback
contains only the sum of all noise. So with m keepers every variance is m/N of the variance with N noisy
agents.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError, RecordTooLarge
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.theory.rates import moves_as_one, step_sizes

MOST_AGENTS = 2000


def mean_state(mechanism: Mechanism, values: npt.ArrayLike, rounds: int) -> FloatArray:
    """E θ(T) = P^T θ(0), for any number of agents.

    The cost is O(rounds·(N + E)). For few agents and many rounds it grows with the logarithm of the rounds.

    Parameters
    ----------
    mechanism : Mechanism
    values : array_like, shape (n,) or (n, k)
        θ(0).
    rounds : int
    """
    theta = mechanism.states(values)
    one = OneRound(mechanism)
    if mechanism.n <= MOST_AGENTS and _checked(rounds) > 4 * mechanism.n:
        return np.asarray(one.power(rounds) @ theta)
    for _ in range(_checked(rounds)):
        theta = one.move(theta)
    return theta


def second_moments(mechanism: Mechanism, rounds: int) -> FloatArray:
    """Covariance matrix of θ(T); it does not depend on the initial values.

    With vector states it is that of each component; components are independent.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> second_moments(ClientServer(Fading(0.5, 1, 0.9), agents=2), 1)
    array([[0.25, 0.25],
           [0.25, 0.25]])
    """
    return _covariance(OneRound(mechanism), rounds)


def shadow_second_moments(mechanism: Mechanism, rounds: int) -> FloatArray:
    """Return the covariance matrix of the public shadow.

    This is z(T) = P^T (θ(0) + η), for noise that is drawn once.
    """
    if mechanism.keepers:
        raise ParameterError("agents have no shadows if keepers add the noise: use second_moments.")
    if not mechanism.shadowed:
        raise ParameterError(
            f"only noise that is drawn once has a shadow: with {mechanism.law.name} noise use second_moments."
        )
    _require_small(mechanism)
    return _of_one_draw(mechanism, OneRound(mechanism).power(_checked(rounds)))


def mean_square_disagreement(mechanism: Mechanism, values: npt.ArrayLike, rounds: int) -> float:
    """Return the largest E[(θ_i(T) − θ_j(T))²] over all pairs.

    Convergence means that it vanishes (def:con). Vector states: the sum over components.
    """
    covariance, mean = _off_consensus(mechanism, values, rounds)
    variance = np.diag(covariance)
    of_noise = variance[:, None] + variance[None, :] - 2 * covariance
    of_mean = sum((column[:, None] - column[None, :]) ** 2 for column in mean.T)
    return float(np.max(mean.shape[1] * of_noise + of_mean))


def mean_potential(mechanism: Mechanism, values: npt.ArrayLike, rounds: int) -> float:
    """E[P(T)] = E[θᵀLθ], the left side of eq:P_exp.

    Vector states: the sum over components.
    """
    covariance, mean = _off_consensus(mechanism, values, rounds)
    of_mean = float(np.sum(mean * _laplacian(mechanism, mean)))
    of_noise = float(np.trace(_laplacian(mechanism, covariance)))
    return of_mean + int(mean.shape[1]) * of_noise


def off_consensus_covariance(mechanism: Mechanism, rounds: int) -> FloatArray:
    """Return the covariance of the agents' distances from the average.

    The average is weighted by γ. The result holds for any initial values.
    """
    return _covariance(OneRound(mechanism, off_consensus=True), rounds)


@dataclass(frozen=True)
class OneRound:
    """One round as two linear maps on the columns of a matrix.

    With `off_consensus` the average weighted by γ is subtracted after each map. It does not affect the
    differences between agents, but its rounding errors would hide small differences.
    """

    mechanism: Mechanism
    off_consensus: bool = False

    def move(self, columns: FloatArray) -> FloatArray:
        """P X: a round without noise."""
        return self.settled(self.mechanism.update(columns, self.mechanism.aggregate(columns)))

    def mix(self, columns: FloatArray) -> FloatArray:
        """R X: the contribution of the messages in a round."""
        if self.off_consensus and moves_as_one(self.mechanism):
            return np.zeros_like(columns)  # exactly 0: rounding errors would be larger than (1 − σ)^t
        return self.settled(self.mechanism.update(np.zeros_like(columns), self.mechanism.aggregate(columns)))

    def settled(self, columns: FloatArray) -> FloatArray:
        """The columns, minus their weighted average if `off_consensus`."""
        if not self.off_consensus:
            return columns
        return np.asarray(columns - self._weights @ columns)

    @cached_property
    def _weights(self) -> FloatArray:
        gamma = 1 / step_sizes(self.mechanism)
        return np.asarray(gamma / gamma.sum())

    def moved(self, middle: FloatArray) -> FloatArray:
        """P X Pᵀ."""
        return self.move(self.move(middle).T)

    def mixed(self, variances: FloatArray) -> FloatArray:
        """R diag(v) Rᵀ."""
        return self.mix(self.mix(np.diag(variances)).T)

    def power(self, rounds: int) -> FloatArray:
        """P^T."""
        start = self.settled(np.eye(self.mechanism.n))
        return np.asarray(np.linalg.matrix_power(self.move(start), rounds) @ start)


def _covariance(one: OneRound, rounds: int) -> FloatArray:
    mechanism, rounds = one.mechanism, _checked(rounds)
    _require_small(mechanism)
    if mechanism.shadowed:
        kept = np.broadcast_to(mechanism.motion.influence(rounds), (mechanism.n,))
        # θ(T) = P^T θ(0) + (P^T − diag(1−σ)^T) η
        return _of_one_draw(mechanism, one.power(rounds) - one.settled(np.diag(kept)))
    ratio = mechanism.law.ratio
    if ratio is None:
        return _round_by_round(one, rounds)
    q, group = np.unique(np.broadcast_to(np.asarray(ratio), (mechanism.n,)), return_inverse=True)
    if len(q) * mechanism.n > rounds:
        return _round_by_round(one, rounds)
    return np.asarray(sum(_by_doubling(one, rounds, float(decay), group == k) for k, decay in enumerate(q)))


def _round_by_round(one: OneRound, rounds: int) -> FloatArray:
    n = one.mechanism.n
    covariance = np.zeros((n, n))
    for scale in one.mechanism.law.scales(rounds):
        variance = 2 * np.asarray(scale) ** 2 * (one.mechanism.sources / n)
        covariance = one.moved(covariance) + one.mixed(np.broadcast_to(variance, (n,)))
    return (covariance + covariance.T) / 2


def _by_doubling(one: OneRound, rounds: int, q: float, agents: npt.NDArray[np.bool_]) -> FloatArray:
    """Return the covariance due to some agents' noise, by doubling.

    The agents share one decay, and it takes log(rounds) products. The noise of rounds t to 2t − 1 is that of
    the first t rounds, scaled by q^t. So Cov(2t) = P^t Cov(t) (P^t)ᵀ + q^{2t} Cov(t).
    """
    n = one.mechanism.n
    variance = 2 * np.asarray(one.mechanism.law.c) ** 2 * (one.mechanism.sources / n)
    fresh = one.mixed(np.where(agents, variance, 0.0))
    covariance, power, t = np.zeros((n, n)), one.settled(np.eye(n)), 0
    for bit in f"{rounds:b}":
        covariance = power @ covariance @ power.T + q ** (2 * t) * covariance
        power, t = one.settled(power @ power), 2 * t
        if bit == "1":
            covariance = one.moved(covariance) + q ** (2 * t) * fresh
            power, t = one.move(power), t + 1
    return (covariance + covariance.T) / 2


def _of_one_draw(mechanism: Mechanism, coefficients: FloatArray) -> FloatArray:
    """Covariance of coefficients times noise of scale c."""
    scaled = coefficients * (np.sqrt(2) * np.asarray(mechanism.law.c))
    return np.asarray(scaled @ scaled.T) * (mechanism.sources / mechanism.n)


def _off_consensus(mechanism: Mechanism, values: npt.ArrayLike, rounds: int) -> tuple[FloatArray, FloatArray]:
    """Covariance and mean of how far agents are from their weighted average."""
    one = OneRound(mechanism, off_consensus=True)
    covariance = off_consensus_covariance(mechanism, rounds)
    theta = mechanism.states(values).reshape(mechanism.n, -1)
    return covariance, np.asarray(one.power(_checked(rounds)) @ one.settled(theta))


def _laplacian(mechanism: Mechanism, columns: FloatArray) -> FloatArray:
    if isinstance(mechanism, Distributed):
        return np.asarray(mechanism.graph.laplacian() @ columns)
    return np.asarray(mechanism.n * (columns - columns.mean(axis=0)))


def _require_small(mechanism: Mechanism) -> None:
    # A covariance has N² entries that all matter, so dense matrices are used. A few thousand agents are
    # enough to check the bounds and samplers that are used for more agents.
    if mechanism.n > MOST_AGENTS:
        raise RecordTooLarge(
            f"exact second moments are a dense matrix, limited to {MOST_AGENTS} agents, got {mechanism.n}. "
            "Use the bound of rounds_to_agreement or disagreement, or simulate."
        )


def _checked(rounds: int) -> int:
    if rounds != int(rounds) or rounds < 0:
        raise ParameterError(f"rounds must be a whole number of at least 0, got {rounds}.")
    return int(rounds)
