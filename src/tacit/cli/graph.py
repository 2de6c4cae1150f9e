"""`tacit graph`: shape, degrees and spectrum of a graph, and the target it leads to."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output
from tacit.report import each, near

if TYPE_CHECKING:
    from tacit.graph import Graph

EPILOG = """\b
Examples:
  tacit graph karate
  tacit graph regular:1000:8:seed=1 --mixing 0.9 --json
  tacit graph friends.graphml
"""

_BAR = 40  # characters of the longest bar
_BINS = 12  # rows of a histogram at most


class GraphCommand(click.Command):
    """A command whose help lists the families that there are."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the families before the examples; they load with the help and not before."""
        from tacit.graph.families import FAMILIES

        with formatter.section("Families"):
            formatter.write_dl([(family.form, family.summary) for family in FAMILIES.values()])
        super().format_epilog(ctx, formatter)


@click.command(cls=GraphCommand, epilog=EPILOG)
@click.argument("name_or_file", metavar="NAME_OR_FILE")
@click.option(
    "--mixing",
    type=options.PER_AGENT,
    default=0.5,
    show_default=True,
    help="Mixing for the rate and the target (σ).",
)
@options.json_option
def command(name_or_file: str, mixing: options.Numbers, as_json: bool) -> None:
    """Show the shape, degrees and spectrum of a graph, and the target it leads to.

    NAME_OR_FILE is a name like ring:100 (the families are below), or a file with an edge list or
    GraphML.
    """
    graph = options.load_graph(name_or_file)
    facts = shape(graph)
    if graph.is_connected and graph.n > 1:
        facts |= consensus(graph, mixing)
    if as_json:
        output.print_json(facts)
        return
    output.print_report(
        f"{name_or_file}: {graph.n:,} agents, {graph.n_edges:,} edges", _sections(facts), _notes(facts)
    )
    _print_histogram(facts["degrees"]["histogram"])


def shape(graph: Graph) -> dict[str, Any]:
    """Return what the graph looks like: size, parts and degrees."""
    import numpy as np

    values, counts = np.unique(graph.degrees, return_counts=True)
    sizes = np.sort(np.bincount(graph.components))[::-1]
    return {
        "agents": graph.n,
        "edges": graph.n_edges,
        "parts": int(sizes.size),
        "largest_part": int(sizes[0]),
        "degrees": {
            "min": int(values[0]),
            "mean": 2 * graph.n_edges / graph.n,
            "max": int(values[-1]),
            "histogram": {int(d): int(k) for d, k in zip(values, counts, strict=True)},
        },
    }


def consensus(graph: Graph, mixing: options.Numbers) -> dict[str, Any]:
    """Return what agents on the graph can expect: spectrum, rate and target."""
    from tacit.law import OneShot
    from tacit.mechanism import Distributed
    from tacit.theory import accuracy
    from tacit.theory.rates import laplacian_extremes, spectral_rate

    mechanism = Distributed(OneShot(options.as_array(mixing), 1.0), graph)
    laplacian = laplacian_extremes(graph)
    share = accuracy.weights(mechanism) * graph.n
    return {
        "lambda_2": laplacian.low,
        "lambda_n": laplacian.high,
        "mixing": mixing,
        "rate": spectral_rate(mechanism),
        "target": "average" if accuracy.reaches_average(mechanism) else "weighted",
        "weights": {"min": float(share.min()), "max": float(share.max())},
    }


def _sections(facts: dict[str, Any]) -> dict[str, list[output.Line]]:
    degrees = facts["degrees"]
    whole = facts["parts"] == 1
    parts = "connected" if whole else f"the largest has {facts['largest_part']:,} agents: values never agree"
    sections: dict[str, list[output.Line]] = {
        "Shape": [
            ("parts", f"{facts['parts']:,}", parts),
            (
                "degrees",
                f"{degrees['min']:,} to {degrees['max']:,}",
                f"{near(degrees['mean'], 4)} on average",
            ),
        ]
    }
    if "rate" in facts:
        left = "what is left of the disagreement after a round, at"
        sections["Spectrum"] = [
            ("λ_2", near(facts["lambda_2"]), "least positive eigenvalue of the Laplacian"),
            ("λ_N", near(facts["lambda_n"]), "largest eigenvalue of the Laplacian"),
            ("rate", f"{facts['rate']:.6g}", f"{left} mixing {each(facts['mixing'])}"),
        ]
        weights = facts["weights"]
        sections["Target"] = [
            ("target", facts["target"], "of all agents' values"),
            (
                "weights",
                f"{near(weights['min'], 4)} to {near(weights['max'], 4)}",
                "times those of the true average",
            ),
        ]
    return sections


def _notes(facts: dict[str, Any]) -> list[str]:
    if facts.get("target") != "weighted":
        return []
    return [
        "The target is a weighted average, not the true one: agents with more neighbours or less mixing "
        "count more. Metropolis weights reach the true average: `tacit design --graph … --true-average`."
    ]


def _print_histogram(histogram: dict[int, int]) -> None:
    rows = _bins(histogram)
    most = max(count for _, count in rows)
    table = [
        (label, f"{count:,}", "█" * max(1, round(_BAR * count / most)) if count else "")
        for label, count in rows
    ]
    output.print_bars(("degree", "agents"), table)


def _bins(histogram: dict[int, int]) -> list[tuple[str, int]]:
    """Return labelled counts: of every degree, or of ranges that widen when there are many."""
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
