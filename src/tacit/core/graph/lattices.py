"""Deterministic families of graphs.

These are ring, path, star, complete, grid, torus, hypercube and karate. Each writes its rows directly: the
neighbours of agent i are given by a formula.
"""

from __future__ import annotations

import numpy as np

from tacit.base.errors import GraphError
from tacit.core.graph.build import from_rows, require_room
from tacit.core.graph.core import Graph


def _agents(n: int, edges: float, least: int = 1) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Return 0 … n − 1, if there are enough agents and enough memory."""
    if n < least:
        raise GraphError(f"there must be at least {least} agent{'s' * (least > 1)}, got {n}")
    require_room(n, edges)
    return np.arange(n, dtype=np.int32)


def ring(agents: int) -> Graph:
    """Every agent has one neighbour on each side, the last and the first too."""
    i = _agents(agents, agents, least=3)
    return from_rows(np.sort(np.column_stack([np.roll(i, 1), np.roll(i, -1)]), axis=1))


def path(agents: int) -> Graph:
    """Agents in a row; the two ends have one neighbour."""
    i = _agents(agents, agents)
    return from_rows(np.column_stack([i - 1, i + 1]), np.column_stack([i > 0, i < agents - 1]))


def star(agents: int) -> Graph:
    """Agent 0 is the hub, and the only neighbour of all others."""
    i = _agents(agents, agents)
    indptr = np.concatenate([[0], np.arange(agents - 1, 2 * agents - 1)])
    return Graph(indptr.astype(np.int64), np.concatenate([i[1:], np.zeros(agents - 1, dtype=np.int32)]))


def complete(agents: int) -> Graph:
    """Everyone hears everyone: N(N − 1)/2 edges."""
    if agents < 1:
        raise GraphError(f"there must be at least 1 agent, got {agents}")
    instead = " (on a complete graph the client-server mechanism is the same, and needs no edges)"
    require_room(agents, agents * (agents - 1) / 2, 12, instead)
    i = np.arange(agents, dtype=np.int32)
    rows = np.broadcast_to(i[:-1], (agents, agents - 1)).copy()
    rows += rows >= i[:, None]
    return from_rows(rows)


def grid(rows: int, columns: int) -> Graph:
    """Agents on a rectangle, row by row; up to four neighbours."""
    _require_sides(rows, columns, 1)
    i = _agents(rows * columns, 2 * rows * columns)
    row, column = np.divmod(i, columns)
    around = np.column_stack([i - columns, i - 1, i + 1, i + columns])
    inside = np.column_stack([row > 0, column > 0, column < columns - 1, row < rows - 1])
    return from_rows(around, inside, np.column_stack([column, row]).astype(np.float64))


def torus(rows: int, columns: int) -> Graph:
    """A grid whose opposite sides meet, so that everyone has four neighbours."""
    _require_sides(rows, columns, 3)
    i = _agents(rows * columns, 2 * rows * columns)
    row, column = np.divmod(i, columns)
    around = [
        (row - 1) % rows * columns + column,
        (row + 1) % rows * columns + column,
        row * columns + (column - 1) % columns,
        row * columns + (column + 1) % columns,
    ]
    return from_rows(np.sort(np.column_stack(around), axis=1))


def _require_sides(rows: int, columns: int, least: int) -> None:
    if min(rows, columns) < least:
        raise GraphError(f"both sides must be at least {least}, got {rows}x{columns}")


def hypercube(dimension: int) -> Graph:
    """2^dimension agents, neighbours where their numbers differ in one bit."""
    if not 0 <= dimension <= 30:
        raise GraphError(f"the dimension must be from 0 to 30 (2^30 agents), got {dimension}")
    i = _agents(2**dimension, dimension * 2**dimension / 2)
    bits = np.int32(1) << np.arange(dimension, dtype=np.int32)
    around = i[:, None] ^ bits
    around.sort(axis=1)
    return from_rows(around)


def karate() -> Graph:
    """Zachary's karate club: 34 members and their 78 friendships."""
    import networkx as nx

    from tacit.core.graph.sources import from_edges

    # Its weights, numbers of meetings, are dropped: every friend counts once.
    return from_edges(nx.karate_club_graph().edges())
