"""Agents with dynamics of their own in a comparison, with every law.

Their one private component is the value; other components start at rest at 0. A state is told by the value at
which it would rest, C(I − A)^−1·z/τ, whose average over the agents is what they would agree on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import MotionError
from tacit.core.law import Constant, Fading, Law, OneShot, Scheduled
from tacit.core.mechanism import ClientServer, Distributed, Mechanism
from tacit.core.motion import Linear
from tacit.core.theory.closed_loop import ClosedLoop
from tacit.lab.comparison.case import Case
from tacit.lab.comparison.method import Method, Said, laplace
from tacit.lab.comparison.paper import Paper

LAWS: tuple[type[Law], ...] = (Scheduled, Fading, Constant, OneShot)


class MovingAgents(Paper):
    """Linear agents with the best noise of one law."""

    motion: ClassVar[Linear]

    @property
    def settings(self) -> dict[str, float]:
        """The noise c and, where it fades, q."""
        law = self.mechanism.law
        return {"c": float(np.max(law.c))} | ({} if law.ratio is None else {"q": float(np.max(law.ratio))})

    def least_error(self, agents: int) -> None:  # noqa: ARG002
        """None: no bound is proved for states of several components."""
        return

    def run(self, theta: FloatArray, rng: np.random.Generator) -> Iterator[Said]:
        """Move all runs side by side."""
        motion, law = self.motion, self.mechanism.law
        state = np.zeros((theta.shape[1], theta.shape[0], motion.dimension))
        state[:, :, motion.private[0][0]] = theta.T
        shadow, rest = state, motion.settling / motion.lag
        for scale in law.scales(self.rounds):
            eta = laplace(rng, theta.shape).T * scale if scale else np.zeros(theta.shape[::-1])
            if law.shadowed:
                shadow = motion.disturb(shadow, eta)
                x = motion.say(shadow).T
            else:
                x = (motion.say(state) + eta).T
            y = np.atleast_2d(self.mechanism.aggregate(np.ascontiguousarray(x)))
            state = motion.move(state, y.T)
            shadow = motion.move(shadow, y.T) if law.shadowed else state
            yield Said(x, y, (state @ rest).T)

    def attack(self, agent: int, x: FloatArray, y: FloatArray) -> FloatArray:  # noqa: ARG002
        """The weighted median of what each message says of the start."""
        motion = self.motion
        says = np.array([row.floats() for row in motion.influence_rows(len(x))])[:, 0] / motion.private[0][1]
        if self.mechanism.shadowed:
            return np.asarray(x[0] / says[0])
        weight = np.divide(np.abs(says), self.scales(), out=np.zeros(len(x)), where=self.scales() > 0)
        told = np.flatnonzero(weight > 1e-9 * weight.max())
        path, kinks = np.zeros((x.shape[1], motion.dimension)), np.empty((len(x), x.shape[1]))
        for t in range(len(x)):
            if weight[t]:
                kinks[t] = (x[t] - motion.say(path)) / says[t]
            path = motion.move(path, y[t])
        weight, kinks = weight[told], kinks[told]
        order = np.argsort(kinks, axis=0)
        below = np.cumsum(weight[order], axis=0)
        middle = np.argmax(below >= below[-1] / 2, axis=0)
        return np.asarray(np.take_along_axis(kinks, np.take_along_axis(order, middle[None], 0), 0)[0])


def _placed(motion: Linear, kind: type[Law], on_graph: bool, case: Case) -> Mechanism:
    """Return agents with their best noise; refuse a loop that does not settle."""
    law = kind.best(motion, case.epsilon, case.rounds)
    place: Mechanism = ClientServer(law, case.graph.n)
    if on_graph:
        place = Distributed(law, case.graph, "metropolis")
    if not ClosedLoop(place, case.rounds).reaches_average:
        weight = float(motion.settling[motion.private[0][0]]) / motion.lag
        raise MotionError(
            "agents are compared if their target is the average of their private values, and these weigh "
            f"them {weight:.6g} times. Scale what is private."
        )
    return place


def moving_methods(motion: object) -> list[type[Method]]:
    """Return what linear agents with one private component are compared by."""
    if not isinstance(motion, Linear) or len(motion.private) != 1:
        raise MotionError(
            "a comparison of agents with dynamics of their own takes a Linear with one private component."
        )
    found: list[type[Method]] = []
    for law in LAWS:
        if law.shadowed and motion.measured:
            continue
        for on_graph in (False, True):
            place = "graph" if on_graph else "server"
            body = {
                "name": f"{place} {law.name}",
                "title": f"{law.name}, {place}",
                "source": "docs/proofs/dynamics.md",
                "needs": "neighbours' degrees" if on_graph else "a server, not trusted",
                "motion": motion,
                "best": staticmethod(partial(_placed, motion, law, on_graph)),
            }
            found.append(type(f"Moving{law.__name__}{place.title()}", (MovingAgents,), body))
    return found
