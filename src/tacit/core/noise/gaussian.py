"""Gaussian noise that protects: exact and not seedable.

Draws are whole numbers with P(k) ∝ exp(−k²/(2s²)), from OpenDP's exact sampler, for series of means. OpenDP
is checked in the same way as for Laplace noise before it is used: docs/decisions/noise.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, final, overload

from tacit.base.arrays import IntArray
from tacit.base.errors import ParameterError
from tacit.core.noise.safe import LEAST_SCALE, drawn, refuse, require_unbiased

LARGEST_DEVIATION = 2.0**52
"""With a larger deviation, draws might not fit 64 bits."""


@final
class SafeGaussian:
    """Exact discrete Gaussian noise from a cryptographic source.

    It cannot be seeded.

    Parameters
    ----------
    threads : int, optional
        How many cores a long vector may use; all by default.

    Examples
    --------
    >>> from tacit.core.noise import SafeGaussian
    >>> SafeGaussian().draw(2.0**33, size=3).dtype
    dtype('int64')
    """

    __slots__ = ("_threads",)

    def __init__(self, *, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ParameterError(f"threads must be at least 1, got {threads}.")
        self._threads = threads or os.cpu_count() or 1
        gaussian_measurement(2.0**33)  # refuse an untrustworthy OpenDP early

    def __repr__(self) -> str:
        return "SafeGaussian()"

    @overload
    def draw(self, deviation: float) -> int: ...
    @overload
    def draw(self, deviation: float, size: int) -> IntArray: ...
    def draw(self, deviation: float, size: int | None = None) -> int | IntArray:
        """Return one draw, or `size` independent ones, of this deviation.

        The deviation must be from 1 to 2^52. A draw then fits 64 bits: |draw| ≥ 2^63 has a probability below
        exp(−2^20).
        """
        sample = gaussian_measurement(deviation)
        return int(sample([0])[0]) if size is None else drawn(sample, size, self._threads)


@lru_cache(maxsize=64)
def gaussian_measurement(deviation: float) -> Any:
    """Return OpenDP's measurement, after checking its privacy map.

    It is for vectors of 64-bit whole numbers. If the map is not d²/(2s²), rounded up, this is not the noise
    we want.
    """
    if not LEAST_SCALE <= deviation <= LARGEST_DEVIATION:  # also refuses NaN
        raise ParameterError(
            f"the deviation of whole-number noise must be from 1 to 2^52, got {deviation}: with less there "
            "is hardly any noise. Take a finer grid."
        )
    measured = _maker()(float(deviation))
    # 1 and 3 tell d² from d. The large odd distance would lose digits if the map squared it as a float
    # without rounding up.
    for d in (1, 3, 2**40 + 1):
        exact, claimed = Fraction(d) ** 2 / (2 * Fraction(deviation) ** 2), Fraction(measured.map(d))
        if not exact <= claimed <= exact * (1 + Fraction(1, 2**48)):
            refuse("its privacy map is not the one of the discrete Gaussian distribution")
    return measured


@cache
def _maker() -> Callable[[float], Any]:
    require_unbiased()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    # Whole numbers select OpenDP's discrete sampler. Its draws need no rounding to a float, so there are no
    # low bits that could leak.
    space = vector_domain(atom_domain(T="i64")), l2_distance(T="i64")
    return lambda deviation: make_gaussian(*space, scale=deviation)
