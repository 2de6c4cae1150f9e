"""A whole mechanism on a lattice: every agent's whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from tacit.base.arrays import IntArray
from tacit.base.errors import StateError
from tacit.core.mechanism.base import Mechanism
from tacit.core.mechanism.distributed import Distributed
from tacit.core.mechanism.lattice import Lattice, LatticeAgent
from tacit.core.mechanism.whole import Whole, WholeArray, as_whole, cut, nearest

if TYPE_CHECKING:
    from tacit.core.history import History


@final
@dataclass(frozen=True, eq=False)
class WholeState:
    """The agents' states, and what their next messages are made from.

    Both are in state steps.
    """

    theta: WholeArray = field(repr=False)
    basis: WholeArray = field(repr=False)


@final
@dataclass(frozen=True, eq=False)
class OnLattice:
    """A mechanism on a lattice.

    It is a pure function of values and whole-number draws.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> mechanism = ClientServer(Fading(sigma=0.5, c=1, q=0.9), agents=2)
    >>> run = OnLattice(mechanism, Lattice(0, 1)).execute([0, 1], [[2**39, -(2**39)]])
    >>> run.x
    array([[0.5, 0.5]])
    """

    mechanism: Mechanism
    lattice: Lattice

    def __post_init__(self) -> None:
        self.agents  # noqa: B018 - refuses a lattice that is too narrow for an agent's noise

    @cached_property
    def agents(self) -> tuple[LatticeAgent, ...]:
        """One per agent; a single one if all share their parameters."""
        count = self.mechanism.law.agents or 1
        return tuple(self.lattice.agent(self.mechanism.law, i) for i in range(count))

    def draw_scales(self, u: int) -> tuple[float, ...]:
        """Return the scales of the whole-number draws of update u.

        There is one per agent, or one for all.
        """
        drawing = self.agents[:1] if self.mechanism.keepers else self.agents
        return tuple(agent.draw_scale(u) if agent.speaks(u) else 0.0 for agent in drawing)

    def exponents(self, u: int) -> IntArray:
        """Return the exponent of each agent's message step."""
        steps = [agent.message_exponent(u) for agent in self.agents]
        return np.broadcast_to(np.array(steps, dtype=np.int64), (self.mechanism.n,))

    def start(self, values: Any) -> WholeState:
        """Return the state before round 0.

        It is each agent's value on the state lattice. A state of several numbers is not clamped to the range,
        which is that of private numbers.
        """
        if self.agents[0].moves:
            step = Fraction(2) ** self.lattice.state_exponent
            states = self.mechanism.states(values)
            theta = np.array([math.floor(Fraction(v) / step + Fraction(1, 2)) for v in states.flat], object)
            theta = theta.reshape(states.shape)
            return WholeState(theta, theta)
        rows = [self.lattice.start(value) for value in values]
        if len(rows) != self.mechanism.n or len({np.shape(row) for row in rows}) > 1:
            raise StateError(
                f"values must be one number, or one vector of equal length, for each of the "
                f"{self.mechanism.n} agents."
            )
        theta = _stacked(rows)
        return WholeState(theta, theta)

    def step(self, state: WholeState, u: int, draw: WholeArray) -> tuple[WholeState, WholeArray, Whole]:
        """Run round u on the given draws.

        Return the state, the messages and the feedback.
        """
        if self.mechanism.keepers:
            return self._step_with_keepers(state, u, draw)
        basis, moves, shadowed = state.basis, self.agents[0].moves, self.mechanism.shadowed
        if moves and shadowed and u == 0:
            basis, draw = self._each(LatticeAgent.shadow, basis, draw), draw * 0
        x = self._each(lambda agent, basis, noise: agent.report(basis, u, noise), basis, draw)
        lifted = self._lift(x, u)
        y = self.aggregate(lifted)
        heard = np.broadcast_to(np.asarray(y, dtype=object), lifted.shape)
        theta = self._each(LatticeAgent.update, state.theta, heard)
        shadow = basis if moves else lifted
        basis = self._each(LatticeAgent.update, shadow, heard) if shadowed else theta
        return WholeState(theta, basis), x, y

    def _step_with_keepers(
        self, state: WholeState, u: int, draw: WholeArray
    ) -> tuple[WholeState, WholeArray, Whole]:
        """Run a round in which keepers add `draw` to the sum.

        It is the sum of the agents' masked messages. They cannot be clamped one by one, so the feedback is
        clamped to the reach.
        """
        x = self._each(lambda agent, basis: agent.report(basis, u, 0), state.basis)
        if not self.agents[0].speaks(u) and np.any(draw != 0):
            raise StateError("keepers open one sum only: draws after the first round must be zero.")
        total = self._lift(x, u).sum(axis=0) + (
            draw.sum(axis=0) << (int(self.exponents(u)[0]) - self.lattice.state_exponent)
        )
        y = cut(nearest(total, self.mechanism.n), self.lattice.limit)
        heard = np.broadcast_to(np.asarray(y, dtype=object), x.shape)
        theta = self._each(LatticeAgent.update, state.theta, heard)
        return WholeState(theta, heard if self.mechanism.shadowed else theta), x, y

    def aggregate(self, lifted: WholeArray) -> Whole:
        """Phase (ii): return the weighted mean of the messages.

        Messages are in state steps. The mean is rounded to the nearest state step.
        """
        if not isinstance(self.mechanism, Distributed):
            return nearest(lifted.sum(axis=0), self.mechanism.n)
        return self.mechanism.topology.aggregate_whole(lifted)

    def execute(self, values: Any, draws: Any) -> History:
        """Run as many rounds as there are draws for.

        Return everything that happened.

        Parameters
        ----------
        values : one number or vector per agent
            θ(0), private.
        draws : array_like of whole numbers, shape (rounds, sources) or (rounds, sources, k)
            Noise, in message steps: one per agent, or one per keeper. If the law draws once, zero after
            the first round.
        """
        return self.run(self.start(values), draws)

    def run(self, state: WholeState, draws: Any) -> History:
        """Run as many rounds as there are draws for, from a state.

        The state is one that `start` made. Agents send whole numbers. The history also has them as the
        nearest floats, which are exact if 53 significant bits are enough. Rounding to the message step comes
        before the noise, so x differs from θ + η by up to half a message step.
        """
        from tacit.core.history import History, Private, Wholes

        noise = np.array(as_whole(draws, "draws"), dtype=object)
        moves = self.agents[0].moves
        said = state.theta.shape[: 1 if moves else None]  # one number of a state of several
        shape = (self.mechanism.sources, *said[1:])
        if noise.shape[1:] != shape:
            whose = "keeper" if self.mechanism.keepers else "agent"
            raise StateError(
                f"draws must have shape (rounds, {', '.join(map(str, shape))}), "
                f"got {noise.shape}: one per round, {whose} and component."
            )
        theta, x, y = [state.theta], [], []
        for u, draw in enumerate(noise):
            before = state.basis
            state, sent_now, heard = self.step(state, u, draw)
            if self.mechanism.law.two_valued and self.agents[0].speaks(u):
                noise[u] = sent_now - self.agents[0].rounded(before, u)  # what was added, not what was drawn
            theta.append(state.theta)
            x.append(sent_now)
            y.append(heard)
        y_shape = said[0 if isinstance(self.mechanism, Distributed) else 1 :]
        exponents = np.array([self.exponents(u) for u in range(len(noise))], dtype=np.int64)
        exponents = exponents.reshape(len(noise), self.mechanism.n)
        steps = exponents.reshape(exponents.shape + (1,) * (noise.ndim - 2))
        sent = _stacked(x) if x else np.empty((0, *said), dtype=object)
        heard_all = _stacked(y) if y else np.empty((0, *y_shape), dtype=object)
        states, value = _stacked(theta), self.lattice.value
        drawn = np.asarray(value(noise, steps[:, :1] if self.mechanism.keepers else self._drawn_in(steps)))
        return History.full(
            self.mechanism,
            np.asarray(value(sent, steps)),
            np.asarray(value(heard_all)),
            exponent=exponents,
            wholes=Wholes(self.lattice, sent, heard_all),
            private=Private(np.asarray(value(states)), drawn, states, noise.copy()),
        )

    def _drawn_in(self, steps: IntArray) -> IntArray:
        """Return the steps of draws: not those of messages if a start is noisy."""
        if self.agents[0].adds(0) or not len(steps):
            return steps
        first = np.broadcast_to(np.array([agent.draw_exponent(0) for agent in self.agents]), steps[0].shape)
        return np.concatenate([first[None], steps[1:]])

    def _each(self, call: Callable[..., Whole], *arrays: WholeArray) -> WholeArray:
        """Apply a function of (agent, its rows).

        This is one call if all agents share their parameters.
        """
        agents = self.agents
        if len(agents) == 1:
            if not agents[0].moves:
                return cast(WholeArray, call(agents[0], *arrays))
            agents = agents * self.mechanism.n
        rows = zip(agents, *arrays, strict=True)
        return _stacked([call(agent, *row) for agent, *row in rows])

    def _lift(self, x: WholeArray, u: int) -> WholeArray:
        shifts = (self.exponents(u) - self.lattice.state_exponent).astype(object)
        return cast(WholeArray, x << shifts.reshape((-1,) + (1,) * (x.ndim - 1)))


def _stacked(rows: list[Whole] | list[WholeArray]) -> WholeArray:
    """Stack whole numbers without letting numpy choose a type that overflows."""
    out = np.empty((len(rows), *np.shape(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        out[i] = row
    return out
