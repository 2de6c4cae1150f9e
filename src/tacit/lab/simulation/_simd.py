"""Rows of a tile as vectors: what compilers do not vectorise.

A tile holds `width` columns (run × component) of every agent side by side, so one gather loads a whole
cache line of useful numbers. ``width`` is the length of the tuple `lanes`. It is known at compile time, so a
row is one or two registers instead of a loop. Written as LLVM vectors, the sum over a neighbourhood is three
times as fast as the same loop over columns in numba.

All operations are plain IEEE operations in a fixed order, so a column's numbers do not depend on `width`.
Multiplications and additions are separate instructions: a fused one would round once instead of twice, and
machines without it would give other last bits.
"""

# ruff: noqa: ARG001, PLR0917 - the arguments of an intrinsic are types, and their count is its signature
from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils as _cgutils
from numba.core import types

from tacit.core.noise._kernels import intrinsic

cgutils: Any = _cgutils
_INT: Any = ir.IntType(64)
_LANE: Any = ir.IntType(32)


class _Rows:
    """Rows of `width` doubles in the flat arrays of a kernel."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any, lanes: Any) -> None:
        self.width = len(lanes)
        self.vector: Any = ir.VectorType(ir.DoubleType(), self.width)
        self._builder: Any = builder
        # A function, because only some of a kernel's arguments are arrays.
        self._data: Any = lambda k: context.make_array(signature.args[k])(context, builder, args[k]).data

    def _place(self, array: int, row: Any) -> Any:
        first = self._builder.gep(self._data(array), [self._builder.mul(row, _INT(self.width))])
        return self._builder.bitcast(first, self.vector.as_pointer())

    def load(self, array: int, row: Any) -> Any:
        loaded = self._builder.load(self._place(array, row))
        # NumPy promises 8 bytes. LLVM's default is the length of the row, and an aligned load crashes
        # elsewhere.
        loaded.align = 8
        return loaded

    def store(self, value: Any, array: int, row: Any) -> None:
        self._builder.store(value, self._place(array, row)).align = 8

    def item(self, array: int, index: Any) -> Any:
        return self._builder.load(self._builder.gep(self._data(array), [index]))

    def spread(self, number: Any) -> Any:
        """One number in every lane."""
        # LLVM recognises this pair of operations and emits one broadcast instruction.
        undefined = ir.Constant(self.vector, ir.Undefined)
        first = self._builder.insert_element(undefined, number, _LANE(0))
        nowhere = ir.Constant(ir.VectorType(_LANE, self.width), [0] * self.width)
        return self._builder.shuffle_vector(first, undefined, nowhere)


@intrinsic
def closed_sum(
    _: Any, x: Any, indices: Any, first: Any, last: Any, own: Any, total: Any, at: Any, lanes: Any
) -> Any:
    """total[at] = x[own] + Σ x[indices[e]] over first ≤ e < last."""
    whole = types.int64
    signature = types.void(x, indices, whole, whole, whole, total, whole, lanes)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = _Rows(context, builder, signature, args, lanes)
        # A variable on the stack, which LLVM turns into a register. It is made once, at the function's entry:
        # made in the loop over agents, it would grow the stack with every agent.
        running = cgutils.alloca_once_value(builder, rows.load(0, args[4]))
        with cgutils.for_range_slice(builder, args[2], args[3], _INT(1), _INT) as (edge, __):
            # Indices have 32 bits, to halve the memory that a round reads. They are widened before the
            # multiplication by `width`, which could overflow 32 bits.
            j = builder.sext(rows.item(1, edge), _INT)
            builder.store(builder.fadd(builder.load(running), rows.load(0, j)), running)
        rows.store(builder.load(running), 5, args[6])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def weighted_closed_sum(
    _: Any, x: Any, indices: Any, heard: Any, first: Any, last: Any, own: Any, weight: Any, total: Any,
    at: Any, lanes: Any,
) -> Any:  # fmt: skip
    """Sum a closed neighbourhood's messages with their weights.

    total[at] = weight·x[own] + Σ heard[e]·x[indices[e]] over first ≤ e < last.
    """
    whole, real = types.int64, types.float64
    signature = types.void(x, indices, heard, whole, whole, whole, real, total, whole, lanes)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = _Rows(context, builder, signature, args, lanes)
        # The own message first, then the neighbours in their order, as in `closed_sum`.
        start = builder.fmul(rows.spread(args[6]), rows.load(0, args[5]))
        running = cgutils.alloca_once_value(builder, start)
        with cgutils.for_range_slice(builder, args[3], args[4], _INT(1), _INT) as (edge, __):
            j = builder.sext(rows.item(1, edge), _INT)
            term = builder.fmul(rows.spread(rows.item(2, edge)), rows.load(0, j))
            builder.store(builder.fadd(builder.load(running), term), running)
        rows.store(builder.load(running), 7, args[8])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def combine(_: Any, out: Any, at: Any, a: Any, u: Any, i: Any, b: Any, v: Any, j: Any, lanes: Any) -> Any:
    """out[at] = a·u[i] + b·v[j]."""
    whole, real = types.int64, types.float64
    signature = types.void(out, whole, real, u, whole, real, v, whole, lanes)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = _Rows(context, builder, signature, args, lanes)
        left = builder.fmul(rows.spread(args[2]), rows.load(3, args[4]))
        right = builder.fmul(rows.spread(args[5]), rows.load(6, args[7]))
        # Both rows are loaded before this, so `out` may be `u` itself: states are moved in place.
        rows.store(builder.fadd(left, right), 0, args[1])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def weighted_sum(
    _: Any, out: Any, at: Any, weights: Any, stride: Any, u: Any, first: Any, last: Any, lanes: Any
) -> Any:
    """out[at] = Σ weights[i·stride]·u[i] over first ≤ i < last."""
    whole = types.int64
    signature = types.void(out, whole, weights, whole, u, whole, whole, lanes)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = _Rows(context, builder, signature, args, lanes)
        running = cgutils.alloca_once_value(builder, ir.Constant(rows.vector, [0.0] * rows.width))
        with cgutils.for_range_slice(builder, args[5], args[6], _INT(1), _INT) as (i, __):
            # With stride 0 every agent reads the one shared weight.
            weight = rows.spread(rows.item(2, builder.mul(i, args[3])))
            term = builder.fmul(weight, rows.load(4, i))
            builder.store(builder.fadd(builder.load(running), term), running)
        rows.store(builder.load(running), 0, args[1])
        return context.get_dummy_value()

    return signature, codegen
