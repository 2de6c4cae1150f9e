"""The numbers behind the figures that need no simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError
from tacit.core.law import Constant, Fading
from tacit.core.mechanism import ClientServer
from tacit.core.motion.mixing import kept
from tacit.core.theory import accuracy, privacy
from tacit.core.theory import bounds as bounds_of
from tacit.core.theory.optimum import best_fading, best_one_shot, price_of_smoothness


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """Privacy and accuracy over the decay: the paper's Figure (fig:tradeoff)."""

    agents: int
    sigma: float
    c: float
    failure_probability: float
    q: FloatArray
    epsilon: FloatArray
    radius: FloatArray
    chebyshev_radius: FloatArray

    def table(self) -> dict[str, FloatArray]:
        """Return the columns by name."""
        return {
            "decay": self.q,
            "epsilon": self.epsilon,
            "radius": self.radius,
            "chebyshev_radius": self.chebyshev_radius,
        }


def tradeoff(
    agents: int = 500,
    sigma: float = 0.8,
    c: float = 10.0,
    failure_probability: float = 0.5,
    q: Sequence[float] | None = None,
) -> Tradeoff:
    """Return ε and both radii at the decays `q`.

    The other defaults are the paper's.
    """
    decays = dense_decays(sigma) if q is None else np.array(sorted(set(map(float, q))))
    mechanisms = [ClientServer(Fading(sigma, c, float(each)), agents=agents) for each in decays]
    return Tradeoff(
        agents,
        sigma,
        c,
        failure_probability,
        decays,
        epsilon=np.array([privacy.epsilon(m.law) for m in mechanisms]),
        radius=np.array([accuracy.radius(m, failure_probability) for m in mechanisms]),
        chebyshev_radius=np.array([accuracy.chebyshev_radius(m, failure_probability) for m in mechanisms]),
    )


def even_decays(sigma: float, points: int = 15) -> FloatArray:
    """Decays evenly inside (1 − σ, 1).

    They are 0.25, 0.3, …, 0.95 for the paper's σ = 0.8.
    """
    sigma = _mixing(sigma)
    return np.asarray(np.round(kept(sigma) + sigma * np.arange(1, points + 1) / (points + 1), 12))


def dense_decays(sigma: float, points: int = 48) -> FloatArray:
    """Decays inside (1 − σ, 1), closer together at both ends.

    The curves are steep there.
    """
    sigma = _mixing(sigma)
    # The first is 0.4% inside: closer to the end, ε would stretch the axis over many decades.
    along = np.linspace(0.02, 0.98, points)
    return np.asarray(kept(sigma) + sigma * (along - 0.8 * np.sin(2 * np.pi * along) / (2 * np.pi)))


def _mixing(sigma: float) -> float:
    return float(Fading(sigma, 1.0, 0.5).sigma)  # refuses a σ out of range with the usual error


@dataclass(frozen=True, eq=False)
class RadiusCurves:
    """Radius of the best noise against ε, for several numbers of agents."""

    sigma: float
    failure_probability: float
    agents: tuple[int, ...]
    epsilon: FloatArray
    radius: FloatArray
    one_shot: FloatArray
    chebyshev_radius: FloatArray

    def table(self) -> dict[str, Any]:
        """Return one row per number of agents and ε."""
        return {
            "agents": np.repeat(self.agents, self.epsilon.size),
            "epsilon": np.tile(self.epsilon, len(self.agents)),
            "radius": self.radius.reshape(-1),
            "one_shot": self.one_shot.reshape(-1),
            "chebyshev_radius": self.chebyshev_radius.reshape(-1),
        }


def radius_curves(
    agents: Sequence[int] = (10, 100, 1000, 10_000),
    sigma: float = 0.8,
    failure_probability: float = 0.05,
    epsilon: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
) -> RadiusCurves:
    """Return the exact radius of the best fading and of one-shot noise.

    At the best decay the noise is proportional to 1/ε, and so is every quantile of the deviation. So one
    radius per number of agents is computed, and the others are scaled.
    """
    values = np.array(sorted(set(map(float, epsilon))))
    if not (values.size and np.isfinite(values).all() and (values > 0).all()):
        raise ParameterError("epsilon must be positive numbers.")
    sizes = tuple(sorted(set(agents)))
    at_one = np.array([_radii_at_epsilon_one(n, sigma, failure_probability) for n in sizes]).T[:, :, None]
    fading, one_shot, chebyshev = at_one / values
    return RadiusCurves(sigma, failure_probability, sizes, values, fading, one_shot, chebyshev)


