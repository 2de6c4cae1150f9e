"""One pass per round over flat arrays: the inner loops of `tacit.simulate.engine`.

Distributed: a tile is (agents, width), flat. One pass reads θ_i, gathers the messages of the
closed neighbourhood, moves θ_i, and writes the next message, noise included; messages are
double-buffered. Client-server: a tile is (columns, agents), flat, because a column needs no
other; the sum of messages is added up over blocks of fixed size in a fixed order.

Sizes of blocks and orders of sums depend on the number of agents alone, so every number is the
same whatever the threads, the width of the tile, or the share of the agents in one call.

Kernels run on the caller's thread without the interpreter lock; tacit.simulate.engine brings
the threads. Per-agent values come as an array and a stride of 1, shared ones with a stride of 0.
"""

# ruff: noqa: PLR0917 - compiled code takes no keyword arguments and no objects
from __future__ import annotations

from typing import Any

import numpy as np

from tacit.arrays import FloatArray, IntArray
from tacit.noise._kernels import Words, column_key, compiled, inlined, laplace, mix64, stream
from tacit.simulate._rows import closed_sum, combine, weighted_sum

DRAWS = 512  # at a time: enough for full vector loops, small enough to stay in the first cache
AGENTS = 1024  # in a block of a sum


@compiled
def column_keys(seed: np.uint64, runs: Words, components: Words, keys: Words) -> None:
    """Name the noise of each column."""
    for column in range(len(keys)):
        keys[column] = column_key(seed, runs[column], components[column])


# ---------------------------------------------------------------- noise of a tile, block by block


@inlined
def _open_counters(keys: Any, t: Any, lo: Any, counters: Any, steps: Any) -> None:
    """Counters of the first block of agents from `lo` on, and how far they move per block."""
    width = len(keys)
    block = len(counters) // width
    for c in range(width):
        start, gamma = stream(keys[c], np.uint64(t))
        for i in range(block):
            counters[i * width + c] = start + np.uint64(lo + i + 1) * gamma
            steps[i * width + c] = np.uint64(block) * gamma


@inlined
def _next_draws(counters: Any, steps: Any, eta: Any, count: Any) -> None:
    for p in range(count):
        counter = counters[p]
        eta[p] = laplace(mix64(counter))
        counters[p] = counter + steps[p]


# ---------------------------------------------------------------- distributed


@compiled
def speak(
    theta: FloatArray,
    x: FloatArray,
    scale: FloatArray,
    scale_stride: int,
    keys: Words,
    lo: int,
    hi: int,
    lanes: tuple[int, ...],
) -> None:
    """Phase (i) of round 0: x_i = θ_i + η_i for lo ≤ i < hi."""
    width = len(lanes)
    block = DRAWS // width
    eta, counters, steps = np.empty(DRAWS), np.empty(DRAWS, np.uint64), np.empty(DRAWS, np.uint64)
    _open_counters(keys, 0, lo, counters, steps)
    for b in range(lo, hi, block):
        end = min(b + block, hi)
        _next_draws(counters, steps, eta, (end - b) * width)
        for i in range(b, end):
            combine(x, i, 1.0, theta, i, scale[i * scale_stride], eta, i - b, lanes)


@compiled
def move(
    indptr: IntArray,
    indices: Any,
    sigma: FloatArray,
    sigma_stride: int,
    scale: FloatArray,
    scale_stride: int,
    keys: Words,
    theta: FloatArray,
    x: FloatArray,
    x_next: FloatArray,
    t: int,
    speaks: bool,
    one_shot: bool,
    lo: int,
    hi: int,
    lanes: tuple[int, ...],
) -> None:
    """Round t for agents lo ≤ i < hi: feedback, update and, if there is a next round, its message.

    `scale` is that of the next message.
    """
    width = len(lanes)
    block = DRAWS // width
    total, eta = np.empty(DRAWS), np.empty(DRAWS)
    counters, steps = np.empty(DRAWS, np.uint64), np.empty(DRAWS, np.uint64)
    noisy = speaks and not one_shot
    if noisy:
        _open_counters(keys, t + 1, lo, counters, steps)
    for b in range(lo, hi, block):
        end = min(b + block, hi)
        if noisy:
            _next_draws(counters, steps, eta, (end - b) * width)
        for i in range(b, end):
            first, last = indptr[i], indptr[i + 1]
            keep = 1.0 - sigma[i * sigma_stride]
            share = sigma[i * sigma_stride] / np.float64(last - first + 1)
            closed_sum(x, indices, first, last, i, total, i - b, lanes)  # (|N(i)| + 1)·y_i, eq:y_dis
            combine(theta, i, keep, theta, i, share, total, i - b, lanes)  # eq:upd_dis
            if noisy:
                combine(x_next, i, 1.0, theta, i, scale[i * scale_stride], eta, i - b, lanes)
            elif speaks:
                combine(x_next, i, keep, x, i, share, total, i - b, lanes)  # the shadow moves alike


