"""Exact first and second moments of the states, without sampling.

The states are linear in the initial values and the noise, so their mean is the mechanism run without
noise, and their covariance obeys

    Cov(t+1) = P Cov(t) Pᵀ + R diag(2 c_i² q_i^{2t}) Rᵀ,    P = I − DL,  R = D(A+I)   (eq:P).

Both P and R act on a matrix, column by column, by one round of the mechanism itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tacit.arrays import FloatArray, as_states, per_agent_columns
from tacit.errors import ParameterError, RecordTooLarge
from tacit.mechanism import Distributed, Fading, Mechanism

MOST_AGENTS = 2000


def mean_state(mechanism: Mechanism, values: npt.ArrayLike, rounds: int) -> FloatArray:
    """E θ(T) = (I − DL)^T θ(0), for any number of agents.

    Costs O(rounds·(N + E)); for few agents and many rounds the logarithm of the rounds.

    Parameters
    ----------
    mechanism : Mechanism
    values : array_like, shape (n,) or (n, k)
        θ(0).
    rounds : int
    """
    theta = as_states(values, mechanism.n)
    if mechanism.n <= MOST_AGENTS and _checked_rounds(rounds) > 4 * mechanism.n:
        return np.asarray(np.linalg.matrix_power(_move(mechanism, np.eye(mechanism.n)), rounds) @ theta)
    for _ in range(_checked_rounds(rounds)):
        theta = _move(mechanism, theta)
    return theta


def second_moments(mechanism: Mechanism, rounds: int) -> FloatArray:
    """Covariance matrix of θ(T), whatever the initial values are.

    With vector states it is that of each component; components are independent.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> second_moments(ClientServer(Fading(0.5, 1, 0.9), agents=2), 1)
    array([[0.25, 0.25],
           [0.25, 0.25]])
    """
    _require_small(mechanism)
    if mechanism.one_shot:
        return _spread_of(mechanism, _one_shot_coefficients(mechanism, rounds)[0])
    assert isinstance(mechanism.parameters, Fading)
    q, group = np.unique(np.broadcast_to(mechanism.parameters.q, (mechanism.n,)), return_inverse=True)
    if len(q) * mechanism.n > _checked_rounds(rounds):
        return _round_by_round(mechanism, rounds)
    parts = (_by_doubling(mechanism, rounds, float(decay), group == k) for k, decay in enumerate(q))
    return np.asarray(sum(parts))


def _round_by_round(mechanism: Mechanism, rounds: int) -> FloatArray:
    covariance = np.zeros((mechanism.n, mechanism.n))
    for scale in mechanism.parameters.scales(rounds):
        fresh = np.broadcast_to(2 * np.asarray(scale) ** 2, (mechanism.n,))
        covariance = _both_sides(_move, mechanism, covariance) + _both_sides(_mix, mechanism, np.diag(fresh))
    return (covariance + covariance.T) / 2


def _by_doubling(mechanism: Mechanism, rounds: int, q: float, agents: npt.NDArray[np.bool_]) -> FloatArray:
    """Covariance due to the noise of some agents that share one decay, in log(rounds) products.

    t more rounds add what the first t did, times q^{2t}: Cov(2t) = P^t Cov(t) (P^t)ᵀ + q^{2t} Cov(t).
    """
    n = mechanism.n
    c = np.where(agents, np.asarray(mechanism.parameters.c), 0.0)
    fresh = _both_sides(_mix, mechanism, np.diag(2 * c**2))
    covariance, power, t = np.zeros((n, n)), np.eye(n), 0
    for bit in f"{rounds:b}":
        covariance = power @ covariance @ power.T + q ** (2 * t) * covariance
        power, t = power @ power, 2 * t
        if bit == "1":
            covariance = _both_sides(_move, mechanism, covariance) + q ** (2 * t) * fresh
            power, t = _move(mechanism, power), t + 1
    return (covariance + covariance.T) / 2


def shadow_second_moments(mechanism: Mechanism, rounds: int) -> FloatArray:
    """Covariance matrix of the public shadow z(T) = P^T (θ(0) + η) of one-shot noise."""
    _require_small(mechanism)
    if not mechanism.one_shot:
        raise ParameterError("only one-shot noise has a shadow: with fading noise use second_moments.")
    return _spread_of(mechanism, _one_shot_coefficients(mechanism, rounds)[1])


def mean_square_disagreement(mechanism: Mechanism, values: npt.ArrayLike, rounds: int) -> float:
    """The largest E[(θ_i(T) − θ_j(T))²] over all pairs, which converges to 0 by Definition 3 (def:con).

    Vector states: the sum over components.
    """
    covariance = second_moments(mechanism, rounds)
    mean = mean_state(mechanism, values, rounds).reshape(mechanism.n, -1)
    variance = np.diag(covariance)
    of_noise = variance[:, None] + variance[None, :] - 2 * covariance
    of_mean = sum((column[:, None] - column[None, :]) ** 2 for column in mean.T)
    return float(np.max(mean.shape[1] * of_noise + of_mean))


def mean_potential(mechanism: Mechanism, values: npt.ArrayLike, rounds: int) -> float:
    """E[P(T)] = E[θᵀLθ], the left side of eq:P_exp.

    Vector states: the sum over components.
    """
    covariance = second_moments(mechanism, rounds)
    mean = mean_state(mechanism, values, rounds).reshape(mechanism.n, -1)
    of_mean = float(np.sum(mean * _laplacian(mechanism, mean)))
    return of_mean + mean.shape[1] * float(np.trace(_laplacian(mechanism, covariance)))


def _move(mechanism: Mechanism, columns: FloatArray) -> FloatArray:
    """P times a matrix: one round without noise."""
    return mechanism.update(columns, mechanism.aggregate(columns))


def _mix(mechanism: Mechanism, columns: FloatArray) -> FloatArray:
    """R times a matrix: what one round brings in from messages alone."""
    return mechanism.update(np.zeros_like(columns), mechanism.aggregate(columns))


def _both_sides(
    apply: Callable[[Mechanism, FloatArray], FloatArray], mechanism: Mechanism, middle: FloatArray
) -> FloatArray:
    """X ↦ M X Mᵀ for the matrix M that `apply` multiplies with."""
    return apply(mechanism, apply(mechanism, middle).T)


def _laplacian(mechanism: Mechanism, columns: FloatArray) -> FloatArray:
    if isinstance(mechanism, Distributed):
        return np.asarray(mechanism.graph.laplacian() @ columns)
    return np.asarray(mechanism.n * (columns - columns.mean(axis=0)))


def _one_shot_coefficients(mechanism: Mechanism, rounds: int) -> tuple[FloatArray, FloatArray]:
    """How the state, P^T − diag(1−σ)^T, and the shadow, P^T, depend on the noise."""
    identity = np.eye(mechanism.n)
    shadow = np.linalg.matrix_power(_move(mechanism, identity), _checked_rounds(rounds))
    kept = (1 - np.asarray(mechanism.parameters.sigma)) ** rounds
    return shadow - identity * per_agent_columns(np.asarray(kept), 2), shadow


def _spread_of(mechanism: Mechanism, coefficients: FloatArray) -> FloatArray:
    c = np.broadcast_to(np.asarray(mechanism.parameters.c), (mechanism.n,))
    scaled = coefficients.T * per_agent_columns(np.sqrt(2) * c, 2)
    return np.asarray(scaled.T @ scaled)


def _require_small(mechanism: Mechanism) -> None:
    # Dense on purpose: a covariance has N² entries that all matter, and a few thousand agents suffice
    # to check what is sampled or bounded for more.
    if mechanism.n > MOST_AGENTS:
        raise RecordTooLarge(
            f"exact second moments are a dense matrix, kept to {MOST_AGENTS} agents, got {mechanism.n}. "
            "Use the bound of rounds_to_agreement or disagreement, or simulate."
        )


def _checked_rounds(rounds: int) -> int:
    if rounds != int(rounds) or rounds < 0:
        raise ParameterError(f"rounds must be a whole number of at least 0, got {rounds}.")
    return int(rounds)
