"""Inner loops of the client-server mechanism: one pass per round.

A tile is (columns, agents), flat, because columns are independent. Feedback is applied in the same pass
that makes the next message. Messages are summed over blocks of fixed size, and the blocks in a fixed order.
"""

# ruff: noqa: PLR0917 - compiled code takes no keyword arguments and no objects
from __future__ import annotations

from typing import Any

import numpy as np

from tacit.base.arrays import FloatArray, IntArray
from tacit.core.noise._kernels import Words, compiled, inlined, next_draws, open_stream, prefer_wide, stream
from tacit.core.noise._lanes import LANES
from tacit.lab.simulation._kernels import AGENTS, NOT_YET, START, keeps, sum_of_blocks


@inlined
def _towards(values: Any, sigma: Any, y: Any, first: Any) -> None:
    """Move a block of agents towards the feedback y (eq:upd).

    values_i ← (1 − σ_i) values_i + σ_i y, for the agents from `first` on.
    """
    # Two loops, not one with a stride: each reads contiguous memory, so both vectorise.
    if len(sigma) == 1:
        keep, pull = keeps(sigma[0]), sigma[0] * y
        for p in range(len(values)):
            values[p] = keep * values[p] + pull
    else:
        own = sigma[first : first + len(values)]
        for p in range(len(values)):
            values[p] = keeps(own[p]) * values[p] + own[p] * y


@inlined
def _noisy(
    values: Any, scale: Any, start: Any, gamma: Any, first: Any, out: Any, counters: Any, steps: Any
) -> None:
    """Make the messages out_i ← θ_i + η_i of a block of agents.

    The block begins at agent `first`; `out` has room for whole vectors.
    """
    # Opened anew for every block, from the agents' numbers: blocks can be shared among threads in any way.
    open_stream(start, gamma, first, counters, steps)
    # The last vector may reach past the block. AGENTS is a multiple of LANES, so `out` has room for it.
    for p in range(0, len(values), LANES):
        next_draws(counters, steps, 0, out, p)
    if len(scale) == 1:
        for p in range(len(values)):
            out[p] = values[p] + scale[0] * out[p]
    else:
        own = scale[first : first + len(values)]
        for p in range(len(values)):
            out[p] = values[p] + own[p] * out[p]


@inlined
def _folded(values: Any, count: Any) -> Any:
    """Sum the first `count` values by repeated halving.

    That is a fixed order, and its loops vectorise. The values are overwritten.
    """
    # A plain loop over floats is not vectorised, because that would change the order of additions. Halving
    # fixes an order in which whole vectors are added, and its rounding error grows with log2(count) only.
    half = 1
    while half < count:
        half *= 2
    # The rest may hold draws of agents that do not exist, or old numbers.
    for p in range(count, half):
        values[p] = 0.0
    while half > 1:
        half //= 2
        for p in range(half):
            values[p] += values[half + p]
    return values[0]


@inlined
def _copy(values: Any, out: Any) -> None:
    """Set out_i ← values_i.

    Not ``out[:] = values``: numba would compile the error of unequal lengths, with its text, for seconds.
    """
    for p in range(len(out)):
        out[p] = values[p]


@compiled
def _report(
    theta: Any, x: Any, sigma: Any, scale: Any, start: Any, gamma: Any, y: Any, pending: Any, noisy: Any,
    at: Any, n: Any, parts: Any, lo: Any, hi: Any, buffer: Any, counters: Any, steps: Any,
) -> None:  # fmt: skip
    prefer_wide()
    for b in range(lo, hi):
        first = b * AGENTS
        count = min(AGENTS, n - first)
        block = theta[at + first : at + first + count]  # indices from 0 on need no check for negative ones
        if pending:
            _towards(block, sigma, y, first)
        if noisy:
            _noisy(block, scale, start, gamma, first, buffer, counters, steps)
            if len(x):
                _copy(buffer, x[at + first : at + first + count])
        else:
            # The shadow moves even if nothing is pending: then only the states were settled, for an average.
            shadow = x[at + first : at + first + count]
            _towards(shadow, sigma, y, first)
            # The sum below overwrites what it adds, and the shadow is still needed.
            _copy(shadow, buffer[:count])
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
    """Make the messages of one column's blocks lo ≤ b < hi.

    This is phase (i), after phase (iv) if feedback is `pending`, for the column that begins at `at`. The
    messages of each block are summed. If `x` is not empty, it keeps them. If not `noisy`, `x` is the shadow,
    and it moves, too.
    """
    prefer_wide()
    # Each call has buffers of its own, because several threads run it at the same time.
    buffer, counters, steps = np.empty(AGENTS), np.empty(LANES, np.uint64), np.empty(LANES, np.uint64)
    _report(theta, x, sigma, scale, start, gamma, y, pending, noisy, at, n, parts, lo, hi, buffer, counters,
            steps)  # fmt: skip


