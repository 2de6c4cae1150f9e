"""What the kernels of both mechanisms share.

Kernels run on the caller's thread without the interpreter lock; `tacit.simulation.threads` brings the
threads. Sizes of blocks and orders of sums depend on the number of agents alone, so every number is
the same whatever the threads, the width of the tile, or the share of the agents in one call.
"""

from __future__ import annotations

import numpy as np

from tacit.arrays import FloatArray
from tacit.noise._kernels import Words, column_key, compiled

DRAWS = 512  # at a time: enough for full vector loops, small enough to stay in the first cache
AGENTS = 1024  # in a block of a sum


@compiled
def column_keys(seed: np.uint64, runs: Words, components: Words, keys: Words) -> None:
    """Name the noise of each column."""
    for column in range(len(keys)):
        keys[column] = column_key(seed, runs[column], components[column])


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
def total(numbers: FloatArray) -> float:
    """Σ of one number per agent, block by block as all sums here."""
    result = 0.0
    for first in range(0, len(numbers), AGENTS):
        block = 0.0
        for number in numbers[first : first + AGENTS]:
            block += number
        result += block
    return result
