"""An execution: everything that happened, and what an adversary sees of it.

The narrow waist of the package. Simulators and the runtime produce executions; theory's
witness, the auditor and the plots only read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tacit.arrays import FloatArray, frozen
from tacit.errors import StateError

if TYPE_CHECKING:
    from tacit.mechanism.base import Mechanism


@dataclass(frozen=True, eq=False)
class Observation:
    """What an adversary saw: the projection α↓ of an execution.

    A part that was not seen is None. `theta` holds the internal states of the compromised
    `agents`, in their order.
    """

    x: FloatArray | None = None
    y: FloatArray | None = None
    agents: tuple[int, ...] = ()
    theta: FloatArray | None = field(default=None, repr=False)

    def matches(self, other: Observation, rtol: float = 1e-9, atol: float = 1e-12) -> bool:
        """Whether the two cannot be told apart, up to rounding."""

        def same(a: FloatArray | None, b: FloatArray | None) -> bool:
            if a is None or b is None:
                return a is b
            return a.shape == b.shape and bool(np.allclose(a, b, rtol=rtol, atol=atol))

        return (
            self.agents == other.agents
            and same(self.x, other.x)
            and same(self.y, other.y)
            and same(self.theta, other.theta)
        )


@dataclass(frozen=True, eq=False, repr=False)
class Execution:
    """The paper's α = θ(0), (η(0), x(0), y(0)), θ(1), … over some rounds.

    Attributes
    ----------
    theta : array, shape (rounds + 1, n) or (rounds + 1, n, k)
        Internal states. Private.
    eta, x : array, shape (rounds, n) or (rounds, n, k)
        Noise (private) and messages. Where keepers add the noise, `eta` has one column per keeper, and `x` is
        what agents send under masks: as private as the states.
    y : array
        Feedback: shape (rounds,) or (rounds, k) from a server, shaped like x on a graph.
    """

    mechanism: Mechanism
    theta: FloatArray
    eta: FloatArray
    x: FloatArray
    y: FloatArray

    def __post_init__(self) -> None:
        for array in (self.theta, self.eta, self.x, self.y):
            frozen(array)

    def __repr__(self) -> str:
        # States and noise are private: never show them.
        return f"<Execution {self.mechanism.kind}, {self.mechanism.n} agents, {self.rounds} rounds>"

    @property
    def rounds(self) -> int:
        """Number of rounds that were run."""
        return len(self.eta)

    def prefix(self, rounds: int) -> Execution:
        """Return α_T, the execution up to the state at the start of round `rounds`."""
        if not 0 <= rounds <= self.rounds:
            raise StateError(f"a prefix must have 0 to {self.rounds} rounds, got {rounds}.")
        return Execution(
            self.mechanism, self.theta[: rounds + 1], self.eta[:rounds], self.x[:rounds], self.y[:rounds]
        )

    def channels(self) -> Observation:
        """What is heard on the wires: α↓(x, y). Masked messages are pseudo-random and tell nothing."""
        return Observation(x=None if self.mechanism.keepers else self.x, y=self.y)

    def conspirators(self, agent: int, keeper: int) -> Observation:
        """All that is learned of one agent by everybody else and all keepers but one.

        They know all masks and noise but those between this agent and this keeper, and so the sum of
        what the agent sent and what the keeper drew (docs/proofs/keepers.md).
        """
        m, n = self.mechanism.keepers, self.mechanism.n
        if not (0 <= keeper < m and 0 <= agent < n):
            raise StateError(
                f"agent must be from 0 to {n - 1} and keeper from 0 to {m - 1}, got {agent} and {keeper}."
            )
        others = tuple(i for i in range(n) if i != agent)
        x = self.x[:, [agent]] + self.eta[:, [keeper]]
        if self.mechanism.shadowed:  # one opening; nothing is sent after it
            x = x[:1]
        return Observation(x=x, y=self.y, agents=others, theta=self.theta[:, list(others)])

    def server(self) -> Observation:
        """Return the server's state y alone, for whoever reads its memory but no wire."""
        return Observation(y=self.y)

    def compromised(self, agents: Iterable[int]) -> Observation:
        """All channels, and the internal states of a compromised set C of agents."""
        chosen = tuple(sorted({int(i) for i in agents}))
        if chosen and not (0 <= chosen[0] and chosen[-1] < self.mechanism.n):
            raise StateError(
                f"compromised agents must be numbers from 0 to {self.mechanism.n - 1}, got {list(chosen)}."
            )
        x = self.channels().x
        return Observation(x=x, y=self.y, agents=chosen, theta=self.theta[:, list(chosen)])
