"""Inner loops of the distributed mechanism: one pass per round.

A tile is a stack of sheets of shape (agents, width), stored flat. A pass reads θ_i, gathers the messages of
the closed neighbourhood, moves θ_i, and writes the next message with its noise. Messages are double-buffered:
other agents of the same round still need the old ones.
Parameters are arrays of one number, or of one per agent. If all messages of a neighbourhood have the same
weight, `own` and `heard` are empty and no weight is read; otherwise they are W_ii and W_ij (see `Weights`).
"""

# ruff: noqa: PLR0917 - compiled code takes no keyword arguments and no objects
from __future__ import annotations

from typing import Any

import numpy as np

from tacit.base.arrays import FloatArray, IntArray
from tacit.core.noise._kernels import Words, compiled, inlined, next_draws, prefer_wide, stream
from tacit.core.noise._lanes import LANES
from tacit.lab.simulation._kernels import AGENTS, DRAWS, START, keeps, sum_of_blocks
from tacit.lab.simulation._simd import closed_sum, combine, weighted_closed_sum, weighted_sum


@inlined
def _open_counters(keys: Any, t: Any, lo: Any, counters: Any, steps: Any) -> None:
    """Set the counters of the first block of agents from `lo` on.

    The steps move a counter by one block.
    """
    width = len(keys)
    block = len(counters) // width
    for c in range(width):
        start, gamma = stream(keys[c], np.uint64(t))
        for i in range(block):
            # Computed from the agent's number, not carried over from the block before: any share of the
            # agents can start here and gets the same noise.
            counters[i * width + c] = start + np.uint64(lo + i + 1) * gamma
            steps[i * width + c] = np.uint64(block) * gamma


@inlined
def _draw(counters: Any, steps: Any, eta: Any, count: Any) -> None:
    # The last vector may draw past `count`. DRAWS is a multiple of LANES, so it stays inside the buffer, and
    # nobody reads those numbers: a partial block is always the last one.
    for p in range(0, count, LANES):
        next_draws(counters, steps, p, eta, p)


@inlined
def _stride(values: Any) -> Any:
    """Return the distance in memory between two agents' values.

    It is 0 if all agents share one value.
    """
    return 1 if len(values) > 1 else 0


@compiled
def begin(
    values: FloatArray,
    component: IntArray,
    scale: FloatArray,
    keys: Words,
    theta: FloatArray,
    x: FloatArray,
    lanes: tuple[int, ...],
    lo: int,
    hi: int,
) -> None:
    """Set θ(0) of one sheet and make the messages of round 0.

    This is phase (i), x_i = θ_i + η_i, for lo ≤ i < hi.
    """
    prefer_wide()
    width = len(lanes)
    # Widths are powers of two, so a block fills the buffer exactly and its counters all move together.
    block = DRAWS // width
    eta, counters, steps = np.empty(DRAWS), np.empty(DRAWS, np.uint64), np.empty(DRAWS, np.uint64)
    _open_counters(keys, 0, lo, counters, steps)
    for b in range(lo, hi, block):
        end = min(b + block, hi)
        _draw(counters, steps, eta, (end - b) * width)
        # Noise of the whole block is drawn first. Drawn agent by agent, narrow sheets would fill only a part
        # of each vector.
        for i in range(b, end):
            for c in range(width):
                theta[i * width + c] = values[i, component[c]]
            combine(x, i, 1.0, theta, i, scale[i * _stride(scale)], eta, i - b, lanes)


@compiled
def take_out(
    sheet: FloatArray, agents: IntArray, out: FloatArray, places: IntArray, stride: int, lo: int, hi: int
) -> None:
    """Copy columns of agents lo ≤ a < hi out of a sheet.

    Agent a of column c goes to out[places[c] + a·stride]. `agents` lists the agents; empty for all.
    """
    width = len(places)
    for b in range(lo, hi, DRAWS):
        for c in range(width):  # a block at a time: its rows stay in cache for all columns
            for a in range(b, min(b + DRAWS, hi)):
                i = agents[a] if len(agents) else a
                out[places[c] + a * stride] = sheet[i * width + c]