def _radii_at_epsilon_one(agents: int, sigma: float, b: float) -> tuple[float, float, float]:
    fading = ClientServer(best_fading(sigma, 1.0), agents=agents)
    one_shot = ClientServer(best_one_shot(sigma, 1.0), agents=agents)
    return (
        accuracy.radius(fading, b),
        accuracy.radius(one_shot, b),
        accuracy.chebyshev_radius(fading, b),
    )


@dataclass(frozen=True, eq=False)
class Smoothness:
    """Radius divided by that of one-shot noise, over the mixing."""

    agents: tuple[int, ...]
    failure_probability: float
    sigma: FloatArray
    deviation: FloatArray
    radius: FloatArray

    def table(self) -> dict[str, FloatArray]:
        """Return the columns by name."""
        exact = {f"radius_{n}_agents": row for n, row in zip(self.agents, self.radius, strict=True)}
        return {"mixing": self.sigma, "deviation": self.deviation, **exact}


MIXINGS = (
    0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, *(k / 20 for k in range(2, 20)), 0.97, 0.98, 0.99,
)  # fmt: skip
"""Where the price of smoothness is shown: closer together where it is steep."""


def smoothness(
    agents: Sequence[int] = (500,), failure_probability: float = 0.05, sigma: Sequence[float] = MIXINGS
) -> Smoothness:
    """Return the price of smoothness, of the deviation and of the radius."""
    sizes, mixings = tuple(sorted(set(agents))), sorted(set(map(float, sigma)))
    rows = []
    for n in sizes:
        limit = accuracy.radius(ClientServer(best_one_shot(0.5, 1.0), agents=n), failure_probability)
        fading = [ClientServer(best_fading(each, 1.0), agents=n) for each in mixings]
        rows.append([accuracy.radius(mechanism, failure_probability) / limit for mechanism in fading])
    deviation = np.array([price_of_smoothness(each) for each in mixings])
    return Smoothness(sizes, failure_probability, np.array(mixings), deviation, np.array(rows))


@dataclass(frozen=True, eq=False)
class RadiusBounds:
    """Exact radius and Chebyshev's over the failure probability.

    There is one row per number of agents.
    """

    sigma: float
    c: float
    q: float
    agents: tuple[int, ...]
    failure_probability: FloatArray
    radius: FloatArray
    chebyshev_radius: FloatArray

    def table(self) -> dict[str, Any]:
        """Return one row per number of agents and failure probability."""
        return {
            "agents": np.repeat(self.agents, self.failure_probability.size),
            "failure_probability": np.tile(self.failure_probability, len(self.agents)),
            "radius": self.radius.reshape(-1),
            "chebyshev_radius": self.chebyshev_radius.reshape(-1),
        }


FAILURES = (
    0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01, 0.005, 0.002, 0.001,
    0.0003, 0.0001,
)  # fmt: skip
"""Where the two radii are compared."""


def bounds(
    agents: Sequence[int] = (500,),
    sigma: float = 0.8,
    c: float = 10.0,
    q: float = 0.6,
    failure_probability: Sequence[float] = FAILURES,
) -> RadiusBounds:
    """Return both radii; the defaults are those of the paper's figure.

    The decay is in the middle of that figure.
    """
    sizes, chances = tuple(sorted(set(agents))), np.array(sorted(set(map(float, failure_probability))))
    mechanisms = [ClientServer(Fading(sigma, c, q), agents=n) for n in sizes]
    exact, loose = (
        np.array([[radius(mechanism, b) for b in chances.tolist()] for mechanism in mechanisms])
        for radius in (accuracy.radius, accuracy.chebyshev_radius)
    )
    return RadiusBounds(sigma, c, q, sizes, chances, exact, loose)


