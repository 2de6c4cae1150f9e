"""How far dishonest agents can move the result.

Privacy holds whatever others do; the result does not. An agent can say any number within the reach R of the
session's lattice, and everyone sees a larger one. The bound compares an honest agent's state with what it
would be, without noise, if the liars had followed the protocol with some value v of the range. A liar's
message then differs by at most R + |v| from the honest one, and counts with a weight w (1/N around a server):

- one message each (one-shot noise around a server): f liars move the mean by at most f·w·(R + |v|);
- one of two values each (bits): by at most f·w times their distance;
- a message in every round: by at most (1 − (1 − σ·f·w)^T)·(R + |v|). Who says the same in every round comes
  close;
- with keepers: anywhere within the reach, because a masked number hides everything, also nonsense.

If only m of N agents speak, a message counts 1/m. On a graph the weights of missing messages go to the
others, or to the own one, as its rule says.

docs/explanation/threat-model.md says what that means.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tacit.base.arguments import whole
from tacit.base.rounding import fraction_up
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.mechanism.lattice import Lattice

_ROUNDING = Fraction(1 + 2.0**-40)
"""More than the rounding errors of a power in floats."""


def moved_by_liars(
    mechanism: Mechanism, lattice: Lattice, rounds: int, liars: int = 1, *, speaking: int | None = None
) -> float:
    """Return how far dishonest agents can move any honest agent's state.

    Parameters
    ----------
    mechanism : Mechanism
        Its agents must mix: how far others can be moved is not known.
    lattice : Lattice
        The session's whole numbers: nobody can say more than its reach.
    rounds : int
    liars : int
        How many agents lie, together.
    speaking : int, optional
        At least so many agents are in every mean, on a graph of an agent and its neighbours; all unless
        given.

    Examples
    --------
    >>> from tacit import ClientServer, OneShot
    >>> mechanism = ClientServer(OneShot(0.5, c=10), agents=1000)
    >>> round(moved_by_liars(mechanism, Lattice(0, 10, reach_exponent=11), rounds=1), 6)
    2.058
    """
    liars, rounds = whole("liars", liars, 0), whole("rounds", rounds, 0)
    if not mechanism.law.mixes:
        raise mechanism.motion.undefined("mixing", "how far a liar can move others")
    speaking = None if speaking is None else whole("speaking", speaking, 1)
    if mechanism.law.two_valued:
        agent = lattice.agent(mechanism.law)
        low, high = agent.ends
        farthest = (high - low) * Fraction(2) ** agent.message_exponent(0)
    else:
        farthest = Fraction(lattice.reach) + max(abs(Fraction(lattice.low)), abs(Fraction(lattice.high)))
    return fraction_up(_share(mechanism, rounds, liars, speaking) * farthest)


def _share(mechanism: Mechanism, rounds: int, liars: int, speaking: int | None) -> Fraction:
    """Return how much of the way to what liars say the others move."""
    if liars == 0 or rounds == 0:
        return Fraction(0)
    if mechanism.keepers:
        return Fraction(1)
    if not isinstance(mechanism, Distributed):
        weight = min(Fraction(liars, min(mechanism.n, speaking or mechanism.n)), Fraction(1))
        if mechanism.shadowed:
            return weight
    else:  # neighbours cannot see whether a later message follows from the first
        weight = _weight_of_neighbours(mechanism, liars, speaking)
    drag = float(np.max(mechanism.law.sigma)) * float(weight)
    followed = -math.expm1(rounds * math.log1p(-drag))
    return min(Fraction(followed) * _ROUNDING, Fraction(1))


def _weight_of_neighbours(mechanism: Distributed, liars: int, speaking: int | None) -> Fraction:
    """Return the largest weight of so many neighbours in an agent's feedback."""
    topology = mechanism.topology
    if speaking is None or topology.keeps_missing:
        return min(liars * Fraction(float(topology.heard.max(initial=0.0))), Fraction(1))
    worst = Fraction(0)
    for i in range(mechanism.n):
        shares = topology.shares(i)
        heard = sorted(shares.heard, reverse=True)
        lying = sum(heard[:liars])
        honest = max(min(speaking, len(heard) + 1) - 1 - min(liars, len(heard)), 0)
        least = sum(sorted(heard[liars:])[:honest])  # those who speak are the ones that count least
        if lying:
            worst = max(worst, Fraction(lying, lying + shares.own + least))
    return worst
