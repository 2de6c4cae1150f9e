"""The noise that agents must have drawn, when the auditor chose their values.

With known starts the noise of every message follows from the transcript. Divided by its declared
scale it is standard Laplace, independent of everything before: what goodness tests are about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.arrays import FloatArray, IntArray, as_states
from tacit.audit.likelihood import counted, residuals, states
from tacit.audit.transcript import Transcripts

TOLERANCE = 1e-11
"""Two standardised draws this close count as the same; on a lattice neighbours are 2^−40 apart."""


@dataclass(frozen=True, eq=False, repr=False)
class Noise:
    """Standardised noise of sessions, one column per agent and component.

    Attributes
    ----------
    r : array, shape (runs, slots, columns)
        η/(c q^u); NaN where nothing new was said.
    pull : array, shape (runs, slots, columns)
        y − θ at the agent's last update: where it moved to. NaN before the first.
    update : int array, shape (1 or runs, slots, columns)
    agent : int array, shape (columns,)
    exact : bool array, shape (slots,)
        Where the arithmetic resolves `TOLERANCE`.
    """

    r: FloatArray
    pull: FloatArray
    update: IntArray
    agent: IntArray
    exact: npt.NDArray[np.bool_]

    @property
    def flat(self) -> FloatArray:
        """Return |r| where it is exact, one row per session."""
        return np.abs(self.r[:, self.exact].reshape(len(self.r), -1))


def noise_of(transcripts: Transcripts, values: npt.ArrayLike) -> Noise:
    """Return the standardised noise of sessions that all ran from these values."""
    theta = as_states(values, transcripts.mechanism.n)
    parts = [_of_agent(transcripts, agent, start) for agent, start in enumerate(theta)]
    components = transcripts.components or 1
    update = np.repeat(transcripts.update, components, axis=2)
    return Noise(
        r=np.concatenate([part[0] for part in parts], axis=2),
        pull=np.concatenate([part[1] for part in parts], axis=2),
        update=update,
        agent=np.repeat(np.arange(len(theta)), components),
        exact=np.all([part[2] for part in parts], axis=0),
    )


def join(parts: list[Noise]) -> Noise:
    """Put the noise of sessions from several starts together."""
    first = parts[0]
    shared = all(p.update.shape[0] == 1 and np.array_equal(p.update, first.update) for p in parts)
    updates = [np.broadcast_to(p.update, p.r.shape) for p in parts]
    return Noise(
        np.concatenate([p.r for p in parts]),
        np.concatenate([p.pull for p in parts]),
        first.update if shared else np.concatenate(updates),
        first.agent,
        np.all([p.exact for p in parts], axis=0),
    )


def _of_agent(
    transcripts: Transcripts, agent: int, theta: FloatArray
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Return r and pull with a column per component, and where r is exact."""
    view = transcripts.of(agent)
    told = counted(view)[..., None]
    scale = view.scales[..., None]
    shape = (*view.x.shape[:2], -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.where(told, residuals(view, theta).reshape(shape) / scale, np.nan)
    path = states(view, theta).reshape(shape)
    pull = np.full(path.shape, np.nan)
    heard = view.y[:, view.rounds_of[:-1]].reshape(len(path), path.shape[1] - 1, -1)
    moved = (np.diff(view.update, axis=1) > 0)[..., None]
    pull[:, 1:] = np.where(moved, heard - path[:, :-1], np.nan)
    with np.errstate(divide="ignore"):
        rounding = 2.0**-50 * np.nanmax(np.abs(view.x), initial=0) / np.min(scale, axis=(0, 2))
    exact = np.ones_like(rounding, dtype=bool) if view.wholes is not None else rounding < TOLERANCE / 4
    return r, pull, exact
