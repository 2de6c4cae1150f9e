"""Draw the figures of the docs that no command draws.

``python -m docs.figures NAME --out FILE``; `docs/make.py` says which page's picture is which.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

import tacit
from tacit.cli.values import read_values
from tacit.lab.audit import Simulated, broken
from tacit.lab.plots import (
    curves,
    draw_bounds,
    draw_chebyshev,
    draw_convergence,
    draw_graph,
    draw_loss,
    draw_series,
    draw_smoothness,
    draw_tail,
    runs,
    save,
)
from tacit.lab.simulation import Record, history_of

VALUES = "uniform:15:25"
"""Made-up values, which follow from the seed 0."""


def on_a_graph() -> Figure:
    """Agents of the karate club, coloured by state, until they agree."""
    made = tacit.design(graph="karate", epsilon=1.0, mixing=0.5, spread=10.0)
    values = read_values(VALUES, made.mechanism.n, 0)
    ran = tacit.simulate(made.mechanism, values, made.promise.rounds, runs=1, record=Record(everything=True))
    return draw_graph(history_of(ran, made.mechanism))


def convergence() -> Figure:
    """Disagreement on four graphs: exact, measured, and its rate."""
    found = []
    for name in ("ring:12", "grid:5x5", "karate", "hypercube:5"):
        mechanism = tacit.design(graph=name, epsilon=1.0, mixing=0.5).mechanism
        found.append(runs.converge(name, mechanism, read_values(VALUES, mechanism.n, 0), 30))
    return draw_convergence(found)


def loss() -> Figure:
    """Measured and promised loss of the true mechanism and of a known bug."""
    declared = tacit.ClientServer(tacit.Fading(0.8, 10.0, 0.6), agents=3)
    subjects = {"as declared": Simulated(declared), "redraw": broken("redraw", declared)}
    return draw_loss(runs.loss_curves(subjects, range(2, 25, 2), rounds=9))


FIGURES: dict[str, Callable[[], Figure]] = {
    "bounds": lambda: draw_bounds(curves.closeness()),
    "chebyshev": lambda: draw_chebyshev(curves.bounds()),
    "convergence": convergence,
    "graph": on_a_graph,
    "loss": loss,
    "series": lambda: draw_series(curves.series_curves()),
    "smoothness": lambda: draw_smoothness(curves.smoothness()),
    "tail": lambda: draw_tail(curves.tail_curves()),
}


def main() -> None:
    """Draw one figure into a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=FIGURES)
    parser.add_argument("--out", type=Path, required=True, help="a file: .svg, .png or .pdf")
    asked = parser.parse_args()
    save(FIGURES[asked.name](), asked.out)
    print(f"Drawn: {asked.out}")


if __name__ == "__main__":
    main()
