"""Homes share a feeder by price; nobody learns how warm one of them likes it.

All numbers are differences from a public plan of the day: x is how much warmer a home is than planned, in
K, and d how much warmer its owner wants it. Every quarter of an hour a home says how much more power it
wishes than planned, d − x in kW. The answer is the mean wish y. Its price makes every home save y/2, so a
home takes u = d − x − y/2 more than planned. A kilowatt keeps a home 2 K warmer in the end, and heat leaks
out with a time constant of 2½ hours:

    x⁺ = x + (2u − x)/10 = 0.7·x + 0.2·d − 0.1·y.

Each home computes this reference, and its thermostat follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from shared import Found, options, rms, tell

from tacit import Linear, OneShot, Scheduled, simulate
from tacit.base.arrays import FloatArray
from tacit.core.law import Law
from tacit.core.mechanism import ClientServer
from tacit.lab.plots.style import BLUE, GREY, INK, canvas, label_line, save, styled
from tacit.lab.simulation import Record

HOMES, HOUR, RUNS = 100, 4, 400
DAY = 24 * HOUR
LOSS = 1.0  # for wishes that are 1 K apart
HOME = Linear(
    A=[[0.7, 0.2], [0.0, 1.0]],
    B=[-0.1, 0],
    C=[-1, 1],
    private={"wish": 1.0},
    names=("warmth", "wish"),
)


def laws() -> dict[str, Law]:
    """Return kinds of noise with the same loss: fresh for a quarter of the day or all of it, and once."""
    return {
        "6 hours": Scheduled.best(HOME, LOSS, DAY // 4),
        "day": Scheduled.best(HOME, LOSS, DAY),
        "constant": Scheduled.of(HOME, np.full(DAY, float(HOME.spent(np.ones(DAY))) / LOSS)),
        "once": OneShot.best(HOME, LOSS),
    }


def said(law: Law, slots: int) -> FloatArray:
    """Return the deviation of the noise in each message, in kW."""
    if law.shadowed:  # a wish that is off by the noise moves messages as the wish does
        return np.asarray(2**0.5 * float(law.scale(0)) * HOME.influence_table(slots)[:, 0])
    return np.asarray(2**0.5 * law.scales(slots))


def heat(law: Law, wishes: FloatArray, seed: int, runs: int) -> tuple[FloatArray, FloatArray]:
    """Simulate the slots that the noise is for; return warmth and power beyond the plan, by run and slot."""
    slots = len(law.table) if isinstance(law, Scheduled) else DAY
    starts = np.column_stack([np.zeros(HOMES), wishes])
    place = ClientServer(law, agents=HOMES)
    found = simulate(place, starts, rounds=slots, runs=runs, seed=seed, record=Record(everything=True))
    states, y = found["theta"].values, found["y"].values
    return states[:, 1:, :, 0], HOME.say(states[:, :-1]) - y[..., None] / 2


def main(argv: Sequence[str] | None = None) -> Found:
    """Heat a hundred homes for a day, print the table, draw the picture, and return the numbers."""
    seed, out = options(__doc__, argv, "heating.svg")
    wishes = np.random.default_rng(seed).normal(1.0, 1.0, HOMES)
    found: Found = {}
    for name, law in laws().items():
        # The system is linear: homes without wishes show what noise adds. It moves all of them alike.
        warmth, power = heat(law, np.zeros(HOMES), seed, RUNS)
        slots = warmth.shape[1]
        found[name] = {
            "loss": float(np.max(law.epsilons(slots))),
            "said": rms(said(law, slots)),
            "warmth": rms(warmth[:, :, 0]),
            "power": rms(power[:, :, 0]),
        }
    tell(
        f"{HOMES} homes share a feeder for a day, {HOUR} rounds an hour",
        found,
        [
            ("privacy loss", "loss", "up", "for wishes 1 K apart"),
            ("message, kW", "said", ".4f", "rms noise of what one home says"),
            ("comfort, K", "warmth", ".4f", f"rms error of room temperature by noise, {RUNS} runs"),
            ("power, kW", "power", ".4f", "rms error of power per home by noise"),
        ],
    )
    print("Without noise, the first message of a home is its wish.")
    quiet = Scheduled.of(HOME, np.full(DAY, 1e-12))
    kinds = {"without noise": quiet, "best fresh noise": laws()["day"], "noise once": laws()["once"]}
    picture({name: heat(law, wishes, seed, 1) for name, law in kinds.items()}, out)
    return found


def plan() -> tuple[FloatArray, FloatArray]:
    """Return the public plan: room temperature at the end of each slot in °C, and power in kW."""
    hours = np.arange(DAY + 1) / HOUR
    room = np.interp(hours, [0, 5, 7, 21, 23, 24], [17, 17, 20, 20, 17, 17])
    outside = 8 - 3 * np.cos((hours - 3) * 2 * np.pi / 24)
    return room[1:], (10 * np.diff(room) + room[:-1] - outside[:-1]) / 2


def picture(days: dict[str, tuple[FloatArray, FloatArray]], out: Path) -> None:
    """Draw the temperatures of homes and the mean power of one day, for each kind of noise."""
    hours = np.arange(1, DAY + 1) / HOUR
    with styled():
        figure = canvas(10.5, 4.6)
        axes = figure.subplots(2, 3, sharex=True, sharey="row")
        for (name, (warmth, power)), column in zip(days.items(), axes.T, strict=True):
            for ax, more, planned in zip(column, (warmth[0], power[0]), plan(), strict=True):
                ax.plot(hours, planned[:, None] + more[:, ::10], color=GREY, lw=0.5, alpha=0.8)
                ax.plot(hours, planned + more.mean(axis=1), color=BLUE, lw=1.4)
                ax.plot(hours, planned, color=INK, lw=0.9, linestyle=(0, (5, 3)))
            column[0].set(title=name[0].upper() + name[1:], xlim=(0, 24), xticks=range(0, 25, 6))
            column[1].set(xlabel="hour of the day")
        axes[0, 0].set(ylabel="room temperature, °C")
        axes[1, 0].set(ylabel="power of a home, kW")
        label_line(axes[0, 0], 12, 20, "plan", INK, offset=(0, -8))
        label_line(axes[0, 0], 12, 23, "mean of homes", BLUE, offset=(0, 0))
        save(figure, out)


if __name__ == "__main__":
    main()
