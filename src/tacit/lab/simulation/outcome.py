"""Sample the outcome of a run without simulating its agents.

The average moves only by the sum of the noise of all agents, and that sum can be drawn as one number. A sum
of m Laplace variables of scale b has the characteristic function (1 + b²s²)^−m. So has b·√(2G)·Z with
G ~ Gamma(m) and Z normal. (A difference of two Gamma(m, b) variables has it, too, but would lose digits for
large m.) So a run costs one Gamma draw per round and per group of agents with equal degree and noise, for any
N. The samples are exact in distribution (docs/proofs/outcome.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tacit.base.arguments import whole
from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError
from tacit.core.law import Law
from tacit.core.mechanism import ClientServer, Mechanism
from tacit.core.theory.agent_classes import AgentClasses, noise_classes

_DRAWS = 2**20  # draws held in memory; results do not depend on it
_SEGMENT = 2**16  # draws of one run that are summed together; fixes the order of additions


def sample_outcome(
    mechanism: Mechanism, runs: int, *, rounds: int | None = None, seed: int = 0
) -> FloatArray:
    """Sample how far the value that agents agree on is from its target.

    This is the deviation V of the γ-weighted average from Σγ_iθ_i(0)/Σγ_i with γ_i = ω_i/σ_i (Lemmas 4 and
    8, lem:acc and lem:acc_dis). With a server and one σ it is the deviation of the plain average. It does not
    depend on θ(0).

    Parameters
    ----------
    mechanism : ClientServer or Distributed
    runs : int
        Number of independent runs. With more runs, the first ones stay the same.
    rounds : int, optional
        Deviation after this many rounds; if not given, deviation of the consensus value of an endless run.
    seed : int
        The same seed gives the same numbers.

    Returns
    -------
    array, shape (runs,)
        For vector states, the deviation of one component. Components are independent.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> sample_outcome(ClientServer(Fading(0.8, 10, 0.6), agents=10**9), runs=4).shape
    (4,)
    """
    runs = whole("runs", runs, 1)
    rounds = None if rounds is None else whole("rounds", rounds, 0)
    scales, normals = _generators(seed)
    groups = _Groups.of(mechanism, rounds)
    unit = float(groups.scale.max())
    if rounds == 0 or unit == 0:  # no message yet
        return np.zeros(runs)
    terms = groups.law.significant_rounds(rounds)
    spread = np.empty(runs)
    for chunk in groups.chunks(runs, terms):
        mixed = np.zeros(chunk.stop - chunk.start)
        for segment in groups.segments(terms):
            mixed += groups.mixing_variances(scales, segment, mixed.size, unit).sum(axis=-1)
        spread[chunk] = unit * np.sqrt(2 * mixed)
    # given all Gamma draws, the rounds are independent normals: draw one normal with their total variance
    return np.asarray(spread * normals.standard_normal(runs))


def sample_average(
    mechanism: Mechanism, rounds: int, runs: int, *, start: float = 0.0, seed: int = 0
) -> FloatArray:
    """Sample the path of the γ-weighted average of all states.

    Parameters
    ----------
    mechanism : ClientServer or Distributed
    rounds, runs : int
    start : float
        Where it starts: Σγ_iθ_i(0)/Σγ_i, which is also its target.
    seed : int

    Returns
    -------
    array, shape (runs, rounds + 1)
    """
    runs, rounds = whole("runs", runs, 1), whole("rounds", rounds, 0)
    start = _finite("start", start)
    scales, normals = _generators(seed)
    if mechanism.shadowed:
        moved = _shadow_path(mechanism, rounds, runs, scales, normals)
    else:
        moved = _fresh_path(mechanism, rounds, runs, scales, normals)
    return np.asarray(start + moved)


def sample_agent(
    mechanism: Mechanism, value: float, average: float, rounds: int, runs: int, *, seed: int = 0
) -> FloatArray:
    """Sample one agent's own path, without the others.

    With a server and one σ, θ_i(t) − average(t) = (1 − σ)^t (θ_i(0) − average(0)) exactly (Lemma 3,
    lem:con), so an agent's path is that of the average plus a curve without randomness. The same seed gives
    the same average as `sample_average`, so several agents of one run can be sampled one by one.

    Parameters
    ----------
    mechanism : ClientServer
        With one mixing for all agents.
    value, average : float
        The agent's θ_i(0), and the average of all θ(0).
    rounds, runs, seed : int

    Returns
    -------
    array, shape (runs, rounds + 1)
    """
    if not isinstance(mechanism, ClientServer) or np.ndim(mechanism.law.sigma):
        raise ParameterError(
            "sample_agent needs the client-server mechanism with one mixing for all agents: otherwise an "
            "agent's path depends on every other agent. Use simulate for graphs and for mixing per agent."
        )
    apart = _finite("value", value) - _finite("average", average)
    path = sample_average(mechanism, rounds, runs, start=average, seed=seed)
    return np.asarray(path + mechanism.motion.influence(np.arange(rounds + 1)) * apart)


@dataclass(frozen=True, eq=False)
class _Groups:
    """Agents or keepers with equal noise in the average.

    A group's noise is Lap(scale) in round 0, and then follows the law.
    """

    count: FloatArray
    scale: FloatArray
    law: Law

    @classmethod
    def of(cls, mechanism: Mechanism, rounds: int | None) -> _Groups:
        """Group the sources of noise.

        Noise that is drawn once counts as the noise of a single round.
        """
        if mechanism.law.whole_domain:
            raise mechanism.law.undefined(
                "a sampler of sums", "the outcome without agents (simulate runs the agents)"
            )
        classes = noise_classes(mechanism)
        if mechanism.shadowed:
            scale = _shadow_scales(classes)
            if rounds is not None:
                scale = scale * classes.law.motion.followed(rounds)
            return cls(classes.agents, scale, classes.law)
        # V = Σ_t Σ_i ω_i η_i(t) / Σγ_i: agents that differ only in σ add the same
        scale = classes.omega * classes.c / classes.total_gamma
        law, alike = classes.law, ("c",) if classes.law.by_mixing else ("sigma", "c")
        own = law.values().items()  # a motion, or a table of scales, is one for all
        rest = [value for name, value in own if name not in alike and isinstance(value, np.ndarray)]
        rows = np.column_stack([scale, *rest])
        _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        count = np.bincount(kind.reshape(-1), weights=classes.agents).astype(np.float64)
        return cls(count, scale[first], law.of_agents(first))

    def segments(self, rounds: int) -> Iterator[range]:
        """Yield the rounds that are drawn together.

        They are fixed, so that results do not depend on the memory available.
        """
        step = max(1, _SEGMENT // self.count.size)
        return (range(first, min(first + step, rounds)) for first in range(0, rounds, step))

    def chunks(self, runs: int, rounds: int) -> Iterator[slice]:
        """Yield the runs that are drawn together.

        If a run has several segments, it is one run at a time, to keep their order.
        """
        draws = self.count.size * rounds
        step = 1 if draws > _SEGMENT else max(1, _DRAWS // max(draws, 1))
        return (slice(first, min(first + step, runs)) for first in range(0, runs, step))

    def mixing_variances(
        self, generator: np.random.Generator, rounds: range, runs: int, unit: float
    ) -> FloatArray:
        """Draw half the variance of each round, given the Gamma draws G.

        This is Σ_g (scale_{g,t} / unit)² G_{g,t}, of shape (runs, rounds). Draws are taken in the order run,
        round, group, so any split into runs is the same stream.
        """
        draws = generator.standard_gamma(self.count, size=(runs, len(rounds), self.count.size))
        t = np.arange(rounds.start, rounds.stop, dtype=np.float64)[:, None]
        draws *= (self.scale / unit * self.law.faded(t)) ** 2
        return np.asarray(draws.sum(axis=-1))


def _fresh_path(
    mechanism: Mechanism, rounds: int, runs: int, scales: np.random.Generator, normals: np.random.Generator
) -> FloatArray:
    groups = _Groups.of(mechanism, rounds)
    unit = float(groups.scale.max())
    path = np.zeros((runs, rounds + 1))
    for chunk in groups.chunks(runs, rounds):
        for segment in groups.segments(rounds):
            mixed = groups.mixing_variances(scales, segment, chunk.stop - chunk.start, unit)
            steps = unit * np.sqrt(2 * mixed) * normals.standard_normal(mixed.shape)
            path[chunk, segment.start + 1 : segment.stop + 1] = steps
    return np.asarray(np.cumsum(path, axis=1))


def _shadow_path(
    mechanism: Mechanism, rounds: int, runs: int, scales: np.random.Generator, normals: np.random.Generator
) -> FloatArray:
    # θ_i differs from its shadow by a_t·η_i, and the shadows' average is constant after round 0
    classes, _ = noise_classes(mechanism), _Groups.of(mechanism, rounds)
    count, scale = classes.agents, _shadow_scales(classes)
    path = np.zeros((runs, rounds + 1))
    step = max(1, _DRAWS // count.size)
    for first in range(0, runs, step):
        chunk = slice(first, min(first + step, runs))
        size = (chunk.stop - chunk.start, count.size)
        noise = scale * np.sqrt(2 * scales.standard_gamma(count, size=size)) * normals.standard_normal(size)
        for t in range(1, rounds + 1):
            path[chunk, t] = (noise * classes.law.motion.followed(t)).sum(axis=-1)
    return path


def _shadow_scales(classes: AgentClasses) -> FloatArray:
    """Scale of γ_i η_i / Σγ_i for each class of agents."""
    return np.asarray(classes.gamma * classes.c / classes.total_gamma)


def _generators(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    """Return two streams: of Gamma draws and of normal draws.

    Gamma draws use a varying number of random words. In one stream they would shift the normal draws.
    """
    gammas, normals = np.random.SeedSequence(whole("seed", seed, 0)).spawn(2)
    return np.random.Generator(np.random.PCG64DXSM(gammas)), np.random.Generator(np.random.PCG64DXSM(normals))


def _finite(name: str, value: float) -> float:
    # the value may be private: never show it
    if not math.isfinite(value):
        raise ParameterError(f"{name} must be a finite number.")
    return float(value)
