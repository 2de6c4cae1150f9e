"""Radio nodes keep a common time; no clock can be recognised by its offset or skew.

Every 100 s all hear a beacon; nobody knows when exactly it was sent. The nodes agree on the mean of what
their clocks showed, over radio links and without a server. Each then sets its clock to the answer and, from
the second time on, trims its rate by what it was off. So a session tells of a clock only what could not have
been computed from the sessions before: its offset, then its skew, then how much the skew has wandered.
Each kind has its own adjacency, and the losses add up to a cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from shared import FAILURE, Found, eavesdrop, options, tell

from tacit import Graph, History, design
from tacit.base.arrays import FloatArray
from tacit.base.rounding import fraction_up
from tacit.core.noise import SimulatedNoise
from tacit.core.theory.accuracy import target
from tacit.core.theory.promise import Promise
from tacit.lab.audit import Prior
from tacit.lab.plots.style import BLUE, GREY, INK, RED, canvas, label_line, plain_log, save, styled

LINKS = "geometric:100:0.2:seed=1"
RANGES = {"offset": 50.0, "skew": 4.0, "wander": 1 / 128}  # ±ms, then ±ms per 100 s: 40 and 0.08 ppm
ADJACENCY = {"offset": 16.0, "skew": 2.0, "wander": 1 / 64}  # ms in one session
LOSS = {"offset": 1 / 2, "skew": 1 / 2, "wander": 1 / 16}  # of one session
CAP, AFTERWARDS = 2.0, 12  # on all sessions together; and beacons that are heard when it is reached


class Clocks:
    """Offsets and rates of all clocks, in ms and ms per 100 s, as they are corrected."""

    def __init__(self, n: int, made_up: np.random.Generator) -> None:
        self.made_up = made_up
        self.offset = made_up.uniform(-RANGES["offset"], RANGES["offset"], n)
        self.rate = made_up.uniform(-RANGES["skew"], RANGES["skew"], n)

    def set(self, agreed: FloatArray, trim: bool) -> None:
        """Show the agreed time and, if told so, run as much faster or slower as it took."""
        if trim:
            self.rate = self.rate - (self.offset - agreed)
        self.offset = agreed

    def tick(self) -> None:
        """Let 100 s pass; then crystals are a little warmer or colder."""
        self.offset = self.offset + self.rate
        self.rate = self.rate + self.made_up.uniform(-RANGES["wander"], RANGES["wander"], len(self.rate))


def plan(promises: dict[str, Promise]) -> tuple[list[str], list[float]]:
    """Return the sessions that fit under the cap, and what is spent after 0, 1, … of them."""
    sessions: list[str] = []
    spent = [Fraction(0)]
    while True:
        kind = ("offset", "skew", "wander")[min(len(sessions), 2)]
        spent.append(spent[-1] + Fraction(promises[kind].loss))
        if spent[-1] > CAP:
            return sessions, [fraction_up(loss) for loss in spent[:-1]]
        sessions.append(kind)


def synchronise(
    plan: Sequence[Promise], n: int, seed: int, private: bool
) -> tuple[FloatArray, list[History], FloatArray]:
    """Run the sessions, then leave the clocks alone.

    Returns the skews, what happened in each session, and how far apart clocks were at every beacon.
    """
    clocks = Clocks(n, np.random.default_rng(seed))
    skew, runs, spreads = clocks.rate, [], []
    for k in range(len(plan) + AFTERWARDS):
        spreads.append(np.ptp(clocks.offset))
        if k < len(plan):
            mechanism, rounds = plan[k].mechanism, plan[k].rounds
            noise = SimulatedNoise(seed).draw(mechanism.law, rounds, n, run=k)
            runs.append(mechanism.execute(clocks.offset, noise if private else 0 * noise))
            clocks.set(runs[-1].y[-1], trim=k > 0)  # to what it heard last, which is public
        clocks.tick()
    return skew, runs, np.array(spreads)


def guessed_skews(runs: Sequence[History], private: bool) -> FloatArray:
    """Guess the skews from the second session: the clocks had been set to what was heard in the first."""
    begin, most = runs[0].y[-1], RANGES["skew"]
    if not private:
        return np.asarray(runs[1].x[0] - begin)
    return np.asarray(eavesdrop(runs[1], [Prior.flat(b - most, b + most) for b in begin]) - begin)


def main(argv: Sequence[str] | None = None, name: str = LINKS) -> Found:
    """Synchronise naively and privately, print the table, draw, and return the numbers."""
    seed, out = options(__doc__, argv, "clock_synchronisation.svg")
    graph = Graph.from_name(name)
    promises = {
        kind: design(
            graph=graph,
            loss=LOSS[kind],
            adjacency=ADJACENCY[kind],
            spread=2 * RANGES[kind] + 0.01,  # and what nodes disagreed by the last time
            tolerance=1e-3,
        ).promise
        for kind in RANGES
    }
    sessions, spent = plan(promises)
    chosen = [promises[kind] for kind in sessions]
    skew, runs, spreads = synchronise(chosen, graph.n, seed, private=True)
    _, naive, _ = synchronise(chosen, graph.n, seed, private=False)
    errors = [abs(float(run.theta[-1].mean() - target(run.mechanism, run.theta[0]))) for run in runs]
    found: Found = {}
    for kind, promise in promises.items():
        own = [k for k, other in enumerate(sessions) if other == kind]
        found[kind] = {
            "times": len(own),
            "adjacency": promise.adjacency,
            "loss": promise.loss,
            "spent": spent[own[-1] + 1],
            "radius": promise.radius,
            "error": max(errors[k] for k in own),
            "kept": sum(errors[k] <= promise.radius for k in own),
            "rounds": promise.rounds,
        }

    def recognised(guess: FloatArray) -> int:
        return int(np.sum(np.abs(guess[:, None] - skew).argmin(axis=1) == np.arange(graph.n)))

    found["clocks"] = {
        "spread": float(spreads[2 : len(sessions)].max()),
        "afterwards": float(spreads[-1]),
        "naive offset": float(np.abs(naive[0].x[0] - naive[0].theta[0]).max()),
        "naive skew": float(np.abs(guessed_skews(naive, private=False) - skew).max()),
        "naive recognised": recognised(guessed_skews(naive, private=False)),
        "recognised": recognised(guessed_skews(runs, private=True)),
    }
    report(found, len(sessions), graph.n)
    picture(spreads, float(np.ptp(skew)), spent, out)
    return found


def report(found: Found, sessions: int, n: int) -> None:
    """Print what each kind of session promises and costs, and what is left to an eavesdropper."""
    tell(
        f"{n} clocks, a session every 100 s until the loss is {CAP:g}: {sessions} sessions",
        {kind: found[kind] for kind in RANGES},
        [
            ("sessions", "times", ".0f", ""),
            ("adjacency, ms", "adjacency", ".6g", "by how much a clock may differ unseen"),
            ("privacy loss", "loss", "up", "ε·δ of one session"),
            ("loss in all", "spent", "up", "after the last of them"),
            ("promised, ms", "radius", "up", f"radius, missed with probability {FAILURE:g}"),
            ("largest error, ms", "error", ".3f", "of the common time; the same for all nodes"),
            ("kept", "kept", ".0f", "sessions within their radius"),
            ("rounds", "rounds", ".0f", "to agree within a microsecond"),
        ],
    )
    c = found["clocks"]
    print(f"In step within {c['spread']:.3f} ms at every beacon after the second,")
    print(f"and within {c['afterwards']:.3f} ms after {AFTERWARDS} more without a session.")
    print(f"Naive: offsets known to {c['naive offset']:.9f} ms, skews to {c['naive skew']:.9f} ms per 100 s;")
    print(f"{c['naive recognised']} of {n} nodes are recognised by their skew.")
    print(f"Private: {c['recognised']} of {n} are recognised; by chance it would be 1.")


def picture(spreads: FloatArray, drift: float, spent: list[float], out: Path) -> None:
    """Draw how far clocks are apart, and what the sessions cost."""
    beacons, counts = np.arange(len(spreads)), np.arange(len(spent))
    minutes, last = beacons * 100 / 60, len(spent) - 1
    with styled():
        figure = canvas(8.8, 3.6)
        left, right = figure.subplots(1, 2)
        alone = spreads[0] + beacons * drift
        left.semilogy(minutes, alone, color=GREY, linestyle=(0, (6, 2)))
        label_line(left, minutes[-1], alone[-1], "left alone, at most", GREY, ha="right", offset=(0, 8))
        left.semilogy(minutes, spreads, "o-", color=BLUE, ms=3)
        label_line(left, minutes[6], spreads[6], "synchronised", BLUE, offset=(0, 12))
        left.axvline(minutes[last], color=GREY, lw=0.6)
        label_line(left, minutes[last], 3, "cap reached", GREY)
        left.set(title="Clocks keep in step", xlabel="time, minutes", ylabel="first to last clock, ms")
        plain_log(left.yaxis, subs=(1,))
        right.step(counts, spent, where="post", color=BLUE)
        label_line(right, last, spent[-1], "offset, skew, then wander", BLUE, ha="right", offset=(0, -64))
        careless = LOSS["offset"] * counts[:7]
        right.step(counts[:7], careless, where="post", color=RED, linestyle=(0, (2, 1.5)))
        label_line(right, 6, careless[-1], "as if each session\ntold the offset anew", RED)
        right.axhline(CAP, color=INK, lw=1, linestyle=(0, (5, 3)))
        label_line(right, last, CAP, "the owner's cap", INK, ha="right", offset=(0, 7))
        right.set(title="The loss adds up, and stops", xlabel="sessions", ylabel="privacy loss ε·δ")
        right.set(ylim=(0, None), xticks=range(0, last + 1, 3))
        save(figure, out)


if __name__ == "__main__":
    main()
