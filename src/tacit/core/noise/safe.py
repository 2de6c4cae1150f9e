"""Noise that protects: exact, cryptographic, and not seedable.

Draws are whole numbers of the discrete Laplace distribution, P(k) ∝ exp(−|k|/scale), from OpenDP's exact
sampler. Its bits come from OpenSSL's generator, which the operating system seeds and which reseeds
after a fork. docs/decisions/noise.md says why OpenDP, and what is checked before it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, NoReturn, Protocol, final, overload, runtime_checkable

import numpy as np

from tacit.base.arrays import IntArray
from tacit.base.errors import ParameterError, TacitError
from tacit.base.rounding import fraction_up

LEAST_SCALE, LARGEST_SCALE = 1.0, 2.0**52
"""Limits of a scale. Below, OpenDP would silently return its input unchanged, without noise. Above, draws
might not fit 64 bits."""
_LARGE_DISTANCE = 2**62
_CHUNK = 8192  # large enough to make the overhead of a call negligible


@runtime_checkable
class WholeNoise(Protocol):
    """Discrete Laplace noise on whole numbers.

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

    Parameters
    ----------
    threads : int, optional
        How many cores a long vector may use; all by default.

    Examples
    --------
    >>> from tacit.core.noise import SafeNoise
    >>> SafeNoise().draw(2.0**40, size=3).dtype
    dtype('int64')
    """

    __slots__ = ("_threads",)

    def __init__(self, *, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ParameterError(f"threads must be at least 1, got {threads}.")
        self._threads = threads or os.cpu_count() or 1
        measurement(2.0**40)  # refuse an untrustworthy OpenDP early

    def __repr__(self) -> str:
        return "SafeNoise()"

    @overload
    def draw(self, scale: float) -> int: ...
    @overload
    def draw(self, scale: float, size: int) -> IntArray: ...
    def draw(self, scale: float, size: int | None = None) -> int | IntArray:
        """Return one draw, or `size` independent draws, of exactly this scale.

        The scale must be from 1 to 2^52. A draw then fits 64 bits: |draw| ≥ 2^63 has a probability below
        exp(−2^11).
        """
        sample = measurement(scale)
        return int(sample([0])[0]) if size is None else drawn(sample, size, self._threads)


def drawn(sample: Any, size: int, threads: int) -> IntArray:
    """Return `size` draws of an OpenDP measurement.

    Many draws are made by several threads.
    """
    if size < 0:
        raise ParameterError(f"size must be at least 0, got {size}.")
    threads = min(threads, size // _CHUNK)
    if threads <= 1:
        return np.array(sample(np.zeros(size, dtype=np.int64)), dtype=np.int64)
    # OpenDP releases the interpreter lock, so threads draw in parallel.
    parts = [np.zeros(len(part), dtype=np.int64) for part in np.array_split(np.empty(size), threads)]
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate([np.array(part, dtype=np.int64) for part in pool.map(sample, parts)])


def message_loss(scale: float, sensitivity: int) -> float:
    """Return OpenDP's own bound on the loss of one message, rounded up.

    Parameters
    ----------
    scale : float
        Of the draws, in message steps.
    sensitivity : int
        How many message steps, summed over components, two adjacent states can be apart.
    """
    if sensitivity.bit_length() > 1000:
        raise ParameterError(
            "the adjacency must be at most 2^900 times the noise: such noise protects nothing."
        )
    # OpenDP takes 64-bit distances. The loss of a sum of distances is at most the sum of their losses.
    measured, (parts, rest) = _made(scale), divmod(sensitivity, _LARGE_DISTANCE)
    loss = _mapped(measured, scale, rest)
    return fraction_up(loss + parts * _mapped(measured, scale, _LARGE_DISTANCE) if parts else loss)


@lru_cache(maxsize=256)
def measurement(scale: float) -> Any:
    """Return OpenDP's measurement, after checking its privacy map.

    It is for vectors of 64-bit whole numbers.
    """
    measured = _made(scale)
    # A large odd distance, too: it would lose its last digit in single precision.
    for d in (0, 1, 2**40 + 1):
        _mapped(measured, scale, d)
    return measured


def _made(scale: float) -> Any:
    if not LEAST_SCALE <= scale <= LARGEST_SCALE:  # also refuses NaN
        raise ParameterError(
            f"the scale of whole-number noise must be from 1 to 2^52, got {scale}: with less there is hardly "
            "any noise. Take a finer state step."
        )
    return _maker()(float(scale))


def _mapped(measured: Any, scale: float, d: int) -> Fraction:
    """Return OpenDP's privacy map at d, after checking it.

    It must be d/scale, rounded up. Another map would mean that this is not the noise that is accounted for.
    """
    # Compared as fractions: a comparison of floats could hide a map that rounds down. The allowance above is
    # for OpenDP's own rounding up, a few units in the last place.
    exact, claimed = Fraction(d) / Fraction(scale), Fraction(measured.map(int(d)))
    if not exact <= claimed <= exact * (1 + Fraction(1, 2**50)):
        refuse("its privacy map is not the one of the discrete Laplace distribution")
    return claimed


@cache
def _maker() -> Callable[[float], Any]:
    """Import OpenDP only when noise is needed."""
    require_unbiased()
    # Import from the submodules: OpenDP's prelude takes twice as long to load.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    # Whole numbers select OpenDP's discrete sampler. Its draws need no rounding to a float, so there are no
    # low bits that could leak.
    space = vector_domain(atom_domain(T="i64")), l1_distance(T="i64")
    return lambda scale: make_laplace(*space, scale=scale)


def require_unbiased() -> None:
    """Refuse a version of OpenDP with a known bias."""
    found = version("opendp")
    if tuple(int(part) for part in found.split(".")[:2]) < (0, 16):
        refuse(f"version {found} is older than 0.16 and may draw biased whole numbers")


def refuse(why: str) -> NoReturn:
    """Raise the reason why OpenDP is not used."""
    raise TacitError(f"OpenDP cannot be trusted with private values here: {why}. Install opendp>=0.16.")
