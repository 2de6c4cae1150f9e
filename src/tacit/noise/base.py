"""The interface of a source of noise, private or not."""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

import numpy.typing as npt

from tacit.arrays import FloatArray
from tacit.law import Law

Scales: TypeAlias = Law | npt.ArrayLike
"""A noise law, or Laplace scales that broadcast to (rounds, n)."""


@runtime_checkable
class NoiseSource(Protocol):
    """Laplace noise, independent per round, agent and component.

    Whether it is private depends on the implementation.
    """

    def draw(self, scales: Scales, rounds: int, n: int, components: int | None = None) -> FloatArray:
        """Return η(0) … η(rounds − 1), of shape (rounds, n) or (rounds, n, components)."""
        ...
