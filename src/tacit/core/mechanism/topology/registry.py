"""The rules of weights that are known by name: one row each.

Files and the command line use these names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tacit.base.errors import ParameterError
from tacit.core.graph import Graph
from tacit.core.mechanism.topology.base import Weights
from tacit.core.mechanism.topology.closed import ClosedNeighbourhood
from tacit.core.mechanism.topology.given import GivenWeights
from tacit.core.mechanism.topology.metropolis import Metropolis

WeightsLike: TypeAlias = Any
"""None, the name of a rule, `Weights`, or a row-stochastic matrix."""

WrittenWeights: TypeAlias = str | Sequence[Sequence[int]] | None
"""The form of weights in files: see `written_weights`."""

_RULES: dict[str, Callable[[Graph], Weights]] = {
    ClosedNeighbourhood.name: ClosedNeighbourhood,
    Metropolis.name: Metropolis,
    "edges": GivenWeights.of_edges,
}


def register_weights(rule: type[Weights]) -> type[Weights]:
    """Make a rule known by its name to the command line and session files.

    Every member of a session with it must have registered it. Returns the rule, so it can be used as a
    decorator.
    """
    name = getattr(rule, "name", "")
    if not name:
        raise ParameterError(f"the weights {rule.__name__} must define their name.")
    if _RULES.get(name, rule) is not rule or name == GivenWeights.name:
        raise ParameterError(f"the name {name!r} belongs to other weights: choose another one.")
    _RULES[name] = rule
    return rule


def rule_names() -> tuple[str, ...]:
    """Return the names of all rules that are known."""
    return tuple(_RULES)


def resolve_weights(graph: Graph, given: WeightsLike) -> Weights:
    """Return the weights, given the name of a rule, weights, or a matrix.

    None means the graph's edge weights if it has them, otherwise the closed neighbourhood. Edge weights that
    would not be used are refused.
    """
    if isinstance(given, Weights):
        if given.graph is not graph:
            raise ParameterError("weights must be those of the mechanism's own graph, got another one's.")
        return given
    name = given if isinstance(given, str) else None
    if given is None:
        name = ClosedNeighbourhood.name if graph.weights is None else "edges"
    if name is not None and name not in _RULES:
        raise ParameterError(f"weights must be one of {', '.join(_RULES)}, or a matrix, got {name!r}.")
    if graph.weights is not None and name != "edges":
        raise ParameterError(
            f"the graph has edge weights, which {name or 'a matrix of weights'} would ignore. Use weights "
            "`edges`, or make the graph without weights."
        )
    return GivenWeights.of_matrix(graph, given) if name is None else _RULES[name](graph)


def written_weights(weights: Weights) -> WrittenWeights:
    """Return weights in the form of session files.

    It is public, exact, and unique for each rule. None for the closed neighbourhood, the name of another
    rule, or one (i, j, count) for every message j that agent i counts, its own included, in rising order.
    """
    if isinstance(weights, GivenWeights):
        return weights.entries()
    return None if isinstance(weights, ClosedNeighbourhood) else weights.name


def read_weights(graph: Graph, written: WrittenWeights) -> Weights:
    """Return the weights that `written_weights` wrote.

    Anything that it would not write is refused.
    """
    if written is None or isinstance(written, str):
        return resolve_weights(graph, written)
    return GivenWeights.of_entries(graph, written)
