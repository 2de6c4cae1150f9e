"""Graphs by name; too large ones are refused before they are built."""

from __future__ import annotations

import math
from functools import lru_cache

from tacit.base.errors import GraphError
from tacit.core.graph import Graph

MOST_AGENTS, MOST_EDGES = 20_000, 500_000


@lru_cache(maxsize=16)
def graph(name: str) -> Graph:
    """Return the graph of this name, which must be connected."""
    agents, edges = _size(name)
    if agents > MOST_AGENTS or edges > MOST_EDGES:
        raise GraphError(
            f"the studio takes graphs of up to {MOST_AGENTS:,} agents and {MOST_EDGES:,} edges, got "
            f"{name!r}: `tacit design` takes larger ones."
        )
    made = Graph.from_name(name)
    made.require_connected()
    return made


def _size(name: str) -> tuple[float, float]:
    """Estimate the agents and edges of a named graph.

    Both are 0 if the name cannot be read. Building the graph then says why.
    """
    kind, *parts = name.strip().lower().split(":")
    try:
        numbers = [float(n) for part in parts if not part.startswith("seed=") for n in part.split("x")]
        n, k = (*numbers, 1.0, 1.0)[:2] if numbers else (0.0, 0.0)
        sizes = {
            "complete": (n, n * n / 2),
            "hypercube": (2.0 ** min(n, 99), n * 2.0 ** min(n, 99) / 2),
            "grid": (n * k, 2 * n * k),
            "torus": (n * k, 2 * n * k),
            "erdos": (n, k * n * n / 2),
            "geometric": (n, min(1.0, math.pi * k * k) * n * n / 2),
        }
    except (ValueError, OverflowError):
        return 0.0, 0.0
    return sizes.get(kind, (n, n * k))
