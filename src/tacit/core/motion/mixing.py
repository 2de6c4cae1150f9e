"""The paper's motion: a state moves a share σ of the way to the feedback.

This is the only file that says what an agent keeps of its state: 1 − σ. The functions below take a number or
an array of any kind (float, extended precision, `Fraction`); kernels compile them, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, final, overload

import numpy as np

from tacit.base.arrays import ByValue, FloatArray, checked_per_agent, per_agent_columns
from tacit.base.rounding import Extended, extended, ulp
from tacit.core.motion.base import Motion


def kept(sigma: Any) -> Any:
    """1 − σ, the share of its own state that an agent keeps."""
    return 1 - sigma


def mixed(sigma: Any, state: Any, y: Any) -> Any:
    """(1 − σ)θ + σy: eq:upd and eq:upd_dis."""
    return kept(sigma) * state + sigma * y


@overload
def log_kept(sigma: float) -> float: ...
@overload
def log_kept(sigma: FloatArray) -> FloatArray: ...
def log_kept(sigma: float | FloatArray) -> float | FloatArray:
    """log(1 − σ), without loss of digits for a small σ."""
    return np.log1p(-sigma) if isinstance(sigma, np.ndarray) else math.log1p(-sigma)


def gap(sigma: Any, q: Any) -> Any:
    """Q − (1 − σ): positive if noise fades more slowly than the influence.

    q − 1 comes first, because it is exact for a q near 1.
    """
    return (q - 1) + sigma


@final
@dataclass(frozen=True, eq=False)
class Mixing(ByValue, Motion):
    """θ⁺ = (1 − σ)θ + σy, as in the paper; the message is θ itself.

    Parameters
    ----------
    sigma : float or one per agent
        Mixing, in (0, 1): how far an agent moves towards the feedback in one round.

    Examples
    --------
    >>> Mixing(0.75).move(8.0, 0.0), Mixing(0.75).influence(2), Mixing(0.5).lag
    (2.0, 0.0625, 2.0)
    """

    sigma: float | FloatArray

    name: ClassVar[str] = "mixing"

    def __post_init__(self) -> None:
        found = checked_per_agent(self.sigma, "mixing (sigma)", below_one=True, field="mixing")
        object.__setattr__(self, "sigma", found)

    @classmethod
    def of_checked(cls, sigma: float | FloatArray) -> Mixing:
        """Return the motion of a mixing that a law has checked already."""
        one = object.__new__(cls)
        object.__setattr__(one, "sigma", sigma)
        return one

    def move(self, state: Any, y: Any, axis: int = 0) -> Any:
        """(1 − σ_i)θ_i + σ_i y_i: eq:upd and eq:upd_dis."""
        if isinstance(self.sigma, np.ndarray):
            return mixed(per_agent_columns(self.sigma, np.ndim(state) - axis), state, y)
        return mixed(self.sigma, state, y)

    @property
    def agents(self) -> int | None:
        """Number of agents, if each has its own mixing."""
        return self.sigma.size if isinstance(self.sigma, np.ndarray) else None

    def of_agent(self, i: int) -> Mixing:
        """Return the mixing of one agent."""
        return Mixing(float(self.sigma[i])) if isinstance(self.sigma, np.ndarray) else self

    def influence(self, u: Any) -> Any:
        """a_u = (1 − σ)^u."""
        long = isinstance(u, np.ndarray | np.generic) and u.dtype == np.longdouble
        return kept(extended(self.sigma) if long else self.sigma) ** u

    def influences(self) -> Iterator[Extended]:
        """Yield 1, 1 − σ, (1 − σ)², …, each from the one before."""
        now, keep = extended(1.0), kept(extended(self.sigma))
        while True:
            yield now
            now = now * keep

    @property
    def lag(self) -> float | FloatArray:
        """τ = 1/σ."""
        return 1 / self.sigma

    def weight(self, omega: FloatArray) -> FloatArray:
        """γ_i = ω_i/σ_i; one division, so that it is rounded once."""
        return np.asarray(omega / self.sigma)

    def step_size(self, omega: FloatArray) -> FloatArray:
        """d_i = σ_i/ω_i."""
        return np.asarray(self.sigma / omega)

    def followed(self, rounds: int) -> FloatArray:
        """1 − (1 − σ)^T, without loss of digits for a small σ."""
        return np.asarray(-np.expm1(rounds * log_kept(np.asarray(self.sigma))))

    @property
    def keep(self) -> float | FloatArray:
        """1 − σ."""
        keep: float | FloatArray = kept(self.sigma)
        return keep

    @property
    def pull(self) -> float | FloatArray:
        """σ."""
        return self.sigma

    # ---- on whole numbers ---------------------------------------------------------------------------

    @cached_property
    def _whole(self) -> tuple[int, int]:
        """σ of one agent as numerator and power of two: numerator/2^shift."""
        sigma = Fraction(float(self.sigma))
        return sigma.numerator, sigma.denominator.bit_length() - 1

    def move_whole(self, state: Any, y: Any) -> Any:
        """Return (1 − σ)θ + σy to the nearest state step, ties up.

        The result lies between θ and y.
        """
        numerator, shift = self._whole
        return state + ((numerator * (y - state) + (1 << shift >> 1)) >> shift)

    def steps_apart(self, start: int, components: int) -> Iterator[int]:
        """D_{u+1} = ⌊(a·D_u + k(b − 1))/b⌋ with 1 − σ = a/b and k components."""
        # All distances are whole numbers of any length. As floats their rounding errors would add up over the
        # rounds, and one of them that is too small makes the whole account wrong.
        numerator, shift = self._whole
        keep, whole = (1 << shift) - numerator, 1 << shift
        apart = start
        while True:
            yield apart
            apart = (keep * apart + components * (whole - 1)) >> shift

    def distances(self, start: Extended, rounding: float) -> Iterator[Extended]:
        """Δ_{u+1} ≤ (1 − σ)Δ_u + s."""
        now, keep = start, kept(extended(self.sigma))
        while True:
            yield now
            now = (keep * now + rounding) * (1 + 4 * ulp())

    @property
    def fineness(self) -> float:
        """σ: rounding errors add up to 1 + (1 − σ) + (1 − σ)² + … = 1/σ steps."""
        return float(np.min(self.sigma))

    def reach(self, start: float, feedback: float) -> float:
        """Return the larger one: a state lies between its start and feedback."""
        return max(start, feedback)
