"""The numbers of `SimulatedNoise`: from a counter to a Laplace variable.

One 64-bit word makes one draw, and every word is a pure function of its indices::

    key    = absorb(absorb(absorb(0, seed), run), component)
    stream = absorb(key, round)            gives start and an odd gamma
    word   = mix64(start + (agent + 1)·gamma)
    draw   = laplace(word)                 sign and −log of 63 bits

So numbers do not depend on threads, batches, or other computations. Every stream has its own gamma
(Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), so two streams can
share single words but never a sequence of them.

`next_draws` makes LANES draws at once, in explicit vectors (see `tacit.core.noise._lanes`). It uses only IEEE
operations and explicit fused ones, so every machine gives the same bits.

Kernels are compiled into their callers. numba alone would keep a caller's compiled code until the caller's
own file changes, so `compiled` also compares the text of all files with kernels.
"""

# ruff: noqa: ARG001 - the arguments of an intrinsic are types, and their count is its signature
from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic as _intrinsic

from tacit.base.arrays import FloatArray
from tacit.core.noise._lanes import DOUBLE, LANES, WORD, Lanes

Words = npt.NDArray[np.uint64]
F = TypeVar("F", bound=Callable[..., Any])
_PACKAGE = Path(__file__).parents[2]
SOURCES = sha256(
    b"".join(
        file.read_bytes()
        for part in ("core/motion/mixing.py", "core/noise/_[a-z]*.py", "lab/simulation/_[a-z]*.py")
        for file in sorted(_PACKAGE.glob(part))
    )
).hexdigest()
"""What all files with kernels say: compiled code of other files is compiled anew."""
intrinsic = cast(Callable[[Callable[..., Any]], Callable[..., Any]], _intrinsic)


def compiled(function: F) -> F:
    """Compile on first use and keep the result on disk.

    Compiled functions release the interpreter lock while they run.
    """
    made: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    # numba has no public way to say on which other files a function depends.
    kept = made._cache._cache_file
    kept._source_stamp = (kept._source_stamp, SOURCES)
    return cast(F, made)


def inlined(function: F) -> F:
    """Compile as a part of the callers, so that their loops vectorise."""
    return cast(F, numba.njit(inline="always", error_model="numpy")(function))


