"""Random geometric graphs: agents near each other are joined."""

from __future__ import annotations

import math

import numpy as np

from tacit.errors import GraphError
from tacit.graph.build import from_pairs, require_room
from tacit.graph.core import Graph


def geometric_graph(agents: int, radius: float, seed: int = 0) -> Graph:
    """Agents at random places in the unit square, joined within a radius.

    The graph keeps the places as `positions`. It may be disconnected.
    """
    if agents < 1:
        raise GraphError(f"there must be at least 1 agent, got {agents}")
    if not (math.isfinite(radius) and radius >= 0):
        raise GraphError(f"the radius must be a number of at least 0, got {radius}")
    require_room(agents, agents * (agents - 1) / 2 * min(1.0, math.pi * radius**2), 80)
    from scipy.spatial import KDTree

    positions = np.random.default_rng(seed).random((agents, 2))
    pairs = KDTree(positions).query_pairs(radius, output_type="ndarray")
    return from_pairs(pairs[:, 0], pairs[:, 1], agents, positions)
