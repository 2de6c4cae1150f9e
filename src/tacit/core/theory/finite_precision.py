"""The privacy loss with rounding: the mechanism on two lattices.

States are on a fine fixed lattice of step s. Messages are on a lattice of step g_u, which shrinks with the
noise of update u: g_u is the largest power of two that is at most 2^−bits of the noise scale, never below s.
Let Δ_u be the largest distance between the two hypothetical states. Then, for mixing,

    Δ_0 = δ (+ s, the start is rounded too),   Δ_{u+1} ≤ (1−σ)Δ_u + s,

and message u costs at most (Δ_u + g_u)/(c q^u). Vectors of length k: k·s and k·g_u instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError
from tacit.base.rounding import extended, round_up, ulp
from tacit.core.law import Law
from tacit.core.theory.privacy import require_adjacency


@dataclass(frozen=True, eq=False)
class LatticeLoss:
    """The accounted loss of each message, rounded up.

    Attributes
    ----------
    sensitivity, message_step, per_message : array, shape (rounds,)
        Δ_u, g_u and the loss of message u.
    """

    sensitivity: FloatArray
    message_step: FloatArray
    per_message: FloatArray

    @property
    def total(self) -> float:
        """The loss of all messages together."""
        total = extended(np.sum(extended(self.per_message)))
        return float(round_up(total, (len(self.per_message) + 8) * ulp()))


def message_step(scale: float, state_step: float, bits: int = 40) -> float:
    """Return g_u, the step of a message with this noise.

    It is the largest power of two that is at most 2^−bits·scale, and never below the state step.
    """
    return max(math.ldexp(1.0, math.frexp(scale)[1] - 1 - bits), state_step)


def lattice_loss(
    law: Law,
    rounds: int,
    *,
    adjacency: float = 1.0,
    state_step: float = 2.0**-60,
    bits: int = 40,
    fixed_step: float | None = None,
    components: int = 1,
) -> LatticeLoss:
    """Return the loss of `rounds` messages of one agent on the lattices.

    Parameters
    ----------
    law : Law
        One agent's: single numbers.
    state_step : float
        s, a power of two.
    bits : int
        The message step is at most 2^−bits times the scale of the noise.
    fixed_step : float, optional
        Use this step for all messages instead of one that shrinks with the noise. This shows why a fixed
        step fails: its share of the loss grows as 1/q^u.

    Examples
    --------
    >>> from tacit import Fading
    >>> round(lattice_loss(Fading(0.8, 10, 0.6), 50, state_step=2.0**-90).total, 9)
    0.15
    """
    require_adjacency(adjacency)
    if law.agents is not None:
        raise ParameterError(
            "the loss on a lattice is computed for one agent: give its mixing, noise and decay."
        )
    for name, step in (("state_step", state_step), ("fixed_step", fixed_step)):
        if step is not None and not (step > 0 and math.frexp(step)[0] == 0.5):
            raise ParameterError(f"{name} must be a power of two, got {step}.")
    if rounds < 0 or components < 1:
        raise ParameterError(
            f"rounds must be at least 0 and components at least 1, got {rounds}, {components}."
        )
    scales = law.scales(rounds)
    if rounds and scales[-1] < state_step:
        fits = int(np.sum(scales >= state_step))
        raise ParameterError(
            f"noise must stay above the state step {state_step:g}, but falls below it after {fits} rounds. "
            "Take a finer state step or fewer rounds."
        )
    start = extended(adjacency) + components * state_step
    deltas = list(islice(law.motion.distances(start, components * state_step), rounds))
    if fixed_step is None:
        steps = np.array([message_step(float(scale), state_step, bits) for scale in scales])
    else:
        steps = np.full(rounds, fixed_step)
    # c·q^u in float64 may be off by some ulps of the true scale: count that as loss
    per_message = round_up((extended(deltas) + components * extended(steps)) / extended(scales), 2.0**-48)
    return LatticeLoss(round_up(extended(deltas)), steps, per_message)
