"""Gaussian noise, fresh in every round, and its (ε, δ).

If message t of two worlds differs by a_t and has Gaussian noise of deviation s_t, the messages together are
μ-Gaussian private with μ² = Σ_t a_t²/s_t², also for feedback that liars choose. Σ s_t² is least for
s_t ∝ √a_t, by Cauchy and Schwarz: the decay is √(1 − σ) for mixing, and smooth motion then costs nothing
(docs/proofs/dynamics.md, T4).

This is about real numbers. Discrete Gaussian noise is not μ-Gaussian private, so no lattice and no session
takes this law: a question that needs a Laplace scale, or a pure ε, is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, final

import numpy as np

from tacit.base.arguments import shown
from tacit.base.arrays import FloatArray, PerAgent, checked_per_agent
from tacit.base.errors import LawError, ParameterError
from tacit.base.rounding import fraction_up
from tacit.core.law.base import STEP, Envelope, Law, Terms
from tacit.core.motion import Linear, Motion
from tacit.core.motion.mixing import kept, log_kept

_MOST_STEPS = 5000
_NARROW = 1e-12  # a gap at which the search for the weights of corners stops
_WHY = (
    "Gaussian noise has no pure epsilon and no Laplace scale, so {what} does not know it. Ask `analyze` with "
    "a delta, or take Laplace noise (Fading, Scheduled or OneShot); sessions draw only that."
)


@final
@dataclass(frozen=True, eq=False)
class Gaussian(Law):
    """Fresh Gaussian noise every round, of deviation c·q^t.

    Its loss is (ε, δ): with probability δ it may be exceeded. For theory and simulations: sessions draw
    Laplace noise.

    Parameters
    ----------
    sigma : float, one per agent, or a motion
        See `Law`.
    c : float or one per agent
        Noise: the standard deviation of round 0, not a Laplace scale.
    q : float, one per agent, or a table
        Decay, in (0, 1); or the deviation of each round in units of c, which covers as many rounds.

    Examples
    --------
    >>> law = Gaussian.best(0.1, 1.0, delta=1e-6)
    >>> round(law.q**2, 12), round(law.mu(None), 10)
    (0.9, 0.2367043807)
    """

    q: float | FloatArray | tuple[float, ...]

    name: ClassVar[str] = "gaussian"
    pure: ClassVar[bool] = False
    by_mixing: ClassVar[bool] = False
    below_one: ClassVar[frozenset[str]] = frozenset({"sigma", "q"})
    meanings: ClassVar[Mapping[str, str]] = {"q": "the noise of round t has deviation c·q^t"}

    if TYPE_CHECKING:

        def __init__(self, sigma: PerAgent | Motion, c: PerAgent, q: PerAgent) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.q, tuple | list):
            self.check(self.letters())
            return
        table = np.array(self.q, dtype=np.float64)
        if table.ndim != 1 or not table.size or not np.all(np.isfinite(table) & (table >= 0)):
            raise ParameterError(
                "a table of Gaussian noise must be one deviation of at least 0 per round, got "
                f"{shown(self.q)}.",
                "decay",
            )
        object.__setattr__(self, "q", tuple(table.tolist()))
        self.check(("sigma", "c"))

    # ---- noise --------------------------------------------------------------------------------------

    def deviation(self, u: Any) -> Any:
        """c·q^u, or c·table_u."""
        if not isinstance(self.q, tuple):
            return self.c * self.q**u
        at = np.asarray(u)
        if np.any(at >= len(self.q)):
            raise LawError(
                f"a table of {len(self.q)} deviations covers as many rounds, got round {int(np.max(at))}. "
                "Ask for fewer rounds, or give a longer table."
            )
        return self.c * np.asarray(self.q)[at.astype(np.int64)]

    def deviations(self, rounds: int) -> FloatArray:
        """Standard deviation of each round, of shape (rounds,) or (rounds, n)."""
        t = np.arange(rounds, dtype=np.float64)
        if self.agents is None:
            return np.asarray(self.deviation(t))
        return np.broadcast_to(self.deviation(t[:, None]), (rounds, self.agents))

    def total_variance(self, rounds: int | None) -> float:
        """Σ_t s_t²; c²/(1 − q²) for an endless run."""
        if rounds is not None or isinstance(self.q, tuple | np.ndarray):
            return super().total_variance(self.longest if rounds is None else rounds)
        return float(self.c) ** 2 / (1 - self.q**2)

    @property
    def longest(self) -> int | None:
        """As many rounds as the table has."""
        return len(self.q) if isinstance(self.q, tuple) else None

    @property
    def ratio(self) -> PerAgent | None:
        """The decay, if there is one."""
        return None if isinstance(self.q, tuple) else self.q

    # ---- privacy ------------------------------------------------------------------------------------

    def mu(self, rounds: int | None) -> float:
        """Return μ per unit of adjacency, of the agent who has most, rounded up.

        μ² = sup Σ_t |M_t·d|²/s_t². An endless run is covered for mixing and a decay above 1 − σ.
        """
        return math.nextafter(math.sqrt(float(np.max(self._squares(rounds)))), math.inf)

    def _squares(self, rounds: int | None) -> FloatArray:
        """μ² of each agent, rounded up."""
        if rounds is not None:
            return self.motion.spent_squared(self.deviations(rounds))
        if isinstance(self.q, tuple) or not self.mixes:
            raise self.undefined("mu for an endless run", "the loss of an endless run")
        each = np.broadcast_arrays(*map(np.atleast_1d, (self.sigma, self.c, self.q)))
        return np.array([_endless(*map(Fraction, map(float, row))) for row in zip(*each, strict=True)])

    @classmethod
    def best(
        cls, sigma: PerAgent | Motion, epsilon: float, rounds: int | None = None, *, delta: float = 1e-6
    ) -> Self:
        """Return the Gaussian noise of least variance with this (ε, δ).

        ε and δ are for an adjacency of 1; `best_for` takes μ per unit of it.
        """
        return cls.best_for(sigma, mu_of(epsilon, delta), rounds)

    @classmethod
    def best_for(cls, sigma: PerAgent | Motion, mu: float, rounds: int | None = None) -> Self:
        """Return the noise of least variance with this μ.

        Deviations are proportional to √a_t: for mixing q = √(1 − σ), for a motion by a table.
        """
        if isinstance(sigma, Motion):
            if rounds is None:
                raise cls.undefined("best for an endless run of a motion", "the best Gaussian noise")
            table = best_deviations(sigma.influence_table(rounds))
            law = cls(sigma, float(table.max()), tuple((table / table.max()).tolist()))
        else:
            mixing = checked_per_agent(sigma, "mixing (sigma)", below_one=True)
            q = np.exp(log_kept(np.asarray(mixing)) / 2)
            law = cls(mixing, 1.0, q if np.ndim(q) else float(q))
        c = float(np.asarray(law.c)) * law.mu(rounds) / mu
        while (made := law.with_noise(c)).mu(rounds) > mu:
            c *= STEP
        return made

    def as_linear(self) -> Self:
        """Return this law with mixing as a linear motion, to work out its loop."""
        if not self.mixes:
            return self
        if self.agents is not None:
            raise self.undefined("agents that differ in mixing, noise or decay", "what the group does")
        share = float(self.sigma)
        moved = Linear([[kept(share)]], [share], [1.0], private={0: 1.0}, names=("value",))
        return type(self)(moved, self.c, self.q)

    # ---- what only Laplace noise has ----------------------------------------------------------------

    def _refuse(self, what: str) -> NoReturn:
        raise LawError(_WHY.format(what=what))

    def scale(self, u: Any) -> Any:
        """Refuse: see `deviations`."""
        self._refuse("what asks for scales")

    def scales(self, rounds: int) -> FloatArray:
        """Refuse: see `deviations`."""
        self._refuse("what asks for scales")

    def round_scales(self) -> Iterator[FloatArray]:
        """Refuse: see `deviations`."""
        self._refuse("what asks for scales")

    def faded(self, t: FloatArray) -> FloatArray:
        """Refuse: see `deviations`."""
        self._refuse("what asks for scales")

    def upper_scale(self, u: int) -> float:
        """Refuse: discrete Gaussian noise is not μ-Gaussian private."""
        self._refuse("a lattice")

    def epsilons(self, rounds: int | None) -> FloatArray:
        """Refuse: see `mu`."""
        self._refuse("what asks for a pure loss")

    def costs(self, rounds: int, distance: float) -> FloatArray:
        """Refuse: see `mu`."""
        self._refuse("what asks for a pure loss")

    def loss_parts(self, rounds: int | None, adjacency: float, share: int) -> Iterator[float]:
        """Refuse: see `mu`."""
        self._refuse("what asks for a pure loss")

    def terms(self, closed: FloatArray, total: float, rounds: int | None) -> Terms:
        """Refuse: the deviation is a normal variable, and no sum of Laplace ones."""
        self._refuse("what adds up Laplace noise")

    def envelope(self, rounds: int | None) -> Envelope:
        """Refuse: see `deviations`."""
        self._refuse("what asks for scales")


def best_deviations(influence: FloatArray) -> FloatArray:
    """Return the deviations of least Σ s_t² with μ = 1 at every corner.

    For one corner s_t² = a_t·Σa (Cauchy and Schwarz). For several the best mixture of the corners' squares
    is looked for, and its deviations are widened to the worst corner: private in any case.
    """
    squares = np.asarray(influence, dtype=np.float64).reshape(len(influence), -1) ** 2
    mixture = np.full(squares.shape[1], 1 / squares.shape[1])
    best, value = np.empty(0), np.inf
    for _ in range(_MOST_STEPS):
        root = np.sqrt(squares @ mixture)
        variance = root * root.sum()
        spent = np.divide(
            squares, variance[:, None], out=np.zeros_like(squares), where=variance[:, None] > 0
        ).sum(axis=0)
        lost = np.any((variance == 0) & squares.any(axis=1))  # some corner would be shown without noise
        if not lost and variance.sum() * spent.max() < value:
            best, value = variance * spent.max(), float(variance.sum() * spent.max())
        if value <= float(variance.sum()) * (1 + _NARROW):  # no deviations have less than this sum
            break
        mixture = mixture * spent / (mixture @ spent)
    return np.asarray(np.sqrt(best))


def _endless(sigma: Fraction, c: Fraction, q: Fraction) -> float:
    """Σ_t (1 − σ)^2t/(c·q^t)², rounded up."""
    ratio = (kept(sigma) / q) ** 2
    if ratio >= 1:
        raise ParameterError(
            f"decay must be in (1 - mixing, 1) = ({float(kept(sigma)):.6g}, 1), got {float(q):.6g}: the "
            "noise would fade faster than the states forget. Raise decay, or give a number of rounds."
        )
    return fraction_up(1 / (c**2 * (1 - ratio)))


# ---- Gaussian differential privacy ----------------------------------------------------------------------


def delta_of(mu: float, epsilon: float) -> float:
    """Return δ(ε) of μ-Gaussian differential privacy.

    It is Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2).
    """
    first, second = _log_phi(-epsilon / mu + mu / 2), epsilon + _log_phi(-epsilon / mu - mu / 2)
    return -math.exp(first) * math.expm1(min(second - first, 0.0))


def _log_phi(x: float) -> float:
    """Return log Φ(x) of the normal distribution function.

    Far out it is computed by its asymptotic series, to 1e-13.
    """
    if x > -30:
        return math.log(math.erfc(-x / math.sqrt(2)) / 2)
    y = 1 / (x * x)
    tail = -y * (1 - y * (3 - y * (15 - y * (105 - 945 * y))))
    return -x * x / 2 - math.log(-x * math.sqrt(2 * math.pi)) + math.log1p(tail)


def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest μ whose (ε, δ) is within the given one, rounded down.

    Examples
    --------
    >>> round(mu_of(1.0, 1e-6), 10)
    0.2367043807
    """
    if not (epsilon > 0 and 0 < delta < 1):
        raise ParameterError(
            f"the loss must be positive and its failure probability in (0, 1), got {epsilon} and {delta}."
        )
    high = 1.0
    while delta_of(high, epsilon) < delta:
        high *= 2
    low, _ = _bisected(lambda mu: delta_of(mu, epsilon) > delta, 1e-12, high)
    return low * (1 - 1e-12)


def epsilon_of(mu: float, delta: float) -> float:
    """Return the least ε of μ-Gaussian differential privacy.

    It is for this δ, rounded up.
    """
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_of(mu, high) > delta:
        high *= 2
    _, found = _bisected(lambda epsilon: delta_of(mu, epsilon) <= delta, 0.0, high)
    return found * (1 + 1e-12)


def _bisected(beyond: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return the two neighbouring floats where a condition changes.

    It is false at the first and true at the second.
    """
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return low, high
