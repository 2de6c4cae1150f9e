"""The numbers behind the figures that need simulated sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError, StateError
from tacit.base.rounding import product_up
from tacit.core.mechanism import Mechanism
from tacit.core.theory import convergence, moments, privacy
from tacit.lab.audit.measure import measure_loss
from tacit.lab.audit.subjects import Subject
from tacit.lab.simulation import Record, simulate

_MOST_AGENTS = 200  # the exact moments are dense matrices, one per round


@dataclass(frozen=True, eq=False)
class Convergence:
    """Disagreement of the two agents farthest apart, over the rounds.

    It is a root mean square over runs.

    Attributes
    ----------
    name : str
        What to call the mechanism.
    rate : float
        Exact factor per round in the long run.
    exact, measured : array, shape (rounds + 1,)
        From the second moments, and in `runs` simulated runs.
    """

    name: str
    rate: float
    exact: FloatArray
    measured: FloatArray
    runs: int


def converge(
    name: str, mechanism: Mechanism, values: npt.ArrayLike, rounds: int, *, runs: int = 1000, seed: int = 0
) -> Convergence:
    """Return how disagreement fades: exactly, its rate, and as measured.

    Disagreement is the root of the largest E(θ_i − θ_j)² of any two agents (def:con).
    """
    if mechanism.n > _MOST_AGENTS:
        raise ParameterError(
            f"convergence is drawn for at most {_MOST_AGENTS} agents, got {mechanism.n}: its exact moments "
            "need N² numbers per round; choose a smaller graph."
        )
    exact = [moments.mean_square_disagreement(mechanism, values, t) for t in range(rounds + 1)]
    if min(exact) <= 0:
        raise StateError("agents must disagree to converge: give at least two, with different values.")
    theta = simulate(mechanism, values, rounds, runs=runs, seed=seed, record=Record(every=1)).theta.values
    centred = theta - theta.mean(axis=2, keepdims=True)
    square = np.einsum("rti,rtj->tij", centred, centred, optimize=True) / runs
    own = np.einsum("tii->ti", square)
    measured = (own[:, :, None] + own[:, None, :] - 2 * square).max(axis=(1, 2))
    return Convergence(
        name, convergence.rate(mechanism), np.sqrt(exact), np.sqrt(np.maximum(measured, 0)), runs
    )


def convergence_table(curves: Sequence[Convergence]) -> dict[str, Any]:
    """Return one row per mechanism and round."""
    rounds = len(curves[0].exact)
    return {
        "graph": [curve.name for curve in curves for _ in range(rounds)],
        "round": np.tile(np.arange(rounds), len(curves)),
        "rate": np.repeat([curve.rate for curve in curves], rounds),
        "exact": np.concatenate([curve.exact for curve in curves]),
        "measured": np.concatenate([curve.measured for curve in curves]),
    }


@dataclass(frozen=True, eq=False)
class LossCurves:
    """Loss between two starts of one agent over how far apart they are.

    Attributes
    ----------
    epsilon : float
        Promised per unit of adjacency, over `rounds` rounds.
    distance, promised : array
    measured : mapping from a subject's name to an array
        Lower bound on its loss from `sessions` sessions; holds except with `failure_probability`.
    """

    epsilon: float
    rounds: int
    sessions: int
    failure_probability: float
    distance: FloatArray
    promised: FloatArray
    measured: Mapping[str, FloatArray]

    def table(self) -> dict[str, Any]:
        """Return the columns by name."""
        proved = {f"at_least_{name.replace(' ', '_')}": row for name, row in self.measured.items()}
        return {"distance": self.distance, "promised": self.promised, **proved}


def loss_curves(
    subjects: Mapping[str, Subject],
    distance: Sequence[float],
    *,
    rounds: int,
    sessions: int = 20_000,
    failure_probability: float = 1e-6,
    seed: int = 0,
) -> LossCurves:
    """Measure lower bounds on the loss of mechanisms at some distances.

    All mechanisms must declare the same. The failure probability is divided among the bounds. So all of
    them hold together, except with `failure_probability`.
    """
    apart = np.array(sorted(set(map(float, distance))))
    declared = next(iter(subjects.values())).mechanism.law
    epsilon = privacy.epsilon(declared, rounds)
    share = failure_probability / max(1, len(subjects) * apart.size)
    measured = {
        name: np.array(
            [
                measure_loss(
                    subject, d, rounds=rounds, transcripts=sessions, failure_probability=share, seed=seed
                ).loss
                for d in apart.tolist()
            ]
        )
        for name, subject in subjects.items()
    }
    promised = np.array([product_up(epsilon, d) for d in apart.tolist()])
    return LossCurves(epsilon, rounds, sessions, failure_probability, apart, promised, measured)
