"""Array types, and checks of arrays that come from outside the package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tacit.errors import StateError

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
PerAgent: TypeAlias = float | Sequence[float] | FloatArray
"""One number for all agents, or one number per agent."""


def frozen(array: npt.NDArray[np.generic]) -> None:
    """Make an array read-only, so that a frozen object cannot change."""
    array.setflags(write=False)


def per_agent_columns(values: FloatArray, ndim: int) -> FloatArray:
    """Shape one value per agent to broadcast over states.

    The states have `ndim` axes.
    """
    return values.reshape(values.shape + (1,) * (ndim - values.ndim))


def as_states(values: npt.ArrayLike, n: int, what: str = "values") -> FloatArray:
    """Return one state per agent as float64, of shape (n,) or (n, k).

    The message never shows a value: states are private.
    """
    try:
        states = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise StateError(f"{what} must be numbers, one (or one vector of equal length) per agent.") from None
    if states.ndim not in (1, 2) or states.shape[0] != n or 0 in states.shape:
        raise StateError(
            f"{what} must have shape ({n},) or ({n}, k), one row per agent, got shape {states.shape}. "
            "Give one number or one vector for each agent."
        )
    require_finite(states, what)
    return states


def require_finite(values: FloatArray, what: str) -> None:
    """Refuse NaN and infinities. The error names the index, never a value."""
    bad = ~np.isfinite(values)
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        raise StateError(f"{what} must be finite numbers, got NaN or infinity at index {place}.")
