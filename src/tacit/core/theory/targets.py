"""What agents agree on without noise, and how much each one counts."""

from __future__ import annotations

import numpy as np

from tacit.base.arrays import FloatArray, ValuesLike
from tacit.core.mechanism import Mechanism


def weights(mechanism: Mechanism) -> FloatArray:
    """Weight γ_i/Σγ of every agent's initial value in the target.

    Of agents whose state is a vector it has one column per component: ω_i·C_i(I − A_i)^−1/Σωτ.
    """
    motion, omega = mechanism.motion, mechanism.stationary
    return np.asarray(motion.pointed(omega) / np.sum(motion.weight(omega)))


def target(mechanism: Mechanism, values: ValuesLike) -> FloatArray:
    """Return the target Σγ_iθ_i(0)/Σγ_i, a number or a vector (0-d or 1-d)."""
    counted, states = weights(mechanism), mechanism.states(values)
    if counted.ndim > 1:
        return np.asarray(np.sum(counted * states))
    return np.asarray(counted @ states)
