"""How the columns (run × component) of a simulation are cut into tiles."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import ParameterError
from tacit.mechanism import Distributed, Mechanism
from tacit.simulate.record import available_memory

WIDTHS = (16, 8, 4, 2, 1)  # one row is at most two cache lines, which processors fetch in pairs
TILE_BYTES = 1 << 30  # wider tiles gain little more
CACHED = 1 << 15  # numbers of a client-server tile that stay close to a core
WORTH_SHARING = 1 << 15  # numbers in a round below which threads wait longer than they work
APART_BYTES = 1 << 28  # above which tiles side by side push each other out of the shared cache


@dataclass(frozen=True)
class Layout:
    """Tiles as (first column, width), and how threads work on them.

    Attributes
    ----------
    together : bool
        Whether all threads work on one tile after the other, rather than each on a tile of its own.
    working_bytes : int
        Most memory that tiles take at one time.
    """

    tiles: tuple[tuple[int, int], ...]
    together: bool
    working_bytes: int


def layout(mechanism: Mechanism, components: int, runs: int, threads: int, batch: int | None) -> Layout:
    """Choose tiles for speed within memory; `batch` fixes how many runs move together."""
    if batch is not None and batch < 1:
        raise ParameterError(f"batch must be a whole number of at least 1, got {batch}.")
    n, columns = mechanism.n, runs * components
    column_bytes = 8 * n * (3 if isinstance(mechanism, Distributed) else 2)
    widest = _widest(mechanism, column_bytes)
    while widest > 4 and columns < 2 * threads * widest and n * widest < 2 * WORTH_SHARING:
        widest //= 2  # few small tiles: rather one for every thread
    group = min(runs, batch or runs) * components
    tiles = tuple(
        (start + first, width)
        for start in range(0, columns, group)
        for first, width in _cut(min(group, columns - start), widest)
    )
    width = max(width for _, width in tiles)
    together = (
        threads > 1
        and n * width >= WORTH_SHARING
        and (len(tiles) < 2 * threads or threads * width * column_bytes > APART_BYTES)
    )
    at_once = 1 if together else min(threads, len(tiles))
    return Layout(tiles, together, at_once * width * column_bytes + 8 * n * (components + 4))


def _widest(mechanism: Mechanism, column_bytes: int) -> int:
    room = min(TILE_BYTES, available_memory() // 4)
    for width in WIDTHS:
        near = isinstance(mechanism, Distributed) or width * mechanism.n <= CACHED
        if near and width * column_bytes <= room:
            return width
    return 1


def _cut(columns: int, widest: int) -> list[tuple[int, int]]:
    """Cut a row of columns into tiles of the widths that kernels are made for."""
    tiles, first = [], 0
    while first < columns:
        width = next(w for w in WIDTHS if w <= min(widest, columns - first))
        tiles.append((first, width))
        first += width
    return tiles
