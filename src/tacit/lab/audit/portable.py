"""Arithmetic that gives the same bits on every machine.

`numpy.log` and `**` choose their code by the CPU (AVX-512, AVX2), and so does the C library (FMA). Their
results differ in the last bit, and attacks on low bits see last bits. The functions here use only sums,
products, quotients and square roots of doubles, which IEEE 754 fixes to the last bit.
"""

from __future__ import annotations

import numpy as np

from tacit.base.arrays import FloatArray, IntArray

_SPLIT = 2.0**27 + 1
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # 33 bits: its product with an exponent is exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")  # ln 2 less that
_ROOT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")
_TERMS = 15  # of the series; the first one left out is below 2^−80 of the sum


def log(x: FloatArray) -> FloatArray:
    """Logarithm of positive doubles, within 0.6 units in the last place.

    Equal to the C library's except for a few numbers in a thousand, which differ by one unit.
    With x = m·2^e and s = (m−1)/(m+1): log x = e·ln 2 + 2(s + s³/3 + s⁵/5 + …).
    """
    fraction, exponent = np.frexp(x)
    low = fraction < _ROOT_HALF
    m, e = np.where(low, 2 * fraction, fraction), (exponent - low).astype(np.float64)
    over, under = m - 1, m + 1
    under_rest = m - (under - 1)
    s = over / under
    product, rest = _exact_product(s, under)
    s_rest = (((over - product) - rest) - s * under_rest) / under
    z = s * s
    series = np.zeros_like(z)
    for k in range(_TERMS, 0, -1):
        series = z * (1.0 / (2 * k + 1) + series)
    whole, large = e * _LN2_HIGH, 2 * s
    total = whole + large
    back = total - whole
    lost = (whole - (total - back)) + (large - back)
    return np.asarray(total + (lost + (e * _LN2_LOW + (2 * s_rest + large * series))))


def _exact_product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a·b as a double, and its rounding error (Dekker 1971).

    It works without fused operations, which not every CPU has.
    """
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    wide = _SPLIT * a
    high = wide - (wide - a)
    return high, a - high


def laplace(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Draw Laplace noise of scale 1, the same on every machine."""
    return numpy_noise(uniform(rng, shape), np.ones(()))


def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Draw multiples of 2^−53 between 0 and 1, never 0."""
    return np.maximum(rng.random(shape), 2.0**-53)


def numpy_noise(u: FloatArray, scale: FloatArray) -> FloatArray:
    """The value of ``rng.laplace(0, scale)`` for a uniform number.

    Exact if the C library rounds its logarithm correctly: in all but a few cases in a thousand.
    """
    upper = u >= 0.5
    noise = scale * log(np.where(upper, 2.0 - u - u, u + u))
    return np.where(upper, 0.0 - noise, 0.0 + noise)


def textbook_noise(u: FloatArray, scale: FloatArray) -> FloatArray:
    """Return Laplace noise by the inversion that textbooks give.

    It is −scale·sgn(u − ½)·log(1 − 2|u − ½|), as exact as `numpy_noise`.
    """
    centred = u - 0.5
    inside = np.maximum(1 - 2 * np.abs(centred), 2.0**-53)
    return -scale * np.sign(centred) * log(inside)


def powers(base: float, exponent: IntArray) -> FloatArray:
    """base^exponent, by one multiplication after another."""
    return np.cumprod(np.array([1.0, *[base] * int(exponent.max(initial=0))]))[exponent]
