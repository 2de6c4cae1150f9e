"""Noise by a table of scales, and the best table for how agents move.

For influences a_t and weights w_t of the messages' variances in what is to be accurate, Σ w_t·s_t² is least
under Σ a_t/s_t ≤ ε for s_t ∝ (a_t/w_t)^⅓ (docs/proofs/dynamics.md, T2; several corners: T2′).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, final

import numpy as np

from tacit.base.arguments import shown
from tacit.base.arrays import FloatArray, PerAgent
from tacit.base.errors import LawError, ParameterError
from tacit.core.law.base import STEP, Law
from tacit.core.motion import Mixing, Motion

if TYPE_CHECKING:
    import numpy.typing as npt

_NARROW = 1e-13  # a gap at which the search for the weights of corners stops
_MOST_STEPS = 20_000
_SMALL = 4.0 * sys.float_info.min


@final
@dataclass(frozen=True, eq=False)
class Scheduled(Law):
    """Fresh noise every round, Lap(c·table_t), by a table of scales.

    It covers as many rounds as the table has.

    Parameters
    ----------
    sigma, c
        See `Law`. c is a unit: by `Scheduled.of` the largest scale.
    table : sequence of numbers of at least 0
        The scale of each round, in units of c. A scale of 0 is for a message that does not depend on the
        private value.

    Examples
    --------
    >>> Scheduled.of(0.8, [10, 6, 4]).scales(3)
    array([10.,  6.,  4.])
    """

    table: tuple[float, ...]

    name: ClassVar[str] = "scheduled"
    by_mixing: ClassVar[bool] = False
    per_round: ClassVar[frozenset[str]] = frozenset({"table"})
    meanings: ClassVar[Mapping[str, str]] = {"table": "the noise of round t has scale c·table_t"}

    if TYPE_CHECKING:

        def __init__(self, sigma: PerAgent | Motion, c: PerAgent, table: Sequence[float]) -> None: ...

    def __post_init__(self) -> None:
        try:
            table = np.array(self.table, dtype=np.float64)
        except (TypeError, ValueError):
            table = np.empty(0)
        if (
            table.ndim != 1
            or not table.size
            or not np.all(np.isfinite(table) & (table >= 0))
            or not table.any()
        ):
            raise ParameterError(
                "a schedule must be one scale per round, numbers of at least 0 and not all 0, got "
                f"{shown(self.table)}.",
                "table",
            )
        object.__setattr__(self, "table", tuple(table.tolist()))
        self.check(("sigma", "c"))

    @classmethod
    def of(cls, sigma: PerAgent | Motion, scales: npt.ArrayLike) -> Self:
        """Return the law with these scales, one per round."""
        try:
            found = np.array(scales, dtype=np.float64)
            largest = float(found.max())
        except (TypeError, ValueError):
            found, largest = np.empty(0), 0.0
        if found.ndim != 1 or not 0 < largest < np.inf:
            raise ParameterError(
                f"scales must be one number of at least 0 per round, and not all 0, got {shown(scales)}.",
                "table",
            )
        return cls(sigma, largest, tuple((found / largest).tolist()))

    def scale(self, u: Any) -> Any:
        """c·table_u."""
        at = np.asarray(u)
        if np.any(at >= len(self.table)):
            raise LawError(
                f"a schedule of {len(self.table)} scales covers as many rounds, got round {int(np.max(at))}. "
                "Ask for fewer rounds, or give a longer table."
            )
        return self.c * np.asarray(self.table)[at.astype(np.int64)]

    @property
    def longest(self) -> int:
        """As many rounds as the table has."""
        return len(self.table)

    def upper_scale(self, u: int) -> float:
        """c·table_u: one product, the same on every machine."""
        return float(self.scale(u))

    @classmethod
    def best(cls, sigma: PerAgent | Motion, epsilon: float, rounds: int | None = None) -> Self:
        """Return the best schedule of so many rounds with a loss of at most ε."""
        if rounds is None:
            raise cls.undefined("best for an endless run", "the best schedule")
        return cls.weighted(sigma, epsilon, np.ones(rounds))

    @classmethod
    def weighted(cls, sigma: PerAgent | Motion, epsilon: float, weights: FloatArray) -> Self:
        """Return the schedule of least Σ w_t·s_t² with a loss of at most ε.

        All weights must be positive: a message that nobody needs should not be sent.
        """
        motion = sigma if isinstance(sigma, Motion) else Mixing(np.asarray(sigma))
        found = best_schedule(motion.influence_table(len(weights)), weights)
        law = cls.of(sigma, found.scales / epsilon)
        c = float(np.max(law.epsilons(len(weights)))) / epsilon * float(law.c)
        while float(np.max((made := law.with_noise(c)).epsilons(len(weights)))) > epsilon:
            c *= STEP
        return made


class Schedule(NamedTuple):
    """Scales of loss 1, and how good they are.

    `value` is Σ w_t·s_t², and no schedule of this loss has less than `least`. `corners` are the weights of
    the corners in it.
    """

    scales: FloatArray
    value: float
    least: float
    corners: FloatArray


def best_schedule(influence: FloatArray, weights: FloatArray | None = None) -> Schedule:
    """Return the scales of least Σ w_t·s_t² with loss 1 at every corner.

    `influence` has shape (rounds, corners). For one corner S = Σ a_t^⅔·w_t^⅓, s_t = (a_t/w_t)^⅓·S and the
    value is S³ (Hölder). For several, the value is the largest S(λ)³ of a mixture of corners. Every mixture
    gives a lower bound, and its scales, widened to the worst corner, an upper one.
    """
    a = np.asarray(influence, dtype=np.float64)
    a = a[:, None] if a.ndim == 1 else a
    w = np.ones(len(a)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != a.shape[:1] or not np.all(np.isfinite(w) & (w > 0)):
        raise ParameterError("weights must be one positive number per round.")
    if not np.all(np.isfinite(a)):
        raise ParameterError("the influence must be finite in every round: ask for fewer rounds.")
    mixture = np.full(a.shape[1], 1 / a.shape[1])
    best, least = None, 0.0
    for _ in range(_MOST_STEPS):
        mean = a @ mixture
        total = float(np.sum(np.cbrt(mean**2 * w)))
        scales = np.cbrt(mean / w) * total
        spent = np.divide(a, scales[:, None], out=np.zeros_like(a), where=scales[:, None] > 0).sum(axis=0)
        # a message that only corners of weight 0 change must keep some noise
        worst = float(spent.max()) if not np.any((scales <= _SMALL) & a.any(axis=1)) else np.inf
        value = float(np.sum(w * (scales * worst) ** 2)) if np.isfinite(worst) else np.inf
        least = max(least, total**3)
        if best is None or value < best[1]:
            best = (scales * worst, value, mixture.copy())
        if best[1] - least <= _NARROW * least:
            break
        mixture = mixture * spent**1.5
        mixture = mixture / mixture.sum()
    assert best is not None
    return Schedule(best[0], best[1], least, best[2])
