"""Arithmetic written once with operators, compiled to vectors.

A draw is a long chain of steps, each of which waits for the one before. A loop that the compiler vectorises
alone works on one vector at a time, so the processor is often idle. Vectors that are longer than the
registers are split into several registers, whose steps alternate, so there is less waiting. Measured on
AVX2: 0.55 of the time (docs/decisions/noise.md).
"""

from __future__ import annotations

from typing import Any, final

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils as _cgutils

cgutils: Any = _cgutils
LANES = 32  # eight registers of AVX2, or four of AVX-512
DOUBLE, WORD = ir.DoubleType(), ir.IntType(64)


@final
class Lanes:
    """`LANES` numbers, all doubles or all 64-bit words.

    A plain operand is copied to every lane.
    """

    __slots__ = ("_builder", "value")

    def __init__(self, builder: Any, value: Any) -> None:
        self._builder, self.value = builder, value

    @property
    def _real(self) -> bool:
        return isinstance(self.value.type.element, ir.DoubleType)

    def _spread(self, other: Any) -> Any:
        if isinstance(other, Lanes):
            return other.value
        return ir.Constant(self.value.type, [float(other) if self._real else int(other)] * LANES)

    def _apply(self, real: str, whole: str, left: Any, right: Any) -> Lanes:
        operation = getattr(self._builder, real if self._real else whole)
        return Lanes(self._builder, operation(left, right))

    def __add__(self, other: Any) -> Lanes:
        return self._apply("fadd", "add", self.value, self._spread(other))

    def __sub__(self, other: Any) -> Lanes:
        return self._apply("fsub", "sub", self.value, self._spread(other))

    def __rsub__(self, other: Any) -> Lanes:
        return self._apply("fsub", "sub", self._spread(other), self.value)

    def __mul__(self, other: Any) -> Lanes:
        return self._apply("fmul", "mul", self.value, self._spread(other))

    def __truediv__(self, other: Any) -> Lanes:
        return Lanes(self._builder, self._builder.fdiv(self.value, self._spread(other)))

    def __neg__(self) -> Lanes:
        return Lanes(self._builder, self._builder.fneg(self.value))

    def __and__(self, other: Any) -> Lanes:
        return Lanes(self._builder, self._builder.and_(self.value, self._spread(other)))

    def __or__(self, other: Any) -> Lanes:
        return Lanes(self._builder, self._builder.or_(self.value, self._spread(other)))

    def __xor__(self, other: Any) -> Lanes:
        return Lanes(self._builder, self._builder.xor(self.value, self._spread(other)))

    def __rshift__(self, other: Any) -> Lanes:
        # A logical shift: an arithmetic one would copy the sign bit into mix64 and spoil the mixing.
        return Lanes(self._builder, self._builder.lshr(self.value, self._spread(other)))

    def times_plus(self, factor: Any, term: Any) -> Lanes:
        """Multiply and add with one rounding."""
        # An explicit fused operation, not one that the compiler may choose. Processors without it call a
        # function, which is slow but has the same single rounding. So the bits do not depend on the machine.
        kind, name = self.value.type, f"llvm.fma.v{LANES}f64"
        fused = cgutils.get_or_insert_function(self._builder.module, ir.FunctionType(kind, [kind] * 3), name)
        return Lanes(
            self._builder,
            self._builder.call(fused, [self.value, self._spread(factor), self._spread(term)]),
        )

    def as_doubles(self) -> Lanes:
        """Read the bits of words as doubles."""
        return Lanes(self._builder, self._builder.bitcast(self.value, ir.VectorType(DOUBLE, LANES)))

    def as_words(self) -> Lanes:
        """Read the bits of doubles as words."""
        return Lanes(self._builder, self._builder.bitcast(self.value, ir.VectorType(WORD, LANES)))

    def to_doubles(self, *, directly: bool) -> Lanes:
        """Convert words below 2^63 to the nearest doubles.

        AVX-512 has an instruction for it (`directly`). Other processors would convert one by one, so the two
        halves of a word are put into the fractions of 2^84 and 2^52 instead. All steps except the last
        addition are exact, and the addition rounds once. So both ways give the same bits.
        """
        if directly:
            return Lanes(self._builder, self._builder.sitofp(self.value, ir.VectorType(DOUBLE, LANES)))
        # Or-ing bits into the fraction of a power of two is exact as long as they fit its 52 bits; 32 do.
        upper = (self >> 32) | 0x4530000000000000  # 2^84 + high·2^32
        lower = (self & 0xFFFFFFFF) | 0x4330000000000000  # 2^52 + low
        return (upper.as_doubles() - (2.0**84 + 2.0**52)) + lower.as_doubles()
