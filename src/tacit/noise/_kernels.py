"""The numbers of `SimulatedNoise`: from a counter to a Laplace variable.

One 64-bit word makes one draw, and every word is a pure function of its indices::

    key    = absorb(absorb(absorb(0, seed), run), component)
    stream = absorb(key, round)            gives start and an odd gamma
    word   = mix64(start + (agent + 1)·gamma)
    draw   = laplace(word)                 sign and −log of 63 bits

So numbers do not depend on threads, batches, or other computations. Every stream has its own gamma
(Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), so two streams can
share single words but never a sequence of them.

The code has no branches and no calls, so that loops over it vectorise. It uses only IEEE operations and
explicit fused ones, so every machine gives the same bits.

numba keeps compiled code until the file that *calls* it changes: after a change here or in
simulation/_simd.py, touch the files in simulation/ whose names end in kernels.py.
"""

# ruff: noqa: ARG001 - the arguments of an intrinsic are types, and their count is its signature
from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic as _intrinsic

from tacit.arrays import FloatArray

Words = npt.NDArray[np.uint64]
F = TypeVar("F", bound=Callable[..., Any])
intrinsic = cast(Callable[[Callable[..., Any]], Callable[..., Any]], _intrinsic)


def compiled(function: F) -> F:
    """Compile on first use, keep on disk, release the interpreter while running."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """Compile as a part of its callers, so that their loops can run on vector units."""
    return cast(F, numba.njit(inline="always", error_model="numpy")(function))


@intrinsic
def _as_float(_: Any, word: Any) -> Any:
    return types.float64(types.uint64), lambda _, builder, __, args: builder.bitcast(args[0], ir.DoubleType())


@intrinsic
def _as_word(_: Any, number: Any) -> Any:
    return types.uint64(types.float64), lambda _, builder, __, args: builder.bitcast(args[0], ir.IntType(64))


@intrinsic
def _from_whole(_: Any, word: Any) -> Any:
    """Convert a word below 2^63 to the nearest double.

    AVX-512 has an instruction for it. Without one the loop would not vectorise, so the halves are put into
    the fractions of 2^84 and 2^52. All steps except the last addition are exact, and that one rounds once,
    so both ways give the same bits.
    """

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        word, double, whole = args[0], ir.DoubleType(), ir.IntType(64)
        if "+avx512dq" in context.codegen().magic_tuple()[2]:
            return builder.sitofp(word, double)
        upper = builder.or_(builder.lshr(word, whole(32)), whole(0x4530000000000000))  # 2^84 + high·2^32
        lower = builder.or_(builder.and_(word, whole(0xFFFFFFFF)), whole(0x4330000000000000))  # 2^52 + low
        high = builder.fsub(builder.bitcast(upper, double), double(2.0**84 + 2.0**52))
        return builder.fadd(high, builder.bitcast(lower, double))

    return types.float64(types.uint64), codegen


@intrinsic
def _fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    signature = types.float64(types.float64, types.float64, types.float64)
    return signature, lambda _, builder, __, args: builder.fma(*args)


@intrinsic
def prefer_wide(_: Any) -> Any:
    """Let the calling kernel use the widest vectors; the default on x86 is half of them.

    A hint that changes no result and saves a quarter of the time of a draw. llvmlite does not know the
    attribute, so its check of names is bypassed; if that ever fails, kernels are slower but still correct.
    """

    def codegen(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        with suppress(TypeError):
            set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), codegen


GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, odd
_A30, _A27, _A31, _A33 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(33)
_M13A, _M13B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_MURA, _MURB = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_ALTERNATING = np.uint64(0xAAAAAAAAAAAAAAAA)
_ONE = np.uint64(1)


@inlined
def mix64(z: Any) -> Any:
    """Stafford's variant 13: a bijection in which every bit depends on every bit."""
    z = (z ^ (z >> _A30)) * _M13A
    z = (z ^ (z >> _A27)) * _M13B
    return z ^ (z >> _A31)


@inlined
def absorb(key: Any, value: Any) -> Any:
    """Hash one more index of a draw into its key; a bijection of `value`."""
    return mix64(mix64(key) + GOLDEN * (value + _ONE))


