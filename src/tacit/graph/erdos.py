"""The random graph G(n, p) of Gilbert, Erdős and Rényi."""

from __future__ import annotations

import numpy as np

from tacit.arrays import IntArray
from tacit.errors import GraphError
from tacit.graph.build import from_pairs, require_room
from tacit.graph.core import Graph

_BATCH = 2**24
"""Maximum number of gaps drawn together, to bound the memory."""


def erdos_graph(agents: int, probability: float, seed: int = 0) -> Graph:
    """Every pair of agents is joined with the same probability, independently.

    Pairs are numbered row by row, and the gaps between chosen pairs are geometric, so the work is
    proportional to the edges, not to the pairs. The graph may be disconnected.
    """
    if agents < 1:
        raise GraphError(f"there must be at least 1 agent, got {agents}")
    if not 0 <= probability <= 1:
        raise GraphError(f"the probability must be from 0 to 1, got {probability}")
    total = agents * (agents - 1) // 2
    require_room(agents, total * probability, 48)
    chosen = _chosen(total, probability, np.random.default_rng(seed))
    # Row i holds the pairs (i, 0) … (i, i − 1) and starts at i(i − 1)/2.
    i = np.arange(agents, dtype=np.int64)
    starts = i * (i - 1) // 2
    row = np.searchsorted(starts, chosen, side="right") - 1
    return from_pairs(row, chosen - starts[row], agents)


def _chosen(total: int, probability: float, rng: np.random.Generator) -> IntArray:
    """Return which of `total` trials succeed, in rising order."""
    if probability == 0:
        return np.empty(0, dtype=np.int64)
    parts: list[IntArray] = []
    last = -1
    while True:
        expected = (total - 1 - last) * probability
        gaps = rng.geometric(probability, size=min(int(expected + 4 * expected**0.5) + 16, _BATCH))
        places = last + np.cumsum(gaps)
        past = (places >= total) | (places < 0)  # a sum beyond the largest integer is negative
        if past.any():
            parts.append(places[: np.argmax(past)])
            return np.concatenate(parts)
        parts.append(places)
        last = int(places[-1])
