"""Air sensors of many homes fuse what they measure; no home's own air shows.

Every sensor measures fine dust and nitrogen dioxide: the air of the quarter, off by what goes on at its
home. How far off is known by the kind of place, and public; the reading itself is private. Sensors talk to
those within radio range, without a server. Mixing is chosen such that each counts by 1/variance, as the best
linear estimate wants it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from shared import FAILURE, Found, eavesdrop, joined, options, rms, tell

from tacit import Graph, History, design
from tacit.base.arrays import FloatArray, IntArray
from tacit.base.rounding import shown_up
from tacit.core.noise import SimulatedNoise
from tacit.core.theory.accuracy import radius, target, variance, weights
from tacit.lab.audit import Prior
from tacit.lab.plots.style import BLUE, GREY, INK, ORANGE, PALE, PURPLE, RED, SKY, canvas, save, styled

RANGE = "geometric:250:0.16:seed=2"
AMBIENT = np.array([26.0, 40.0])  # µg/m³ of dust and of dioxide: what all would like to know
PLACES = {"mast": 4.0, "balcony": 5.5, "indoors": 7.0}  # standard deviation of a reading, µg/m³
ADJACENCY, LOSS = 8.0, 1.0  # readings that differ by 8 µg/m³, both pollutants added up (L1)


def by_variance(graph: Graph, deviation: FloatArray, largest: float = 0.99) -> FloatArray:
    """Return the mixing that makes each weight γ_i = (|N(i)|+1)/σ_i proportional to 1/variance."""
    wanted = (graph.degrees + 1) * deviation**2
    return np.asarray(largest * wanted / wanted.max())


def bell(centre: float, deviation: float) -> Prior:
    """What is known of a reading once the fused value is: a normal law, as a histogram."""
    edges = np.linspace(-4, 4, 33)
    middles = (edges[1:] + edges[:-1]) / 2
    return Prior((centre + deviation * edges).tolist(), np.exp(-(middles**2) / 2).tolist())


def guesses(run: History, fused: FloatArray, deviation: FloatArray) -> FloatArray:
    """Guess every reading from all messages, the fused value and how good the sensors are."""
    columns = []
    for k, centre in enumerate(fused):
        one = History.full(run.mechanism, run.x[..., k], run.y[..., k])
        columns.append(eavesdrop(one, [bell(float(centre), s) for s in deviation]))
    return np.stack(columns, axis=1)


def main(argv: Sequence[str] | None = None, name: str = RANGE) -> Found:
    """Fuse naively and privately, print the table, draw, and return the numbers."""
    seed, out = options(__doc__, argv, "sensor_fusion.svg")
    graph, made_up = Graph.from_name(name), np.random.default_rng(seed)
    place = made_up.integers(len(PLACES), size=graph.n)
    deviation = np.array(list(PLACES.values()))[place]
    readings = AMBIENT + deviation[:, None] * made_up.standard_normal((graph.n, 2))
    mixing = by_variance(graph, deviation)
    answer = design(graph=graph, loss=LOSS, adjacency=ADJACENCY, mixing=mixing, spread=60, tolerance=0.1)
    promise = answer.baseline  # one-shot: where some mix little, fresh noise in every round costs too much
    mechanism = promise.mechanism
    noise = SimulatedNoise(seed).draw(mechanism.law, promise.rounds, graph.n, components=2)
    runs = {"naive": mechanism.execute(readings, 0 * noise), "private": mechanism.execute(readings, noise)}
    found: Found = {}
    for kind, run in runs.items():
        private = kind == "private"
        fused = weights(mechanism) @ run.theta[-1]
        guess = guesses(run, fused, deviation) if private else run.x[0]
        found[kind] = {
            "loss": promise.loss if private else np.inf,
            "radius": radius(mechanism, FAILURE, components=2) if private else 0.0,
            "error": float(np.abs(fused - target(mechanism, readings)).max()),
            "spread": float(np.ptp(run.theta[-1], axis=0).max()),
            "deviation": float(np.sqrt(1 / np.sum(deviation**-2.0) + private * variance(mechanism))),
            "ambient": float(np.abs(fused - AMBIENT).max()),
            "guessed": rms(guess - readings),
        }
    report(found, promise.rounds, rms(readings - fused))
    equal = weights(design(graph=graph, loss=LOSS, adjacency=ADJACENCY).mechanism)
    hubs = float(np.sqrt(np.sum((equal * deviation) ** 2)))
    fading = radius(answer.mechanism, FAILURE, components=2)
    print(f"Equal mixing would weigh by neighbours instead: standard error {hubs:.2f} before any noise.")
    print(f"Fresh noise in every round would promise {shown_up(fading, 3)} at the same loss.")
    picture(graph, place, runs["private"], found["private"]["radius"], out)
    return found


def report(found: Found, rounds: int, blind: float) -> None:
    """Print what was bought, what it costs, and what is left to an eavesdropper."""
    tell(
        f"Sensors fuse two pollutants in {rounds} rounds of radio; all in µg/m³",
        found,
        [
            (
                "privacy loss",
                "loss",
                "up",
                f"ε·δ, for readings {ADJACENCY:g} apart, both pollutants together",
            ),
            ("promised", "radius", "up", f"radius for both at once, missed with probability {FAILURE:g}"),
            ("error", "error", ".2f", "agreed value against the weighted mean of the readings"),
            ("spread", "spread", ".2f", "between any two sensors at the end"),
            ("standard error", "deviation", ".2f", "of the agreed value as an estimate of the quarter's air"),
            ("off the truth", "ambient", ".2f", "what it was this time, for the worse of both"),
            (
                "reading guessed",
                "guessed",
                ".2f",
                f"rms error by radio; {blind:.2f} from the agreed value alone",
            ),
        ],
    )


def picture(graph: Graph, place: IntArray, run: History, promised: float, out: Path) -> None:
    """Draw who hears whom, and how the two pollutants come together."""
    readings, at = run.theta[0], np.asarray(graph.positions)
    path = np.einsum("i,tik->tk", weights(run.mechanism), run.theta)
    (dust, dioxide), r = path[0], promised
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 3, "columnspacing": 1.2}
    with styled():
        figure = canvas(8.8, 4.2)
        left, right = figure.subplots(1, 2)
        left.plot(*joined(at[graph.edges()]), color=PALE, lw=0.6, zorder=0)
        box = f"promised: ± {shown_up(r, 2)}"
        right.fill_between((dust - r, dust + r), dioxide - r, dioxide + r, color=SKY, lw=0, label=box)
        for i, (kind, colour, marker) in enumerate(zip(PLACES, (BLUE, ORANGE, PURPLE), "so^", strict=True)):
            left.plot(*at[place == i].T, marker, color=colour, ms=4, label=kind)
            right.plot(*readings[place == i].T, marker, color=colour, ms=3, alpha=0.6)
        some = np.unique(np.geomspace(1, len(run.theta), 60).astype(int)) - 1
        right.plot(*run.theta[some, :: graph.n // 12].transpose(2, 0, 1), color=GREY, lw=0.6)
        right.plot(*AMBIENT, "P", color=INK, ms=9, mec="white", label="the quarter's air")
        right.plot(*path[-1], "X", color=RED, ms=9, mec="white", label="agreed on")
        left.set(title="Who hears whom", xlabel="km", ylabel="km", aspect="equal")
        right.set(title="What they measure, and what they agree on", xlabel="fine dust, µg/m³")
        right.set_ylabel("nitrogen dioxide, µg/m³")
        left.legend(**below)
        right.legend(**below)
        save(figure, out)


if __name__ == "__main__":
    main()
