"""What a graph looks like, and what agents on it can expect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np
import numpy.typing as npt

from tacit.base.report import Grid, Row, Shown, Summary, each, near
from tacit.core.graph import Graph
from tacit.core.law import OneShot
from tacit.core.mechanism import Distributed
from tacit.core.mechanism.topology import ClosedNeighbourhood, WeightsLike
from tacit.core.theory import accuracy
from tacit.core.theory.rates import laplacian_extremes, spectral_rate

_BAR = 40  # characters of the longest bar
_BINS = 12  # rows of a histogram at most


@final
@dataclass(frozen=True, eq=False)
class GraphFacts(Shown):
    """Size, parts and degrees of a graph.

    A connected graph also has a spectrum, a rate and a target.
    """

    name: str
    facts: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return dict(self.facts)

    def summary(self) -> Summary:
        """Return the facts for people."""
        agents, edges = self.facts["agents"], self.facts["edges"]
        sections = {"Shape": self._shape_rows(), "Spectrum": self._rate_rows(), "Target": self._target_rows()}
        notes: tuple[str, ...] = ()
        if self.facts.get("target") == "weighted":
            notes = (
                "The target is a weighted average, not the true one: agents with more neighbours or less "
                "mixing count more. Metropolis weights reach the true average: "
                "`tacit design --graph … --true-average`.",
            )
        return Summary(
            f"{self.name}: {agents:,} agents, {edges:,} edges",
            {name: rows for name, rows in sections.items() if rows},
            notes,
        )

    def histogram(self) -> Grid:
        """Return how many agents have each degree, with bars."""
        bins = _bins(self.facts["degrees"]["histogram"])
        most = max(count for _, count in bins)
        bars = ["█" * max(1, round(_BAR * count / most)) if count else "" for _, count in bins]
        rows = [(label, f"{count:,}", bar) for (label, count), bar in zip(bins, bars, strict=True)]
        return Grid("", ("degree", "agents", ""), rows, right=(0, 1))

    def _shape_rows(self) -> list[Row]:
        parts, degrees = self.facts["parts"], self.facts["degrees"]
        split = f"the largest has {self.facts['largest_part']:,} agents: values never agree"
        mean = f"{near(degrees['mean'], 4)} on average"
        return [
            Row("parts", f"{parts:,}", "connected" if parts == 1 else split),
            Row("degrees", f"{degrees['min']:,} to {degrees['max']:,}", mean),
        ]

    def _rate_rows(self) -> list[Row]:
        facts = self.facts
        if "rate" not in facts:
            return []
        left = f"what is left of the disagreement after a round, at mixing {each(facts['mixing'])}"
        return [
            Row("λ_2", near(facts["lambda_2"]), "least positive eigenvalue of the Laplacian"),
            Row("λ_N", near(facts["lambda_n"]), "largest eigenvalue of the Laplacian"),
            Row("rate", f"{facts['rate']:.6g}", left),
        ]

    def _target_rows(self) -> list[Row]:
        if "target" not in self.facts:
            return []
        rule = self.facts["message_weights"]
        using = "" if rule == ClosedNeighbourhood.name else f", with {rule} weights of messages"
        low, high = (near(self.facts["weights"][end], 4) for end in ("min", "max"))
        return [
            Row("target", self.facts["target"], f"of all agents' values{using}"),
            Row("weights", f"{low} to {high}", "times those of the true average"),
        ]


def graph_facts_of(
    graph: Graph, mixing: npt.ArrayLike = 0.5, *, weights: WeightsLike = None, name: str = "graph"
) -> GraphFacts:
    """Return what a graph looks like.

    For a connected one also rate and target, at this mixing and with these weights.
    """
    facts = _shape(graph)
    if graph.is_connected and graph.n > 1:
        facts |= _consensus(graph, mixing, weights)
    elif weights is not None:
        graph.require_connected()
    return GraphFacts(name, facts)


def _shape(graph: Graph) -> dict[str, Any]:
    counts = graph.degree_counts()
    sizes = np.bincount(graph.components)
    return {
        "agents": graph.n,
        "edges": graph.n_edges,
        "parts": int(sizes.size),
        "largest_part": int(sizes.max()),
        "degrees": {
            "min": min(counts),
            "mean": 2 * graph.n_edges / graph.n,
            "max": max(counts),
            "histogram": counts,
        },
    }


def _consensus(graph: Graph, mixing: npt.ArrayLike, weights: WeightsLike) -> dict[str, Any]:
    sigma = np.asarray(mixing, dtype=np.float64)
    mechanism = Distributed(OneShot(float(sigma) if sigma.ndim == 0 else sigma, 1.0), graph, weights)
    laplacian = laplacian_extremes(graph)
    share = accuracy.weights(mechanism) * graph.n
    return {
        "lambda_2": laplacian.low,
        "lambda_n": laplacian.high,
        "mixing": sigma.tolist(),
        "message_weights": mechanism.topology.name,
        "rate": spectral_rate(mechanism),
        "target": "average" if accuracy.reaches_average(mechanism) else "weighted",
        "weights": {"min": float(share.min()), "max": float(share.max())},
    }


def _bins(histogram: Mapping[int, int]) -> list[tuple[str, int]]:
    """Return labelled counts of degrees.

    If there are many degrees, they are counted in widening ranges.
    """
    if len(histogram) <= _BINS:
        return [(f"{degree:,}", count) for degree, count in histogram.items()]
    low, high = min(histogram), max(histogram)
    ratio = ((high + 1) / max(low, 1)) ** (1 / _BINS)
    edges = sorted({round(max(low, 1) * ratio**k) for k in range(_BINS + 1)} | {low})
    bins = []
    for start, end in pairwise(edges):
        label = f"{start:,}" if end == start + 1 else f"{start:,} to {end - 1:,}"
        bins.append((label, sum(count for degree, count in histogram.items() if start <= degree < end)))
    return bins
