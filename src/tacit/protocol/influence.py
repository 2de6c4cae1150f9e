"""The weight of one agent's value in the feedback, from public facts.

These facts are whose messages were used in each round. Every state is a linear function of all initial values
and noise (docs/proofs/influence.md). This module computes the coefficient of one agent's value, forward in
time. `tacit.theory.influence` finds all coefficients at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, final

import numpy as np

from tacit.motion import Motion

if TYPE_CHECKING:
    from tacit.protocol.session import Session


@final
@dataclass
class Influence:
    """The weight of one agent's value in the feedback of a server.

    Make one with `of`. Floats are enough: the result is only shown.

    Attributes
    ----------
    weight : float
        In the last feedback.
    used : int
        In how many rounds a message of this agent was used.
    """

    number: int
    motion: Motion
    alike: bool
    """Whether all agents move alike."""
    states: tuple[float, ...]
    """The coefficient in the own state and in all others', or in each agent's."""
    weight: float = 0.0
    used: int = 0

    @classmethod
    def of(cls, session: Session, number: int) -> Self:
        """Return the initial weights: 1 in the own state, 0 in all others."""
        motion, alike = session.mechanism.motion, isinstance(session.mixing, float)
        # With one mixing all others have the same coefficient in every round, so two numbers are enough.
        states = (1.0, 0.0) if alike else tuple(float(i == number) for i in range(session.n))
        return cls(number, motion, alike, states)

    def hear(self, used: bytes, count: int) -> None:
        """Take the next feedback: a bit for each used agent, and their number.

        All states move, also those of agents whose messages were not used: everyone hears the feedback.
        """
        mine = used[self.number // 8] >> self.number % 8 & 1
        self.used += mine
        move = self.motion.move
        if self.alike:
            own, others = self.states
            # The mean of the used messages: the own one, if used, and those of others, which weigh the same.
            y = (mine * own + (count - mine) * others) / count
            self.states = move(own, y), move(others, y)
        else:
            # With one mixing per agent the others' states differ, so every state is tracked.
            states = np.array(self.states)
            bits = np.unpackbits(np.frombuffer(used, dtype=np.uint8), bitorder="little")[: states.size]
            y = float(bits @ states) / count
            self.states = tuple(move(states, y).tolist())
        self.weight = y
