"""What agents with a bound on their influence do not know, and refuse.

A certificate bounds how fast a start fades. It does not say what agents agree on, nor what rounding does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from tacit.base.rounding import Extended
from tacit.core.motion.base import Motion
from tacit.core.motion.linear import measured_once


class Certified(Motion):
    """Agents of one kind with a proved bound on their influence.

    Noise that protects them is known; what they agree on is not.
    """

    private: Any
    measured: bool

    def of_agent(self, i: int) -> Self:
        """Return this motion: all agents share it."""
        return self

    def single(self) -> tuple[int, float]:
        """Return the one private component of a computed state, and its width."""
        if len(self.private) > 1:
            raise self.undefined("noise once for several components", "how noise is split")
        if self.measured:
            raise measured_once()
        component, half = self.private[0]
        return int(component), float(half)

    @property
    def width(self) -> float:
        """How far the one private component may change per unit of adjacency."""
        return self.single()[1]

    @property
    def lag(self) -> float:
        """Refuse: what these agents agree on is not known."""
        raise self.undefined("lag", "what agents of which only a bound is known agree on")

    def move_whole(self, state: Any, y: Any) -> Any:
        """Refuse: no session runs such agents."""
        raise self.undefined("move_whole", "a state in whole steps")

    def steps_apart(self, start: int, components: int) -> Iterator[int]:
        """Refuse, as `move_whole`."""
        raise self.undefined("steps_apart", "how far apart whole states are")

    def distances(self, start: Extended, rounding: float) -> Iterator[Extended]:
        """Refuse, as `move_whole`."""
        raise self.undefined("distances", "how far apart rounded states are")

    @property
    def fineness(self) -> float:
        """Refuse, as `move_whole`."""
        raise self.undefined("fineness", "how rounding adds up")

    def reach(self, start: float, feedback: float) -> float:
        """Refuse, as `move_whole`."""
        raise self.undefined("reach", "how large a state can be")
