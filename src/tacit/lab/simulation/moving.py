"""Simulate agents with dynamics of their own, many runs at once.

Noise is that of ``SimulatedNoise(seed).draw(…, run=run)``, as everywhere, so a run equals
`Mechanism.execute` on the same noise up to rounding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import __version__
from tacit.base.arrays import FloatArray
from tacit.base.errors import StateError
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.noise import SimulatedNoise
from tacit.core.theory.targets import weights
from tacit.lab.simulation.record import Record, require_room

if TYPE_CHECKING:
    import xarray as xr

_TOGETHER = 2**22  # numbers of one batch of runs


def simulate_moving(
    mechanism: Mechanism, values: FloatArray, *, rounds: int, runs: int, seed: int, record: Record
) -> xr.Dataset:
    """Return what `simulate` returns, with the components of states.

    ``average`` is the value that agents would agree on if noise stopped: Σω_i·C_i(I − A_i)^−1·z_i/Σω_iτ_i.
    """
    import xarray as xr

    n, d = values.shape
    served = not isinstance(mechanism, Distributed)
    noise_bytes = 8 * (rounds + 1) * n * (d + 2) * min(runs, max(1, _TOGETHER // max(rounds * n, 1)))
    require_room(record, record.size(n=n, components=d, rounds=rounds, runs=runs, served=served), noise_bytes)
    step = max(1, _TOGETHER // max(rounds * n, 1))
    noise, sources, parts = SimulatedNoise(seed), mechanism.sources, []
    law = mechanism.noise_law
    scales = law.scales(rounds) if law.pure else law  # once for all runs
    for first in range(0, runs, step):
        some = range(first, min(first + step, runs))
        eta = np.stack([noise.draw(scales, rounds, sources, run=run) for run in some])
        parts.append(_batch(mechanism, values, some, eta, record))
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    dims = {
        "theta": ("run", "round", "agent", "component"),
        "average": ("run", "round"),
        "eta": ("run", "said", "keeper" if mechanism.keepers else "agent"),
        "x": ("run", "said", "agent"),
        "y": ("run", "said") if served else ("run", "said", "agent"),
    }
    names = getattr(mechanism.motion, "names", None)
    coords: dict[str, Any] = {
        "run": np.arange(runs),
        "round": record.rounds(rounds),
        "agent": record.chosen(n),
        "component": list(names) if names else np.arange(d),
    }
    law = mechanism.law
    attrs = {
        "mechanism": mechanism.kind,
        "law": law.name,
        "motion": law.motion.name,
        "agents": n,
        "keepers": mechanism.keepers,
        "rounds": rounds,
        "seed": seed,
        "interrupted": 0,
        "tacit_version": __version__,
    }
    return xr.Dataset({name: (dims[name], array) for name, array in found.items()}, coords, attrs)


def simulate_gaussian(mechanism: Mechanism, values: FloatArray, **given: Any) -> xr.Dataset:
    """Return what `simulate` returns, for mixing with Gaussian noise."""
    if values.ndim > 1:
        raise StateError(
            f"Gaussian noise is simulated for one number per agent, got values of shape {values.shape}. "
            "Simulate one component at a time."
        )
    moved = replace(mechanism, law=mechanism.law.as_linear())
    return simulate_moving(moved, values[:, None], **given).isel(component=0, drop=True)


def _batch(
    mechanism: Mechanism, values: FloatArray, runs: range, eta: FloatArray, record: Record
) -> dict[str, FloatArray]:
    """Run some of the runs side by side."""
    motion, rounds = mechanism.motion, eta.shape[1]
    theta = np.broadcast_to(values, (len(runs), *values.shape)).copy()
    shadow = theta
    thetas, said, heard = [theta], [], []
    for t in range(rounds):
        if mechanism.shadowed:
            shadow = motion.disturb(shadow, eta[:, t])
        x = motion.say(shadow if mechanism.shadowed else theta)
        if not mechanism.shadowed and not mechanism.keepers:
            x = x + eta[:, t]
        y = mechanism.aggregate(np.ascontiguousarray(x.T))  # agents first
        if mechanism.keepers:
            y = y + eta[:, t].sum(axis=1) / mechanism.n
        y = y[:, None] if y.ndim == 1 else y.T
        theta = motion.move(theta, y)
        shadow = motion.move(shadow, y) if mechanism.shadowed else theta
        thetas.append(theta)
        said.append(x)
        heard.append(y)
    path = np.stack(thetas, axis=1)
    kept = record.rounds(rounds)
    found = {}
    if record.states:
        found["theta"] = path[:, kept][:, :, record.chosen(mechanism.n)]
    if record.average:
        found["average"] = np.einsum("ij,rtij->rt", weights(mechanism), path[:, kept])
    if record.everything:
        shape = (len(runs), rounds, mechanism.n)
        found["eta"] = eta
        found["x"] = np.stack(said, axis=1) if said else np.empty(shape)
        y_all = np.stack(heard, axis=1) if heard else np.empty(shape)
        found["y"] = y_all if isinstance(mechanism, Distributed) else y_all[:, :, 0]
    return found
