"""Servers balance their load by passing requests to neighbours; no tenant's load shows.

Each server says its load once, with noise. From then on everybody computes the same public shadows, and
requests move along an edge in proportion to the difference of its two shadows. Whoever sees all messages
and every request that moves sees nothing that does not follow from the first messages. The price is that a
server ends off the mean, by its own noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from shared import FAILURE, Found, eavesdrop, options, rms, tell

from tacit import Graph, History, design
from tacit.base.arrays import FloatArray
from tacit.core.noise import SimulatedNoise
from tacit.lab.audit import Prior
from tacit.lab.plots.style import BLUE, GREY, INK, SKY, canvas, label_line, save, styled

NETWORK = "grid:8x8"
CAPACITY, TENANT = 1000.0, 32.0  # requests/s that a server can do, and that one tenant may ask for
LOSS, MIXING = 1.0, 0.9


def tenants_of(servers: int, made_up: np.random.Generator) -> list[FloatArray]:
    """Make up the loads of every server's tenants; some servers are crowded."""
    crowds = made_up.choice([14, 30, 48], size=servers, p=[0.3, 0.4, 0.3])
    return [made_up.uniform(4, TENANT, crowd) for crowd in crowds]


def passed_on(run: History) -> FloatArray:
    """Return by how much each server's load changes in each round.

    Over an edge a server gives σ·W_ij·(x_i − x_j). Metropolis weights are symmetric, so this is what the
    other one gets. Flows follow from messages alone.
    """
    return np.asarray(run.mechanism.law.sigma * (run.y - run.x))


def response(load: FloatArray) -> float:
    """Mean response time of a request in ms; each server is a queue (M/M/1) of the same capacity."""
    if load.max() >= CAPACITY:
        return np.inf
    return float(np.sum(load / (CAPACITY - load)) / np.sum(load) * 1000)


def main(argv: Sequence[str] | None = None, name: str = NETWORK) -> Found:
    """Balance naively and privately, print the table, draw, and return the numbers."""
    seed, out = options(__doc__, argv, "load_balancing.svg")
    network = Graph.from_name(name)
    tenants = tenants_of(network.n, np.random.default_rng(seed))
    load, others = np.array([(own.sum(), own[1:].sum()) for own in tenants]).T
    promise = design(
        graph=network, loss=LOSS, adjacency=TENANT, mixing=MIXING, spread=CAPACITY, true_average=True
    ).baseline  # one-shot noise
    mechanism = promise.mechanism
    noise = SimulatedNoise(seed).draw(mechanism.law, promise.rounds, network.n)
    runs = {"naive": mechanism.execute(load, 0 * noise), "private": mechanism.execute(load, noise)}
    found: Found = {"before": state_of(load)}
    paths = {}
    for kind, run in runs.items():
        change = passed_on(run)
        paths[kind] = np.vstack([load, load + np.cumsum(change, axis=0)])
        private = kind == "private"
        known = [Prior.flat(rest, rest + TENANT) for rest in others]
        found[kind] = state_of(paths[kind][-1]) | {
            "loss": promise.loss if private else np.inf,
            "radius": promise.radius if private else 0.0,
            "error": abs(float(run.theta[-1].mean() - load.mean())),
            "guessed": rms((eavesdrop(run, Prior.flat(0, CAPACITY)) if private else run.x[0]) - load),
            "counted": rms(run.y[-1] - change.sum(axis=0) - load),  # as if all ended equal
            "tenant": rms((eavesdrop(run, known) if private else run.x[0]) - load),
        }
    report(found, promise.rounds, rms(load - others - TENANT / 2))
    picture(paths, float(load.mean()), out)
    return found


def state_of(load: FloatArray) -> dict[str, float]:
    """How well a load is balanced."""
    return {"rms": rms(load - load.mean()), "most": float(load.max()), "response": response(load)}


def report(found: Found, rounds: int, blind: float) -> None:
    """Print what was bought, what it costs, and what is left to an eavesdropper."""
    tell(
        f"Servers balance their load over {rounds} rounds; loads in requests/s",
        found,
        [
            ("privacy loss", "loss", "up", f"ε·δ, for a tenant of up to {TENANT:g} that is there or not"),
            ("promised", "radius", "up", f"radius of the mean, missed with probability {FAILURE:g}"),
            ("error", "error", ".2f", "agreed mean against the true one"),
            ("imbalance", "rms", ".2f", "rms distance of a server from the mean"),
            ("busiest server", "most", ".2f", f"of a capacity of {CAPACITY:g}"),
            ("response, ms", "response", ".2f", "mean over all requests"),
            ("load guessed", "guessed", ".2f", "eavesdropper's rms error, from what is said"),
            ("load counted", "counted", ".2f", "the same from what moves alone"),
            ("tenant guessed", "tenant", ".2f", f"knowing the others there; {blind:.2f} without listening"),
        ],
    )
    print("Loads that end exactly equal tell where they began: the imbalance left is what hides them.")
    print("Each balancing of the same loads costs anew.")


def picture(paths: dict[str, FloatArray], mean: float, out: Path) -> None:
    """Draw every server's load over the rounds, naive and private."""
    titles = ("Naive: equal loads, every start revealed", "Private: what is left is the noise")
    with styled():
        figure = canvas(8.8, 3.6)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, path, title in zip(axes, paths.values(), titles, strict=True):
            ax.axhspan(CAPACITY, CAPACITY * 1.12, color=SKY, alpha=0.3, lw=0)
            label_line(ax, 1, CAPACITY, "over capacity", BLUE, offset=(4, 3), va="bottom")
            ax.plot(path, color=GREY, lw=0.7)
            ax.axhline(mean, color=INK, lw=1, linestyle=(0, (5, 3)))
            label_line(ax, 80, mean, "mean", INK)
            ax.set(title=title, xlabel="round", xlim=(0, 80), ylim=(0, CAPACITY * 1.12))
        axes[0].set_ylabel("load of a server, requests/s")
        save(figure, out)


if __name__ == "__main__":
    main()
