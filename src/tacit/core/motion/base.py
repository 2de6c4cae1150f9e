"""The base class of motions: how a state moves, and how its start fades.

An agent's state moves by an update per round. Between two updates it says something of its state, with noise.
If two starts of an agent differ by δ, then for the same feedback its messages u differ by a_u·δ.
The influence a_u decides what a message costs, so whoever moves a state also says how fast its start fades.

A motion has one parameter for all agents, or one per agent. It is pure: nothing here draws noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import MotionError
from tacit.base.rounding import Extended, extended, round_up, ulp

_FLOAT_ERROR = 2.0**-48  # a scale in float64 may be off by some units in the last place


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

    def disturb(self, state: Any, noise: Any) -> Any:
        """Return starts with noise that is drawn once: where shadows begin."""
        return state + noise

    @property
    def dimension(self) -> int | None:
        """Number of components of a state; None if any number moves alike."""
        return None

    @property
    def several(self) -> bool:
        """Whether a state has several numbers, of which something is said."""
        return self.dimension is not None

    @abstractmethod
    def of_agent(self, i: int) -> Motion:
        """Return the motion of one agent."""

    def of_agents(self, index: Any) -> Motion:
        """Return the motion of some agents, in this order."""
        return self

    @property
    def agents(self) -> int | None:
        """Number of agents, if each has its own parameters."""
        return None

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

    def influence_table(self, rounds: int) -> FloatArray:
        """Return a_t for t < rounds, one column per change that matters."""
        found = np.asarray(self.influence(np.arange(rounds)[:, None] if self.agents else np.arange(rounds)))
        return found if found.ndim > 1 else found[:, None]

    def spent(self, scales: FloatArray) -> FloatArray:
        """Return ε = Σ_u a_u/s_u for these scales of messages, rounded up.

        Scales have shape (rounds,) or (rounds, agents). The result is one number, or one per agent.
        """
        total = extended(np.zeros(np.shape(scales)[1:]))
        with np.errstate(divide="ignore"):
            for scale, influence in zip(scales, self.influences(), strict=False):
                total = total + influence / extended(scale)
        return round_up(total, _FLOAT_ERROR + ulp() * (4 * len(scales) + 16))

    def spent_squared(self, deviations: FloatArray) -> FloatArray:
        """Return μ² = Σ_u a_u²/s_u² for Gaussian noise, rounded up.

        Deviations have shape (rounds,) or (rounds, agents). The result is one number, or one per agent.
        """
        total = extended(np.zeros(np.shape(deviations)[1:]))
        with np.errstate(divide="ignore"):
            for deviation, influence in zip(deviations, self.influences(), strict=False):
                total = total + (influence / extended(deviation)) ** 2
        return round_up(total, 2 * _FLOAT_ERROR + ulp() * (8 * len(deviations) + 16))

    def parts(self, scales: FloatArray, adjacency: float) -> Iterator[float]:
        """Yield what each message of one agent adds to its loss, rounded up."""
        u = extended(np.arange(len(scales)))
        found = extended(adjacency) * self.influence(u) / extended(scales)
        yield from round_up(found, _FLOAT_ERROR + ulp() * (4 * u + 16)).tolist()

    def spent_endless(self, c: float, q: float) -> float:
        """Return ε = Σ_u a_u/(c·q^u) over an endless run, rounded up."""
        raise self.undefined("spent_endless", "the loss of an endless run")

    @property
    def width(self) -> float:
        """How far apart two starts are per unit of adjacency."""
        return 1.0

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
    def settled(self) -> float | FloatArray:
        """`followed` of an endless run."""
        return 1.0

    def pointed(self, omega: FloatArray) -> FloatArray:
        """Return how much each agent's start, or each component of it, counts.

        The target is the sum of starts times these, divided by Σγ.
        """
        return self.weight(omega)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What all numbers about these agents assume, in sentences."""
        return ()

    @property
    def modulus(self) -> float:
        """The factor by which the slowest part of a start fades, in the long run."""
        return float(np.max(self.keep))

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

    def say_whole(self, state: Any, shift: int) -> Any:
        """Return what a message says of a state of several numbers.

        In steps of 2^shift state steps, to the nearest, ties up.
        """
        raise self.undefined("say_whole", "what is said of a state in whole steps")

    def disturb_whole(self, state: Any, change: Callable[[Any], Any]) -> Any:
        """Return a start of several numbers, whose private one is changed."""
        raise self.undefined("disturb_whole", "a noisy start in whole steps")

    def starts_apart(self, start: int) -> int:
        """Return how far apart the starts of two shadows can be, in state steps.

        The values are `start` state steps apart.
        """
        return start

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

    def room(self, start: float, feedback: float) -> float:
        """Return the largest magnitude of what is said or heard.

        As for `reach`. A state with several numbers may be larger: it is never said.
        """
        return self.reach(start, feedback)

    # ---- what a motion does not know ----------------------------------------------------------------

    @classmethod
    def undefined(cls, method: str, what: str) -> MotionError:
        """Return the error for a method that this motion does not define."""
        return MotionError(f"{what} is unknown: the motion {cls.name!r} does not define {method}.")
