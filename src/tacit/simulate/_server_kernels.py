"""The inner loops of the client-server mechanism: one pass over the agents per round.

A tile is (columns, agents), flat, because a column needs no other. Feedback is followed when the next
message is made, in the same pass. Messages are added up over blocks of fixed size, and the blocks in a
fixed order.
"""

# ruff: noqa: PLR0917 - compiled code takes no keyword arguments and no objects
from __future__ import annotations

from typing import Any

import numpy as np

from tacit.arrays import FloatArray, IntArray
from tacit.noise._kernels import Words, compiled, inlined, laplace, mix64, prefer_wide, stream
from tacit.simulate._kernels import AGENTS, sum_of_blocks


@inlined
def _towards(values: Any, sigma: Any, y: Any, at: Any, lo: Any, count: Any) -> None:
    """values_i ← (1 − σ_i) values_i + σ_i y, eq:upd, for the agents of one block."""
    if len(sigma) == 1:
        keep, pull = 1.0 - sigma[0], sigma[0] * y
        for p in range(count):
            values[at + p] = keep * values[at + p] + pull
    else:
        for p in range(count):
            s = sigma[lo + p]
            values[at + p] = (1.0 - s) * values[at + p] + s * y


@inlined
def _noisy(theta: Any, scale: Any, start: Any, gamma: Any, at: Any, lo: Any, count: Any, out: Any) -> None:
    """out_p ← θ_i + η_i for the agents of one block."""
    if len(scale) == 1:
        for p in range(count):
            word = mix64(start + np.uint64(lo + p + 1) * gamma)
            out[p] = theta[at + p] + scale[0] * laplace(word)
    else:
        for p in range(count):
            word = mix64(start + np.uint64(lo + p + 1) * gamma)
            out[p] = theta[at + p] + scale[lo + p] * laplace(word)


@inlined
def _folded(values: Any, count: Any) -> Any:
    """Sum of the first `count` values, by halves: the order is fixed and the loops are wide."""
    half = 1
    while half < count:
        half *= 2
    for p in range(count, half):
        values[p] = 0.0
    while half > 1:
        half //= 2
        for p in range(half):
            values[p] += values[half + p]
    return values[0]


@inlined
def _report(
    theta: Any, x: Any, sigma: Any, scale: Any, start: Any, gamma: Any, y: Any, pending: Any, noisy: Any,
    at: Any, n: Any, parts: Any, lo: Any, hi: Any, buffer: Any,
) -> None:  # fmt: skip
    for b in range(lo, hi):
        first = b * AGENTS
        count = min(AGENTS, n - first)
        here = at + first
        if pending:
            _towards(theta, sigma, y, here, first, count)
        if noisy:
            _noisy(theta, scale, start, gamma, here, first, count, buffer)
            if len(x):
                for p in range(count):
                    x[here + p] = buffer[p]
        else:
            _towards(x, sigma, y, here, first, count)
            for p in range(count):
                buffer[p] = x[here + p]
        parts[b] = _folded(buffer, count)


@compiled
def report(
    theta: FloatArray,
    x: FloatArray,
    sigma: FloatArray,
    scale: FloatArray,
    start: np.uint64,
    gamma: np.uint64,
    y: float,
    pending: bool,
    noisy: bool,
    at: int,
    n: int,
    parts: FloatArray,
    lo: int,
    hi: int,
) -> None:
    """Phases (iv), if feedback is `pending`, and (i) for blocks lo ≤ b < hi of the column at `at`.

    The messages of each block are added up. `x` keeps them if it has room. When not `noisy` it is the
    shadow, and moves too.
    """
    prefer_wide()
    buffer = np.empty(AGENTS)
    _report(theta, x, sigma, scale, start, gamma, y, pending, noisy, at, n, parts, lo, hi, buffer)


@compiled
def settle(theta: FloatArray, sigma: FloatArray, y: float, at: int, n: int, lo: int, hi: int) -> None:
    """Phase (iv) alone, for blocks lo ≤ b < hi of a column."""
    for b in range(lo, hi):
        _towards(theta, sigma, y, at + b * AGENTS, b * AGENTS, min(AGENTS, n - b * AGENTS))


@compiled
def column_sums(
    theta: FloatArray, weights: FloatArray, at: int, n: int, parts: FloatArray, lo: int, hi: int
) -> None:
    """Σ γ_i θ_i of each block lo ≤ b < hi of a column."""
    buffer = np.empty(AGENTS)
    for b in range(lo, hi):
        first = b * AGENTS
        count = min(AGENTS, n - first)
        if len(weights) == 1:
            for p in range(count):
                buffer[p] = weights[0] * theta[at + first + p]
        else:
            for p in range(count):
                buffer[p] = weights[first + p] * theta[at + first + p]
        parts[b] = _folded(buffer, count)


@compiled
def serve_on(
    n: int,
    sigma: FloatArray,
    scales: FloatArray,
    keys: Words,
    theta: FloatArray,
    x: FloatArray,
    y: FloatArray,
    first: int,
    last: int,
    one_shot: bool,
    weights: FloatArray,
    weight_sum: float,
    slots: IntArray,
    averages: FloatArray,
) -> None:
    """Rounds first ≤ t < last of every column, one column after the other so that it stays in cache."""
    prefer_wide()
    blocks = (n + AGENTS - 1) // AGENTS
    parts, result, buffer = np.empty(blocks), np.empty(1), np.empty(AGENTS)
    for c in range(len(keys)):
        at, pending = c * n, False
        for t in range(first, last):
            start, gamma = stream(keys[c], np.uint64(t))
            noisy = t == 0 or not one_shot
            _report(theta, x, sigma, scales[t - first], start, gamma, y[c], pending, noisy, at, n, parts, 0,
                    blocks, buffer)  # fmt: skip
            sum_of_blocks(parts, np.float64(n), result)
            y[c], pending = result[0], True
            if slots[t - first] >= 0:
                settle(theta, sigma, y[c], at, n, 0, blocks)
                column_sums(theta, weights, at, n, parts, 0, blocks)
                sum_of_blocks(parts, weight_sum, result)
                averages[slots[t - first], c], pending = result[0], False
        if pending:
            settle(theta, sigma, y[c], at, n, 0, blocks)
