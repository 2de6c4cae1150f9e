"""What is lost: ε of both mechanisms, Lemmas 1 (lem:pri) and 5 (lem:pri_dis).

ε is per unit of adjacency: if one agent's initial value moves by at most δ (in the L1 norm for
vectors), no observation becomes more than exp(ε·δ) times more likely. The loss ε·δ is what an
owner's cap is about. All values are rounded up.

The guarantee is each agent's own. It needs nothing from the others or the server and holds
for every feedback, honest or chosen to hurt, as long as noise is drawn once per update
(docs/proofs/privacy.md).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tacit.arrays import FloatArray
from tacit.errors import ParameterError
from tacit.mechanism import Fading, OneShot, Parameters
from tacit.mechanism.parameters import require_known
from tacit.theory.rounding import ULP, extended, fraction_up, product_up, ratio_up, round_up

_EXACT_ROUNDS = 1000  # powers of exact fractions stay cheap up to here
_EXACT_KINDS = 64  # different agents whose ε is worth computing exactly
_EXACT_AGENTS = 10_000  # agents worth sorting into kinds


def epsilon(parameters: Parameters, rounds: int | None = None) -> float:
    """Return the largest ε of any agent, over `rounds` rounds or an endless run.

    Lemma 1: ε = q / (c (q + σ − 1)) where q > 1 − σ; Lemma 5 is the same with the least σ.
    After T rounds ε_T = (1/c) Σ_{t<T} ((1−σ)/q)^t, finite for every q. It is exact: the
    likelihood ratio of a transcript reaches exp(ε_T·δ).

    Examples
    --------
    >>> epsilon(Fading(sigma=0.8, c=10, q=0.6))
    0.15
    """
    return float(np.max(epsilons(parameters, rounds)))


def epsilons(parameters: Parameters, rounds: int | None = None) -> FloatArray:
    """Return ε per agent, or a single ε (0-d) when all agents share their parameters."""
    if rounds is not None and rounds < 0:
        raise ParameterError(f"rounds must be at least 0, got {rounds}.")
    require_known(parameters)
    if isinstance(parameters, Fading) and rounds is None:
        gap = (extended(parameters.q) - 1) + extended(parameters.sigma)
        _require_gap(parameters, gap > 0)
    if (parameters.agents or 1) <= _EXACT_AGENTS and (rounds or 0) <= _EXACT_ROUNDS:
        kinds, kind_of = _kinds(parameters)
        if len(kinds) <= _EXACT_KINDS:
            # Exact fractions, rounded up once: what is exactly 1 stays 1.
            exact = np.array([_exact_epsilon(kind, rounds) for kind in kinds.tolist()])
            return exact[kind_of].reshape(() if parameters.agents is None else -1)
    return _rounded_epsilons(parameters, rounds)


def _kinds(parameters: Parameters) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """Return the distinct rows (σ, c, q) among the agents, and which row each agent has; q = 0: one-shot."""
    q = parameters.q if isinstance(parameters, Fading) else 0.0
    each = np.broadcast_arrays(*np.atleast_1d(parameters.sigma, parameters.c, q))
    rows, kind_of = np.unique(np.column_stack(each), axis=0, return_inverse=True)
    return rows, kind_of.reshape(-1)


def _exact_epsilon(kind: list[float], rounds: int | None) -> float:
    """ε of one agent, as an exact fraction of its parameters, rounded up."""
    sigma, c, q = map(Fraction, kind)
    if q == 0:
        return 0.0 if rounds == 0 else fraction_up(1 / c)
    if rounds is None:
        return fraction_up(q / (c * (q + sigma - 1)))  # Lemma 1 (lem:pri)
    if rounds == 0:
        return 0.0
    ratio = (1 - sigma) / q
    over, under = ratio.numerator, ratio.denominator
    # Σ_{t<T} ρ^t = (u^T − o^T)/((u − o)·u^{T−1}) for ρ = o/u
    if over == under:
        return fraction_up(rounds / c)
    total = under**rounds - over**rounds
    return ratio_up(total * c.denominator, (under - over) * under ** (rounds - 1) * c.numerator)


def _rounded_epsilons(parameters: Parameters, rounds: int | None) -> FloatArray:
    """ε per agent in extended precision, with the rounding errors counted in."""
    c = extended(parameters.c)
    if isinstance(parameters, OneShot):
        return round_up((1 if rounds is None or rounds > 0 else 0) / c)
    assert isinstance(parameters, Fading)
    sigma, q = extended(parameters.sigma), extended(parameters.q)
    gap = (q - 1) + sigma  # q − (1 − σ)
    if rounds is None:
        # Lemma 1 (lem:pri); the subtraction above may have lost ULP, absolutely
        return round_up(q / (c * gap), ULP * (8 + 2 / gap))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Σ_{t<T} ρ^t with ρ = 1 − gap/q, without cancellation near ρ = 1
        growth = rounds * np.log1p(-gap / q)
        total = np.where(gap == 0, extended(rounds), -np.expm1(growth) * q / gap)
        sensitivity = np.where(gap > 0, np.minimum(rounds / q, 1 / gap), rounds / q)
        return round_up(total / c, ULP * (16 + 4 * sensitivity + 4 * np.abs(growth)))


def loss(parameters: Parameters, adjacency: float, rounds: int | None = None) -> float:
    """Return ε·δ: the logarithm of how much likelier any observation can become."""
    return product_up(epsilon(parameters, rounds), require_adjacency(adjacency))


def rounds_within(parameters: Parameters, epsilon_cap: float) -> int | None:
    """Return how many rounds fit under a cap on ε; None when an endless run does."""
    if not epsilon_cap >= 0:
        raise ParameterError(f"the cap on epsilon must be at least 0, got {epsilon_cap}.")
    if isinstance(parameters, OneShot):
        return None if epsilon(parameters) <= epsilon_cap else 0
    try:
        if epsilon(parameters) <= epsilon_cap:
            return None
    except ParameterError:
        pass  # no endless run is private; some finite one may be
    low, high = 0, 1
    while epsilon(parameters, high) <= epsilon_cap:
        low, high = high, 2 * high
        if high > 2**62:
            return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon(parameters, middle) <= epsilon_cap else (low, middle)
    return low


def require_adjacency(adjacency: float) -> float:
    """Refuse an adjacency that is not a positive, finite number."""
    if not (math.isfinite(adjacency) and adjacency > 0):
        raise ParameterError(f"adjacency must be a positive number, got {adjacency}.")
    return adjacency


def _require_gap(parameters: Fading, private: np.ndarray) -> None:
    if not np.all(private):
        n = parameters.agents or 1
        where = int(np.argmin(np.broadcast_to(private, (n,))))
        sigma, q = (float(np.broadcast_to(v, (n,))[where]) for v in (parameters.sigma, parameters.q))
        agent = f" for agent {where}" if parameters.agents else ""
        raise ParameterError(
            f"decay must be in (1 - mixing, 1) = ({1 - sigma:.6g}, 1), got {q:.6g}{agent}: the noise would "
            "fade faster than the states forget, so no finite epsilon covers an endless run (Lemma 1). "
            "Raise decay or mixing, or give a number of rounds."
        )
