"""Groups of equal agents, so that computations need one entry per group."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.core.law import Law
from tacit.core.mechanism import ClientServer, Mechanism


class AgentClasses(NamedTuple):
    """One entry per class of agents with equal weight and equal parameters.

    `omega` is ω_i, the left eigenvector of the weights: |N(i)| + 1 in the paper, N with a server. `agents`
    is the number of agents in the class. `law` has one entry per class in each of its parameters.
    `total_gamma` is Σ_i γ_i over all agents.
    """

    omega: FloatArray
    law: Law
    agents: FloatArray
    total_gamma: float

    @property
    def sigma(self) -> FloatArray:
        """The mixing of each class."""
        return np.asarray(self.law.sigma)

    @property
    def c(self) -> FloatArray:
        """The noise scale of each class at update 0."""
        return np.asarray(self.law.c)

    @property
    def gamma(self) -> FloatArray:
        """γ_i = 1/d_i = ω_i·τ_i, the weight of an agent in the consensus value."""
        return self.law.motion.weight(self.omega)


def classes_of(mechanism: Mechanism) -> AgentClasses:
    """Group the agents of a mechanism into classes of equal agents.

    It costs nothing for a server with equal agents.
    """
    law = mechanism.law
    if not law.mixes:
        return _moving_classes(mechanism)
    shared: dict[str, Any] = {name: value for name, value in law.values().items() if isinstance(value, tuple)}
    names = [name for name in law.letters() if name not in shared]
    own = [law.values()[name] for name in names]
    if isinstance(mechanism, ClientServer) and law.agents is None:
        rows, count = np.array([[mechanism.n, *own]], dtype=np.float64), np.array([mechanism.n])
    elif law.agents is None:
        omega, count = np.unique(mechanism.stationary, return_counts=True)
        rows = np.column_stack(np.broadcast_arrays(omega, *own))
    else:
        each = np.broadcast_arrays(mechanism.stationary, *own)
        rows, count = np.unique(np.column_stack(each), axis=0, return_counts=True)
    omega, *parameters = rows.T.astype(np.float64)
    classes = type(law)(**dict(zip(names, parameters, strict=True)), **shared)
    total = float(np.sum(count * classes.motion.weight(omega)))
    return AgentClasses(omega, classes, count.astype(np.float64), total)


def _moving_classes(mechanism: Mechanism) -> AgentClasses:
    """Group agents that share one motion, by their weight and noise."""
    law = mechanism.law
    if law.agents is not None:
        each = law.with_noise(np.broadcast_to(law.c, (mechanism.n,)))
        gamma = law.motion.weight(mechanism.stationary)
        return AgentClasses(mechanism.stationary, each, np.ones(mechanism.n), float(np.sum(gamma)))
    omega, count = np.array([float(mechanism.n)]), np.array([mechanism.n])
    if not isinstance(mechanism, ClientServer):
        omega, count = np.unique(mechanism.stationary, return_counts=True)
    own = law.with_noise(np.full(len(omega), law.c))
    total = float(np.sum(count * law.motion.weight(omega)))
    return AgentClasses(omega, own, count.astype(np.float64), total)


def noise_classes(mechanism: Mechanism) -> AgentClasses:
    """Group the sources of noise: the agents, or all keepers as one class.

    A keeper's draw enters the mean just as one agent's draw does. So every result about the noise of m agents
    in the average holds for m keepers.
    """
    classes = classes_of(mechanism)
    if not mechanism.keepers:
        return classes
    shared = mechanism.noise_law
    own = shared.values().items()
    law = type(shared)(**{k: np.array([v]) if isinstance(v, float) else v for k, v in own})
    return AgentClasses(
        np.array([float(mechanism.n)]), law, np.array([float(mechanism.keepers)]), classes.total_gamma
    )
