"""Limits for every private protocol, and how close mechanisms come.

A protocol is ε_i-private for agent i if changing its value from θ to θ' changes the likelihood of everything
that is public by at most the factor exp(ε_i·|θ − θ'|), for all θ and θ'. `least_variance` bounds the variance
of every unbiased result of such a protocol, `least_radius` the radius of every result. The other functions
say how close a mechanism comes to these limits, what the best estimate from the same messages is, and how
large rare deviations are. Proofs: docs/proofs/bounds.md.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.base.arguments import positive, whole
from tacit.base.arrays import FloatArray, PerAgent, checked_per_agent
from tacit.base.errors import LawError, ParameterError
from tacit.core.law import Law
from tacit.core.mechanism import Mechanism
from tacit.core.motion.mixing import log_kept
from tacit.core.theory import accuracy
from tacit.core.theory.agent_classes import classes_of, noise_classes
from tacit.core.theory.laplace_sum import require_probability

__all__ = [
    "best_possible",
    "least_radius",
    "least_variance",
    "linear_variance",
    "motion_loss",
    "settling_radius",
    "tail_scale",
    "times_least_variance",
]


def least_variance(
    epsilon: PerAgent, agents: int, *, distance: float | None = None, shared_secrets: bool = False
) -> float:
    """Return the least variance of a private unbiased average.

    It is (1/N²)Σ1/ε_i². It holds for every protocol in which each agent has its own randomness and all
    messages are public. The number of rounds does not matter, and messages may depend on all earlier ones.

    Parameters
    ----------
    epsilon : float or one per agent
        ε per unit of adjacency.
    distance : float, optional
        δ, if the promise is the factor exp(ε·δ) for every two values that are at most δ apart, and not less
        for values that are closer. The bound is then (1/N²)Σδ²/(4 sinh²(ε_iδ/2)).
    shared_secrets : bool
        Parties may share secrets, as with keepers or a trusted curator. The bound is then 1/(N·min ε_i)².

    Examples
    --------
    >>> least_variance(0.5, agents=100)
    0.04
    >>> least_variance(0.5, agents=100, shared_secrets=True)
    0.0004
    """
    n = whole("agents", agents, 1)
    each = _each(epsilon, n)
    if distance is not None:
        distance = positive("distance", distance)
        each = 2 * np.sinh(each * distance / 2) / distance  # the least chi-square distance, as a slope
    per_agent = 1 / each**2
    if shared_secrets:
        return float(np.max(per_agent)) / n**2
    return float(np.sum(np.broadcast_to(per_agent, (n,)))) / n**2 if each.ndim else float(per_agent) / n


def _each(epsilon: PerAgent, n: int) -> FloatArray:
    each = np.asarray(checked_per_agent(epsilon, "epsilon", below_one=False))
    if each.ndim and each.size != n:
        raise ParameterError(f"epsilon must be one number, or one for each of {n} agents, got {each.size}.")
    return each


def least_radius(epsilon: PerAgent, agents: int, failure_probability: float) -> float:
    """Return the least radius of any private result, biased or not.

    It is ln((1−b)/b)/(2N·min ε_i), for every trust model and for values without a known range.
    `failure_probability` is b, the probability that the radius is missed.

    Examples
    --------
    >>> round(least_radius(0.5, agents=100, failure_probability=0.05), 6)
    0.029444
    """
    b, n = require_probability(failure_probability), whole("agents", agents, 1)
    least = float(np.min(_each(epsilon, n)))
    return max(math.log1p(-b) - math.log(b), 0.0) / (2 * n * least)


def best_possible(mechanism: Mechanism, rounds: int | None = None) -> float:
    """Return the least variance for this mechanism's privacy.

    It is over all unbiased estimates of its target. After T rounds a state still contains the share 1 − μ_i
    of its own initial value, which nobody else knows. Here μ_i = 1 − (1−σ_i)^T. Only the rest is published,
    so the bound is Σ(w_iμ_i/ε_i)² with the weights w_i of the target. With keepers the bound is that of
    `shared_secrets`.
    """
    classes = classes_of(mechanism)
    part = _moved(classes.law, rounds) * classes.gamma / classes.total_gamma
    with np.errstate(divide="ignore", invalid="ignore"):  # after 0 rounds nothing is published, and ε is 0
        each = np.where(part > 0, part / classes.law.epsilons(rounds), 0.0) ** 2
    return float(np.max(each) if mechanism.keepers else np.sum(classes.agents * each))


def times_least_variance(mechanism: Mechanism, rounds: int | None = None) -> float:
    """Return a mechanism's variance over the least possible one.

    It is 2 for one-shot noise. For fading noise with the best decay it is 2σ²/(1−(1−σ)^{2/3})³ with a server
    or Metropolis weights, and m times that with m keepers.

    Examples
    --------
    >>> from tacit import ClientServer, OneShot
    >>> times_least_variance(ClientServer(OneShot(0.8, 2.0), agents=500))
    2.0
    """
    least = best_possible(mechanism, rounds)
    if least == 0:
        raise ParameterError("rounds must be at least 1 to compare with the best possible, got 0.")
    return accuracy.variance(mechanism, rounds) / least


def linear_variance(mechanism: Mechanism, rounds: int | None = None) -> float:
    """Return the variance of the best linear estimate of the target.

    The estimate is unbiased and from the public messages. Given the public feedback, message t of agent i is
    (1−σ_i)^t·θ_i(0) plus a known number plus noise of scale s_{i,t}. So weighted least squares has
    Var = Σw_i²·2/Σ_t((1−σ_i)^t/s_{i,t})². For the best fading noise and the true average this is
    (2/(Nε²))·(1+p^{2/3})/(1−p^{2/3}) with p = 1 − σ.
    """
    classes = classes_of(mechanism)
    share = classes.gamma / classes.total_gamma
    if mechanism.keepers:
        if np.ptp(classes.sigma) > 0:
            raise LawError(
                "the linear estimate with keepers needs one mixing for all agents: only the sum of the "
                "states is public, and its parts would fade at different rates."
            )
        sources, share = noise_classes(mechanism), np.array([1 / mechanism.n])
        law = type(sources.law)(**{**sources.law.values(), "sigma": classes.sigma[:1]})
        counts = sources.agents
    else:
        law, counts = classes.law, classes.agents
    with np.errstate(divide="ignore"):
        return float(np.sum(counts * share**2 * 2 / _information(law, rounds)))


def motion_loss(sigma: float) -> float:
    """Return how much the consensus value loses to a linear estimate.

    It is the variance of the consensus value over that of the best linear estimate, for the best noise: 1 +
    u²/((1+u)²(1+u²)) with u = (1−σ)^{1/3}. It is always below 9/8,
    and tends to 9/8 as σ → 0.

    Examples
    --------
    >>> round(motion_loss(0.5), 4), round(motion_loss(1e-9), 4)
    (1.1201, 1.125)
    """
    u = math.exp(log_kept(float(checked_per_agent(sigma, "mixing (sigma)", below_one=True))) / 3)
    return 1 + u * u / ((1 + u) ** 2 * (1 + u * u))


def tail_scale(mechanism: Mechanism, rounds: int | None = None) -> float:
    """Return the limit of radius/ln(1/b) for failure probability b → 0.

    It is the largest scale of any draw in the result. Over T rounds it is least for constant noise,
    (1−(1−σ)^T)/(Nε); one-shot noise has the same limit.
    """
    return float(np.max(accuracy.deviation(mechanism, rounds).scale))


def settling_radius(mechanism: Mechanism, rounds: int, failure_probability: float) -> float:
    """Return a radius that the average never leaves after some rounds.

    With probability at least 1 − b the weighted average stays within this distance of its limit, in all
    rounds after `rounds` at once. The average converges almost surely, so the radius goes to 0. For fading
    noise it is q^T times the radius of failure probability b/2.
    """
    b, later = require_probability(failure_probability), whole("rounds", rounds, 0)
    law = mechanism.law
    if law.shadowed:
        keeps = np.asarray(mechanism.motion.keep)
        # With one mixing the remaining distance only shrinks. Otherwise Lévy's inequality bounds its maximum.
        share = b if np.ptp(keeps) == 0 else b / 2
        return float(np.max(keeps)) ** later * accuracy.radius(mechanism, share)
    if law.ratio is None or float(np.max(law.ratio)) >= 1:
        raise LawError(
            f"{law.name} noise does not fade by one factor per round: the average may never settle."
        )
    # The noise still to come is at most q^T times as wide. Lévy's inequality bounds the largest partial sum.
    return float(np.max(law.ratio)) ** later * accuracy.radius(mechanism, b / 2)


def _moved(law: Law, rounds: int | None) -> FloatArray:
    """The share of a state that follows from the public feedback."""
    return np.ones_like(law.c) if rounds is None else law.motion.followed(rounds)


def _information(law: Law, rounds: int | None) -> FloatArray:
    """Return Σ_t (a_t/s_t)² of each class.

    A message of scale s estimates its mean with variance 2s².
    """
    c = np.asarray(law.c)
    if law.shadowed:  # all later messages follow from the first
        return np.asarray((0.0 if rounds == 0 else 1.0) / c**2)
    if law.ratio is None:
        if rounds is None:
            raise law.undefined("ratio", "what an endless run tells")
        u = np.arange(rounds)[:, None]
        return np.asarray(np.sum((law.motion.influence(u) / law.scales(rounds)) ** 2, axis=0))
    log_ratio = 2 * (log_kept(np.asarray(law.sigma)) - np.log(law.ratio))  # of ((1−σ)/q)²
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if rounds is None:  # no less noise than influence in the end: the messages tell everything
            total = np.where(log_ratio < 0, -1 / np.expm1(log_ratio), np.inf)
        else:
            total = np.where(log_ratio == 0, rounds, np.expm1(rounds * log_ratio) / np.expm1(log_ratio))
    return np.asarray(total / c**2)
