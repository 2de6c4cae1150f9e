"""Draw the figures of the docs that no command draws.

``python -m docs.figures NAME --out FILE``; `docs/make.py` says which page's picture is which.
"""

from __future__ import annotations

import argparse
import json
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
from tacit.lab.plots.sheets import panels
from tacit.lab.plots.style import GREY, colours, label_line
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


def scale() -> Figure:
    """Bytes of one agent and the cost of a hub, by the number of agents, as `benchmarks.crowd` measured."""
    rows = json.loads((Path(__file__).parent / "scale.json").read_text())
    agents = [row["agents"] for row in rows]
    with panels(7.2, 3.4, 2) as sheet:
        left, right = sheet.axes
        session, more = ([row["one"]["bytes"] for row in rows], [row["round_bytes"] for row in rows])
        left.plot(agents, session, "o-", color=colours()[0])
        left.plot(agents, more, "s-", color=colours()[1])
        left.plot(agents, [40 * n for n in agents], "--", color=GREY)
        label_line(left, agents[1], session[1], "a session of one round", colours()[0], offset=(0, 7))
        label_line(left, agents[1], more[1], "a further round", colours()[1], offset=(0, 7))
        label_line(left, agents[0], 40 * agents[3], "with the whole roster", GREY, offset=(0, -22))
        left.set_title("Only the path grows")
        right.set_title("A hub's cost is linear")
        left.set_ylabel("bytes per agent, TLS included")
        seconds = [row["one"]["processor"] * n for row, n in zip(rows, agents, strict=True)]
        memory = [row["memory"] / 1e6 for row in rows]
        right.plot(agents, memory, "o-", color=colours()[0])
        right.plot(agents, seconds, "s-", color=colours()[1])
        label_line(right, agents[0], memory[0], "memory, MB", colours()[0], offset=(0, 7))
        label_line(right, agents[0], 10 * seconds[0], "processor seconds of a session", colours()[1])
        right.set_ylabel("of the hub")
        for ax in (left, right):
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlabel("agents")
            ax.grid(visible=True)
        sheet.caption("two cores, loopback; all agents took part in every round")
    return sheet.figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "bounds": lambda: draw_bounds(curves.closeness()),
    "chebyshev": lambda: draw_chebyshev(curves.bounds()),
    "convergence": convergence,
    "graph": on_a_graph,
    "loss": loss,
    "scale": scale,
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
