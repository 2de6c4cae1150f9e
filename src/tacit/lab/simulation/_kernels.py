"""What the kernels of both mechanisms share.

Kernels run on the caller's thread without the interpreter lock; `tacit.lab.simulation.threads` has the
threads. Block sizes and the order of sums depend only on the number of agents. So results do not depend on
the number of threads, the width of the tile, or how the agents are divided among calls.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.core.motion.mixing import kept
from tacit.core.noise._kernels import Words, column_key, compiled, inlined

DRAWS = 512  # draws at a time: enough for full vector loops, small enough for the first-level cache
AGENTS = 1024  # agents in a block of a sum
# To numba a written 0 or False is a type of its own: a kernel called with it would be compiled once more.
START, NOT_YET = cast(int, np.int64(0)), cast(bool, np.bool_(False))
keeps = inlined(kept)  # 1 − σ, compiled into the kernels


@compiled
def column_keys(seed: np.uint64, runs: Words, components: Words, keys: Words) -> None:
    """Compute the key of each column's noise."""
    for column in range(len(keys)):
        keys[column] = column_key(seed, runs[column], components[column])


@compiled
def sum_of_blocks(parts: FloatArray, over: float, out: FloatArray) -> None:
    """Add blocks, first to last, and divide by `over`."""
    # Parts are (block, column), flat. Each column is summed in the order of its blocks, so that its last bits
    # do not depend on who computed the blocks.
    width = len(out)
    out[:] = 0.0
    for p in range(len(parts)):
        out[p % width] += parts[p]
    for c in range(width):
        out[c] /= over


@compiled
def total(numbers: FloatArray) -> float:
    """Σ of one number per agent, block by block like all sums here."""
    result = 0.0
    for first in range(0, len(numbers), AGENTS):
        # A sum per block and then over blocks: the same order as the kernels', and a smaller rounding error
        # than one long sum.
        block = 0.0
        for number in numbers[first : first + AGENTS]:
            block += number
        result += block
    return result
