"""The noise that agents have drawn, if the auditor chose their values.

With known starts the noise of every message follows from the transcript. Divided by its declared
scale it is standard Laplace and independent of everything before; goodness tests check that.

On a lattice the noise is a whole number of steps, so its law has atoms. The auditor spreads every atom
over its cell by drawing from the Laplace law within the cell. The result is *exactly* standard Laplace
for every lattice (docs/proofs/audit.md, section 3). Tests of equality use the original noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray, IntArray
from tacit.core.history import AgentHistory, History
from tacit.core.mechanism.whole import cut
from tacit.lab.audit.likelihood import (
    MOST_STEPS,
    counted,
    lattice_draws,
    nearest_steps,
    residuals,
    sent_steps,
    states,
)

TOLERANCE = 1e-11
"""Two standardised draws this close count as the same; on a lattice its step is added."""

_RESOLVED = 2.0**-24  # of its scale: noise that doubles resolve less finely is not tested
_OWN = (0x7AC17, 0x5B3EAD)  # makes the streams of this module differ from everyone's


@dataclass(frozen=True, eq=False, repr=False)
class Noise:
    """Standardised noise of sessions, one column per agent and component.

    Attributes
    ----------
    r : array, shape (runs, slots, columns)
        η/(c q^u), spread over lattice cells: standard Laplace. NaN where nothing new was said.
    size : array like `r`
        |η|/(c q^u) as it was.
    pull : array like `r`
        y − θ at the agent's last update, the direction of its move. NaN before the first.
    state : array like `r`
        θ, what the noise was added to.
    scale : array, shape (1 or runs, slots, columns)
        c q^u.
    update : int array like `scale`
    agent : int array, shape (columns,)
    exact : bool array, shape (slots,)
        Whether the arithmetic resolves `TOLERANCE`.
    step : array like `scale`
        Of the lattice, divided by the scale of the noise; 0 where there is no lattice.
    start : int array, shape (runs,)
        From which start each session ran: 0 for the first.
    drawn, sent : int array like `r`, or None without a lattice
        Noise and message in steps of the lattice; of the message the lowest 62 bits. 0 where `r` is NaN.
    """

    r: FloatArray
    size: FloatArray
    pull: FloatArray
    state: FloatArray
    scale: FloatArray
    update: IntArray
    agent: IntArray
    exact: npt.NDArray[np.bool_]
    step: FloatArray
    start: IntArray
    drawn: IntArray | None = None
    sent: IntArray | None = None

    @property
    def names(self) -> list[str]:
        """Name the agent (and component) of each column."""
        agents = self.agent.tolist()
        if len(set(agents)) == len(agents):
            return [f"agent {agent}" for agent in agents]
        return [f"agent {agent}, component {agents[:i].count(agent)}" for i, agent in enumerate(agents)]

    @property
    def flat(self) -> FloatArray:
        """Return sizes where they are exact, one row per session."""
        return self.size[:, self.exact].reshape(len(self.r), -1)

    @property
    def widest(self) -> float:
        """The coarsest step, among those of exact slots."""
        return float(self.step[:, self.exact].max(initial=0.0))


def noise_of(transcripts: History, values: npt.ArrayLike, stream: int = 0) -> Noise:
    """Return the standardised noise of sessions from the same values.

    Noise that will be joined must be spread with different random streams.
    """
    theta, transcripts = transcripts.mechanism.states(values), transcripts.stacked
    rng = np.random.default_rng([*_OWN, stream])
    parts = [_of_agent(transcripts.of(agent), start, rng) for agent, start in enumerate(theta)]
    components = transcripts.components or 1
    whole = transcripts.exponent is not None

    def together(name: str) -> FloatArray:
        return np.concatenate([part[name] for part in parts], axis=2)

    return Noise(
        **{name: together(name) for name in ("r", "size", "pull", "state", "scale", "step")},
        update=np.repeat(transcripts.update, components, axis=2),
        agent=np.repeat(np.arange(len(theta)), components),
        exact=np.all([part["exact"] for part in parts], axis=0),
        start=np.zeros(transcripts.runs, np.int64),
        drawn=together("drawn").astype(np.int64) if whole else None,
        sent=together("sent").astype(np.int64) if whole else None,
    )


def join(parts: list[Noise]) -> Noise:
    """Put the noise of sessions from several starts together."""
    first = parts[0]

    def shared(name: str) -> npt.NDArray[np.generic]:
        arrays = [getattr(part, name) for part in parts]
        if all(len(a) == 1 and np.array_equal(a, arrays[0]) for a in arrays):
            return arrays[0]  # type: ignore[no-any-return]
        return np.concatenate([np.broadcast_to(a, p.r.shape) for a, p in zip(arrays, parts, strict=True)])

    def whole(name: str) -> IntArray | None:
        return None if first.drawn is None else np.concatenate([getattr(part, name) for part in parts])

    return Noise(
        **{
            name: np.concatenate([getattr(p, name) for p in parts]) for name in ("r", "size", "pull", "state")
        },
        **{name: shared(name) for name in ("scale", "update", "step")},  # type: ignore[arg-type]
        agent=first.agent,
        exact=np.all([p.exact for p in parts], axis=0),
        start=np.concatenate([np.full(len(p.r), i) for i, p in enumerate(parts)]),
        drawn=whole("drawn"),
        sent=whole("sent"),
    )


def _of_agent(
    view: AgentHistory, theta: FloatArray, rng: np.random.Generator
) -> dict[str, npt.NDArray[np.generic]]:
    """Return one agent's part of `Noise`, with a column per component."""
    shape = (*view.x.shape[:2], -1)
    columns = view.x[0, 0].size
    path = states(view, theta).reshape(shape)
    scale = np.repeat(view.scales[..., None], columns, axis=2)
    exponent = None if view.exponent is None else np.repeat(view.exponent[..., None], columns, axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        rounding = 2.0**-50 * np.max(np.abs(view.x), initial=0) / np.min(scale, axis=(0, 2))
        exact = np.ones(len(rounding), np.bool_) if view.wholes is not None else rounding < TOLERANCE / 4
        known = exact | (rounding < _RESOLVED)
        drawn = None if view.wholes is None else lattice_draws(view, view.wholes, theta)
        eta = residuals(view, theta) if drawn is None else np.ldexp(drawn[0].astype(np.float64), drawn[1])
        r = np.where(counted(view)[..., None] & known[:, None], eta.reshape(shape) / scale, np.nan)
        step = np.zeros_like(scale) if exponent is None else np.ldexp(1 / scale, exponent)
    told = np.isfinite(r)
    r = np.where(told, r, np.nan)
    step = np.where(np.isfinite(step), step, 0.0)
    part = {"size": np.abs(r), "pull": _pulls(view, path), "state": path, "scale": scale, "step": step}
    if exponent is None:
        return {**part, "r": r, "exact": exact}
    if view.wholes is not None and drawn is not None:
        whole = cut(drawn[0].reshape(shape), MOST_STEPS).astype(np.int64)  # type: ignore[union-attr]
        spread = _spread_whole(r, step, rng)
    else:
        whole = nearest_steps(eta.reshape(shape), exponent)
        spread = _spread_rounded(r, step, rng)
    whole, said = (np.where(told, z, 0) for z in (whole, sent_steps(view).reshape(shape)))
    return {**part, "r": spread, "exact": exact, "drawn": whole, "sent": said}


def _pulls(view: AgentHistory, path: FloatArray) -> FloatArray:
    """The direction of each update, aligned with the message after it."""
    pull = np.full(path.shape, np.nan)
    heard = view.y[:, view.rounds_of[:-1]].reshape(len(path), path.shape[1] - 1, path.shape[2])
    moved = (np.diff(view.update, axis=1) > 0)[..., None]
    pull[:, 1:] = np.where(moved, heard - path[:, :-1], np.nan)
    return pull


def _spread_whole(r: FloatArray, step: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Spread discrete Laplace noise over the cells of its lattice.

    For k steps, P(|k| > m) = 2e^{−(m+1)·step}/(1 + e^{−step}). A size in the cell of |k| = m has a
    survival probability between those of m and of m − 1.
    """
    # Without this a Kolmogorov test would see the atoms of a coarse lattice and raise a false alarm. The
    # random place depends on nothing in the transcript, so the result is standard Laplace and still
    # independent.
    place, side = rng.random((2, *r.shape))
    cell = -np.expm1(-step)  # 1 − e^{−step}
    centre = -np.log1p(-place * np.tanh(step / 2))
    other = np.abs(r) + np.log1p(-cell / 2) - np.log1p(-place * cell)
    return np.asarray(np.where(r == 0, np.where(side < 0.5, -centre, centre), np.sign(r) * other))


def _spread_rounded(r: FloatArray, step: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Spread r = x − θ, where x was rounded to a step after adding noise.

    The Laplace noise was then within half a step of r.
    """
    place, side = rng.random((2, *r.shape))
    low, high = np.abs(r) - step / 2, np.abs(r) + step / 2
    left, right = (-np.expm1(-np.maximum(end, 0)) for end in (-low, high))  # masses on both sides of 0
    across = np.where(side * (left + right) < left, np.log1p(-place * left), -np.log1p(-place * right))
    beyond = low - np.log1p(place * np.expm1(-step))
    return np.asarray(np.where(r < 0, -1.0, 1.0) * np.where(low < 0, across, beyond))
