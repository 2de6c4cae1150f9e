"""Who talks to whom: a frozen sparse graph and the ways to make one."""

from tacit.graph.core import Graph

__all__ = ["Graph"]
