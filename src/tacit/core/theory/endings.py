"""How far from the target agents are after finitely many rounds.

A radius covers all agents at once, from every start. The failure probability is spent once: with probability
at least 1 − b every agent is within the radius, and at the same time every two agents are within the
disagreement (docs/proofs/ending.md). The bounds are exact if noise moves all agents alike, and close for up
to some hundred agents (`tacit.core.theory.every_agent`). For more agents the radius is that of the weighted
average, plus a bound on every agent's distance from it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tacit.base.errors import ParameterError
from tacit.core.mechanism import Mechanism
from tacit.core.theory import accuracy, every_agent
from tacit.core.theory.agreement import apart
from tacit.core.theory.laplace_sum import per_component, require_probability
from tacit.core.theory.rates import moves_as_one
from tacit.core.theory.searching import least

AGREEMENT_SHARE = 0.02
"""Share of the failure probability for disagreement due to noise, which fades; the average gets the rest."""

PAIRS_SHARE = 0.1
"""The same if noise still drives agents far apart, compared with the radius."""

_NEAR = 0.05  # of the radius: agents that differ by less need only the smaller share

_MARGIN = 1 + 1e-12  # rounding of a handful of exponentials


class Shares(NamedTuple):
    """The parts of a failure probability; they add up to it."""

    average: float
    agreement: float


class Ending(NamedTuple):
    """Two bounds that hold together for all agents.

    They fail with at most the failure probability. Every agent is within `radius` of the target, and every
    two agents within `disagreement` of each other.
    """

    radius: float
    disagreement: float


def shares(mechanism: Mechanism, failure_probability: float) -> Shares:
    """Divide a failure probability between the average and agreement.

    If noise moves all agents alike, agreement is certain and needs no share.
    """
    b = require_probability(failure_probability)
    if moves_as_one(mechanism):
        return Shares(b, b)
    return Shares(b * (1 - AGREEMENT_SHARE), b * AGREEMENT_SHARE)


def ending(
    mechanism: Mechanism,
    failure_probability: float,
    rounds: int | None,
    spread: float,
    *,
    components: int = 1,
) -> Ending:
    """Bound how far agents are from the target and from each other.

    Parameters
    ----------
    failure_probability : float
        The paper's b: both bounds hold together with probability at least 1 − b.
    rounds : int or None
        The number of rounds. None: the value that all agree on in an endless run.
    spread : float
        Largest minus smallest initial value; the bounds cover the worst case.
    components : int
        Length of the state vectors; the bounds then cover all components at once.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> mechanism = ClientServer(Fading(0.01, 1, 0.995), agents=10)
    >>> found = ending(mechanism, 0.05, rounds=1, spread=100)
    >>> round(found.radius, 3), round(found.disagreement, 3)
    (89.107, 99.0)
    """
    if not (math.isfinite(spread) and spread >= 0):
        raise ParameterError(f"spread must be a number of at least 0, got {spread}.")
    b = per_component(failure_probability, components)
    part = shares(mechanism, b)
    if rounds is None:
        return Ending(accuracy.radius(mechanism, part.average), 0.0)
    close = None if moves_as_one(mechanism) else _close(mechanism, b, rounds, spread)
    if close is not None:
        return close
    own, pair = apart(mechanism, rounds, spread, part.agreement)
    law = accuracy.pure_deviation(mechanism, rounds)
    radius = (law.quantile(part.average).high + own) * _MARGIN
    if moves_as_one(mechanism) and mechanism.n > 1:
        # The worst case: one agent at one end of the range, all others at the other end (if b < 1/2).
        ends = own * _MARGIN, pair / mechanism.n * _MARGIN
        radius = min(radius, law.quantile_of_all(min(b, 0.499), *ends).high)
    return Ending(radius, pair)


def _close(mechanism: Mechanism, b: float, rounds: int, spread: float) -> Ending | None:
    """Return the close bounds; None if there are too many agents."""
    close = None
    for share in (PAIRS_SHARE, AGREEMENT_SHARE):
        pair = every_agent.disagreement(mechanism, rounds, spread, b * share)
        radius = every_agent.radius(mechanism, rounds, spread, b * (1 - share))
        if radius is None or pair is None:
            return None
        close = Ending(radius, min(pair, 2 * radius))
        if pair > _NEAR * radius:
            break
    return close


def failure(mechanism: Mechanism, radius: float, rounds: int | None, spread: float) -> float:
    """Return about the least failure probability for a radius.

    It is the least for which `ending` has at most this radius; 1 if even a failure probability near 1 is not
    enough.
    """
    law = accuracy.pure_deviation(mechanism, rounds)

    def kept(b: float) -> bool:
        return ending(mechanism, b, rounds, spread).radius <= radius

    guess, alike = 0.5, moves_as_one(mechanism)
    if not alike and rounds is not None:
        found = every_agent.missed(mechanism, rounds, spread, radius)
        if found is not None:
            return least(kept, min(max(found / (1 - PAIRS_SHARE), 1e-300), 0.999), most=1 - 1e-9) or 1.0
    for _ in range(1 if alike else 4):  # how far apart agents are depends little on the probability
        part = shares(mechanism, guess)
        own, pair = (0.0, 0.0) if rounds is None else apart(mechanism, rounds, spread, part.agreement)
        if alike and rounds is not None and mechanism.n > 1:
            guess = law.tail(radius - own).high + law.tail(radius - pair / mechanism.n).high
        if not alike or rounds is None or guess >= 0.5:
            guess = law.exceedance(max(radius - own, 0.0)).high * guess / part.average
        guess = min(max(guess * (1 + 1e-9), 1e-300), 0.999)
    return least(kept, guess, most=1 - 1e-9) or 1.0
