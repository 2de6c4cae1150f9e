"""What the two mechanisms share: a round is report, aggregate, update.

Given θ(0) and the noise, the whole execution is determined (section 3.1 of the paper), so
a mechanism is a pure function of both. The caller draws the noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tacit.base.arguments import instance
from tacit.base.arrays import (
    ByValue,
    FloatArray,
    IntArray,
    ValuesLike,
    as_states,
    require_finite,
)
from tacit.base.errors import ParameterError, RecordTooLarge, StateError
from tacit.base.memory import available_memory
from tacit.core.law import Law
from tacit.core.motion import Motion

if TYPE_CHECKING:
    import numpy.typing as npt

    from tacit.core.history import History


@dataclass(frozen=True, eq=False)
class State:
    """The agents' states, and what their next messages are made from.

    `basis` is θ itself, or the public shadow if the law draws noise only once.
    """

    theta: FloatArray = field(repr=False)
    basis: FloatArray = field(repr=False)


@dataclass(frozen=True, eq=False)
class Round:
    """One round: the messages x and the feedback y."""

    x: FloatArray = field(repr=False)
    y: FloatArray = field(repr=False)


@dataclass(frozen=True, eq=False)
class Mechanism(ByValue, ABC):
    """A synchronous private consensus mechanism.

    It is a `ClientServer` or a `Distributed`. Other subclasses are refused: guarantees and simulations hold
    only for these two.
    """

    law: Law

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if type(self).__module__.rpartition(".")[0] != __package__:
            raise ParameterError(
                f"a mechanism must be a ClientServer or a Distributed, got {type(self).__name__}: guarantees "
                "and simulations hold only for these two. Use one of them."
            )
        instance(
            "the law of a mechanism", self.law, Law, "a noise law", "Make one, like Fading(0.8, 10, 0.6)."
        )
        self.law.for_agents(self.n)
        self.law.require_single()
        self.law.require_mechanism(served=self.kind == "client-server", keepers=self.keepers)

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of agents N."""

    @property
    @abstractmethod
    def closed_degrees(self) -> IntArray:
        """Number of messages in each agent's feedback: |N(i)| + 1, or N."""

    @property
    @abstractmethod
    def stationary(self) -> FloatArray:
        """ω with ωᵀW = ωᵀ for the feedback y = Wx, up to a factor.

        γ_i = ω_i·τ_i is the weight of agent i in the target. The lag τ_i of its motion is 1/σ_i for mixing.
        """

    @abstractmethod
    def aggregate(self, x: FloatArray) -> FloatArray:
        """Return the feedback y for messages x."""

    @property
    def keepers(self) -> int:
        """Number of keepers that add the noise; 0 if every agent adds its own."""
        return 0

    @property
    def sources(self) -> int:
        """Number of noise draws per round: one per agent, or one per keeper."""
        return self.keepers or self.n

    @property
    def noise_law(self) -> Law:
        """The law of the noise of all sources.

        It is the agents' own, or the one that keepers share.
        """
        return self.law.of_agent(0) if self.keepers else self.law

    @property
    def shadowed(self) -> bool:
        """Whether noise is drawn once.

        Later messages then follow from the first one.
        """
        return self.law.shadowed

    @property
    def motion(self) -> Motion:
        """How the agents move."""
        return self.law.motion

    def report(self, basis: FloatArray, eta: FloatArray) -> FloatArray:
        """Phase (i): the messages x_i(t) = θ_i(t) + η_i(t)."""
        return np.asarray(self.motion.say(basis) + eta)

    def update(self, theta: FloatArray, y: FloatArray) -> FloatArray:
        """Phase (iv): return the moved states; eq:upd and eq:upd_dis."""
        return np.asarray(self.motion.move(theta, y))

    @property
    def names(self) -> Sequence[Hashable]:
        """What the agents are called: their numbers, or the labels of their graph."""
        return range(self.n)

    def states(self, values: ValuesLike, what: str = "values") -> FloatArray:
        """Return one number or vector per agent, in the agents' order.

        A mapping or a Series is taken by the agents' names, anything else by position. Errors never show a
        value.
        """
        found, dimension = as_states(values, self.n, what, self.names), self.motion.dimension
        if dimension is not None and found.shape[1:] != (dimension,):
            raise StateError(
                f"{what} must have shape ({self.n}, {dimension}), the components of every agent's state, "
                f"got shape {found.shape}."
            )
        return found

    def start(self, values: ValuesLike) -> State:
        """Return the state before round 0: θ(0), one number or vector per agent."""
        theta = self.states(values)
        return State(theta, theta)

    def step(self, state: State, eta: FloatArray) -> tuple[State, Round]:
        """Run one round on the given noise."""
        shadow = state.basis
        if self.keepers:
            x = self.motion.say(state.basis)  # sent under a mask, so nobody sees it
            y = self.aggregate(x) + eta.sum(axis=0) / self.n
        elif self.shadowed:  # the noise of the start moves as the state does
            shadow = self.motion.disturb(state.basis, eta)
            x = np.asarray(self.motion.say(shadow))
            y = self.aggregate(x)
        else:
            x = self.report(state.basis, eta)
            y = self.aggregate(x)
        theta = self.update(state.theta, y)
        if not self.shadowed:
            basis = theta
        elif self.keepers:  # keepers open once; from then on everyone moves towards that feedback
            basis = np.broadcast_to(y, theta.shape)
        else:
            basis = self.update(shadow, y)
        return State(theta, basis), Round(x, y)

    def state_space(self) -> tuple[FloatArray, FloatArray]:
        """Return dense (A, B) with θ(t+1) = A θ(t) + B η(t).

        They are for python-control and others. A has shape (n, n), B has shape (n, sources): one column per
        agent, or per keeper. Noise that is drawn once is refused, because later messages then do not follow
        from the states alone.

        Examples
        --------
        >>> from tacit import ClientServer, Fading
        >>> A, B = ClientServer(Fading(0.5, 1, 0.9), agents=2).state_space()
        >>> A, B
        (array([[0.75, 0.25],
               [0.25, 0.75]]), array([[0.25, 0.25],
               [0.25, 0.25]]))
        """
        if self.shadowed:
            raise ParameterError(
                f"a state-space form needs fresh noise in every round, got {self.law.name} noise: with it "
                "later messages do not follow from the states alone. Use Fading or Constant noise."
            )
        needed, available = 4 * 8 * self.n**2, available_memory()
        if needed > available:
            raise RecordTooLarge(
                f"dense matrices of {self.n} agents must fit in memory, but need {needed / 2**30:.3g} GiB of "
                f"{available / 2**30:.3g}. Take fewer agents; `adjacency` of a graph is sparse."
            )
        motion = self.motion
        sigma = np.broadcast_to(np.asarray(motion.pull, dtype=np.float64), (self.n,))[:, None]
        feedback = sigma * self.aggregate(np.eye(self.n))  # σW
        a = np.diag(np.broadcast_to(motion.keep, (self.n,))) + feedback
        return a, np.tile(sigma / self.n, (1, self.keepers)) if self.keepers else feedback

    def execute(self, values: ValuesLike, noise: npt.ArrayLike) -> History:
        """Run as many rounds as there is noise for.

        Return everything that happened.

        Parameters
        ----------
        values : array_like, mapping or Series, shape (n,) or (n, k)
            θ(0), private.
        noise : array_like, shape (rounds, sources) or (rounds, sources, k)
            η(t), one per agent, or one per keeper. If the law draws once, all rounds after the first must
            be zero.
        """
        from tacit.core.history import History, Private

        state = self.start(values)
        said = self.motion.say(state.theta)
        eta = self._as_noise(noise, said.shape[1:])
        thetas, rounds = [state.theta], []
        for eta_t in eta:
            state, done = self.step(state, eta_t)
            thetas.append(state.theta)
            rounds.append(done)
        empty_y = np.empty((0, *self.aggregate(said).shape))
        return History.full(
            self,
            np.stack([done.x for done in rounds]) if rounds else np.empty((0, *said.shape)),
            np.stack([done.y for done in rounds]) if rounds else empty_y,
            private=Private(np.stack(thetas), eta),
        )

    def _as_noise(self, noise: npt.ArrayLike, vector: tuple[int, ...]) -> FloatArray:
        try:
            eta = np.array(noise, dtype=np.float64)
        except (TypeError, ValueError):
            raise StateError("noise must be numbers, one per round and agent or keeper.") from None
        shape = (self.sources, *vector)
        if eta.shape[1:] != shape:
            raise StateError(
                f"noise must have shape (rounds, {', '.join(map(str, shape))}), got {eta.shape}: "
                f"one draw per round, {'keeper' if self.keepers else 'agent'} and component."
            )
        require_finite(eta, "noise")
        if self.shadowed and eta[1:].any():
            raise ParameterError(
                f"{self.law.name} noise is drawn once: noise after round 0 must be zero. "
                "Take the Fading law for fresh noise every round."
            )
        return eta


def require_mechanism(given: object) -> Mechanism:
    """Return a mechanism; refuse anything else, and say how to make one."""
    advice = "Make one, like ClientServer(Fading(0.8, 10, 0.6), agents=500)."
    found: Mechanism = instance("the mechanism", given, Mechanism, "a ClientServer or a Distributed", advice)
    return found
