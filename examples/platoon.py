"""Trucks with an engine lag agree on a speed; nobody on the radio learns how fast one was.

Each truck computes a reference: its speed v follows the announced mean speed y through an engine with a
lag of ½ s. Four times a second

    v⁺ = v + a/4,    a⁺ = a + (½·(y − v) − a)/2,

and the truck says v. Its engine and brakes follow the reference; nothing that is measured enters a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from shared import FAILURE, Found, options, rms, tell

from tacit import Fading, Linear, OneShot, Scheduled, Synthesis, analyze, simulate, synthesise
from tacit.base.arrays import FloatArray
from tacit.core.law import Law
from tacit.core.mechanism import ClientServer
from tacit.lab.plots.style import BLUE, GREY, INK, SKY, canvas, label_line, save, styled
from tacit.lab.simulation import Record

TRUCKS, RATE, MINUTES = 40, 4, 2
ROUNDS, EARLY = MINUTES * 60 * RATE, 30 * RATE  # rounds of a drive, and of its first 30 s
SLOWEST, FASTEST = 20.0, 28.0  # m/s
LOSS = 1.0  # for speeds that are 1 m/s apart


def truck(gain: float, damping: float = 0.0) -> Linear:
    """Return a truck whose engine is asked for gain·(y − v) − damping·a."""
    return Linear(
        A=[[1, 1 / 4], [-gain / 2, (1 - damping) / 2]],
        B=[0, gain / 2],
        C=[1, 0],
        private={"speed": 1.0},
        names=("speed", "acceleration"),
    )


TRUCK = truck(1 / 2)


def fading(q: float) -> Law:
    """Return noise of scales c·q^t with the least c for this loss."""
    if q == 1:
        return Scheduled.of(TRUCK, np.full(ROUNDS, float(TRUCK.spent(np.ones(ROUNDS))) / LOSS))
    return Fading(TRUCK, float(np.max(Fading(TRUCK, 1.0, q).epsilons(ROUNDS))) / LOSS, q)


def laws() -> dict[str, Law]:
    """Return six kinds of noise with the same loss."""
    return {
        "schedule": Scheduled.best(TRUCK, LOSS, ROUNDS),
        "best c·q^t": Fading.best(TRUCK, LOSS, ROUNDS),
        "q=ρ^⅓": fading(TRUCK.modulus ** (1 / 3)),
        "q=0.95": fading(0.95),
        "constant": fading(1.0),
        "once": OneShot.best(TRUCK, LOSS),
    }


def drive(law: Law, speeds: FloatArray, seed: int, runs: int, rounds: int = ROUNDS) -> FloatArray:
    """Simulate the platoon; return runs × rounds × trucks × (speed, acceleration)."""
    starts = np.column_stack([speeds, np.zeros(TRUCKS)])
    place = ClientServer(law, agents=TRUCKS)
    found = simulate(place, starts, rounds=rounds, runs=runs, seed=seed, record=Record(every=1))
    return np.asarray(found["theta"].values)


def shaken(law: Law) -> FloatArray:
    """Return the variance of a truck's acceleration by noise, in each of the first rounds.

    Trucks that agree already: all that they do is due to the noise, and it moves every truck alike.
    """
    A, loop = TRUCK.A, TRUCK.A + np.outer(TRUCK.B, TRUCK.C)
    found = []
    if law.shadowed:  # the noise of a start moves the shadow by the loop, and the truck follows it
        start = np.array([1.0, 0.0])
        for t in range(1, EARLY + 1):
            apart = np.linalg.matrix_power(loop, t) @ start - np.linalg.matrix_power(A, t) @ start
            found.append(2 * float(law.c) ** 2 / TRUCKS * apart[1] ** 2)
        return np.array(found)
    covariance, enters = np.zeros((2, 2)), np.outer(TRUCK.B, TRUCK.B)
    for scale in law.scales(EARLY):
        covariance = loop @ covariance @ loop.T + 2 * scale**2 / TRUCKS * enters
        found.append(covariance[1, 1])
    return np.array(found)


def main(argv: Sequence[str] | None = None) -> Found:
    """Compare six kinds of noise, print the table, draw the picture, and return the numbers."""
    seed, out = options(__doc__, argv, "platoon.svg")
    speeds = np.random.default_rng(seed).uniform(SLOWEST, FASTEST, TRUCKS)
    found: Found = {}
    for name, law in laws().items():
        promise = analyze(ClientServer(law, agents=TRUCKS), rounds=ROUNDS, failure_probability=FAILURE)
        variance = shaken(law)
        found[name] = {
            "loss": promise.loss,
            "deviation": promise.variance**0.5,
            "radius": promise.radius,
            "rms": float(np.mean(variance)) ** 0.5,
            "peak": float(np.max(variance)) ** 0.5,
        }
    tell(
        f"{TRUCKS} trucks with an engine lag agree on one speed, {RATE} rounds a second, {MINUTES} minutes",
        found,
        [
            ("privacy loss", "loss", "up", "for speeds 1 m/s apart"),
            ("deviation, m/s", "deviation", ".4f", "of the agreed speed from the mean of all"),
            ("radius, m/s", "radius", "up", f"missed with probability {FAILURE:g}"),
            ("rms, m/s²", "rms", ".4f", "acceleration by noise, first 30 s"),
            ("peak, m/s²", "peak", ".3f", "largest deviation at any moment of them"),
        ],
    )
    design()
    quiet = Scheduled.of(TRUCK, np.full(ROUNDS, 1e-12))
    kinds = {"without noise": quiet, "best fresh noise": laws()["schedule"], "noise once": laws()["once"]}
    paths = {name: drive(law, speeds, seed, 1)[0] for name, law in kinds.items()}
    wanted = rms(paths["without noise"][1 : EARLY + 1, :, 1])
    print(f"Agreeing itself takes an rms acceleration of {wanted:.3f} m/s² in the first 30 s.")
    print("Without noise, the first message of a truck is its speed.")
    radii = [0.0, found["schedule"]["radius"], found["once"]["radius"]]
    picture(paths, dict(zip(paths, radii, strict=True)), out)
    return found


def design() -> Synthesis:
    """Choose gains together with their noise, and print what other orders cost."""
    made = synthesise(
        truck,
        [1 / 2, 0],
        agents=TRUCKS,
        rounds=ROUNDS,
        epsilon=LOSS,
        value=100,  # of the variance of the agreed speed, and per round (v − speed)² + 20·a² of a truck
        states=np.diag([1, 20]),
        spread=(FASTEST - SLOWEST) / 12**0.5,
        tries=1,
    )
    assert made.once is not None
    alone, costs = made.first.cost.transient, [one.cost.total for one in (made.first, made.together)]
    print(
        f"Cost of the best gains: {alone:.0f} without noise, then {costs[0]:.0f} with the best fresh noise;\n"
        f"chosen together with it {costs[1]:.0f}, with noise once {made.once.cost.total:.0f}."
    )
    return made


def picture(paths: dict[str, FloatArray], within: dict[str, float], out: Path) -> None:
    """Draw the speeds and accelerations of one drive without noise and with two kinds of it."""
    t, last = np.arange(ROUNDS + 1) / RATE, 20
    with styled():
        figure = canvas(10.5, 4.6)
        axes = figure.subplots(2, 3, sharex=True, sharey="row")
        for (name, path), (speed, acceleration) in zip(paths.items(), axes.T, strict=True):
            mean, ends = float(path[0, :, 0].mean()), float(path[-1, :, 0].mean())
            speed.axhspan(mean - within[name], mean + within[name], color=SKY, alpha=0.3, lw=0)
            for ax, part, level in ((speed, 0, mean), (acceleration, 1, 0.0)):
                ax.plot(t, path[:, ::4, part], color=GREY, lw=0.6, alpha=0.8)  # ten trucks: small files
                ax.plot(t, path[:, :, part].mean(axis=1), color=BLUE, lw=1.4)
                ax.axhline(level, color=INK, lw=0.9, linestyle=(0, (5, 3)))
            speed.set(title=name[0].upper() + name[1:], xlim=(0, last), xticks=range(0, last + 1, 5))
            acceleration.set(xlabel="time, s")
            if name == "best fresh noise":
                side = 1 if ends < mean else -1
                label_line(speed, last, mean, "true mean", INK, offset=(0, 8 * side), ha="right")
                label_line(speed, last, ends, "mean of trucks", BLUE, offset=(0, -8 * side), ha="right")
        axes[0, 0].set(ylabel="speed, m/s")
        axes[1, 0].set(ylabel="acceleration, m/s²")
        save(figure, out)


if __name__ == "__main__":
    main()
