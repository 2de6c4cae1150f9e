"""The privacy loss: ε of both mechanisms.

This is about Lemmas 1 (lem:pri) and 5 (lem:pri_dis). ε is per unit of adjacency: if one agent's initial value
changes by at most δ (in the L1 norm for vectors), no observation becomes more than exp(ε·δ) times as likely.
An owner's cap limits the loss ε·δ. All values are rounded up.

The guarantee of an agent does not depend on the other agents or the server. It holds for every feedback,
honest or malicious, as long as noise is drawn once per update (docs/proofs/privacy.md).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tacit.base.arguments import positive
from tacit.base.arrays import FloatArray
from tacit.base.errors import LawError, ParameterError
from tacit.base.rounding import product_up
from tacit.core.law import Law
from tacit.core.law.gaussian import epsilon_of

_MOST_SUMMED = 2**16
"""The largest number of rounds that `rounds_within` tries if ε of an endless run is unknown."""


def epsilon(law: Law, rounds: int | None = None) -> float:
    """Return the largest ε of any agent.

    It is over `rounds` rounds, or over an endless run. Lemma 1: ε = q / (c (q + σ − 1)) where q > 1 − σ;
    Lemma 5 is the same with the least σ. After T rounds ε_T = (1/c) Σ_{t<T} ((1−σ)/q)^t, finite for every q.
    It is exact: the likelihood ratio of a transcript reaches exp(ε_T·δ).

    Examples
    --------
    >>> from tacit import Fading
    >>> epsilon(Fading(sigma=0.8, c=10, q=0.6))
    0.15
    """
    return float(np.max(epsilons(law, rounds)))


def epsilons(law: Law, rounds: int | None = None) -> FloatArray:
    """Return ε per agent.

    It is a single ε (0-d) if all agents share their parameters.
    """
    if rounds is not None and rounds < 0:
        raise ParameterError(f"rounds must be at least 0, got {rounds}.")
    return law.epsilons(rounds)


def loss(law: Law, adjacency: float, rounds: int | None = None, delta: float | None = None) -> float:
    """Return the privacy loss ε·δ.

    It is the logarithm of the largest likelihood ratio of any observation. The loss of Gaussian noise is
    exceeded with probability `delta`.
    """
    adjacency = require_adjacency(adjacency)
    if not law.pure:
        if delta is None:
            raise LawError(
                "the loss of Gaussian noise is exceeded with some probability: give a delta, like 1e-6.",
                "delta",
            )
        return epsilon_of(law.mu(rounds) * adjacency * (1 + 1e-15), delta)
    if delta is not None:
        raise LawError(
            f"{law.name} noise has a pure loss, which is never exceeded: leave delta out.", "delta"
        )
    if law.whole_domain:
        return next(law.loss_parts(rounds, adjacency, 1))
    found = product_up(epsilon(law, rounds), adjacency)
    if not isinstance(law.c, float) or (law.ratio is None and not law.shadowed):
        return found
    # ε is proportional to 1/c. Where c/δ has no rounding error, this rounds once: 10 × 1/10 is 1.
    scaled = law.c / adjacency
    if 0 < scaled < math.inf and Fraction(scaled) * Fraction(adjacency) == Fraction(law.c):
        return min(found, epsilon(law.with_noise(scaled), rounds))
    return found


def rounds_within(law: Law, epsilon_cap: float) -> int | None:
    """Return how many rounds fit under a cap on ε.

    None if an endless run fits.
    """
    if not epsilon_cap >= 0:
        raise ParameterError(f"the cap on epsilon must be at least 0, got {epsilon_cap}.")
    most = 2**62
    try:
        if epsilon(law) <= epsilon_cap:
            return None
    except LawError:
        most = _MOST_SUMMED  # a law without a closed form is summed message by message
    except ParameterError:
        pass  # no endless run is private; some finite one may be
    low, high = 0, 1
    while epsilon(law, high) <= epsilon_cap:
        low, high = high, 2 * high
        if high > most:
            return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon(law, middle) <= epsilon_cap else (low, middle)
    return low


def require_adjacency(adjacency: float) -> float:
    """Refuse an adjacency that is not a positive, finite number."""
    return positive("adjacency", adjacency)
