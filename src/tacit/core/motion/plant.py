"""Measured states: a plant that moves nearly as its linear model says.

Let the plant move by z⁺ = A_k·z + By, where the matrix may change from step to step within the hull of given
ones, and does not depend on the start. With E = A_k − A for the model's A, and A_k'PA_k ⪯ ρ²P for all of
them, its messages depart from those of the model by at most

    b_t = |C|_{P*}·β_t + q·‖C‖₁,    β_0 = 0,    β_{t+1} = ρβ_t + max_E |E·A^t·Gv|_P,

with q the step of a rounded measurement (docs/proofs/dynamics.md, T3′). The rate ρ must hold for all A_k;
that of the model alone is no bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from tacit.base.arguments import number
from tacit.base.arrays import ByValue, FloatArray
from tacit.base.errors import ParameterError
from tacit.base.rounding import extended, fraction_up, root_up
from tacit.core.motion.certified import Certified
from tacit.core.motion.contracting import MARGIN, Contracting, fractions_of, rate_of, search_metric
from tacit.core.motion.dyadic import Dyadic, solved
from tacit.core.motion.linear import Linear, as_matrix

if TYPE_CHECKING:
    import numpy.typing as npt

_HORIZON = 120  # rounds that a search for a metric looks at


@final
@dataclass(frozen=True, eq=False)
class Plant(ByValue, Certified):
    """A measured plant near a linear model.

    Its messages say what is measured, so disturbances are fed back.

    Parameters
    ----------
    model : Linear
        A, B, C and one private component.
    matrices : list of matrices of shape (n, n)
        The plant's own matrix lies in their hull in every step. That is your claim, and cannot be checked.
    metric, rate : array_like and float
        P and ρ. Refused unless A_k'PA_k ⪯ ρ²P holds exactly for every matrix; see `Plant.searched`.
    rounding : float
        q: the step of a measurement that is rounded; 0 if it is exact.

    Examples
    --------
    >>> model = Linear([[0.5]], [0.5], [1], private={0: 1.0})
    >>> Plant(model, [[[0.375]], [[0.625]]], [[1]], 0.625).residuals(3)
    array([0.      , 0.125   , 0.140625])
    """

    model: Linear
    matrices: tuple[FloatArray, ...]
    metric: FloatArray
    rate: float
    rounding: float = 0.0

    name: ClassVar[str] = "plant"

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        _require_model(self.model)
        set_field(self, "matrices", tuple(as_matrix(one, "matrices") for one in self.matrices))
        set_field(self, "metric", as_matrix(self.metric, "metric"))
        number("rounding", self.rounding, "be a number of at least 0", least=0.0)
        self.certificate  # noqa: B018 - refuses what is not proved

    @cached_property
    def certificate(self) -> Contracting:
        """The proof that all matrices contract by ρ."""
        of = self.model
        return Contracting(
            self.matrices, of.C, self.metric, self.rate, dict(of.private), of.names, measured=True
        )

    @classmethod
    def searched(cls, model: Linear, matrices: Sequence[npt.ArrayLike], rounding: float = 0.0) -> Plant:
        """Look for a metric, and prove it.

        The search makes the price of hybrid noise small. It finds a local optimum.
        """
        _require_model(model)
        moved = tuple(as_matrix(one, "matrices") for one in matrices)
        apart, column = [], _change(model)
        for _ in range(_HORIZON):
            apart.append([(one - model.A) @ column for one in moved])
            column = model.A @ column
        vectors, last = np.array(apart), abs(float(model.settling @ _change(model)))

        def cost(P: FloatArray, rho: float) -> float:
            sizes = np.sqrt((vectors @ P * vectors).sum(axis=-1).max(axis=1))
            beta, total = 0.0, 0.0
            dual = float(np.sqrt(model.C @ np.linalg.solve(P, model.C)))
            for size in sizes.tolist():
                total += ((dual * beta + rounding) / last) ** (2 / 3)
                beta = rho * beta + size
            return total

        P = search_metric(moved, cost)
        return cls(model, moved, P, rate_of(P, moved) * MARGIN, rounding)

    @property
    def private(self) -> Any:
        """The one private component of the model, with its width."""
        return self.model.private

    @property
    def measured(self) -> bool:  # type: ignore[override]
        """Always: a computed state has no plant."""
        return True

    # ---- how a state moves: as the model says -------------------------------------------------------

    @property
    def dimension(self) -> int:
        """Number of components of a state."""
        return self.model.dimension

    def move(self, state: Any, y: Any, axis: int = 0) -> Any:
        """Az + By: what the model says."""
        return self.model.move(state, y, axis)

    def say(self, state: Any) -> Any:
        """Cz."""
        return self.model.say(state)

    # ---- how fast its start stops mattering ---------------------------------------------------------

    @cached_property
    def _dual(self) -> Fraction:
        P, row = fractions_of(self.metric), [Fraction(v) for v in self.model.C.tolist()]
        square = sum((a * b for a, b in zip(row, solved(P, row), strict=True)), Fraction(0))
        return Fraction(root_up(square))

    def residuals(self, rounds: int) -> FloatArray:
        """Return b_t for t < rounds, rounded up.

        It is how far message t may depart from the model's.
        """
        P, rate = fractions_of(self.metric), Fraction(float(self.rate))
        model = fractions_of(self.model.A)
        n = range(len(P))
        errors = [
            [
                [a - b for a, b in zip(own, of, strict=True)]
                for own, of in zip(fractions_of(one), model, strict=True)
            ]
            for one in self.matrices
        ]
        read = Fraction(float(self.rounding)) * sum(
            (abs(Fraction(v)) for v in self.model.C.tolist()), Fraction(0)
        )
        found, beta = np.empty(rounds), Fraction(0)
        whole, moving = Dyadic.of(_change(self.model)), Dyadic.of(self.model.A)
        for t in range(rounds):
            column = whole.fractions()
            found[t] = fraction_up(self._dual * beta + read)
            largest = Fraction(0)
            for E in errors:
                x = [sum((E[i][j] * column[j] for j in n), Fraction(0)) for i in n]
                largest = max(largest, sum((x[i] * P[i][j] * x[j] for i in n for j in n), Fraction(0)))
            beta = Fraction(fraction_up(rate * beta + Fraction(root_up(largest))))
            whole = moving @ whole
        return found

    def influence(self, u: Any) -> Any:
        """|M_u·v| + b_u, a bound for fresh noise."""
        last = int(np.max(u, initial=0)) if np.size(u) else 0
        table = np.asarray(self.model.influence(np.arange(last + 1))) + self.residuals(last + 1)
        found = np.nextafter(table, np.inf)[np.asarray(u).astype(np.int64)]
        return extended(found) if np.asarray(u).dtype == np.longdouble else found[()]

    @property
    def modulus(self) -> float:
        """ρ."""
        return float(self.rate)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What every number about these agents assumes, one sentence each."""
        return (
            "The state is measured: in every step the plant moves by a matrix in the hull of the given ones, "
            "which does not depend on its start.",
            *self.model.assumptions[1:],
        )


def _change(model: Linear) -> FloatArray:
    """Gv: the change of the start that must be hidden."""
    component, half = model.private[0]
    return np.asarray(np.eye(model.dimension)[component] * half)


def _require_model(model: object) -> None:
    if not isinstance(model, Linear) or len(model.private) != 1 or not model.modulus < 1:
        raise ParameterError(
            "the model of a plant must be a Linear with one private component, whose modes all fade.", "model"
        )
