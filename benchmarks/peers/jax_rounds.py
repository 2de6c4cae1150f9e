"""The distributed mechanism as one would write it in JAX, compiled, in double precision, on the CPU.

Run by `benchmarks.engine`: ``python -m benchmarks.peers.jax_rounds GRAPH.npz MIXING NOISE DECAY``. The sum
over neighbours is the fastest of four ways that were tried: a gather and `segment_sum` with sorted segments
(a padded gather was as fast, sparse matrices in BCOO and BCSR form were slower).
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # type: ignore[import-not-found, unused-ignore]
import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]
import numpy as np

from benchmarks.peers.turns import take_turns

jax.config.update("jax_enable_x64", True)


def main() -> None:
    """Read the graph, compile, and take turns."""
    file, *numbers = sys.argv[1:]
    sigma, c, q = map(float, numbers)
    graph = np.load(file)
    degrees = np.diff(graph["indptr"])
    n = len(degrees)
    rows = jnp.asarray(np.repeat(np.arange(n, dtype=np.int32), degrees))
    columns, closed = jnp.asarray(graph["indices"]), jnp.asarray(degrees + 1.0)
    values = jnp.asarray(np.random.default_rng(1).random(n))

    @jax.jit  # type: ignore[untyped-decorator, unused-ignore]
    def run(theta: jax.Array, rounds: int) -> jax.Array:
        def one(t: int, theta: jax.Array) -> jax.Array:
            eta = jax.random.laplace(jax.random.fold_in(jax.random.key(0), t), (n,), dtype=jnp.float64)
            x = theta + c * q**t * eta
            around = jax.ops.segment_sum(x[columns], rows, n, indices_are_sorted=True)
            return (1 - sigma) * theta + sigma * (x + around) / closed

        return jax.lax.fori_loop(0, rounds, one, theta)

    take_turns(lambda rounds: run(values, rounds).block_until_ready(), time.process_time)


if __name__ == "__main__":
    main()
