"""What agents agree on without noise, and how much each one counts."""

from __future__ import annotations

import numpy as np

from tacit.base.arrays import FloatArray, ValuesLike
from tacit.core.mechanism import Mechanism


def weights(mechanism: Mechanism) -> FloatArray:
    """Weight γ_i/Σγ of every agent's initial value in the target."""
    gamma = mechanism.motion.weight(mechanism.stationary)
    return np.asarray(gamma / np.sum(gamma))


def target(mechanism: Mechanism, values: ValuesLike) -> FloatArray:
    """Return the target Σγ_iθ_i(0)/Σγ_i, a number or a vector (0-d or 1-d)."""
    return np.asarray(weights(mechanism) @ mechanism.states(values))
