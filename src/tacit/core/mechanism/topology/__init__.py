"""Weights of messages on a graph.

They are a row-stochastic matrix W, and the feedback is y = W x. One rule per file, one row per rule in
`registry`. The server is not among them: `ClientServer` is the mean over all agents without a matrix.
"""

from tacit.core.mechanism.topology.base import RowShares, Weights
from tacit.core.mechanism.topology.closed import ClosedNeighbourhood
from tacit.core.mechanism.topology.given import GivenWeights
from tacit.core.mechanism.topology.metropolis import Metropolis
from tacit.core.mechanism.topology.registry import (
    WeightsLike,
    WrittenWeights,
    read_weights,
    register_weights,
    resolve_weights,
    rule_names,
    written_weights,
)

__all__ = [
    "ClosedNeighbourhood",
    "GivenWeights",
    "Metropolis",
    "RowShares",
    "Weights",
    "WeightsLike",
    "WrittenWeights",
    "read_weights",
    "register_weights",
    "resolve_weights",
    "rule_names",
    "written_weights",
]
