"""Agents that each move in their own linear way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from tacit.base.arrays import ByValue, FloatArray
from tacit.base.errors import ParameterError
from tacit.base.rounding import Extended
from tacit.core.motion.base import Motion
from tacit.core.motion.linear import Linear


@final
@dataclass(frozen=True, eq=False)
class Various(ByValue, Motion):
    """One linear motion per agent, in the agents' order.

    States have as many components as the longest one; an agent with fewer has zeros at the end.

    Examples
    --------
    >>> slow, fast = (Linear([[1 - s]], [s], [1], private={0: 1.0}) for s in (0.25, 0.5))
    >>> Various([slow, fast]).lag
    array([4., 2.])
    """

    motions: tuple[Linear, ...]

    name: ClassVar[str] = "various"

    def __post_init__(self) -> None:
        given: object = self.motions
        found = tuple(given) if isinstance(given, list | tuple) else ()
        if not found or not all(isinstance(one, Linear) for one in found):
            raise ParameterError("the motions of agents must be a list of Linear, one per agent.")
        object.__setattr__(self, "motions", found)

    @property
    def agents(self) -> int:
        """Number of agents."""
        return len(self.motions)

    @property
    def dimension(self) -> int:
        """The most components of any agent."""
        return max(one.dimension for one in self.motions)

    @cached_property
    def stacked(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """A, B and C of all agents, filled up with zeros."""
        d = self.dimension
        A, B, C = np.zeros((self.agents, d, d)), np.zeros((self.agents, d)), np.zeros((self.agents, d))
        for i, one in enumerate(self.motions):
            k = one.dimension
            A[i, :k, :k], B[i, :k], C[i, :k] = one.A, one.B, one.C
        return A, B, C

    def move(self, state: Any, y: Any, axis: int = 0) -> Any:
        """A_i·z_i + B_i·y_i; agents and components are the last two axes."""
        A, B, _ = self.stacked
        return np.einsum("ikl,...il->...ik", A, state) + np.asarray(y)[..., None] * B

    def say(self, state: Any) -> Any:
        """C_i·z_i."""
        return np.einsum("ik,...ik->...i", self.stacked[2], state)

    def disturb(self, state: Any, noise: Any) -> Any:
        """Return starts whose private components are noisy."""
        place = np.eye(self.dimension)[[one.private[0][0] for one in self.motions if one.width]]
        return state + np.asarray(noise)[..., None] * place

    def of_agent(self, i: int) -> Linear:
        """Return the motion of one agent."""
        return self.motions[i]

    def of_agents(self, index: Any) -> Various:
        """Return the motions of some agents."""
        return Various(tuple(self.motions[i] for i in np.arange(self.agents)[index]))

    @cached_property
    def kinds(self) -> list[Linear]:
        """The different motions."""
        found: list[Linear] = []
        for one in self.motions:
            if one not in found:
                found.append(one)
        return found

    def _each(self, of: Any) -> FloatArray:
        """Return a number of every agent, computed once for equal ones."""
        known = [of(kind) for kind in self.kinds]
        return np.array([known[self.kinds.index(one)] for one in self.motions])

    def influence(self, u: Any) -> Any:
        """a_u of every agent, along the last axis."""
        return np.moveaxis(self._each(lambda one: one.influence(np.squeeze(u))), 0, -1)

    def influence_table(self, rounds: int) -> FloatArray:
        """The changes that matter of all kinds of agents, side by side."""
        return np.hstack([kind.influence_table(rounds) for kind in self.kinds])

    def spent(self, scales: FloatArray) -> FloatArray:
        """The loss of every agent."""
        if np.ndim(scales) > 1:
            return np.array([float(one.spent(own)) for one, own in zip(self.motions, scales.T, strict=True)])
        return self._each(lambda one: float(one.spent(scales)))

    def spent_squared(self, deviations: FloatArray) -> FloatArray:
        """μ² of every agent."""
        if np.ndim(deviations) > 1:
            pairs = zip(self.motions, np.transpose(deviations), strict=True)
            return np.array([float(one.spent_squared(own)) for one, own in pairs])
        return self._each(lambda one: float(one.spent_squared(deviations)))

    def parts(self, scales: FloatArray, adjacency: float) -> Iterator[float]:
        """Refuse: ask one agent."""
        raise self.undefined("parts", "the loss of each message of one agent")

    @property
    def width(self) -> Any:
        """The width of every agent."""
        return self._each(lambda one: one.width)

    @property
    def modulus(self) -> float:
        """The slowest mode of any agent."""
        return max(kind.modulus for kind in self.kinds)

    @property
    def lag(self) -> FloatArray:
        """τ of every agent."""
        return self._each(lambda one: one.lag)

    @property
    def gain(self) -> FloatArray:
        """The gain of every agent."""
        return self._each(lambda one: one.gain)

    def pointed(self, omega: FloatArray) -> FloatArray:
        """ω_i·C_i(I − A_i)^−1, of shape (agents, dimension)."""
        pad = self.dimension
        return omega[:, None] * self._each(lambda one: np.pad(one.settling, (0, pad - one.dimension)))

    @property
    def resting(self) -> FloatArray:
        """(I − A_i)^−1·B_i, of shape (agents, dimension)."""
        pad = self.dimension
        return self._each(lambda one: np.pad(one.resting, (0, pad - one.dimension)))

    def followed(self, rounds: int) -> FloatArray:
        """`Linear.followed` of every agent."""
        return self._each(lambda one: float(one.followed(rounds)))

    @property
    def settled(self) -> FloatArray:
        """`followed` of an endless run."""
        return self._each(lambda one: one.settled)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed of any agent."""
        return tuple(dict.fromkeys(line for kind in self.kinds for line in kind.assumptions))

    def move_whole(self, state: Any, y: Any) -> Any:
        """Refuse: ask one agent."""
        raise self.undefined("move_whole", "one agent's state in whole steps")

    def steps_apart(self, start: int, components: int) -> Iterator[int]:
        """Refuse: ask one agent."""
        raise self.undefined("steps_apart", "how far apart two states of one agent are")

    def distances(self, start: Extended, rounding: float) -> Iterator[Extended]:
        """Refuse: ask one agent."""
        raise self.undefined("distances", "how far apart two states of one agent are")

    @property
    def fineness(self) -> float:
        """The least of all agents."""
        return min(kind.fineness for kind in self.kinds)

    def reach(self, start: float, feedback: float) -> float:
        """The largest of all agents."""
        return max(kind.reach(start, feedback) for kind in self.kinds)
