"""A simulated session of trucks: agents with dynamics of their own.

Speeds and noise follow from a seed, so nothing in it is private.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import InputError, TacitError
from tacit.core.law import Fading, Law, OneShot, Scheduled
from tacit.core.mechanism import ClientServer
from tacit.core.motion import Linear
from tacit.core.theory.promise import Promise, analyze
from tacit.lab.simulation import Record, simulate
from tacit.studio.form import number, whole

RATE, ROUNDS = 4, 120
"""Rounds in a second, and of a whole drive."""
SLOWEST, FASTEST = 20.0, 28.0
MOST_TRUCKS = 200
_LEAST_LOSS, _MOST_LOSS = 1e-3, 100.0
LAWS = {"one-shot": "once, at the start", "fading": "fading", "scheduled": "by the best schedule"}
TRUCK = Linear(
    A=[[1, 1 / 4], [-1 / 4, 1 / 2]],
    B=[0, 1 / 4],
    C=[1, 0],
    private={"speed": 1.0},
    names=("speed", "acceleration"),
)
"""A truck follows the mean speed through an engine with a lag of half a second."""


@dataclass(frozen=True)
class Drive:
    """The fields of the page as text."""

    trucks: str = "40"
    loss: str = "1"
    law: str = "one-shot"
    seed: str = "1"

    def query(self) -> dict[str, str]:
        """Return the fields for the address of the page."""
        return {"trucks": self.trucks, "loss": self.loss, "law": self.law, "seed": self.seed}


@dataclass(frozen=True, eq=False, repr=False)
class DrivenTrucks:
    """A drive, or why there is none by field."""

    asked: Drive
    speeds: FloatArray | None = None  # rounds × trucks
    accelerations: FloatArray | None = None
    promise: Promise | None = None
    wrong: Mapping[str, str] | None = None

    @property
    def target(self) -> float:
        """The mean speed at the start."""
        assert self.speeds is not None
        return float(self.speeds[0].mean())


def drive_from_query(query: Mapping[str, str]) -> Drive:
    """Read the fields from an address; it refuses unknown ones."""
    known = Drive().query()
    for name in query:
        if name not in known:
            raise InputError(f"this page has no field {name[:60]!r}.")
    if query.get("law", "one-shot") not in LAWS:
        raise InputError(f"law must be one of {', '.join(LAWS)}.")
    return replace(Drive(), **query)


def driven(asked: Drive) -> DrivenTrucks:
    """Simulate a drive; errors are part of it."""
    try:
        trucks = whole(asked.trucks, 2)
        if trucks > MOST_TRUCKS:
            raise InputError(f"the page draws at most {MOST_TRUCKS} trucks.")
    except InputError as error:
        return DrivenTrucks(asked, wrong={"trucks": str(error)})
    try:
        loss = number(asked.loss)
        if not _LEAST_LOSS <= loss <= _MOST_LOSS:
            raise InputError(f"{asked.loss[:60]!r} is not a number from {_LEAST_LOSS:g} to {_MOST_LOSS:g}.")
        mechanism, promise = _promised(asked.law, loss, trucks)
    except TacitError as error:
        return DrivenTrucks(asked, wrong={"loss": str(error)})
    try:
        seed = whole(asked.seed, 0)
    except InputError as error:
        return DrivenTrucks(asked, wrong={"seed": str(error)})
    starts = np.random.default_rng([seed, 0x7AC17]).uniform(SLOWEST, FASTEST, trucks)
    states = np.column_stack([starts, np.zeros(trucks)])
    found = simulate(mechanism, states, rounds=ROUNDS, runs=1, seed=seed, record=Record(every=1))
    theta = np.asarray(found["theta"].values)[0]
    return DrivenTrucks(asked, theta[..., 0], theta[..., 1], promise)


@lru_cache(maxsize=16)
def _promised(law: str, loss: float, trucks: int) -> tuple[ClientServer, Promise]:
    made: Law
    match law:
        case "one-shot":
            made = OneShot.best(TRUCK, loss)
        case "fading":
            made = Fading.best(TRUCK, loss, ROUNDS)
        case _:
            made = Scheduled.best(TRUCK, loss, ROUNDS)
    mechanism = ClientServer(made, agents=trucks)
    return mechanism, analyze(mechanism, adjacency=1, rounds=ROUNDS)
