"""What a mechanism promises, all at once: privacy, accuracy, agreement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import ParameterError
from tacit.mechanism import Fading, Mechanism
from tacit.theory import accuracy, convergence, privacy


@dataclass(frozen=True, eq=False)
class Promise:
    """The guarantees of one mechanism, every number on the safe side.

    Attributes
    ----------
    epsilon, loss : float
        ε per unit of adjacency, and ε·adjacency.
    radius, radius_chebyshev : float
        The consensus value is within this of the target, but for `failure_probability`.
    rate : float
        Factor by which root-mean-square disagreement shrinks per round.
    rounds : int
        Rounds asked about, or else rounds until agents agree within `tolerance`.
    horizon : int or None
        Number of rounds that ε and the radii speak of; None for an endless run.
    """

    mechanism: Mechanism
    adjacency: float
    failure_probability: float
    tolerance: float
    spread: float
    horizon: int | None
    epsilon: float
    loss: float
    radius: float
    radius_chebyshev: float
    variance: float
    rate: float
    rounds: int
    target: str

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        parameters = self.mechanism.parameters
        return {
            "mechanism": self.mechanism.kind,
            "noise_kind": "fading" if isinstance(parameters, Fading) else "one-shot",
            "agents": self.mechanism.n,
            "epsilon": self.epsilon,
            "adjacency": self.adjacency,
            "loss": self.loss,
            "failure_probability": self.failure_probability,
            "radius": self.radius,
            "radius_chebyshev": self.radius_chebyshev,
            "variance": self.variance,
            "rate": self.rate,
            "rounds": self.rounds,
            "horizon": self.horizon,
            "tolerance": self.tolerance,
            "spread": self.spread,
            "target": self.target,
            "mixing": _plain(parameters.sigma),
            "noise": _plain(parameters.c),
            "decay": _plain(parameters.q) if isinstance(parameters, Fading) else None,
        }


def promise(
    mechanism: Mechanism,
    *,
    adjacency: float = 1.0,
    failure_probability: float = 0.05,
    rounds: int | None = None,
    tolerance: float | None = None,
    spread: float | None = None,
) -> Promise:
    """Return what a mechanism promises over an endless run, or over `rounds` rounds.

    Parameters
    ----------
    adjacency : float
        The most one agent's value may differ between two worlds that must look alike.
    spread : float, optional
        Largest minus smallest initial value; the adjacency unless given.
    tolerance : float, optional
        How close agents must be to agree; a thousandth of the spread unless given.
    """
    privacy.require_adjacency(adjacency)
    spread = adjacency if spread is None else spread
    tolerance = spread / 1000 if tolerance is None else tolerance
    if not tolerance > 0:
        raise ParameterError(
            f"tolerance must be a positive number, got {tolerance}: agents never agree exactly."
        )
    settled = rounds
    if settled is None:
        settled = convergence.rounds_to_agreement(mechanism, tolerance, spread, failure_probability)
    epsilon = privacy.epsilon(mechanism.parameters, rounds)
    return Promise(
        mechanism=mechanism,
        adjacency=adjacency,
        failure_probability=failure_probability,
        tolerance=tolerance,
        spread=spread,
        horizon=rounds,
        epsilon=epsilon,
        loss=privacy.loss(mechanism.parameters, adjacency, rounds),
        radius=accuracy.radius(mechanism, failure_probability, rounds),
        radius_chebyshev=accuracy.chebyshev_radius(mechanism, failure_probability, rounds),
        variance=accuracy.variance(mechanism, rounds),
        rate=convergence.rate(mechanism),
        rounds=settled,
        target="average" if accuracy.reaches_average(mechanism) else "weighted",
    )


def _plain(value: float | np.ndarray) -> float | list[float]:
    return value.tolist() if isinstance(value, np.ndarray) else value