@intrinsic
def prefer_wide(_: Any) -> Any:
    """Let the calling kernel use the widest vectors of the processor.

    The default on x86 is half as wide. This hint changes no result and saves a quarter of the time of a draw.
    llvmlite does not know the attribute, so its check of names is bypassed. If that ever fails, kernels are
    slower but still correct.
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
    """Mix a word: a bijection in which every bit depends on every bit.

    These are the shifts and factors of Stafford's variant 13.
    """
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
    """Return (start, gamma) of one round.

    Agent i's word is mix64(start + (i + 1)·gamma).
    """
    state = absorb(key, round_)
    start = mix64(state + GOLDEN)
    # gamma needs a mixer other than mix64. Otherwise start and gamma would be related.
    gamma = (state ^ (state >> _A33)) * _MURA
    gamma = (gamma ^ (gamma >> _A33)) * _MURB
    gamma = (gamma ^ (gamma >> _A33)) | _ONE
    # A gamma with long runs of equal bits changes too few bits of the counter, so flip every other bit.
    if _ones(gamma ^ (gamma >> _ONE)) < np.uint64(24):
        gamma = gamma ^ _ALTERNATING
    return start, gamma


_SIGN, _REST = 1 << 63, (1 << 63) - 1
_FRACTION, _FRACTION_BITS = (1 << 52) - 1, 52
_UNIT_2_52 = 0x4330000000000000  # a double of 2^52: its last fraction bit counts 1
_ROOT_HALF = int(np.float64(0.5**0.5).view(np.uint64))
_LN2 = 0.6931471805599453
_SIXTY_THREE = 63.0 + 2.0**52
# 2·artanh(s)/s = Σ 2 s^{2k}/(2k+1); ten terms leave 3e-17 where |s| ≤ 3 − 2√2.
_TERMS = [2 / (2 * k + 1) for k in range(10)]


def _laplace(word: Lanes, *, directly: bool) -> Lanes:
    """Map uniform words to standard Laplace variables.

    The top bit is the sign. The other bits j give U = (2j + 1)/2^63 and the magnitude −log U. This inversion
    is exact, up to the last bits of a double. The resolution is 2^−53 near 0. The tail ends at
    63·log 2 ≈ 43.7, which true noise exceeds once in 2^63 draws.
    """
    # The lowest bit is set, so the number m is at least 1: log 0 cannot happen, and the exponent below is
    # never negative. Subtracting the bits of √½ makes the exponent change at √½·2^k instead of at 2^k.
    bits = ((word & _REST) | 1).to_doubles(directly=directly).as_words() - _ROOT_HALF
    exponent = ((bits >> _FRACTION_BITS) | _UNIT_2_52).as_doubles()  # the exponent plus 2^52
    # m = f·2^exponent with f in [√½, √2): near U = 1 the logarithm keeps its leading digits
    f = ((bits & _FRACTION) + _ROOT_HALF).as_doubles() - 1.0
    # log(1 + f) = 2·artanh(s). Its series has only even powers of s times s, and |s| is small everywhere, so
    # a short polynomial gives full precision without a table (a table would need a gather).
    s = f / (f + 2.0)
    z = s * s
    p = z.times_plus(_TERMS[9], _TERMS[8])
    for term in _TERMS[7::-1]:
        p = p.times_plus(z, term)
    # Both constants contain 2^52, so their difference 63 − exponent is exact. The result is never negative,
    # so the sign can be set as a bit.
    magnitude = (_SIXTY_THREE - exponent).times_plus(_LN2, -s * p)
    return (magnitude.as_words() | (word & _SIGN)).as_doubles()


@intrinsic
def next_draws(_: Any, counters: Any, steps: Any, at: Any, out: Any, to: Any) -> Any:
    """Make the next LANES draws: out[to + l] from counters[at + l].

    Here 0 ≤ l < LANES. Each counter then moves by steps[at + l].
    """
    whole = types.int64
    signature = types.void(counters, steps, whole, out, whole)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def place(array: int, first: Any, kind: Any) -> Any:
            data = context.make_array(signature.args[array])(context, builder, args[array]).data
            # The pointer type alone would promise the alignment of a whole vector. NumPy promises 8 bytes,
            # and an aligned load from elsewhere crashes. So every load and store says 8.
            return builder.bitcast(builder.gep(data, [first]), ir.VectorType(kind, LANES).as_pointer())

        def load(pointer: Any) -> Lanes:
            loaded = builder.load(pointer)
            loaded.align = 8
            return Lanes(builder, loaded)

        here = place(0, args[2], WORD)
        counter = load(here)
        # Features of the machine that this is compiled for; numba keys its cache by them.
        directly = "+avx512dq" in context.codegen().magic_tuple()[2]
        # The same Python code serves scalars (compiled by numba) and vectors (run here, on operators that
        # emit instructions), so the two cannot drift apart.
        drawn = _laplace(mix64.py_func(counter), directly=directly)  # type: ignore[attr-defined]
        builder.store(drawn.value, place(3, args[4], DOUBLE)).align = 8
        builder.store((counter + load(place(1, args[2], WORD))).value, here).align = 8
        return context.get_dummy_value()

    return signature, codegen


@inlined
def open_stream(start: Any, gamma: Any, first: Any, counters: Any, steps: Any) -> None:
    """Set LANES counters to the agents from `first` on.

    The steps move a counter by LANES agents.
    """
    for i in range(LANES):
        counters[i] = start + np.uint64(first + i + 1) * gamma
        steps[i] = np.uint64(LANES) * gamma


@compiled
def fill(seed: np.uint64, run: np.uint64, out: FloatArray) -> None:
    """Fill out[component, round, agent] with standard Laplace draws."""
    prefer_wide()
    components, rounds, n = out.shape
    counters, steps, last = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64), np.empty(LANES)
    whole = n // LANES * LANES
    for component in range(components):
        key = column_key(seed, run, np.uint64(component))
        for t in range(rounds):
            start, gamma = stream(key, np.uint64(t))
            open_stream(start, gamma, 0, counters, steps)
            row = out[component, t]
            for i in range(0, whole, LANES):
                next_draws(counters, steps, 0, row, i)
            # A draw always fills LANES numbers. Written into the row, the last ones would overwrite the next
            # row, so they go to a buffer first.
            if whole < n:
                next_draws(counters, steps, 0, last, 0)
                for i in range(whole, n):  # a slice would compile the error of unequal lengths, for seconds
                    row[i] = last[i - whole]
