"""The privacy loss of one agent's messages on a lattice, never too small.

The largest distance between two adjacent states is a whole number of steps, so it is computed exactly. Let
D_u be this distance in state steps and m_u in message steps. With k components, r_u = g_u/s and, for mixing,
1 − σ = a/b,

    D_0 = ⌈δ/s⌉ + k − 1,   D_{u+1} = ⌊(a·D_u + k(b−1))/b⌋,   m_u = ⌊(D_u + k(r_u−1))/r_u⌋

(docs/proofs/lattice.md: in steps of s these are Δ_{u+1} ≤ (1−σ)Δ_u + k·s and m_u·g_u ≤ Δ_u + k·g_u).
The loss of message u is m_u/scale, rounded up; losses are added exactly, then rounded up.

(ε, δ) statements, in addition to this pure bound, are in `tacit.core.noise.approximate`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Any, cast

import numpy as np

from tacit.base.arrays import FloatArray, frozen
from tacit.base.errors import ParameterError
from tacit.base.rounding import fraction_up
from tacit.core.mechanism.lattice import LatticeAgent
from tacit.core.noise.safe import message_loss
from tacit.core.theory.privacy import require_adjacency


@dataclass(frozen=True, eq=False)
class Account:
    """The loss of an agent's messages, rounded up.

    It is for the adjacency that was given, not per unit of it.

    Attributes
    ----------
    sensitivity : tuple of int
        m_u, in message steps.
    losses, sums : tuple of float
        The loss of message u, and of all messages up to it.
    """

    sensitivity: tuple[int, ...]
    losses: tuple[float, ...]
    sums: tuple[float, ...]

    @cached_property
    def per_message(self) -> FloatArray:
        """`losses`, as an array."""
        return _as_array(self.losses)

    @cached_property
    def spent(self) -> FloatArray:
        """`sums`, as an array."""
        return _as_array(self.sums)

    @property
    def total(self) -> float:
        """The loss of all messages together."""
        return self.sums[-1] if self.sums else 0.0


def _as_array(numbers: tuple[float, ...]) -> FloatArray:
    array = np.array(numbers)
    frozen(array)
    return array


def sensitivities(agent: LatticeAgent, adjacency: float = 1.0, components: int = 1) -> Iterator[int]:
    """Yield m_0, m_1, …: how far apart two adjacent messages can be.

    The distance is in message steps, summed over the components, before the noise. The sequence ends when the
    lattice is too coarse for the noise.
    """
    if components < 1:
        raise ParameterError(f"components must be at least 1, got {components}.")
    step = Fraction(2) ** agent.lattice.state_exponent
    start = math.ceil(Fraction(require_adjacency(adjacency)) / step) + components - 1
    motion = agent.motion
    # Noise that is drawn once is added to the start, of which all messages are made.
    once = agent.law.shadowed
    distances = (motion.starts_apart(start),) if once else motion.steps_apart(start, components)
    for u, apart in enumerate(distances):
        try:
            r = agent.draw_exponent(u) - agent.lattice.state_exponent
        except ParameterError:
            return  # the noise is narrower than the state step from here on
        # ⌊…⌋ by a shift. Rounding a state to a message step can add just under one step per component.
        yield (apart + components * ((1 << r) - 1)) >> r


def losses(agent: LatticeAgent, adjacency: float = 1.0, components: int = 1) -> Iterator[tuple[int, float]]:
    """Yield each message's sensitivity and its loss."""
    agent.law.require_domain(adjacency)
    if agent.law.two_valued:
        yield 1, bits_loss(agent, components)
        return
    if agent.law.whole_domain:
        yield next(sensitivities(agent, adjacency, components)), cast(Any, agent.law).whole_loss
        return
    for u, apart in enumerate(sensitivities(agent, adjacency, components)):
        yield apart, message_loss(agent.draw_scale(u), apart)


def bits_loss(agent: LatticeAgent, components: int) -> float:
    """Return the loss of one message of two values, on the lattice."""
    exponent, grid = agent.message_exponent(0), agent.lattice
    low, high = (agent.rounded(grid.start(end), 0) for end in (grid.low, grid.high))
    return float(cast(Any, agent.law).loss_between(int(low), int(high), exponent, components))


def account(agent: LatticeAgent, messages: int, *, adjacency: float = 1.0, components: int = 1) -> Account:
    """Return the loss of an agent's first `messages` messages.

    Repeating a message costs nothing. If the law draws once, only the first message costs.

    Examples
    --------
    >>> from tacit import Fading
    >>> from tacit.core.mechanism.lattice import Lattice
    >>> agent = Lattice(0, 1, state_exponent=-120).agent(Fading(sigma=0.8, c=10, q=0.6))
    >>> round(account(agent, 100).total, 12)
    0.150000000057
    """
    if messages < 0:
        raise ParameterError(f"messages must be at least 0, got {messages}.")
    parts = list(islice(losses(agent, adjacency, components), messages))
    if len(parts) < messages and not agent.law.shadowed:
        raise ParameterError(
            f"the lattice must be fine enough for {messages} messages, but is too coarse for the noise after "
            f"{len(parts)}. Take a finer state step or fewer messages."
        )
    # Noise that is drawn once: later messages follow from the first and from public feedback.
    parts += [(0, 0.0)] * (messages - len(parts))
    # Exact sums: a sum of floats could round down. Each partial sum is rounded up once, so the bound is at
    # most one unit in the last place above it.
    total, spent = Fraction(0), []
    for _, loss in parts:
        total += Fraction(loss)
        spent.append(fraction_up(total))
    return Account(tuple(m for m, _ in parts), tuple(loss for _, loss in parts), tuple(spent))


def horizon(
    agent: LatticeAgent, cap: float, *, adjacency: float = 1.0, components: int = 1, spent: float = 0.0
) -> int | None:
    """Return how many messages an agent may send within a cap.

    Return None if there is no limit, which needs noise that is drawn once and is within the cap. Fresh noise
    on a lattice always has a limit, because the distance of two states does not shrink below one step.

    Parameters
    ----------
    cap : float
        The owner's cap on the loss, for this adjacency.
    spent : float
        The loss that was already spent on the same value.
    """
    if not (cap >= 0 and 0 <= spent < math.inf):
        raise ParameterError(f"the cap and what was spent must be at least 0, got {cap} and {spent}.")
    total, messages = Fraction(spent), 0
    for _, loss in losses(agent, adjacency, components):
        total += Fraction(loss)
        # Fractions are compared with a float exactly. A float total could round down to the cap and allow one
        # message too many.
        if total > cap:
            return messages
        messages += 1
    return None if agent.law.shadowed else messages
