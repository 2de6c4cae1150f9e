"""Trucks agree on a common speed; nobody on the radio learns how fast one was or where it is.

A control centre answers once a second with the mean of what the trucks say. Each truck keeps a reference
speed, which starts at the speed that it drives; engine, brakes and radar make the truck follow it. Nothing
measured on the road enters a message. So all that is said depends on the start alone, and the loss is paid
once, however long they drive.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from shared import FAILURE, Found, eavesdrop, options, rms, tell

from tacit import History, design
from tacit.base.arrays import FloatArray
from tacit.base.rounding import shown_up
from tacit.core.mechanism import Mechanism
from tacit.core.noise import SimulatedNoise
from tacit.core.theory.accuracy import radius
from tacit.core.theory.privacy import loss
from tacit.lab.audit import Prior
from tacit.lab.plots.style import BLUE, GREY, INK, RED, SKY, canvas, label_line, save, styled

TRUCKS, SECONDS, STEPS = 40, 120, 10  # one round a second, the motion in tenths of it
SLOWEST, FASTEST = 20.0, 28.0  # m/s, known to all
ADJACENCY, LOSS, MIXING = 1.0, 1.0, 0.1
ROOM, HEADWAY = 5.0, 1.0  # a safe gap is 5 m and a second of driving


def drive(reference: FloatArray, position: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Move the trucks, the first in front, along reference speeds of shape (seconds, trucks).

    Returns positions, speeds and accelerations at every step. The engine holds the reference against
    drag and rolling resistance; each truck's own radar slows it where the gap gets short.
    """
    p, v, dt = position, reference[0], 1 / STEPS
    path = []
    for wanted in np.repeat(reference, STEPS, axis=0):
        gap = np.concatenate([[np.inf], p[:-1] - p[1:]])
        ahead = np.concatenate([[np.inf], v[:-1]])
        allowed = ahead + 0.3 * (gap - ROOM - HEADWAY * v)
        resistance = 0.06 + 1.8e-4 * v**2
        a = np.clip(resistance + 0.8 * (np.minimum(wanted, allowed) - v), -4.0, 1.0) - resistance
        p, v = p + v * dt + a * dt**2 / 2, v + a * dt
        path.append((p, v, a))
    positions, speeds, accelerations = (np.array(part) for part in zip(*path, strict=True))
    return positions, speeds, accelerations


def agree(mechanism: Mechanism, values: FloatArray, seed: int | None) -> History:
    """Run one round a second; without a seed, without noise."""
    if seed is None:
        return mechanism.execute(values, np.zeros((SECONDS, mechanism.n)))
    return mechanism.execute(values, SimulatedNoise(seed).draw(mechanism.law, SECONDS, mechanism.n))


def follow(run: History, guess: FloatArray, position: FloatArray) -> FloatArray:
    """Return where an eavesdropper puts the trucks: it knows the control law and where all began."""
    reference = [guess]
    for heard in run.y[:-1]:
        reference.append(run.mechanism.update(reference[-1], heard))
    return drive(np.array(reference), position)[0]


def main(argv: Sequence[str] | None = None) -> Found:
    """Drive three times, print the table, draw the picture, and return the numbers."""
    seed, out = options(__doc__, argv, "platoon.svg")
    made_up = np.random.default_rng(seed)
    speed = made_up.uniform(SLOWEST, FASTEST, TRUCKS)
    position = -np.cumsum(made_up.uniform(50, 110, TRUCKS))
    answer = design(agents=TRUCKS, loss=LOSS, adjacency=ADJACENCY, mixing=MIXING, spread=FASTEST - SLOWEST)
    fading, one_shot = answer.mechanism, answer.baseline.mechanism
    runs = {"naive": agree(fading, speed, None)}
    runs |= {"fading": agree(fading, speed, seed), "one-shot": agree(one_shot, speed, seed)}
    found: Found = {}
    for name, run in runs.items():
        p, v, a = drive(run.theta[:-1], position)
        private = name != "naive"
        guess = eavesdrop(run, Prior.flat(SLOWEST, FASTEST)) if private else run.x[0]
        off = follow(run, guess, position) - p
        gap = p[:, :-1] - p[:, 1:]
        found[name] = {
            "loss": loss(run.mechanism.law, ADJACENCY) if private else np.inf,
            "radius": radius(run.mechanism, FAILURE) if private else 0.0,
            "error": abs(float(run.theta[-1].mean() - speed.mean())),
            "spread": float(np.ptp(v[-1])),
            "gap": float(gap.min()),
            "headway": float((gap / v[:, 1:]).min()),
            "brake": float(-a.min()),
            "guessed": rms(guess - speed),
            "placed": rms(off[-1]),
        }
    report(found, rms(speed - (SLOWEST + FASTEST) / 2))
    picture(v, gap, off, (float(speed.mean()), found["one-shot"]["radius"]), out)
    return found


