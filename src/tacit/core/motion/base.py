"""The base class of motions: how a state moves, and how its start fades.

An agent's state moves by an update per round. Between two updates it says something of its state, with noise.
If two starts of an agent differ by δ, then for the same feedback its messages u differ by a_u·δ.
The influence a_u decides what a message costs, so whoever moves a state also says how fast its start fades.

A motion has one parameter for all agents, or one per agent. It is pure: nothing here draws noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import MotionError
from tacit.base.rounding import Extended, extended


class Motion(ABC):
    """How agents move, and how fast their starts stop mattering.

    Attributes
    ----------
    name : str
        In files and on the command line.
    """

    name: ClassVar[str]

    # ---- how a state moves --------------------------------------------------------------------------

    @abstractmethod
    def move(self, state: Any, y: Any, axis: int = 0) -> Any:
        """Return states after one update with the feedback y.

        The agents are along this axis of the states. A state may be any number of components.
        """

    def say(self, state: Any) -> Any:
        """Return what a message says of a state, before its noise."""
        return state

    @abstractmethod
    def of_agent(self, i: int) -> Self:
        """Return the motion of one agent."""

    # ---- how fast its start stops mattering ---------------------------------------------------------

    @abstractmethod
    def influence(self, u: Any) -> Any:
        """Return a_u, the influence of a start on message u.

        `u` is a whole number or an array of them; the result has the precision of `u`. With one parameter per
        agent, the last axis of the result is that of the agents.
        """

    def influences(self) -> Iterator[Extended]:
        """Yield a_0, a_1, … in extended precision."""
        u = 0
        while True:
            yield extended(self.influence(extended(u)))
            u += 1

    @property
    @abstractmethod
    def lag(self) -> float | FloatArray:
        """τ: the mean delay of the response to feedback, in rounds."""

    def weight(self, omega: FloatArray) -> FloatArray:
        """γ_i = ω_i·τ_i, the weight of an agent's start in the target."""
        return np.asarray(omega * self.lag)

    def step_size(self, omega: FloatArray) -> FloatArray:
        """Return 1/γ_i = 1/(ω_i·τ_i), the diagonal of D in eq:D."""
        return np.asarray(1 / self.weight(omega))

    def followed(self, rounds: int) -> FloatArray:
        """Return 1 − a_T, how much of a state is no longer its start."""
        return np.asarray(1 - self.influence(rounds))

    @property
    def keep(self) -> float | FloatArray:
        """The factor by which the influence shrinks in every update.

        Only a motion with a_u = keep^u has it. Closed forms need it.
        """
        raise self.undefined("keep", "one factor by which the influence shrinks in every update")

    @property
    def pull(self) -> float | FloatArray:
        """The share of the feedback in the next state.

        Only a motion whose state is one number has it.
        """
        raise self.undefined("pull", "the share of the feedback in the next state")

    # ---- on whole numbers (docs/proofs/lattice.md) --------------------------------------------------

    @abstractmethod
    def move_whole(self, state: Any, y: Any) -> Any:
        """Return one agent's state after an update, in whole steps.

        State and feedback are whole numbers of the state step. The result is rounded to the nearest, ties up.
        """

    @abstractmethod
    def steps_apart(self, start: int, components: int) -> Iterator[int]:
        """Yield D_0, D_1, …: how far apart two adjacent states can be.

        In whole state steps, over all components together, for starts that are `start` steps apart. Rounding
        is included, and a motion may not round down: this is what the account is made of.
        """

    @abstractmethod
    def distances(self, start: Extended, rounding: float) -> Iterator[Extended]:
        """Yield Δ_0, Δ_1, …: how far apart two adjacent states can be.

        They start `start` apart, and rounding moves them apart by less than `rounding` in every update. The
        results are bounds: they are never too small.
        """

    @property
    @abstractmethod
    def fineness(self) -> float:
        """At least 1/Γ, where rounding moves what is said by Γ steps at most.

        So the state step must be finer than the noise by this factor.
        """

    @abstractmethod
    def reach(self, start: float, feedback: float) -> float:
        """Return the largest magnitude that a state can have.

        Its start has at most the magnitude `start`, and no feedback is larger than `feedback`.
        """

    # ---- what a motion does not know ----------------------------------------------------------------

    @classmethod
    def undefined(cls, method: str, what: str) -> MotionError:
        """Return the error for a method that this motion does not define."""
        return MotionError(f"{what} is unknown: the motion {cls.name!r} does not define {method}.")
