"""Noise that protects: exact, cryptographic, and not seedable.

Draws are whole numbers from the samplers of `tacit.core.noise.exact`, whose bits come from the operating
system. docs/decisions/noise.md says why they are our own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast, final, overload, runtime_checkable

import numpy as np

from tacit.base.arrays import IntArray
from tacit.base.errors import ParameterError
from tacit.base.rounding import ratio_up
from tacit.core.law.staircase import Stairs
from tacit.core.mechanism.lattice import LatticeAgent
from tacit.core.noise import exact

LEAST_SCALE, LARGEST_SCALE = 1.0, 2.0**52
"""Limits of a scale. Below there is hardly any noise. Above, draws might not fit 64 bits."""


@runtime_checkable
class WholeNoise(Protocol):
    """Discrete noise on whole numbers.

    Whether it is private depends on the implementation.
    """

    @overload
    def draw(self, scale: float) -> int: ...
    @overload
    def draw(self, scale: float, size: int) -> IntArray: ...
    def draw(self, scale: float, size: int | None = None) -> int | IntArray:
        """Return one draw, or an array of `size` independent ones."""
        ...


@final
class SafeNoise:
    """Exact discrete Laplace noise from a cryptographic source.

    It cannot be seeded.

    Examples
    --------
    >>> from tacit.core.noise import SafeNoise
    >>> SafeNoise().draw(2.0**40, size=3).dtype
    dtype('int64')
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "SafeNoise()"

    @overload
    def draw(self, scale: float) -> int: ...
    @overload
    def draw(self, scale: float, size: int) -> IntArray: ...
    def draw(self, scale: float, size: int | None = None) -> int | IntArray:
        """Return one draw, or `size` independent ones, of this scale.

        P(k) ∝ exp(−|k|/scale). The scale must be from 1 to 2^52. A draw then fits 64 bits: |draw| ≥ 2^63
        has a probability below exp(−2^11).
        """
        scale = _allowed("scale", scale)
        return exact.laplace(scale) if size is None else exact.laplaces(scale, _counted(size))


@final
class SafeGaussian:
    """Exact discrete Gaussian noise from a cryptographic source.

    It is for series of means, and cannot be seeded.

    Examples
    --------
    >>> from tacit.core.noise import SafeGaussian
    >>> SafeGaussian().draw(2.0**33, size=3).dtype
    dtype('int64')
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "SafeGaussian()"

    @overload
    def draw(self, deviation: float) -> int: ...
    @overload
    def draw(self, deviation: float, size: int) -> IntArray: ...
    def draw(self, deviation: float, size: int | None = None) -> int | IntArray:
        """Return one draw, or `size` independent ones, of this deviation.

        P(k) ∝ exp(−k²/(2·deviation²)). The deviation must be from 1 to 2^52. A draw then fits 64 bits:
        |draw| ≥ 2^63 has a probability below exp(−2^20).
        """
        deviation = _allowed("deviation", deviation)
        return exact.gaussian(deviation) if size is None else exact.gaussians(deviation, _counted(size))


@final
@dataclass(frozen=True)
class SafeUniform:
    """Uniform whole numbers from a cryptographic source, for bits.

    Examples
    --------
    >>> 0 <= SafeUniform().draw(8.0) < 8
    True
    """

    @overload
    def draw(self, scale: float) -> int: ...
    @overload
    def draw(self, scale: float, size: int) -> IntArray: ...
    def draw(self, scale: float, size: int | None = None) -> int | IntArray:
        """Return one whole number below `scale`, or `size` independent ones."""
        if not (1 <= scale <= LARGEST_SCALE and float(scale).is_integer()):
            raise ParameterError(
                f"a uniform draw must be below a whole number of at most 2^52, got {scale}: take fewer bits."
            )
        if size is None:
            return exact.below(int(scale), exact.system_bits)
        return exact.Words().below(int(scale), _counted(size)).astype(np.int64)


@final
@dataclass(frozen=True)
class SafeStaircase:
    """Exact discrete staircase noise from a cryptographic source.

    Examples
    --------
    >>> SafeStaircase(Stairs(width=1, first=1, over=10**9, under=1)).draw(1.0)
    0
    """

    stairs: Stairs

    @overload
    def draw(self, scale: float) -> int: ...
    @overload
    def draw(self, scale: float, size: int) -> IntArray: ...
    def draw(self, scale: float, size: int | None = None) -> int | IntArray:  # noqa: ARG002 - it has its own
        """Return one draw, or `size` independent ones."""
        if size is None:
            return exact.staircase(*self.stairs)
        return np.array([exact.staircase(*self.stairs) for _ in range(_counted(size))], dtype=np.int64)


_NOISE, _UNIFORM = SafeNoise(), SafeUniform()


def _staircase_of(agent: LatticeAgent, adjacency: float) -> WholeNoise:
    from tacit.core.noise.accounting import sensitivities

    return SafeStaircase(cast(Any, agent.law).stairs(next(sensitivities(agent, adjacency))))


_SOURCES: dict[str, Callable[[LatticeAgent, float], WholeNoise]] = {
    "laplace": lambda _agent, _adjacency: _NOISE,
    "bit": lambda _agent, _adjacency: _UNIFORM,
    "staircase": _staircase_of,
}


def source_of(agent: LatticeAgent, adjacency: float) -> WholeNoise:
    """Return the source of an agent's draws, shared where it can be."""
    return _SOURCES[agent.law.drawn](agent, adjacency)


def message_loss(scale: float, sensitivity: int) -> float:
    """Return the loss of one message: sensitivity/scale, rounded up.

    Parameters
    ----------
    scale : float
        Of the draws, in message steps.
    sensitivity : int
        How many message steps, summed over components, two adjacent states can be apart.
    """
    n, d = _allowed("scale", scale).as_integer_ratio()
    if sensitivity.bit_length() > 1000:
        raise ParameterError(
            "the adjacency must be at most 2^900 times the noise: such noise protects nothing."
        )
    return ratio_up(sensitivity * d, n)


def _allowed(name: str, scale: float) -> float:
    if not LEAST_SCALE <= scale <= LARGEST_SCALE:  # also refuses NaN
        raise ParameterError(
            f"the {name} of whole-number noise must be from 1 to 2^52, got {scale}: with less there is "
            "hardly any noise. Take a finer state step."
        )
    return float(scale)


def _counted(size: int) -> int:
    if size < 0:
        raise ParameterError(f"size must be at least 0, got {size}.")
    return size