def report(found: Found, blind: float) -> None:
    """Print what was bought, what it costs, and what is left to an eavesdropper."""
    tell(
        f"{TRUCKS} trucks at {SLOWEST:g} to {FASTEST:g} m/s agree on one speed, a round a second",
        found,
        [
            ("privacy loss", "loss", "up", f"ε·δ, for speeds {ADJACENCY:g} m/s apart"),
            ("promised, m/s", "radius", "up", f"radius, missed with probability {FAILURE:g}"),
            ("error, m/s", "error", ".2f", "agreed speed against the mean of all speeds"),
            ("spread, m/s", "spread", ".2f", f"fastest against slowest truck after {SECONDS} s"),
            ("least gap, m", "gap", ".2f", "between two trucks, at any time"),
            ("least headway, s", "headway", ".2f", "the same in time"),
            ("hardest braking, m/s²", "brake", ".2f", ""),
            (
                "speed guessed, m/s",
                "guessed",
                ".2f",
                f"rms error by radio; {blind:.2f} without it",
            ),
            ("position guessed, m", "placed", ".2f", f"after {SECONDS} s, knowing where all began"),
        ],
    )
    print("Paid once: all that is said later follows from the start.")
    print("A camera on the road sees positions as they are.")


def picture(
    v: FloatArray, gap: FloatArray, off: FloatArray, promised: tuple[float, float], out: Path
) -> None:
    """Draw speeds, gaps and the eavesdropper's errors of the last drive over time."""
    t = np.arange(1, len(v) + 1) / STEPS
    mean, within = promised
    with styled():
        figure = canvas(10.5, 3.5)
        left, middle, right = figure.subplots(1, 3)
        left.axhspan(mean - within, mean + within, color=SKY, alpha=0.35, lw=0)
        left.axhline(mean, color=INK, lw=1, linestyle=(0, (5, 3)))
        left.plot(t, v, color=GREY, lw=0.6)
        known = f"true mean ± {shown_up(within, 2)}"
        label_line(left, SECONDS, mean - within, known, BLUE, offset=(0, -8), ha="right")
        left.set(title="Speeds meet near the true mean", ylabel="speed, m/s")
        middle.plot(t, gap, color=GREY, lw=0.6)
        safe = ROOM + HEADWAY * v.mean(axis=1)
        middle.plot(t, safe, color=RED, linestyle=(0, (6, 2)))
        label_line(middle, SECONDS, safe[-1], "where a radar brakes", RED, offset=(0, -9), ha="right")
        middle.set(title="Gaps stay safe", ylabel="gap to the truck ahead, m", ylim=(0, None))
        right.plot(t, off, color=GREY, lw=0.6)
        right.axhline(0, color=RED, linestyle=(0, (6, 2)))
        back = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        label_line(right, SECONDS, 0, "naive: known exactly", RED, offset=(0, 9), ha="right", bbox=back)
        right.set(title="How far off an eavesdropper is", ylabel="guessed minus true position, m")
        for ax in (left, middle, right):
            ax.set(xlim=(0, SECONDS), xlabel="time, s")
        save(figure, out)


if __name__ == "__main__":
    main()
