"""Agents that are not linear, with a proof that their starts fade.

Let every Jacobian ∂f/∂z of an update z⁺ = f(z, y) lie in the convex hull of matrices J_k, for all states and
every feedback that the agent accepts. If J_k'·P·J_k ⪯ ρ²P for a positive definite P, then two states come
nearer by ρ in the norm of P, so a_t = κ·ρ^t with κ = max|Gd|_P·|C|_{P*} (docs/proofs/dynamics.md, T6). The
inequalities are checked exactly, in fractions. How P was found does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from tacit.base.arrays import ByValue, FloatArray
from tacit.base.errors import MotionError, ParameterError
from tacit.base.rounding import extended, fraction_up, root_up
from tacit.core.motion.certified import Certified
from tacit.core.motion.dyadic import is_positive, solved
from tacit.core.motion.linear import MOST_CORNERED, as_matrix, as_vector, private_widths

if TYPE_CHECKING:
    import numpy.typing as npt

_TRIES = 6
MARGIN = 1 + 1e-9
"""A rate found by floats is raised by this before it is proved."""


@final
@dataclass(frozen=True, eq=False)
class Contracting(ByValue, Certified):
    """z⁺ = f(z, y), of which Cz is said; its contraction is proved.

    Parameters
    ----------
    jacobians : list of matrices of shape (n, n)
        Their convex hull must hold ∂f/∂z everywhere. That is your claim, and cannot be checked here.
    C : array_like of shape (n,)
    metric : array_like of shape (n, n)
        P, symmetric. `Contracting.searched` looks for one.
    rate : float
        ρ. Refused unless J'PJ ⪯ ρ²P holds exactly for every J.
    private, names : see `Linear`
        Private components change each by its own width.
    step : function of a state and a feedback, optional
        f itself, to simulate with; states have their components along the last axis.

    Examples
    --------
    >>> slope = Contracting([[[0.5]], [[0.75]]], [1], metric=[[1]], rate=0.75, private={0: 1.0})
    >>> float(slope.influence(2))
    0.5625
    """

    jacobians: tuple[FloatArray, ...]
    C: FloatArray
    metric: FloatArray
    rate: float
    private: Any
    names: tuple[str, ...] = ()
    step: Callable[[Any, Any], Any] | None = field(default=None, repr=False)
    measured: bool = False

    name: ClassVar[str] = "contracting"

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        metric = as_matrix(self.metric, "metric")
        n = len(metric)
        if metric.shape != (n, n):
            raise ParameterError(f"the metric must be a square matrix, got shape {metric.shape}.", "metric")
        found = tuple(as_matrix(J, "jacobians") for J in self.jacobians)
        if not found or any(J.shape != (n, n) for J in found):
            raise ParameterError(f"jacobians must be matrices of the metric's shape ({n}, {n}).", "jacobians")
        set_field(self, "metric", metric)
        set_field(self, "jacobians", found)
        set_field(self, "C", as_vector(self.C, "C", n, "one number is said"))
        names = tuple(self.names) or tuple(f"z{k}" for k in range(n))
        set_field(self, "names", names)
        set_field(self, "private", private_widths(self.private, names))
        if len(self.private) > MOST_CORNERED:
            raise ParameterError(
                f"at most {MOST_CORNERED} components may be private, got {len(self.private)}."
            )
        self._prove()

    def _prove(self) -> None:
        """Refuse a certificate that does not prove its rate."""
        rate, P = Fraction(float(self.rate)), fractions_of(self.metric)
        if not 0 < rate:
            raise ParameterError(f"a rate must be above 0, got {self.rate}.", "rate")
        if not is_positive(P) or _singular(P):
            raise ParameterError("the metric must be symmetric and positive definite, and is not.", "metric")
        for k, J in enumerate(map(fractions_of, self.jacobians)):
            n = range(len(P))
            PJ = [[sum(P[i][m] * J[m][j] for m in n) for j in n] for i in n]
            rest = [[rate**2 * P[i][j] - sum(J[m][i] * PJ[m][j] for m in n) for j in n] for i in n]
            if not is_positive(rest):
                raise ParameterError(
                    f"the certificate does not prove the rate {self.rate}: J'PJ ⪯ ρ²P fails for Jacobian "
                    f"{k}. Give a larger rate or another metric, or let Contracting.searched look for one.",
                    "rate",
                )

    @classmethod
    def searched(
        cls, jacobians: Sequence[npt.ArrayLike], C: npt.ArrayLike, *, private: Any, **given: Any
    ) -> Contracting:
        """Look for a metric, and prove it.

        The search makes S = κ^⅔/(1 − ρ^⅔) small, because the best schedule's variance grows like S³. It finds
        a local optimum.
        """
        matrices = tuple(as_matrix(J, "jacobians") for J in jacobians)
        n = len(matrices[0])
        names = tuple(given.get("names", ())) or tuple(f"z{k}" for k in range(n))
        widths, row = private_widths(private, names), as_vector(C, "C", n, "one number is said")
        P = search_metric(
            matrices, lambda P, rho: float(_size(P, row, widths) ** (2 / 3) / (1 - rho ** (2 / 3)))
        )
        return cls(matrices, row, P, rate_of(P, matrices) * MARGIN, private, **given)

    # ---- how a state moves --------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """Number of components of a state."""
        return len(self.metric)

    def move(self, state: Any, y: Any, axis: int = 0) -> Any:
        """f(z, y)."""
        if self.step is None:
            raise self.undefined("step", "how a state moves")
        return self.step(state, y)

    def say(self, state: Any) -> Any:
        """Cz."""
        return state @ self.C

    def disturb(self, state: Any, noise: Any) -> Any:
        """Return starts whose one private component is noisy."""
        component, _ = self.single()
        return state + np.asarray(noise)[..., None] * np.eye(self.dimension)[component]

    # ---- how fast its start stops mattering ---------------------------------------------------------

    @cached_property
    def kappa(self) -> float:
        """κ = max|Gd|_P·|C|_{P*}, rounded up."""
        P, widths = fractions_of(self.metric), [Fraction(half) for _, half in self.private]
        place = [component for component, _ in self.private]
        largest = Fraction(0)
        for signs in product((1, -1), repeat=len(place) - 1):
            d = [s * w for s, w in zip((1, *signs), widths, strict=True)]
            pairs = [(i, a) for i, a in zip(place, d, strict=True)]
            largest = max(largest, sum((a * P[i][j] * b for i, a in pairs for j, b in pairs), Fraction(0)))
        row = [Fraction(v) for v in self.C.tolist()]
        dual = sum((a * b for a, b in zip(row, solved(P, row), strict=True)), Fraction(0))
        return root_up(largest * dual)

    def influence(self, u: Any) -> Any:
        """κ·ρ^u, a bound."""
        return self.kappa * (extended(self.rate) if np.asarray(u).dtype == np.longdouble else self.rate) ** u

    def spent_endless(self, c: float, q: float) -> float:
        """κ·q/(c(q − ρ)), for q > ρ."""
        if not self.rate < q:
            raise ParameterError(
                f"decay must be above the proved rate {self.rate:.6g}, got {q:.6g}: no finite epsilon covers "
                "an endless run. Raise decay, or give a number of rounds."
            )
        c_, q_, rho = Fraction(c), Fraction(q), Fraction(self.rate)
        return fraction_up(Fraction(self.kappa) * q_ / (c_ * (q_ - rho)))

    @property
    def modulus(self) -> float:
        """ρ."""
        return float(self.rate)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What every number about these agents assumes, one sentence each."""
        of = "measured, so the plant's Jacobians" if self.measured else "computed by the agent; its Jacobians"
        return (
            f"The state is {of} lie in the hull of the given ones for every state and accepted feedback.",
            "States are never clamped, and rounding is not counted.",
            "Besides the start, all that moves the state is public or does not depend on the start.",
            "No other agent's private state reaches it but through messages: no physical coupling.",
            "Noise is drawn once per step; nobody observes the state but through messages.",
        )


