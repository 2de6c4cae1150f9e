"""Noise once: the baseline that every design is compared with.

Proofs: docs/proofs/best-noise.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np

from tacit.base.arguments import positive
from tacit.base.arrays import FloatArray, PerAgent, checked_per_agent
from tacit.base.rounding import extended, fraction_up, product_up, round_up
from tacit.core.law.base import STEP, Envelope, Law
from tacit.core.law.geometric import by_kinds
from tacit.core.motion import Motion


@final
@dataclass(frozen=True, eq=False)
class OneShot(Law):
    """Noise once: a noisy public shadow that then moves without noise.

    The shadow starts at θ(0) + Lap(c). All messages follow from the shadow's start, so ε = 1/c for any
    mixing, any number of rounds and any schedule.

    Examples
    --------
    >>> OneShot(sigma=0.8, c=10).scales(3)
    array([10.,  0.,  0.])
    """

    name: ClassVar[str] = "one-shot"
    shadowed: ClassVar[bool] = True
    by_mixing: ClassVar[bool] = False

    if TYPE_CHECKING:

        def __init__(self, sigma: PerAgent | Motion, c: PerAgent) -> None: ...

    def scale(self, u: Any) -> Any:
        """The noise c for update 0, and 0 for every later one."""
        if isinstance(u, int | float) and isinstance(self.c, float):
            return self.c if u == 0 else 0.0
        return np.where(np.asarray(u) == 0, self.c, 0.0)

    def upper_scale(self, u: int) -> float:
        """The noise c for update 0, and 0 for every later one."""
        return float(self.c) if u == 0 else 0.0

    def least_scale(self, rounds: int) -> float:
        """c, the only one."""
        return float(self.c)

    def largest_scale(self, rounds: int) -> float:
        """c, the only one."""
        return float(self.c)

    def epsilons(self, rounds: int | None) -> FloatArray:
        """1/c, or width/c of a motion, from the first message on."""
        once = 0 if rounds == 0 else 1
        if not self.mixes:
            pairs = zip(
                *(np.broadcast_to(v, self.agents or 1) for v in (self.motion.width, self.c)), strict=True
            )
            found = np.array([fraction_up(once * Fraction(wide) / Fraction(own)) for wide, own in pairs])
            return found if self.agents else found[0]
        return by_kinds(
            (self.sigma, self.c),
            rounds,
            lambda kind: fraction_up(once / Fraction(kind[1])),
            lambda: round_up(once / extended(self.c)),
        )

    def costs(self, rounds: int, distance: float) -> FloatArray:
        """d/c for the first message, and 0 for every later one."""
        return np.array([distance * self.motion.width / self.c])

    def loss_parts(self, rounds: int | None, adjacency: float, share: int) -> Iterator[float]:
        """The whole loss, in one message."""
        yield product_up(float(self.epsilons(rounds)), adjacency)

    def significant_rounds(self, rounds: int | None) -> int:
        """Only the first round matters."""
        return 1 if rounds is None else min(rounds, 1)

    def envelope(self, rounds: int | None) -> Envelope:
        """An envelope of c for update 0, and 0 for every later one."""
        return Envelope(self.c, 0.0)

    @classmethod
    def best(cls, sigma: PerAgent | Motion, epsilon: float, rounds: int | None = None) -> Self:
        """Return the one-shot noise with a loss of at most ε: c = 1/ε."""
        epsilon = positive("epsilon", epsilon)
        if isinstance(sigma, Motion):
            c = float(np.max(sigma.width)) / epsilon
            while float(np.max(cls(sigma, c).epsilons(None))) > epsilon:
                c *= STEP
            return cls(sigma, c)
        mixing, c = checked_per_agent(sigma, "mixing (sigma)", below_one=True), 1 / epsilon
        while float(np.max(cls(mixing, c).epsilons(None))) > epsilon:
            c *= STEP
        return cls(mixing, c)