@compiled
def move(
    indptr: IntArray,
    indices: Any,
    own: FloatArray,
    heard: FloatArray,
    sigma: FloatArray,
    scale: FloatArray,
    keys: Words,
    theta: FloatArray,
    x: FloatArray,
    x_next: FloatArray,
    t: int,
    speaks: bool,
    shadowed: bool,
    lanes: tuple[int, ...],
    lo: int,
    hi: int,
) -> None:
    """Run round t of one sheet, for agents lo ≤ i < hi.

    This is feedback, update and, if there is a next round, its message. `scale` is the noise scale of the
    next message.
    """
    prefer_wide()
    width = len(lanes)
    block = DRAWS // width
    total, eta = np.empty(DRAWS), np.empty(DRAWS)
    counters, steps = np.empty(DRAWS, np.uint64), np.empty(DRAWS, np.uint64)
    noisy = speaks and not shadowed
    if noisy:
        _open_counters(keys, t + 1, lo, counters, steps)
    for b in range(lo, hi, block):
        end = min(b + block, hi)
        if noisy:
            _draw(counters, steps, eta, (end - b) * width)
        # θ is updated in place, because only agent i reads θ_i. The messages x stay as they are until all
        # agents of the round have read them.
        for i in range(b, end):
            first, last = indptr[i], indptr[i + 1]
            keep = keeps(sigma[i * _stride(sigma)])
            share = sigma[i * _stride(sigma)]
            if len(own):  # once per agent, so it costs nothing; a kernel for each would be compiled twice
                weighted_closed_sum(x, indices, heard, first, last, i, own[i], total, i - b, lanes)  # y_i
            else:
                # One division per agent, folded into σ. To divide every column's sum would cost `width`
                # divisions.
                share /= np.float64(last - first + 1)
                closed_sum(x, indices, first, last, i, total, i - b, lanes)  # (|N(i)| + 1)·y_i, eq:y_dis
            combine(theta, i, keep, theta, i, share, total, i - b, lanes)  # eq:upd_dis
            if noisy:
                combine(x_next, i, 1.0, theta, i, scale[i * _stride(scale)], eta, i - b, lanes)
            elif speaks:
                combine(x_next, i, keep, x, i, share, total, i - b, lanes)  # the shadow moves in the same way


@compiled
def block_sums(
    theta: FloatArray,
    weights: FloatArray,
    n: int,
    parts: FloatArray,
    lanes: tuple[int, ...],
    lo: int,
    hi: int,
) -> None:
    """Σ γ_i θ_i of each block lo ≤ b < hi of the agents of one sheet."""
    for b in range(lo, hi):
        weighted_sum(parts, b, weights, _stride(weights), theta, b * AGENTS, min((b + 1) * AGENTS, n), lanes)


@compiled
def move_on(
    indptr: IntArray,
    indices: Any,
    own: FloatArray,
    heard: FloatArray,
    sigma: FloatArray,
    scales: FloatArray,
    keys: Words,
    theta: FloatArray,
    x: FloatArray,
    x_next: FloatArray,
    first: int,
    last: int,
    speaks_last: bool,
    shadowed: bool,
    weights: FloatArray,
    weight_sum: float,
    slots: IntArray,
    averages: FloatArray,
    lanes: tuple[int, ...],
) -> None:
    """Run rounds first ≤ t < last, one sheet after the other.

    A small sheet stays in cache that way. ``scales[t − first]`` is the scale of the message after round t,
    ``slots[t − first]`` the row of `averages` for the average after round t, or negative. After an odd number
    of rounds the messages are in `x_next`.
    """
    n, width = len(indptr) - 1, len(lanes)
    # Blocks of a fixed number of agents: the order of the sum, and so its last bits, must not depend on
    # threads or the width of a sheet.
    blocks = (n + AGENTS - 1) // AGENTS
    parts = np.empty(blocks * width)
    for column in range(0, len(keys), width):
        sheet = slice(column * n, (column + width) * n)
        here, there, states = x[sheet], x_next[sheet], theta[sheet]
        names = keys[column : column + width]
        for t in range(first, last):
            speaks = speaks_last or t + 1 < last
            move(indptr, indices, own, heard, sigma, scales[t - first], names, states, here, there, t, speaks,
                 shadowed, lanes, START, n)  # fmt: skip
            # Swapped names, not copied arrays. The caller swaps its own after an odd number of rounds.
            here, there = there, here
            if slots[t - first] >= 0:
                block_sums(states, weights, n, parts, lanes, START, blocks)
                sum_of_blocks(parts, weight_sum, averages[slots[t - first], column : column + width])