@inlined
def column_key(seed: Any, run: Any, component: Any) -> Any:
    """The key that one component of one run keeps through all rounds."""
    return absorb(absorb(absorb(np.uint64(0), seed), run), component)


@inlined
def _ones(z: Any) -> Any:
    """How many bits are set."""
    z = z - ((z >> _ONE) & np.uint64(0x5555555555555555))
    z = (z & np.uint64(0x3333333333333333)) + ((z >> np.uint64(2)) & np.uint64(0x3333333333333333))
    z = (z + (z >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (z * np.uint64(0x0101010101010101)) >> np.uint64(56)


@inlined
def stream(key: Any, round_: Any) -> Any:
    """(start, gamma) of one round: agent i's word is mix64(start + (i + 1)·gamma)."""
    state = absorb(key, round_)
    start = mix64(state + GOLDEN)
    # Another mixer than mix64, or start and gamma would be related.
    gamma = (state ^ (state >> _A33)) * _MURA
    gamma = (gamma ^ (gamma >> _A33)) * _MURB
    gamma = (gamma ^ (gamma >> _A33)) | _ONE
    # A gamma with long runs of equal bits moves too few bits of the counter.
    if _ones(gamma ^ (gamma >> _ONE)) < np.uint64(24):
        gamma = gamma ^ _ALTERNATING
    return start, gamma


_SIGN, _REST = np.uint64(1 << 63), np.uint64((1 << 63) - 1)
_FRACTION, _FRACTION_BITS = np.uint64((1 << 52) - 1), np.uint64(52)
_UNIT_2_52 = np.uint64(0x4330000000000000)  # a double of 2^52: its last fraction bit counts 1
_ROOT_HALF = np.float64(0.5**0.5).view(np.uint64)
_LN2 = 0.6931471805599453
_SIXTY_THREE = 63.0 + 2.0**52
# 2·artanh(s)/s = Σ 2 s^{2k}/(2k+1); ten terms leave 3e-17 where |s| ≤ 3 − 2√2.
_T0, _T1, _T2, _T3, _T4, _T5, _T6, _T7, _T8, _T9 = (2 / (2 * k + 1) for k in range(10))


@inlined
def laplace(word: Any) -> Any:
    """Map a uniform word to a standard Laplace variable.

    The top bit is the sign. The others, as m = 2j + 1, make U = m/2^63 and the magnitude
    −log U: exact inversion, up to the last bits of a double. The resolution is 2^−53 near 0, and
    the tail ends at 63·log 2 ≈ 43.7, which true noise exceeds once in 2^63 draws.
    """
    bits = _as_word(_from_whole((word & _REST) | _ONE)) - _ROOT_HALF
    exponent = _as_float((bits >> _FRACTION_BITS) | _UNIT_2_52)  # the exponent plus 2^52
    # m = f·2^exponent with f in [√½, √2): near U = 1 the logarithm keeps its leading digits
    f = _as_float((bits & _FRACTION) + _ROOT_HALF) - 1.0
    s = f / (f + 2.0)
    z = s * s
    p = _fma(_fma(_fma(_fma(_T9, z, _T8), z, _T7), z, _T6), z, _T5)
    p = _fma(_fma(_fma(_fma(_fma(p, z, _T4), z, _T3), z, _T2), z, _T1), z, _T0)
    magnitude = _fma(_SIXTY_THREE - exponent, _LN2, -s * p)
    return _as_float(_as_word(magnitude) | (word & _SIGN))


@compiled
def fill(seed: np.uint64, run: np.uint64, out: FloatArray) -> None:
    """Fill out[component, round, agent] with standard Laplace draws."""
    prefer_wide()
    components, rounds, n = out.shape
    for component in range(components):
        key = column_key(seed, run, np.uint64(component))
        for t in range(rounds):
            start, gamma = stream(key, np.uint64(t))
            row = out[component, t]
            for i in range(n):
                row[i] = laplace(mix64(start + np.uint64(i + 1) * gamma))
