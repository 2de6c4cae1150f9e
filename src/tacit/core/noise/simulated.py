"""Seedable noise for simulations, NOT private.

Anyone who knows the seed knows the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

from tacit.base.arguments import whole
from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError, StateError
from tacit.core.law import Law
from tacit.core.noise import exact

Scales: TypeAlias = Law | npt.ArrayLike
"""A noise law, or Laplace scales that broadcast to (rounds, n)."""

_LARGEST = (1 << 64) - 1


def as_seed(seed: object) -> int:
    """Check that a seed fits the generator's 64 bits, and return it."""
    return whole("seed", seed, 0, most=_LARGEST, bounds="from 0 to 2^64 − 1")


@final
@dataclass(frozen=True)
class SimulatedNoise:
    """Laplace noise that is the same for the same seed. NOT private.

    For simulations, tests and papers only. The noise can be computed from the seed, the
    generator is not cryptographic, and its floating-point output leaks through the low bits,
    so it protects nobody. The runtime does not accept it.

    Each draw is a pure function of (seed, run, round, agent, component). It does not depend on the
    number of rounds, agents or components, on threads, or on earlier calls.

    Parameters
    ----------
    seed : int
        From 0 to 2^64 − 1.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> from tacit.core.noise import SimulatedNoise
    >>> law = Fading(sigma=0.8, c=10, q=0.6)
    >>> noise = SimulatedNoise(seed=1).draw(law, rounds=20, n=3)
    >>> ClientServer(law, agents=3).execute([1, 2, 3], noise)
    <History client-server, 3 agents, 20 rounds>
    """

    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", as_seed(self.seed))

    def draw(
        self, scales: Scales, rounds: int, n: int, components: int | None = None, run: int = 0
    ) -> FloatArray:
        """Return η(0) … η(rounds − 1) of one run.

        Parameters
        ----------
        scales : Law or array_like
            The scale of every round is ``law.scales(rounds)``; or scales themselves: one
            number, one per round (rounds,), or one per round and agent (rounds, n).
        rounds, n : int
        components : int, optional
            Length of the agents' vectors; None for plain numbers.
        run : int
            Which of many independent repetitions.

        Returns
        -------
        array, shape (rounds, n) or (rounds, n, components)
        """
        from tacit.core.noise._kernels import fill

        least = {"rounds": (rounds, 0), "n": (n, 1), "components": (components or 1, 1), "run": (run, 0)}
        for name, (value, low) in least.items():
            if not low <= value <= _LARGEST:
                raise ParameterError(f"{name} must be a whole number of at least {low}, got {value}.")
        scale = _as_scales(scales, rounds, n)
        unit = np.empty((components or 1, rounds, n))
        fill(np.uint64(self.seed), np.uint64(run), unit)
        if isinstance(scales, Law) and not scales.pure:
            unit = _as_normal(unit)
        unit *= scale
        return unit[0] if components is None else np.ascontiguousarray(np.moveaxis(unit, 0, -1))


def _as_scales(scales: Scales, rounds: int, n: int) -> FloatArray:
    """Shape scales so that they broadcast over (rounds, n)."""
    if isinstance(scales, Law):
        if scales.whole_domain:
            raise scales.undefined("Laplace scales", "noise that is drawn without the values")
        given = scales.scales(rounds) if scales.pure else scales.deviations(rounds)
    else:
        given = np.asarray(scales, dtype=np.float64)
    if given.shape not in ((), (rounds,), (rounds, n)):
        raise StateError(
            f"scales must be one number, one per round ({rounds},) or one per round and agent "
            f"({rounds}, {n}), got shape {given.shape}."
        )
    if not np.all(np.isfinite(given) & (given >= 0)):
        raise ParameterError("scales must be finite numbers of at least 0.")
    return given[:, None] if given.ndim == 1 else given


def _as_normal(unit: FloatArray) -> FloatArray:
    """Turn Laplace draws into normal ones of the same probability.

    So Gaussian noise, too, is a pure function of seed, run, round, agent and component.
    """
    from scipy.special import ndtri

    return np.asarray(-np.sign(unit) * ndtri(np.exp(-np.abs(unit)) / 2))


class _Seeded:
    """Draws of bits and staircase noise from a seeded generator. NOT private."""

    def __init__(self, source: Any, seed: int) -> None:
        self._stairs, self._generator = getattr(source, "stairs", None), np.random.default_rng(seed)

    def draw(self, scale: float, size: int | None = None) -> Any:
        """Return one draw, or `size` independent ones."""
        many = 1 if size is None else size
        stairs: tuple[int, int, int, int] | None = self._stairs
        if stairs is None:
            drawn = self._generator.integers(0, int(scale), many)
        else:
            drawn = np.array([exact.staircase(*stairs, self._bits) for _ in range(many)], np.int64)
        return int(drawn[0]) if size is None else drawn

    def _bits(self, k: int) -> int:
        return int.from_bytes(self._generator.bytes((k + 7) // 8)) >> (-k % 8)


def simulated_source(source: Any, seed: int) -> Any:
    """Return what draws as a safe source does, from a seed. NOT private."""
    return _Seeded(source, seed)
