"""Agents of whom only a bound on their influence is public.

What moves them is their own affair. Each checks, before it says anything, that two of its states are never
further apart than the bound allows (`tacit.core.protocol.moving`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self, final

import numpy as np

from tacit.base.arguments import positive
from tacit.base.arrays import ByValue
from tacit.base.errors import MotionError, ParameterError
from tacit.base.rounding import Extended, extended, fraction_up
from tacit.core.motion.base import Motion
from tacit.core.motion.linear import Linear

_OVERSHOOT = 16.0  # the room for what such agents say, in what they hear and start with
_GAIN = 2.0**16  # the most steps by which rounding is expected to move what they say
_MARGIN = Fraction(1, 2**40)  # of the largest influence: what rounding adds to each


@final
@dataclass(frozen=True, eq=False)
class Bounded(ByValue, Motion):
    """Bounds ā_u on the influence of one private number on message u.

    Parameters
    ----------
    bounds : tuple of float
        ā_u of every message, rounding included. Empty if it is κ·ρ^u.
    lag_of_all : float
        τ, the mean delay of each agent's response in rounds; what accuracy is computed with.
    kappa, rho : float
        ā_u = κ·ρ^u, if there is no table of bounds.

    Examples
    --------
    >>> float(Bounded((), 8.0, kappa=2.0, rho=0.5).influence(3))
    0.25
    """

    bounds: tuple[float, ...]
    lag_of_all: float
    kappa: float = 0.0
    rho: float = 0.0

    name: ClassVar[str] = "envelope"

    def __post_init__(self) -> None:
        bounds = tuple(float(bound) for bound in self.bounds)
        if not all(0 <= bound < math.inf for bound in bounds):
            raise ParameterError("the bounds of an envelope must be finite numbers of at least 0.")
        if not bounds and not (0 < self.kappa < math.inf and 0 < self.rho < math.inf):
            raise ParameterError(
                "an envelope must have one bound per round, or kappa and rho, which are positive numbers."
            )
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "lag_of_all", positive("the lag of an envelope", self.lag_of_all))

    @classmethod
    def around(cls, motion: Linear, rounds: int) -> Self:
        """Return bounds that this motion keeps, with room for rounding."""
        if motion.width != 1:
            raise MotionError(
                "an envelope is of one private number with width 1: its adjacency is in the unit of "
                "the value."
            )
        exact = [abs(row.fractions()[0]) for row in motion.influence_rows(rounds)]
        margin = max(exact) * _MARGIN
        return cls(tuple(fraction_up(size + margin) for size in exact), motion.lag)

    def __repr__(self) -> str:
        return "Bounded(A, B and C are each agent's own)"

    @property
    def several(self) -> bool:
        """Whether a state has several numbers."""
        return True

    def _exact(self) -> Iterator[Fraction]:
        if self.bounds:
            yield from map(Fraction, self.bounds)
            return
        now, ratio = Fraction(self.kappa), Fraction(self.rho)
        while True:
            yield now
            now *= ratio

    def influence(self, u: Any) -> Any:
        """ā_u."""
        if self.bounds:
            table = np.array(self.bounds)
        else:
            last = int(np.max(u, initial=0))
            own = self._exact()
            table = np.array([fraction_up(next(own)) for _ in range(last + 1)])
        found = table[np.asarray(u).astype(np.int64)]
        return extended(found) if np.asarray(u).dtype == np.longdouble else found[()]

    def influences(self) -> Iterator[Extended]:
        """Yield ā_0, ā_1, …."""
        yield from (extended(fraction_up(bound)) for bound in self._exact())

    def steps_apart(self, start: int, components: int) -> Iterator[int]:
        """⌈ā_u·D_0⌉: what each agent compares its own distances with."""
        if components != 1:
            raise MotionError(f"an agent of an envelope says one number, got {components} components.")
        yield from (math.ceil(bound * start) for bound in self._exact())

    @property
    def lag(self) -> float:
        """τ, as declared."""
        return self.lag_of_all

    @property
    def fineness(self) -> float:
        """Room for rounding by up to 2^16 steps."""
        return 1 / _GAIN

    def room(self, start: float, feedback: float) -> float:
        """Room for agents that overshoot; each checks that it fits."""
        return _OVERSHOOT * max(start, feedback)

    def of_agent(self, i: int) -> Bounded:
        """Return this envelope: all agents are within it."""
        return self

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What every number about these agents assumes, one sentence each."""
        return (
            "A, B and C are each agent's own; it checks them against the bounds before it says anything.",
            "The state is computed by the agent itself from its start and public feedback.",
            "Besides the start, all that moves the state is public or does not depend on the start.",
            "No other agent's private state reaches it but through messages: no physical coupling.",
            "Noise is drawn once per step; nobody observes the state but through messages.",
        )

    # ---- what nobody else knows -----------------------------------------------------------------------

    def move(self, state: Any, y: Any, axis: int = 0) -> Any:
        """Refuse: only the agent knows."""
        raise self.undefined("move", "how such an agent moves")

    def move_whole(self, state: Any, y: Any) -> Any:
        """Refuse: only the agent knows."""
        raise self.undefined("move_whole", "how such an agent moves")

    def distances(self, start: Extended, rounding: float) -> Iterator[Extended]:
        """Refuse: only the agent knows."""
        raise self.undefined("distances", "how far apart two states of such an agent are")

    def reach(self, start: float, feedback: float) -> float:
        """Refuse: only the agent knows."""
        raise self.undefined("reach", "how large a state of such an agent can be")