@compiled
def settle(theta: FloatArray, sigma: FloatArray, y: float, at: int, n: int, lo: int, hi: int) -> None:
    """Phase (iv) alone, for blocks lo ≤ b < hi of a column."""
    for b in range(lo, hi):
        first = b * AGENTS
        _towards(theta[at + first : at + min(first + AGENTS, n)], sigma, y, first)


@compiled
def column_sums(
    theta: FloatArray, weights: FloatArray, at: int, n: int, parts: FloatArray, lo: int, hi: int
) -> None:
    """Σ γ_i θ_i of each block lo ≤ b < hi of a column."""
    buffer = np.empty(AGENTS)
    for b in range(lo, hi):
        first = b * AGENTS
        count = min(AGENTS, n - first)
        block = theta[at + first : at + first + count]
        if len(weights) == 1:
            for p in range(count):
                buffer[p] = weights[0] * block[p]
        else:
            own = weights[first : first + count]
            for p in range(count):
                buffer[p] = own[p] * block[p]
        parts[b] = _folded(buffer, count)


@compiled
def open_on(
    n: int,
    sigma: FloatArray,
    drawn: FloatArray,
    theta: FloatArray,
    x: FloatArray,
    y: FloatArray,
    first: int,
    last: int,
    once: bool,
    weights: FloatArray,
    weight_sum: float,
    slots: IntArray,
    averages: FloatArray,
) -> None:
    """Run rounds first ≤ t < last with keepers.

    `drawn` is the keepers' noise in the mean. With `once` they open only one sum, and all later moves are
    towards its feedback. If `x` is not empty, it keeps the messages.
    """
    blocks = (n + AGENTS - 1) // AGENTS
    parts, result, one = np.empty(blocks), np.empty(1), np.ones(1)
    for c in range(len(y)):
        at = c * n
        for t in range(first, last):
            if len(x):
                for i in range(at, at + n):
                    # After the single opening everyone moves towards its feedback, which then stands for the
                    # messages.
                    x[i] = y[c] if once and t > 0 else theta[i]
            # The same sum as that of the states' average: keepers add noise to the sum, not to each message.
            if t == 0 or not once:
                column_sums(theta, one, at, n, parts, START, blocks)
                sum_of_blocks(parts, np.float64(n), result)
                y[c] = result[0] + drawn[t - first, c]
            settle(theta, sigma, y[c], at, n, START, blocks)
            if slots[t - first] >= 0:
                column_sums(theta, weights, at, n, parts, START, blocks)
                sum_of_blocks(parts, weight_sum, result)
                averages[slots[t - first], c] = result[0]


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
    shadowed: bool,
    weights: FloatArray,
    weight_sum: float,
    slots: IntArray,
    averages: FloatArray,
) -> None:
    """Run rounds first ≤ t < last of every column.

    One column after the other, to stay in cache.
    """
    prefer_wide()
    blocks = (n + AGENTS - 1) // AGENTS
    parts, result, buffer = np.empty(blocks), np.empty(1), np.empty(AGENTS)
    counters, steps = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64)
    for c in range(len(keys)):
        # Feedback waits until the next message is made, so that a round reads the states once, not twice.
        at, pending = c * n, NOT_YET
        for t in range(first, last):
            start, gamma = stream(keys[c], np.uint64(t))
            noisy = t == 0 or not shadowed
            _report(theta, x, sigma, scales[t - first], start, gamma, y[c], pending, noisy, at, n, parts,
                    START, blocks, buffer, counters, steps)  # fmt: skip
            sum_of_blocks(parts, np.float64(n), result)
            y[c], pending = result[0], True
            if slots[t - first] >= 0:
                settle(theta, sigma, y[c], at, n, START, blocks)
                column_sums(theta, weights, at, n, parts, START, blocks)
                sum_of_blocks(parts, weight_sum, result)
                # The average is of the states after this round, so the feedback could not wait.
                averages[slots[t - first], c], pending = result[0], NOT_YET
        if pending:
            settle(theta, sigma, y[c], at, n, START, blocks)
