"""How far the numbers of a session must reach, and how likely a clamp is.

A dishonest agent can say any number within the reach, so it should be short. Noise beyond it is clamped after
it was added, so a short reach costs no privacy: docs/proofs/lattice.md. It costs accuracy, with the
probability that `clamp_probability` bounds; a session's radius counts it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np

from tacit.base.arrays import PerAgent, is_array
from tacit.core.mechanism.base import Mechanism
from tacit.core.mechanism.lattice import Lattice

RARELY = 1e-9
"""A session is made such that clamps in it are at most this likely."""

_ROUNDING = 1e-9  # relative; more than what rounding to steps and in floats adds to a probability


def reaching(
    mechanism: Mechanism,
    rounds: int,
    low: float,
    high: float,
    *,
    components: int = 1,
    quorum: int | None = None,
) -> Lattice:
    """Return the lattice of a session, with the least reach for its noise.

    It is the least power of two with which clamps are rare in all rounds together. Where agents have their
    own dynamics it has room for 64 scales (`Lattice.fitting`).

    Examples
    --------
    >>> from tacit import ClientServer, OneShot
    >>> once = OneShot(0.5, c=10)
    >>> reaching(ClientServer(once, agents=1000), 1, 0, 10).reach, Lattice.fitting(once, 1, 0, 10).reach
    (512.0, 2048.0)
    >>> reaching(ClientServer(once, agents=1000, keepers=2), 1, 0, 10).reach
    16.0
    """
    found = Lattice.fitting(mechanism.law, rounds, low, high)
    if not mechanism.law.clampable or mechanism.law.two_valued:
        return found
    step = math.ldexp(_largest(mechanism.law.c), -found.bits)  # of a message, at most
    while True:
        shorter = cast(int, found.reach_exponent) - 1
        if math.ldexp(1.0, shorter) <= max(abs(low), abs(high), step):
            return found
        tried = replace(found, reach_exponent=shorter)
        if clamp_probability(mechanism, tried, rounds, components=components, quorum=quorum) > RARELY:
            return found
        found = tried


def _largest(c: PerAgent) -> float:
    return float(np.max(c)) if is_array(c) else float(cast(float, c))


def clamp_probability(
    mechanism: Mechanism, lattice: Lattice, rounds: int, *, components: int = 1, quorum: int | None = None
) -> float:
    """Bound the probability that noise has to be clamped in a session.

    It is over all rounds. It is 0 where a lattice must have room for 64 scales (agents with their own
    dynamics): there less than e^−60 of all messages are clamped.

    Parameters
    ----------
    quorum : int, optional
        With keepers: the least number of messages in a sum, over which the noise is shared out. More than
        half unless given, as in a session.
    """
    if not mechanism.law.clampable:
        return 0.0
    room = lattice.reach - max(abs(lattice.low), abs(lattice.high))
    if mechanism.keepers:  # the size of a sum of m draws is at most a gamma variable of shape m
        law = mechanism.noise_law
        most = law.largest_scale(rounds)
        scales = room / most * (1 - _ROUNDING) * (mechanism.n // 2 + 1 if quorum is None else quorum)
        term, tail = 1.0, 1.0
        for j in range(1, mechanism.keepers):
            term *= scales / j
            tail += term
        draws = 1 if mechanism.shadowed else rounds
        return min(draws * components * tail * math.exp(-scales) * (1 + _ROUNDING), 1.0)
    each = mechanism.law.clamped(room * (1 - _ROUNDING), rounds)
    return min(mechanism.n * components * each * (1 + _ROUNDING), 1.0)