@dataclass(frozen=True, eq=False)
class SeriesCurves:
    """Deviation of the worst mean over the number of means.

    There is one row per mechanism of a series.
    """

    agents: int
    keepers: int
    hides: str
    loss: float
    delta: float
    slots: tuple[int, ...]
    deviation: dict[str, FloatArray]

    def table(self) -> dict[str, Any]:
        """Return the columns by name."""
        columns = {name.replace(" ", "_").replace("-", "_"): row for name, row in self.deviation.items()}
        return {"slots": np.array(self.slots), **columns}


SLOTS = (1, 2, 4, 10, 24, 48, 96, 192, 672, 1344, 2976, 8928, 17_520, 35_040, 100_000)
"""Numbers of means that the figure shows: a day, a week, a month and a year of quarter hours among them."""


def series_curves(
    slots: Sequence[int] = SLOTS,
    hides: str = "step:2",
    *,
    agents: int = 1000,
    low: float = 0.0,
    high: float = 10.0,
    keepers: int = 1,
    loss: float = 1.0,
    delta: float = 1e-6,
) -> SeriesCurves:
    """Return the deviation of each mechanism for series of these lengths."""
    from tacit.core.series import Hides, candidates

    sizes, what = tuple(sorted(set(slots))), Hides.parse(hides)
    asked: dict[str, Any] = {"agents": agents, "keepers": keepers, "epsilon": loss, "delta": delta}
    found = [candidates(each, what, span=high - low, **asked) for each in sizes]
    deviation: dict[str, FloatArray] = {kind: np.array([at[kind] for at in found]) for kind in found[0]}
    return SeriesCurves(agents, keepers, hides, loss, delta, sizes, deviation)


@dataclass(frozen=True, eq=False)
class Closeness:
    """Variance divided by the least possible, over the mixing.

    See docs/proofs/bounds.md, section 2.
    """

    sigma: FloatArray
    motion: FloatArray
    linear: FloatArray
    one_shot: float

    def table(self) -> dict[str, FloatArray]:
        """Return the columns by name."""
        return {
            "mixing": self.sigma,
            "fading": self.motion,
            "linear_estimate": self.linear,
            "one_shot": np.full_like(self.sigma, self.one_shot),
        }


def closeness(sigma: Sequence[float] = MIXINGS) -> Closeness:
    """Return how close three methods come to the least variance.

    They are the best fading noise, the best linear estimate from its messages, and one-shot noise.
    """
    mixings = sorted(set(map(float, sigma)))
    fading = [ClientServer(best_fading(each, 1.0), agents=1) for each in mixings]
    return Closeness(
        np.array(mixings),
        motion=np.array([bounds_of.times_least_variance(made) for made in fading]),
        linear=np.array([bounds_of.linear_variance(made) / bounds_of.best_possible(made) for made in fading]),
        one_shot=bounds_of.times_least_variance(ClientServer(best_one_shot(0.5, 1.0), agents=1)),
    )


@dataclass(frozen=True, eq=False)
class TailCurves:
    """Exact radius divided by its limit, for each kind of noise.

    The limit is (1 − (1−σ)^T)·ln(1/b)/(Nε).
    """

    agents: int
    sigma: float
    rounds: int
    failure_probability: FloatArray
    times: dict[str, FloatArray]

    def table(self) -> dict[str, FloatArray]:
        """Return the columns by name."""
        return {"failure_probability": self.failure_probability, **self.times}


TAILS = tuple(10.0**-k for k in (1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 40, 60, 80, 100, 130, 160, 200, 250, 300))


def tail_curves(
    agents: int = 5, sigma: float = 0.3, rounds: int = 10, failure_probability: Sequence[float] = TAILS
) -> TailCurves:
    """Return the radii of three kinds of noise, divided by their limit.

    They are constant, fading and one-shot noise with the same ε.
    """
    chances = np.array(sorted(set(map(float, failure_probability)), reverse=True))
    laws = {
        "constant": Constant.best(sigma, 1.0, rounds),
        "fading": best_fading(sigma, 1.0, rounds),
        "one_shot": best_one_shot(sigma, 1.0),
    }
    limit = bounds_of.tail_scale(ClientServer(laws["one_shot"], agents), rounds)
    times = {
        name: np.array([accuracy.radius(ClientServer(law, agents), b, rounds) for b in chances.tolist()])
        / (-np.log(chances) * limit)
        for name, law in laws.items()
    }
    return TailCurves(agents, sigma, rounds, chances, times)
