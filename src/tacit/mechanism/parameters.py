"""The parameters of a mechanism: how agents move and how their noise fades.

`Fading` is the paper's: fresh noise in every round, of scale c·q^t. `OneShot` is the
baseline every design is compared with: noise once, at the start, on a public shadow
that then moves without any (docs/proofs/one-shot.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from tacit.arrays import FloatArray, PerAgent, frozen
from tacit.errors import ParameterError


def _checked(value: PerAgent, name: str, *, below_one: bool) -> float | FloatArray:
    """Return a number in (0, 1) or (0, ∞), or a read-only array of such numbers."""
    must = "must be in (0, 1)" if below_one else "must be a positive number"
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} {must}, got {value!r}.") from None
    if array.ndim > 1 or array.size == 0:
        raise ParameterError(f"{name} must be one number, or one per agent, got shape {array.shape}.")
    bad = ~(np.isfinite(array) & (array > 0) & ((array < 1) | (not below_one)))
    if bad.any():
        first = int(np.argmax(bad.reshape(-1)))
        where = f" for agent {first}" if array.ndim else ""
        raise ParameterError(f"{name} {must}, got {array.reshape(-1)[first]}{where}.")
    if array.ndim == 0:
        return float(array)
    frozen(array)
    return array


@dataclass(frozen=True, eq=False)
class Parameters(ABC):
    """What both kinds share: `sigma` (mixing) and `c` (noise).

    `Fading` and `OneShot` are the kinds that the rest of tacit knows. Another subclass is refused
    wherever it is given, because its noise would be taken for one of theirs.

    Parameters
    ----------
    sigma : float or one per agent
        Mixing, in (0, 1): how far an agent moves towards the feedback in one round.
        The paper's σ; not a standard deviation.
    c : float or one per agent
        Noise, positive: the scale of the Laplace noise of round 0.
    """

    sigma: float | FloatArray
    c: float | FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", _checked(self.sigma, "mixing (sigma)", below_one=True))
        object.__setattr__(self, "c", _checked(self.c, "noise (c)", below_one=False))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(np.array_equal(mine, vars(other)[name]) for name, mine in vars(self).items())

    def __hash__(self) -> int:
        return hash((type(self), *(np.asarray(value).tobytes() for value in vars(self).values())))

    @abstractmethod
    def scales(self, rounds: int) -> FloatArray:
        """Laplace scale of each round, of shape (rounds,) or (rounds, n)."""

    @property
    def agents(self) -> int | None:
        """How many agents the per-agent values are for; None when all share one value."""
        sizes = {value.size for value in vars(self).values() if isinstance(value, np.ndarray)}
        if len(sizes) > 1:
            raise ParameterError(
                f"mixing, noise and decay must be one number or one per agent, got {sorted(sizes)} values."
            )
        return sizes.pop() if sizes else None

    def for_agents(self, n: int) -> Self:
        """Check that these parameters can serve `n` agents, and return them."""
        if self.agents not in (None, n):
            raise ParameterError(
                f"per-agent mixing, noise and decay must have one value for each of the {n} agents, "
                f"got {self.agents}."
            )
        return self


@final
@dataclass(frozen=True, eq=False)
class Fading(Parameters):
    """Fresh noise every round, Lap(c·q^t), as the paper has it.

    Parameters
    ----------
    sigma, c
        See `Parameters`.
    q : float or one per agent
        Decay, in (0, 1). An endless run is private only where q > 1 − σ (Lemma 1).

    Examples
    --------
    >>> Fading(sigma=0.8, c=10, q=0.6).scales(3)
    array([10. ,  6. ,  3.6])
    """

    q: float | FloatArray

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "q", _checked(self.q, "decay (q)", below_one=True))
        self.agents  # noqa: B018 - refuses per-agent values of different lengths

    def scales(self, rounds: int) -> FloatArray:
        """Laplace scale c·q^t of rounds 0 to rounds − 1."""
        t = np.arange(rounds, dtype=np.float64)
        if self.agents is None:
            return np.asarray(self.c * self.q**t)
        return np.broadcast_to(self.c * self.q ** t[:, None], (rounds, self.agents))


@final
@dataclass(frozen=True, eq=False)
class OneShot(Parameters):
    """Noise once: a public shadow starts at θ(0) + Lap(c) and moves without noise.

    Everything that is said follows from the shadow's start, so ε = 1/c for any mixing,
    any number of rounds and any schedule.

    Examples
    --------
    >>> OneShot(sigma=0.8, c=10).scales(3)
    array([10.,  0.,  0.])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.agents  # noqa: B018 - refuses per-agent values of different lengths

    def scales(self, rounds: int) -> FloatArray:
        """Laplace scale c in round 0, and 0 in every later round."""
        scales = np.zeros(rounds if self.agents is None else (rounds, self.agents))
        scales[:1] = self.c
        return scales


def require_known(parameters: Parameters) -> None:
    """Refuse parameters of a kind that tacit does not know, subclasses of known kinds included."""
    if type(parameters) not in (Fading, OneShot):
        raise ParameterError(
            f"parameters must be Fading or OneShot, got {type(parameters).__name__}: the noise of another "
            "class would be taken for one of these. Use Fading or OneShot."
        )
