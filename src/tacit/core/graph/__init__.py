"""Who talks to whom: a frozen sparse graph and the ways to make one.

- `core`: the graph itself.
- `sources`, `files`: from edges, networkx, scipy, edge lists and GraphML; everything is checked.
- `families`: from a name, like ``regular:1000:8:seed=1``; builders are in `lattices` and `random_graphs`.
- `build`: from edges that need no checks, directly to sparse rows.
"""

from tacit.core.graph.core import Graph

__all__ = ["Graph"]
