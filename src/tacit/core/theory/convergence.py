"""Convergence: Lemma 3 (lem:con) and the distributed lem:con_dis.

Both mechanisms are θ(t+1) = (I − DL) θ(t) + D w(t), eq:P, with D = diag(d_i), d_i = σ_i/(|N(i)|+1); the
server's is the one on the complete graph. The paper proves convergence under Assumption 1; in fact
every connected graph converges for every mixing, at a rate that is known exactly
(docs/proofs/convergence.md). This module exports everything about convergence: the rate is computed in
`tacit.core.theory.rates`, the rounds until agents agree in `tacit.core.theory.agreement`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.base.errors import ParameterError
from tacit.base.report import Row
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.theory.agreement import disagreement, rounds_to_agreement
from tacit.core.theory.rates import (
    gap,
    hears_all,
    laplacian_extremes,
    moves_as_one,
    own_weights,
    rate,
    spectral_gap,
    spectral_rate,
    spectrum,
    step_sizes,
)

__all__ = [
    "Assumption",
    "assumption",
    "contraction",
    "disagreement",
    "gap",
    "moves_as_one",
    "potential",
    "rate",
    "rounds_to_agreement",
    "spectral_gap",
    "spectral_rate",
    "spectrum",
    "step_sizes",
]


def potential(mechanism: Mechanism, theta: npt.ArrayLike) -> float:
    """P = θᵀLθ, the sum of (θ_i − θ_j)² over the pairs that hear each other.

    Vector states: the sum over components. With a server every two agents are a pair.

    Parameters
    ----------
    mechanism : Mechanism
    theta : array_like, shape (n,) or (n, k)
        The states of one round.
    """
    states = mechanism.states(theta, "theta")
    if isinstance(mechanism, Distributed):
        edges = mechanism.graph.edges()
        # differences along edges first: expanding θᵀLθ would lose digits when agents nearly agree
        return float(np.sum((states[edges[:, 0]] - states[edges[:, 1]]) ** 2))
    return float(mechanism.n * np.sum((states - states.mean(axis=0)) ** 2))


def contraction(mechanism: Mechanism) -> float:
    """Return (1 − σ)², by which the potential shrinks in each round.

    This is Lemma 3 (lem:con). The factor is exact, whatever the noise is, if everyone hears everyone and all
    share one mixing. Otherwise there is no such factor, only the `rate`.
    """
    if not moves_as_one(mechanism):
        raise ParameterError(
            "the potential shrinks by one exact factor only if everyone hears everyone and all share one "
            "mixing (Lemma 3); for other mechanisms use the rate."
        )
    return float(np.broadcast_to(mechanism.motion.keep, (mechanism.n,))[0] ** 2)


@dataclass(frozen=True)
class Assumption:
    """Assumption 1 (ass:con), as it is printed and as its proof needs it.

    Attributes
    ----------
    lambda_2, lambda_N : float
        Smallest non-zero and largest eigenvalue of L, rounded down and up; 0 for one agent.
    m, M : float
        Smallest and largest d_i = σ_i/(|N(i)|+1).
    """

    lambda_2: float
    lambda_N: float  # noqa: N815 - the paper's letter
    m: float
    M: float

    @property
    def as_printed(self) -> bool:
        """Whether λ_N < M²/(2m).

        A slip: whenever it holds, the proof fails (docs/paper/errata.md).
        """
        return self.lambda_N < self.M**2 / (2 * self.m)

    @property
    def as_needed(self) -> bool:
        """Whether λ_N < 2m/M², which the proof of lem:con_dis uses."""
        return self.lambda_N < 2 * self.m / self.M**2

    @property
    def contraction(self) -> float | None:
        """The proof's a, or None if it is not positive.

        a = min(λ_2(2m − λ_N M²), 1). With it E[P(t+1)] ≤ (1 − a) E[P(t)] + noise.
        """
        a = min(self.lambda_2 * (2 * self.m - self.lambda_N * self.M**2), 1.0)
        return a if a > 0 else None

    def as_dict(self) -> dict[str, Any]:
        """Return what a program would read, ready for JSON."""
        return {"as_printed": self.as_printed, "as_needed": self.as_needed, "lambda_n": self.lambda_N}

    def rows(self) -> list[Row]:
        """Return whether it holds, for people."""
        words = {True: "holds", False: "does not hold"}
        needed = "λ_N < 2m/M², which its proof uses; agents agree without it"
        return [
            Row("as printed", words[self.as_printed], "λ_N < M²/(2m), a slip of the paper"),
            Row("as needed", words[self.as_needed], needed),
        ]


def assumption(mechanism: Mechanism) -> Assumption:
    """Check Assumption 1 (ass:con) for a mechanism.

    It is sufficient for convergence, never necessary. It is about the paper's feedback, the mean over the
    closed neighbourhood.
    """
    if own_weights(mechanism) is not None:
        raise ParameterError(
            "Assumption 1 is about means over closed neighbourhoods, not about these weights: use the rate, "
            "which says whether agents agree."
        )
    d = step_sizes(mechanism)
    smallest, largest = float(d.min()), float(d.max())
    if mechanism.n == 1:
        return Assumption(0.0, 0.0, smallest, largest)
    if isinstance(mechanism, Distributed) and not hears_all(mechanism):
        found = laplacian_extremes(mechanism.graph)
        return Assumption(found.low_bound, found.high_bound, smallest, largest)
    n = float(mechanism.n)  # L = N·I − 11ᵀ, eq:L
    return Assumption(n, n, smallest, largest)