def _no_contraction(rate: float) -> MotionError:
    return MotionError(
        f"no metric was found in which these agents contract: the best rate is {rate:.6g}. Saturation, dead "
        "zones, integrators and phases have rate 1 or more: draw noise once, limit the feedback by a public "
        "prefilter (Prefiltered), keep a public odometer (Odometer), give the dead zone a slope, or give a "
        "rate and a metric for some rounds."
    )


def fractions_of(matrix: FloatArray) -> list[list[Fraction]]:
    """Return the exact numbers, row by row."""
    return [[Fraction(v) for v in row] for row in matrix.tolist()]


def _singular(P: list[list[Fraction]]) -> bool:
    try:
        solved(P, [Fraction(0)] * len(P))
    except ZeroDivisionError:
        return True
    return False


def rate_of(P: FloatArray, matrices: Sequence[FloatArray]) -> float:
    """The least ρ with J'PJ ⪯ ρ²P for all matrices, in floats."""
    try:
        L = np.linalg.cholesky(P)
    except np.linalg.LinAlgError:
        return math.inf
    return float(np.linalg.svd(L.T @ np.asarray(matrices) @ np.linalg.inv(L.T), compute_uv=False).max())


def search_metric(matrices: Sequence[FloatArray], cost: Callable[[FloatArray, float], float]) -> FloatArray:
    """Look for a metric P of least cost(P, ρ) in which all matrices contract.

    It finds a local optimum; the caller proves what it found.
    """
    from scipy.optimize import minimize

    n = len(matrices[0])
    lower = np.tril_indices(n)
    slowest = max(float(np.abs(np.linalg.eigvals(J)).max()) for J in matrices)
    if slowest >= 1:  # no metric can do better
        raise _no_contraction(slowest)

    def metric(x: FloatArray) -> FloatArray:
        L = np.zeros((n, n))
        L[lower] = x
        return np.asarray(L @ L.T + 1e-9 * np.eye(n))

    def value(x: FloatArray) -> float:
        P = metric(x)
        rho = rate_of(P, matrices) * MARGIN
        return cost(P, rho) if rho < 1 else 1e3 * rho

    generator = np.random.default_rng(0)
    starts = [np.eye(n)[lower] + 0.3 * generator.normal(size=len(lower[0])) for _ in range(_TRIES)]
    options: Any = {"maxiter": 4000, "xatol": 1e-10, "fatol": 1e-12}
    best = min(
        (minimize(value, x, method="Nelder-Mead", options=options) for x in starts), key=lambda r: r.fun
    )
    P = metric(best.x)
    P = (P + P.T) / (2 * P[0, 0])
    if not rate_of(P, matrices) * MARGIN < 1:
        raise _no_contraction(rate_of(P, matrices))
    return np.asarray(P)


def _size(P: FloatArray, row: FloatArray, widths: Sequence[tuple[int, float]]) -> float:
    """κ in floats, for a search."""
    place, half = [k for k, _ in widths], np.array([h for _, h in widths])
    inner = P[np.ix_(place, place)] * np.outer(half, half)
    signs = [np.array((1, *s)) for s in product((1, -1), repeat=len(place) - 1)]
    return math.sqrt(max(float(s @ inner @ s) for s in signs) * float(row @ np.linalg.solve(P, row)))
