"""Accuracy: how far from the target agents agree.

This is about Lemmas 4 and 8 (lem:acc, lem:acc_dis). The agents agree on a random value around the target
Σγ_iθ_i(0)/Σγ_i. Here γ_i = ω_i/σ_i, and ω is the left eigenvector of the feedback's weights: |N(i)|+1 in the
paper (docs/proofs/weights.md). The difference V between this value and the target is a weighted sum of
Laplace variables. The paper bounds |V| by Chebyshev's inequality. `radius` uses the exact law of V
(docs/proofs/exact-radius.md) and is tighter. Radii are rounded up. For vectors everything holds per
component; pass `components` for a radius that covers all of them at once.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.base.errors import ParameterError, RecordTooLarge
from tacit.core.mechanism import ClientServer, Mechanism
from tacit.core.theory.agent_classes import classes_of, noise_classes
from tacit.core.theory.laplace_sum import LaplaceSum, per_component, require_probability
from tacit.core.theory.normal_law import NormalLaw
from tacit.core.theory.once_sums import OnceSum, once_sum
from tacit.core.theory.rates import spread_back
from tacit.core.theory.targets import target, weights

__all__ = [
    "agent_deviation",
    "chebyshev_radius",
    "d_tilde",
    "deviation",
    "radius",
    "reaches_average",
    "target",
    "variance",
    "weights",
]

_MOST_TERMS = 20_000_000


def reaches_average(mechanism: Mechanism) -> bool:
    """Whether the target is the plain average.

    Then all γ_i are equal, up to rounding.
    """
    gamma = classes_of(mechanism).gamma
    return bool(np.ptp(gamma) <= 1e-12 * np.max(gamma))


def d_tilde(mechanism: Mechanism) -> float:
    """Return d̃ = Σω_i²/(Σγ_i)² of Lemma 8.

    It is σ²/N with a server, and mσ²/N² with m keepers.
    """
    classes = noise_classes(mechanism)
    return float(np.sum(classes.agents * classes.omega**2) / classes.total_gamma**2)


def deviation(mechanism: Mechanism, rounds: int | None = None) -> LaplaceSum:
    """Return the exact law of the consensus value minus its target.

    With `rounds`, it is the law of the weighted average of the states after that many rounds.
    """
    if rounds is not None and rounds < 0:
        raise ParameterError(f"rounds must be at least 0, got {rounds}.")
    if mechanism.law.whole_domain:
        raise mechanism.law.undefined("Laplace terms", "the deviation as a sum of Laplace variables")
    classes = noise_classes(mechanism)
    if not mechanism.shadowed:
        # V = Σ_t Σ_i ω_i η_i(t) / Σγ
        terms = classes.law.terms(classes.omega, classes.total_gamma, rounds)
        return LaplaceSum(terms.scale, terms.ratio, terms.repeat * classes.agents[terms.group], terms.rounds)
    # Noise drawn once: the weighted average of the shadows is off by Σγ_iη_i/Σγ_i in every round. State i
    # differs from its shadow by −(1−σ_i)^T·η_i, so the share 1 − (1−σ_i)^T of the noise is in the states.
    motion = classes.law.motion
    followed = motion.settled if rounds is None else motion.followed(rounds)
    scale = classes.gamma * followed * classes.c / classes.total_gamma
    return LaplaceSum(scale, np.zeros_like(scale), classes.agents, 1)


def pure_deviation(mechanism: Mechanism, rounds: int | None = None) -> LaplaceSum | OnceSum:
    """Return `deviation`; for bits and staircase noise it is another sum."""
    if not mechanism.law.whole_domain:
        return deviation(mechanism, rounds)
    motion = mechanism.motion
    followed = float(motion.settled if rounds is None else motion.followed(rounds))
    return once_sum(mechanism.law, mechanism.n, followed)


def law_of_average(mechanism: Mechanism, rounds: int | None = None) -> LaplaceSum | OnceSum | NormalLaw:
    """Return `deviation`; for Gaussian noise it is a normal variable."""
    law = mechanism.law
    if law.pure:
        return pure_deviation(mechanism, rounds)
    if mechanism.keepers or law.agents is not None:
        raise law.undefined("keepers, or agents that differ", "the deviation of Gaussian noise")
    classes = classes_of(mechanism)
    squares = float(np.sum(classes.agents * classes.omega**2))
    return NormalLaw(math.sqrt(law.total_variance(rounds) * squares) / abs(classes.total_gamma))


def variance(mechanism: Mechanism, rounds: int | None = None) -> float:
    """Var V = 2 d̃ c²/(1 − q²); after T rounds times 1 − q^{2T}."""
    return law_of_average(mechanism, rounds).variance


def chebyshev_radius(mechanism: Mechanism, failure_probability: float, rounds: int | None = None) -> float:
    """Return the paper's radius c·√(2d̃)/√(b(1−q²)), Lemmas 4 and 8.

    The last line of the paper's proof has an N too many: docs/paper/errata.md.
    """
    b = require_probability(failure_probability)
    return _up(law_of_average(mechanism, rounds).deviation / math.sqrt(b))


def radius(
    mechanism: Mechanism,
    failure_probability: float,
    rounds: int | None = None,
    *,
    agent: int | None = None,
    spread: float | None = None,
    components: int = 1,
) -> float:
    """Return the exact radius around the target.

    This is the r with P(|deviation from the target| > r) = failure probability. The result is a proved upper
    bound. It is usually a relative 1e-12 above the true radius, and at most 1e-6 above it (if a single draw
    dominates). `deviation(...).quantile(b)` returns both bounds.

    Parameters
    ----------
    failure_probability : float
        The paper's b, in (0, 1).
    rounds : int, optional
        The number of rounds; by default the limit of an endless run.
    agent : int, optional
        One agent's own state instead of the weighted average; needs `rounds` and `spread`.
    spread : float, optional
        Largest minus smallest initial value. Before it has converged, an agent is also off by its own
        initial value; the radius covers the worst case.
    components : int
        Length of the state vectors; the radius then covers all components at once.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> round(radius(ClientServer(Fading(0.8, 10, 0.6), agents=500), 0.5), 6)
    0.426457
    """
    b = per_component(failure_probability, components)
    if agent is None or rounds is None:
        return law_of_average(mechanism, rounds).quantile(b).high
    if spread is None or not (math.isfinite(spread) and spread >= 0):
        raise ParameterError(
            f"spread must be a number of at least 0 for one agent's own radius, got {spread}: before it has "
            "converged, an agent is also off by its initial value."
        )
    law, bias = agent_deviation(mechanism, agent, rounds)
    return law.quantile(b, offset=bias * spread).high


def agent_deviation(mechanism: Mechanism, agent: int, rounds: int) -> tuple[LaplaceSum, float]:
    """Return the law of the noise in one agent's state, and its bias.

    After `rounds` rounds the state is Σ_j a_jθ_j(0) + noise. The bias ½Σ_j|a_j − γ_j/Σγ| times the spread of
    the initial values is the most by which Σa_jθ_j(0) can differ from the target.
    """
    if not 0 <= agent < mechanism.n:
        raise ParameterError(f"agent must be a number from 0 to {mechanism.n - 1}, got {agent}.")
    law = mechanism.law
    if isinstance(mechanism, ClientServer) and not isinstance(law.sigma, np.ndarray):
        # θ_i(T) − average(T) = (1−σ)^T (θ_i(0) − average(0)), so the noise of a state is that of the average.
        return deviation(mechanism, rounds), law.motion.influence(rounds) * (1 - 1 / mechanism.n)
    if mechanism.n * (1 if mechanism.shadowed else rounds) > _MOST_TERMS:
        raise RecordTooLarge(
            f"one agent's own radius needs agents × rounds of at most {_MOST_TERMS:,}, got {mechanism.n:,} × "
            f"{rounds:,}. Ask for fewer rounds, or for the radius of the consensus value (no agent)."
        )
    return _adjoint(mechanism, agent, rounds)


def _adjoint(mechanism: Mechanism, agent: int, rounds: int) -> tuple[LaplaceSum, float]:
    """Trace one agent's state back, in O(T(N+E)).

    The result is the law of the noise in it, and the bias of its initial values.
    """
    law, n = mechanism.law, mechanism.n
    motion = mechanism.motion
    sigma, keep = np.broadcast_to(motion.pull, (n,)), np.broadcast_to(motion.keep, (n,))
    row = np.zeros(n)
    row[agent] = 1.0  # θ_agent(t + s) = row·θ(t) + noise, after s steps back
    coefficients = []
    for _ in range(rounds):
        heard = spread_back(mechanism, sigma * row)
        coefficients.append(np.abs(heard))
        row = keep * row + heard
    bias = 0.5 * float(np.sum(np.abs(row - weights(mechanism))))
    if not mechanism.shadowed:
        faded = law.scales(rounds)
        faded = faded if faded.ndim > 1 else faded[:, None]
        scale = np.array(coefficients[::-1]).reshape(rounds, n) * faded
    else:
        # only the shadow starts with noise, not the state
        row[agent] -= motion.of_agent(agent).influence(rounds)
        scale = np.abs(row) * law.c
    # With a server all messages of a round have the same weight in a state. A keeper's draw is added to their
    # sum, so it has that weight, too.
    if mechanism.keepers:
        scale = np.repeat(scale[:, :1], mechanism.keepers, axis=1)
    scale, count = np.unique(scale[scale > 0], return_counts=True)
    return LaplaceSum(scale, np.zeros_like(scale), count.astype(np.float64), 1), bias


def _up(value: float) -> float:
    return math.nextafter(value * (1 + 8 * np.finfo(np.float64).eps), math.inf)
