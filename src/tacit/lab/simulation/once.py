"""Simulate bits and staircase noise, many runs at once.

A run's noise is made from ``SimulatedNoise(seed).draw(…, run=run)`` of scale 1, as everywhere. There is one
draw for each agent and component, and then agents move without noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.core.mechanism import Mechanism
from tacit.core.noise import SimulatedNoise
from tacit.lab.simulation.record import Record, require_room
from tacit.lab.simulation.recorder import described

if TYPE_CHECKING:
    import xarray as xr

_TOGETHER = 2**22  # numbers of one batch of runs


def simulate_once(
    mechanism: Mechanism, values: FloatArray, *, rounds: int, runs: int, seed: int, record: Record
) -> xr.Dataset:
    """Return what `simulate` returns, for bits and staircase noise."""
    import xarray as xr

    n, size = mechanism.n, int(values.size)
    components = size // n
    step = max(1, _TOGETHER // max((rounds + 1) * size, 1))
    need = record.size(n=n, components=components, rounds=rounds, runs=runs, served=True)
    require_room(record, need, 8 * 4 * (rounds + 1) * size * min(runs, step))
    parts = []
    for first in range(0, runs, step):
        some = range(first, min(first + step, runs))
        unit = np.stack([_unit(values, seed, run) for run in some])
        parts.append(_batch(mechanism, values, unit, rounds, record))
    vector = ("component",) * (values.ndim - 1)
    dims = {
        "theta": ("run", "round", "agent", *vector),
        "average": ("run", "round", *vector),
        "eta": ("run", "said", "agent", *vector),
        "x": ("run", "said", "agent", *vector),
        "y": ("run", "said", *vector),
    }
    found = {name: (dims[name], np.concatenate([p[name] for p in parts])) for name in parts[0]}
    coords = {"run": np.arange(runs), "round": record.rounds(rounds), "agent": record.chosen(n)}
    made: dict[str, Any] = described(mechanism, rounds=rounds, seed=seed)
    return xr.Dataset({**found, **made["variables"]}, coords, made["attributes"])


def _unit(values: FloatArray, seed: int, run: int) -> FloatArray:
    """Return Laplace draws of scale 1, of the shape of the values."""
    k = None if values.ndim == 1 else values.shape[1]
    return np.asarray(SimulatedNoise(seed).draw(1.0, 1, len(values), k, run)[0])


def _batch(
    mechanism: Mechanism, values: FloatArray, unit: FloatArray, rounds: int, record: Record
) -> dict[str, FloatArray]:
    """Run some of the runs side by side: runs first, agents second."""
    law, motion = mechanism.law, mechanism.motion
    eta = law.noise_of(unit, values)
    theta, shadow = np.broadcast_to(values, unit.shape).copy(), values + eta
    thetas, said, heard = [theta], [], []
    for _ in range(rounds):
        y = shadow.mean(axis=1)
        said.append(shadow)
        heard.append(y)
        theta, shadow = motion.move(theta, y[:, None]), motion.move(shadow, y[:, None])
        thetas.append(theta)
    path, kept = np.stack(thetas, axis=1), record.rounds(rounds)
    found = {}
    if record.states:
        found["theta"] = path[:, kept][:, :, record.chosen(mechanism.n)]
    if record.average:
        found["average"] = path[:, kept].mean(axis=2)
    if record.everything:
        empty = np.empty((len(unit), 0, *values.shape))
        found["x"] = np.stack(said, axis=1) if said else empty
        found["y"] = np.stack(heard, axis=1) if heard else empty[:, :, 0]
        found["eta"] = np.zeros_like(found["x"])
        if rounds:
            found["eta"][:, 0] = eta
    return found
