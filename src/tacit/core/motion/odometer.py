"""How far apart two starts still are, from public data alone.

Let Z_0 be the range of states and Z_{t+1} ⊇ f(Z_t, y_t). With r_t at least |∂f/∂z| on Z_t, two states are at
most Δ_{t+1} = r_t·Δ_t + slack apart. All of this follows from public feedback, so the scale Δ_t/ε_t of
message t is public too, and the loss is Σε_t whatever liars say, if the ε_t are fixed in advance
(docs/proofs/dynamics.md, T7). Agents that do not always contract, like phases, are covered for some rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import final

from tacit.base.arguments import positive
from tacit.base.errors import MotionError, ParameterError
from tacit.base.rounding import fraction_up

Interval = tuple[float, float]


@final
@dataclass(frozen=True)
class Odometer:
    """The distance Δ_t between two worlds, and the scales for it.

    Parameters
    ----------
    low, high : float
        Z_t, which holds every state that the agent can have. Never cut a state to it.
    apart : float
        Δ_t: at first the adjacency.
    losses : tuple of float
        ε_t of every message, fixed in advance. Their sum is the loss.
    image : function of low, high and y
        Returns an interval that holds f(z, y) for all z in Z_t.
    slope : function of low, high and y
        Returns a number at least |∂f/∂z| for all z in Z_t.
    slack : float
        Twice the largest error of one evaluation of f, of a solver too: both worlds round.

    Examples
    --------
    >>> halved = Odometer(
    ...     -1, 1, 1.0, (0.5, 0.5), lambda a, b, y: ((a + y) / 2, (b + y) / 2), lambda a, b, y: 0.5, 1e-15
    ... )
    >>> halved.scale, halved.heard(1.0).scale > 1, halved.loss
    (2.0, True, 1.0)
    """

    low: float
    high: float
    apart: float
    losses: tuple[float, ...]
    image: Callable[[float, float, float], Interval] = field(repr=False)
    slope: Callable[[float, float, float], float] = field(repr=False)
    slack: float
    round: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ParameterError(f"the states must have a finite range, got {self.low} to {self.high}.")
        positive("slack", self.slack, "evaluations of f err, and both worlds do")
        positive("apart", self.apart)
        object.__setattr__(self, "losses", tuple(positive("losses", one) for one in self.losses))

    @property
    def loss(self) -> float:
        """Σε_t, rounded up."""
        return fraction_up(sum(map(Fraction, self.losses), Fraction(0)))

    @property
    def scale(self) -> float:
        """The Laplace scale of the next message, rounded up."""
        if self.round >= len(self.losses):
            raise MotionError(
                f"an odometer of {len(self.losses)} losses covers as many messages, and all are said. Stop, "
                "or fix more of them in advance."
            )
        return fraction_up(Fraction(self.apart) / Fraction(self.losses[self.round]))

    def heard(self, y: float) -> Odometer:
        """Return the odometer after an update by this public feedback."""
        rate = float(self.slope(self.low, self.high, y))
        low, high = self.image(self.low, self.high, y)
        if not (rate >= 0 and math.isfinite(rate) and math.isfinite(low) and math.isfinite(high)):
            raise MotionError(
                "an odometer needs a finite slope and a finite range of states for every feedback that is "
                "accepted. Refuse feedback outside a public range."
            )
        slack = Fraction(self.slack)
        apart = fraction_up(Fraction(rate) * Fraction(self.apart) + slack)
        outward = -fraction_up(slack - Fraction(low)), fraction_up(Fraction(high) + slack)
        return replace(self, low=outward[0], high=outward[1], apart=max(apart, 5e-324), round=self.round + 1)
