"""The inner loops of the distributed mechanism: one pass over the agents per round.

A tile is (agents, width), flat. A pass reads θ_i, gathers the messages of the closed neighbourhood,
moves θ_i, and writes the next message, noise included; messages are double-buffered. Per-agent
values come as an array and a stride of 1, shared ones with a stride of 0.
"""

# ruff: noqa: PLR0917 - compiled code takes no keyword arguments and no objects
from __future__ import annotations

from typing import Any

import numpy as np

from tacit.arrays import FloatArray, IntArray
from tacit.noise._kernels import Words, compiled, inlined, laplace, mix64, prefer_wide, stream
from tacit.simulate._kernels import AGENTS, DRAWS, sum_of_blocks
from tacit.simulate._rows import closed_sum, combine, weighted_sum


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


@compiled
def begin(
    values: FloatArray,
    component: IntArray,
    scale: FloatArray,
    scale_stride: int,
    keys: Words,
    theta: FloatArray,
    x: FloatArray,
    lo: int,
    hi: int,
    lanes: tuple[int, ...],
) -> None:
    """θ(0) of every column, and phase (i) of round 0: x_i = θ_i + η_i, for lo ≤ i < hi."""
    prefer_wide()
    width = len(lanes)
    block = DRAWS // width
    eta, counters, steps = np.empty(DRAWS), np.empty(DRAWS, np.uint64), np.empty(DRAWS, np.uint64)
    _open_counters(keys, 0, lo, counters, steps)
    for b in range(lo, hi, block):
        end = min(b + block, hi)
        _next_draws(counters, steps, eta, (end - b) * width)
        for i in range(b, end):
            for c in range(width):
                theta[i * width + c] = values[i, component[c]]
            combine(x, i, 1.0, theta, i, scale[i * scale_stride], eta, i - b, lanes)


@compiled
def take_out(
    rows: FloatArray, agents: IntArray, out: FloatArray, places: IntArray, stride: int, lo: int, hi: int
) -> None:
    """Copy columns: agent a of column c goes to out[places[c] + a·stride], for lo ≤ a < hi.

    `agents` says which agents are meant; empty for all.
    """
    width = len(places)
    for b in range(lo, hi, DRAWS):
        for c in range(width):  # a block at a time: its rows stay in cache for all columns
            for a in range(b, min(b + DRAWS, hi)):
                i = agents[a] if len(agents) else a
                out[places[c] + a * stride] = rows[i * width + c]


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
    prefer_wide()
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
