"""Simulate what is deployed: the mechanism in whole numbers.

Every message is computed by the same code as in a deployment. Only the source of noise may differ: with
`SafeNoise` it is the deployed one, with `SimulatedWholeNoise` a study is repeatable but protects nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast, final

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import BoolArray, FloatArray, IntArray
from tacit.base.errors import ParameterError
from tacit.core.history import History, Private, Wholes
from tacit.core.mechanism import Mechanism
from tacit.core.mechanism.lattice import Lattice, LatticeAgent
from tacit.core.mechanism.on_lattice import OnLattice, WholeState
from tacit.core.noise.safe import SafeNoise, WholeNoise, source_of
from tacit.core.noise.simulated import as_seed, simulated_source

_RESOLVED = 2.0**44  # at larger scales doubles do not resolve every whole number
_BLOCK = 2**20


@final
@dataclass(frozen=True)
class SimulatedWholeNoise:
    """Discrete Laplace noise that is the same for the same seed. NOT private.

    A draw is the difference of two geometric numbers. Anyone who knows the seed knows the noise. Run r of a
    seed is the same for every number of runs.
    """

    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", as_seed(self.seed))

    def draw(self, scales: FloatArray, run: int) -> IntArray:
        """Return one run's draws, one for each scale; 0 where the scale is 0."""
        return discrete_laplace(np.random.default_rng([self.seed, run]), scales, scales.shape)


def discrete_laplace(generator: np.random.Generator, scales: FloatArray, shape: tuple[int, ...]) -> IntArray:
    """Draw discrete Laplace noise from a seeded generator. NOT private.

    A draw is the difference of two geometric numbers, which are floors of exponentials in double precision.
    """
    exponential = generator.standard_exponential((2, *shape))
    if np.max(scales, initial=0.0) <= _RESOLVED:
        up, down = np.floor(exponential * scales).astype(np.int64)
        return np.asarray(up - down)
    # A double has 53 bits, so the low bits of such wide noise would not be random. A geometric number is
    # B·A + R with independent parts: A is geometric at 1/B of the scale, and R is geometric given R < B.
    parts = np.floor(exponential * (scales / _BLOCK)).astype(np.int64)
    inside = -np.expm1(-_BLOCK / np.where(scales > 0, scales, 1.0))
    rest = np.floor(-scales * np.log1p(-generator.random((2, *shape)) * inside)).astype(np.int64)
    up, down = _BLOCK * parts + np.minimum(rest, _BLOCK - 1)
    return np.asarray(up - down)


