"""How far off the agents' average may be after each round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.core.mechanism import Mechanism
from tacit.core.theory import accuracy

_SETTLED = 1e-3  # share of the limit; the ratio to the standard deviation settles much earlier


@dataclass(frozen=True, eq=False)
class Fan:
    """Exact radius of the weighted average after 0, 1, …, T rounds.

    It is the radius around the target. `radius` has one row per failure probability.
    """

    failure_probability: tuple[float, ...]
    radius: FloatArray


def fan(mechanism: Mechanism, rounds: int, failure_probability: Sequence[float] = (0.5, 0.05)) -> Fan:
    """Return the radii after every round, accurate to a thousandth.

    That is enough for drawing. Radius over standard deviation hardly changes from round to round, so it
    is computed exactly at a few rounds and interpolated between them; the standard deviation is exact
    everywhere.
    """
    probabilities = tuple(sorted(set(map(float, failure_probability)), reverse=True))
    deviation = np.sqrt([accuracy.variance(mechanism, t) for t in range(rounds + 1)])
    limit = accuracy.variance(mechanism) ** 0.5
    places = [t for t in knots(rounds) if deviation[t] < limit * (1 - _SETTLED)]
    ratios = [
        [accuracy.radius(mechanism, b, t) / deviation[t] for t in places]
        + [accuracy.radius(mechanism, b) / limit]
        for b in probabilities
    ]
    settled = max([0, *places]) + 1  # radii that are not computed are near the limit
    # The ratio approaches its limit about like 1/t, so interpolate in 1/t.
    along, at = -1 / np.maximum(np.arange(rounds + 1), 0.5), -1 / np.array([*places, settled])
    rows = [deviation * np.interp(along, at, row) for row in ratios]
    return Fan(probabilities, np.array(rows))


def knots(rounds: int) -> list[int]:
    """1, 2, 3, 5, 8, … and the last round: where the radius is computed."""
    knots, following = [1], 2
    while following < rounds:
        knots.append(following)
        following += knots[-2]
    return sorted({*knots, rounds}) if rounds else []
