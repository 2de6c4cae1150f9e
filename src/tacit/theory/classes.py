"""Agents that are alike count once: the distinct kinds of agents of a mechanism."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.arrays import FloatArray
from tacit.mechanism import ClientServer, Fading, Mechanism


class AgentClasses(NamedTuple):
    """One entry per class of agents with equal neighbourhood size and parameters.

    `closed` is |N(i)| + 1 (N with a server); `agents` says how many agents are in the class.
    One-shot noise has `q` = 0: its scale is c in round 0 and 0 afterwards.
    """

    closed: FloatArray
    sigma: FloatArray
    c: FloatArray
    q: FloatArray
    agents: FloatArray

    @property
    def gamma(self) -> FloatArray:
        """γ_i = 1/d_i = (|N(i)| + 1)/σ_i, the weight of an agent in the consensus value."""
        return self.closed / self.sigma

    @property
    def total_gamma(self) -> float:
        """Σ_i γ_i over all agents."""
        return float(np.sum(self.agents * self.gamma))


def agent_classes(mechanism: Mechanism) -> AgentClasses:
    """Group the agents of a mechanism; costs nothing for a server with equal agents."""
    parameters = mechanism.parameters
    q = parameters.q if isinstance(parameters, Fading) else 0.0
    if isinstance(mechanism, ClientServer) and parameters.agents is None:
        one = (mechanism.n, parameters.sigma, parameters.c, q, mechanism.n)
        return AgentClasses._make(np.array([value], dtype=np.float64) for value in one)
    if parameters.agents is None:
        closed, count = np.unique(mechanism.closed_degrees, return_counts=True)
        rows = np.column_stack(np.broadcast_arrays(closed, parameters.sigma, parameters.c, q))
    else:
        each = np.broadcast_arrays(mechanism.closed_degrees, parameters.sigma, parameters.c, q)
        rows, count = np.unique(np.column_stack(each), axis=0, return_counts=True)
    return AgentClasses._make(np.vstack([rows.T, count]).astype(np.float64))