def simulate_on_lattice(
    mechanism: Mechanism,
    lattice: Lattice,
    values: Any,
    rounds: int,
    *,
    noise: SafeNoise | SimulatedWholeNoise,
    runs: int = 1,
) -> History:
    """Run the lattice mechanism many times on fresh noise.

    All runs are returned side by side, in one history. Takes about 200 bytes and a few microseconds per run,
    round, agent and component. Use it for audits and to compare with the real-valued mechanism; use the
    engine on floats for large studies.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> mechanism = ClientServer(Fading(sigma=0.8, c=10, q=0.6), agents=3)
    >>> lattice = Lattice.fitting(mechanism.law, 20, low=0, high=1)
    >>> noise = SimulatedWholeNoise(seed=1)
    >>> simulate_on_lattice(mechanism, lattice, [0, 1, 0.5], 20, noise=noise, runs=5)
    <History client-server, 5 runs, 3 agents, 20 rounds>
    """
    if rounds < 0 or runs < 1:
        raise ParameterError(f"rounds must be at least 0 and runs at least 1, got {rounds} and {runs}.")
    on = OnLattice(mechanism, lattice)
    theta = on.start(values).theta
    n, sources, vector = mechanism.n, mechanism.sources, theta.shape[1:]
    # Runs are components: they are independent, so one execution computes all of them.
    side_by_side = np.repeat(theta[:, None], runs, axis=1).reshape(n, -1)
    scales = _scales(on, rounds)
    shape = (rounds, sources, runs, *vector)
    law = mechanism.law
    if law.whole_domain:
        draws = _drawn_once(on.agents[0], noise, shape)
    elif isinstance(noise, SimulatedWholeNoise):
        draws = _simulated(noise, scales, shape)
    else:
        draws = _drawn(noise, scales, shape)
    together = on.run(WholeState(side_by_side, side_by_side), draws.reshape(rounds, sources, -1))

    def by_run(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.moveaxis(array.reshape(*array.shape[:-1], runs, *vector), array.ndim - 1, 0)

    def in_each(mask: BoolArray) -> BoolArray:
        return np.repeat(mask[None], runs, axis=0)

    whole, own, exponent = together.wholes, together.private, together.exponent
    assert whole is not None  # it ran on a lattice, and here
    assert own is not None
    return replace(
        together,
        x=by_run(together.x),
        y=by_run(together.y),
        said=in_each(together.said),
        update=together.update[None],
        exponent=None if exponent is None else exponent[None],
        wholes=Wholes(lattice, by_run(whole.x), by_run(whole.y)),
        used=None if together.used is None else in_each(together.used),
        private=Private(**{name: by_run(array) for name, array in vars(own).items() if array is not None}),
    )


def rounding_bound(on: OnLattice, rounds: int) -> FloatArray:
    """Bound how far rounding can move the states.

    One number for each of rounds 0 to `rounds`: the largest distance of any agent's state from that of the
    real-valued mechanism on the same noise (docs/proofs/lattice.md, section 5). Messages that are clamped to
    the reach are not covered.
    """
    s = on.lattice.state_step
    motion = on.mechanism.motion
    theta = basis = heard = np.full(len(on.agents), s / 2)
    bounds = [float(theta.max())]
    opens_once = bool(on.mechanism.keepers) and on.mechanism.shadowed
    for u in range(rounds):
        if opens_once and u > 0:  # states still move towards the single feedback of round 0
            theta = motion.move(theta, heard) + s / 2
            bounds.append(float(theta.max()))
            continue
        steps = np.ldexp(1.0, np.array([agent.message_exponent(u) for agent in on.agents]))
        said = basis + np.where(steps > s, steps / 2, 0)
        heard = said.max() + s / 2
        theta = motion.move(theta, heard) + s / 2
        basis = motion.move(said, heard) + s / 2 if on.mechanism.shadowed else theta
        bounds.append(float(theta.max()))
    return np.array(bounds) * (1 + 2**-40)


def _scales(on: OnLattice, rounds: int) -> FloatArray:
    """Return the draws' scales, of shape (rounds, 1) or (rounds, n)."""
    return np.array([on.draw_scales(u) for u in range(rounds)]).reshape(rounds, -1)


def _simulated(noise: SimulatedWholeNoise, scales: FloatArray, shape: tuple[int, ...]) -> IntArray:
    rounds, n, runs, *vector = shape
    wide = np.broadcast_to(scales.reshape(rounds, -1, *(1 for _ in vector)), (rounds, n, *vector))
    return np.stack([noise.draw(wide, run) for run in range(runs)], axis=2)


def _drawn(noise: SafeNoise, scales: FloatArray, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    draws = np.zeros(shape, dtype=np.int64)
    for row, per_agent in zip(draws, scales, strict=True):
        if len(per_agent) == 1:
            row[...] = _or_zeros(noise, per_agent[0], row.size).reshape(row.shape)
        else:
            for own, scale in zip(row, per_agent, strict=True):
                own[...] = _or_zeros(noise, scale, own.size).reshape(own.shape)
    return draws


def _drawn_once(
    agent: LatticeAgent, noise: SafeNoise | SimulatedWholeNoise, shape: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """Draw for the first round; all zero after it."""
    draws = np.zeros(shape, dtype=np.int64)
    if not shape[0]:
        return draws
    source: WholeNoise = source_of(agent, float(cast(Any, agent.law).domain))
    if isinstance(noise, SimulatedWholeNoise):
        source = simulated_source(source, noise.seed)
    draws[0] = source.draw(agent.draw_scale(0), draws[0].size).reshape(draws[0].shape)
    return draws


def _or_zeros(noise: SafeNoise, scale: float, size: int) -> IntArray:
    return noise.draw(scale, size) if scale else np.zeros(size, dtype=np.int64)
