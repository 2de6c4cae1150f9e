"""One part of a split graph: its worker's steps, as pure functions.

A part is a range of agents. It holds their rows, states and messages, and receives from other parts the
messages of the halo: those of its agents' neighbours there. `tacit.simulation.partition` calls these
functions on a cluster; nothing here depends on one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.arrays import FloatArray, IntArray, as_states
from tacit.errors import ParameterError
from tacit.law import Law
from tacit.mechanism.topology import Weights
from tacit.simulation import _graph_kernels, _kernels
from tacit.simulation.rows import Rows
from tacit.simulation.sweep_plan import values_between

Tile = tuple[int, int]  # first column (run × component), and how many


@dataclass(frozen=True, eq=False)
class Job:
    """Everything except the graph, for all parts or for one part."""

    law: Law
    values: FloatArray | str
    components: int
    vectors: bool
    rounds: int
    runs: int
    seed: int

    @classmethod
    def of(cls, law: Law, n: int, values: npt.ArrayLike | str, *, rounds: int, runs: int, seed: int) -> Job:
        """Check the arguments and return what the workers need."""
        for name, given, least in (("rounds", rounds, 0), ("runs", runs, 1)):
            if given < least:
                raise ParameterError(f"{name} must be a whole number of at least {least}, got {given}.")
        for word, value in list(law.worded().items())[2:]:
            if np.ndim(value):
                raise ParameterError(f"{word} must be one number for all agents of a partitioned simulation.")
        states = values if isinstance(values, str) else as_states(values, n)
        if isinstance(states, str):
            values_between(states, 0, 0)  # refuses an unknown name
        vectors = not isinstance(states, str) and states.ndim == 2
        return cls(
            law=law,
            values=states,
            components=int(np.shape(states)[1]) if vectors else 1,
            vectors=vectors,
            rounds=rounds,
            runs=runs,
            seed=seed,
        )

    def of_part(self, lo: int, hi: int) -> Job:
        """Return the job of agents lo ≤ i < hi."""
        values = self.values if isinstance(self.values, str) else self.values[lo:hi]
        return replace(self, law=self.law.of_agents(slice(lo, hi)), values=values)

    def scale(self, t: int) -> FloatArray:
        """Laplace scale of round t."""
        return np.atleast_1d(np.asarray(self.law.scale(np.float64(t)), dtype=np.float64))

    @property
    def sigma(self) -> FloatArray:
        """Mixing: one number, or one per agent."""
        return np.atleast_1d(np.array(self.law.sigma))


class PartWeights(NamedTuple):
    """Rows of weights of a range of agents.

    For messages with different weights. `own` and `omega` (the left eigenvector) are per agent, `heard` is in
    the order of the neighbours.
    """

    own: FloatArray
    heard: FloatArray
    omega: FloatArray

    @classmethod
    def of(cls, rows: Weights, lo: int, hi: int) -> PartWeights:
        """Cut a range of agents out of the weights of a whole graph."""
        first, last = rows.graph.indptr[lo], rows.graph.indptr[hi]
        return cls(*(np.array(a) for a in (rows.own[lo:hi], rows.heard[first:last], rows.stationary[lo:hi])))


@dataclass(frozen=True, eq=False)
class Part:
    """Agents lo ≤ i < hi with their rows of the graph.

    Neighbours are numbered as this part holds their messages: own agents come first, then the halo, which is
    agents of other parts, in rising order.
    """

    job: Job
    lo: int
    hi: int
    indptr: IntArray
    indices: npt.NDArray[np.int32]
    halo: IntArray
    shares: PartWeights | None

    @property
    def n(self) -> int:
        """Agents of its own."""
        return self.hi - self.lo

    @property
    def weights(self) -> FloatArray:
        """The weights γ_i = ω_i/σ_i (Lemma 8) of its own agents.

        For plain means ω_i = |N(i)| + 1.
        """
        omega = np.diff(self.indptr) + 1 if self.shares is None else self.shares.omega
        return np.asarray(omega / self.job.sigma)


@dataclass(frozen=True, eq=False)
class PartState:
    """θ(t) and x(t) of one part.

    One row of columns (run × component) per agent, flat.
    """

    theta: FloatArray
    x: FloatArray


def cut_part(job: Job, rows: Rows, shares: PartWeights | None, lo: int, hi: int) -> Part:
    """Make one part, on the worker that will hold it."""
    indptr, far = rows.neighbours(lo, hi)
    outside = (far < lo) | (far >= hi)
    halo = np.unique(far[outside]).astype(np.int64)
    near = far.astype(np.int64) - lo
    near[outside] = hi - lo + np.searchsorted(halo, far[outside])
    return Part(job, lo, hi, np.asarray(indptr, dtype=np.int64), near.astype(np.int32), halo, shares)


def wanted(part: Part, bounds: IntArray) -> list[IntArray]:
    """For every part, the indices of its agents whose messages `part` needs."""
    ends = np.searchsorted(part.halo, bounds)
    return [part.halo[a:b] - lo for a, b, lo in zip(ends, ends[1:], bounds, strict=False)]


def heard_parts(wants: list[IntArray]) -> list[int]:
    """The parts that a part receives messages from."""
    return [q for q, places in enumerate(wants) if len(places)]


def begin(part: Part, first: int, width: int) -> PartState:
    """θ(0), and phase (i) of round 0."""
    keys, component = _columns(part.job, first, width)
    values = part.job.values
    if isinstance(values, str):
        values = values_between(values, part.lo, part.hi)
    theta, x = np.empty(part.n * width), np.empty(part.n * width)
    start = np.array(values.reshape(part.n, part.job.components), order="C")
    lanes = (0,) * width
    _graph_kernels.begin(start, component, part.job.scale(0), keys, theta, x, lanes, part.lo, 0, part.n)
    return PartState(theta, x)


def border(state: PartState, wants: list[IntArray], source: int, width: int) -> FloatArray:
    """Messages of one part, the source, that another part needs."""
    return np.take(state.x.reshape(-1, width), wants[source], axis=0)


def step(part: Part, state: PartState, t: int, tile: Tile, heard: list[FloatArray]) -> PartState:
    """Run round t of one part, as `simulate` does.

    It uses the part's own messages and those of the halo.
    """
    job, (keys, _) = part.job, _columns(part.job, *tile)
    x = np.concatenate([state.x, *(messages.reshape(-1) for messages in heard)])
    theta, following = np.array(state.theta), np.empty_like(state.x)
    own, heard_share = (None, None) if part.shares is None else part.shares[:2]
    _graph_kernels.move(
        part.indptr, part.indices, own, heard_share, job.sigma, job.scale(t + 1), keys, theta, x,
        following, t, t + 1 < job.rounds, job.law.shadowed, (0,) * tile[1], part.lo, 0, part.n,
    )  # fmt: skip
    return PartState(theta, following)


def mark(state: PartState) -> bool:  # noqa: ARG001 - only depends on it
    """Return True once a state is computed, without holding the state."""
    return True


def block_sums(part: Part, state: PartState, width: int, weighted: bool) -> FloatArray:
    """Σ γ_i θ_i of every block of agents."""
    blocks = -(-part.n // _kernels.AGENTS)
    sums, weights = np.empty(blocks * width), part.weights if weighted else np.ones(1)
    _graph_kernels.block_sums(state.theta, weights, part.n, sums, (0,) * width, 0, blocks)
    return sums


def weight_sums(part: Part) -> tuple[float, float, FloatArray]:
    """Least and largest weight, and Σ γ_i of every block."""
    gamma = part.weights
    size = _kernels.AGENTS
    blocks = [_kernels.total(gamma[first : first + size]) for first in range(0, part.n, size)]
    return float(gamma.min()), float(gamma.max()), np.array(blocks)


def columns_of(state: PartState, width: int) -> FloatArray:
    """θ as an array (column, agent)."""
    return np.ascontiguousarray(state.theta.reshape(-1, width).T)


def _columns(job: Job, first: int, width: int) -> tuple[npt.NDArray[np.uint64], IntArray]:
    """Return the noise keys and components of some columns.

    The columns are first ≤ c < first + width.
    """
    run, component = np.divmod(np.arange(first, first + width), job.components)
    keys = np.empty(width, dtype=np.uint64)
    _kernels.column_keys(np.uint64(job.seed), run.astype(np.uint64), component.astype(np.uint64), keys)
    return keys, component