@compiled
def block_sums(
    theta: FloatArray,
    weights: FloatArray,
    weight_stride: int,
    n: int,
    parts: FloatArray,
    lo: int,
    hi: int,
    lanes: tuple[int, ...],
) -> None:
    """Σ γ_i θ_i of each block lo ≤ b < hi of agents."""
    for b in range(lo, hi):
        weighted_sum(parts, b, weights, weight_stride, theta, b * AGENTS, min((b + 1) * AGENTS, n), lanes)


@compiled
def sum_of_blocks(parts: FloatArray, over: float, out: FloatArray) -> None:
    """Add blocks up, first to last, and divide by `over`."""
    width = len(out)
    out[:] = 0.0
    for p in range(len(parts)):
        out[p % width] += parts[p]
    for c in range(width):
        out[c] /= over


@compiled
def move_on(
    indptr: IntArray,
    indices: Any,
    sigma: FloatArray,
    sigma_stride: int,
    scales: FloatArray,
    scale_stride: int,
    keys: Words,
    theta: FloatArray,
    x: FloatArray,
    x_next: FloatArray,
    first: int,
    last: int,
    speaks_last: bool,
    one_shot: bool,
    weights: FloatArray,
    weight_stride: int,
    weight_sum: float,
    slots: IntArray,
    averages: FloatArray,
    lanes: tuple[int, ...],
) -> None:
    """Rounds first ≤ t < last for all agents, without a look at the interpreter in between.

    ``scales[t − first]`` is the scale of what is said after round t, ``slots[t − first]`` the row of
    `averages` for the average after round t, or negative. After an odd number of rounds the messages
    are in `x_next`.
    """
    n = len(indptr) - 1
    parts = np.empty((n + AGENTS - 1) // AGENTS * len(lanes))
    for t in range(first, last):
        speaks = speaks_last or t + 1 < last
        scale = scales[t - first]
        move(indptr, indices, sigma, sigma_stride, scale, scale_stride, keys, theta, x, x_next, t, speaks,
             one_shot, 0, n, lanes)  # fmt: skip
        x, x_next = x_next, x
        if slots[t - first] >= 0:
            block_sums(theta, weights, weight_stride, n, parts, 0, len(parts) // len(lanes), lanes)
            sum_of_blocks(parts, weight_sum, averages[slots[t - first]])


# ---------------------------------------------------------------- client-server


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
    buffer = np.empty(AGENTS)
    kept = len(x) > 1
    for b in range(lo, hi):
        first = b * AGENTS
        count = min(AGENTS, n - first)
        here = at + first
        if pending:
            _towards(theta, sigma, y, here, first, count)
        if noisy:
            _noisy(theta, scale, start, gamma, here, first, count, buffer)
            if kept:
                for p in range(count):
                    x[here + p] = buffer[p]
        else:
            _towards(x, sigma, y, here, first, count)
            for p in range(count):
                buffer[p] = x[here + p]
        parts[b] = _folded(buffer, count)


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
    blocks = (n + AGENTS - 1) // AGENTS
    parts, result = np.empty(blocks), np.empty(1)
    for c in range(len(keys)):
        at, pending = c * n, False
        for t in range(first, last):
            start, gamma = stream(keys[c], np.uint64(t))
            noisy = t == 0 or not one_shot
            report(
                theta,
                x,
                sigma,
                scales[t - first],
                start,
                gamma,
                y[c],
                pending,
                noisy,
                at,
                n,
                parts,
                0,
                blocks,
            )
            sum_of_blocks(parts, np.float64(n), result)
            y[c], pending = result[0], True
            if slots[t - first] >= 0:
                settle(theta, sigma, y[c], at, n, 0, blocks)
                column_sums(theta, weights, at, n, parts, 0, blocks)
                sum_of_blocks(parts, weight_sum, result)
                averages[slots[t - first], c], pending = result[0], False
        if pending:
            settle(theta, sigma, y[c], at, n, 0, blocks)
