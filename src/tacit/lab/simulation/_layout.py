"""How the columns (run × component) of a simulation are cut into tiles."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.base.arguments import whole
from tacit.base.memory import available_memory
from tacit.core.mechanism import Distributed, Mechanism

WIDTHS = (16, 8, 4, 2, 1)  # one row is at most two cache lines, which processors fetch in pairs
WIDEST = WIDTHS[0]  # of one sheet; a tile can be a stack of these
TILE_BYTES = 1 << 30  # maximum size of one sheet: wider sheets are hardly faster
STACKED = 1 << 17  # numbers in a stack: enough to make the cost of starting a tile negligible
WORTH_SHARING = 1 << 15  # with fewer numbers in a round, threads wait longer than they work
APART_BYTES = 1 << 28  # above this, tiles processed in parallel evict each other from the shared cache


@dataclass(frozen=True)
class Layout:
    """Tiles as (first column, width), and how threads work on them.

    Attributes
    ----------
    together : bool
        Whether all threads work together on one tile at a time, instead of each on its own tile.
    working_bytes : int
        Maximum memory of the tiles that are in use at one time.
    """

    tiles: tuple[tuple[int, int], ...]
    together: bool
    working_bytes: int


def layout(mechanism: Mechanism, components: int, runs: int, threads: int, batch: int | None) -> Layout:
    """Choose tiles for speed, within the memory limit.

    `batch` fixes how many runs move together.
    """
    batch = None if batch is None else whole("batch", batch, 1)
    n, columns = mechanism.n, runs * components
    # θ, x and the next x on a graph; θ and x with a server.
    column_bytes = 8 * n * (3 if isinstance(mechanism, Distributed) else 2)
    sheet = _widest_sheet(mechanism, column_bytes)
    widest = sheet if n * sheet >= WORTH_SHARING else _widest_stack(n, sheet, columns, threads)
    # Tiles are cut within a batch, because `batch` limits how many runs are in memory together.
    group = min(runs, batch or runs) * components
    tiles = tuple(
        (start + first, width)
        for start in range(0, columns, group)
        for first, width in cut(min(group, columns - start), widest)
    )
    width = max(width for _, width in tiles)
    # All threads on one tile pay a wait per round, so each round must have enough work. It pays if there are
    # too few tiles to keep every thread busy to the end, or if one tile per thread would not fit the shared
    # cache.
    together = (
        threads > 1
        and n * min(width, sheet) >= WORTH_SHARING
        and (len(tiles) < 2 * threads or threads * width * column_bytes > APART_BYTES)
    )
    at_once = 1 if together else min(threads, len(tiles))
    return Layout(tiles, together, at_once * width * column_bytes + 8 * n * (components + 4))


def _widest_sheet(mechanism: Mechanism, column_bytes: int) -> int:
    room = min(TILE_BYTES, available_memory() // 4)
    for width in WIDTHS:
        # With a server nothing is gathered, so wide sheets save nothing, and narrow ones stay in cache.
        near = isinstance(mechanism, Distributed) or width * mechanism.n <= STACKED
        if near and width * column_bytes <= room:
            return width
    return 1


def _widest_stack(n: int, sheet: int, columns: int, threads: int) -> int:
    """Return the number of columns of a tile with few agents.

    It is large, but leaves several tiles for every thread.
    """
    # A tile wider than WIDEST is read as a stack of the widest sheets, so only those are stacked.
    width = sheet * max(1, STACKED // (n * sheet)) if sheet == WIDEST else sheet
    # Several tiles per thread even out their different speeds. Fewer than 4 columns would waste most of a
    # vector.
    while width > 4 and columns < 4 * threads * width:
        width = width // 2 if width <= WIDEST else max(WIDEST, width // 2 // WIDEST * WIDEST)
    return width


def cut(columns: int, widest: int) -> list[tuple[int, int]]:
    """Cut columns into tiles.

    These are stacks of the widest sheet, then narrower sheets for the rest.
    """
    tiles, first = [], 0
    while first < columns:
        most = min(widest, columns - first)
        width = most // WIDEST * WIDEST or next(w for w in WIDTHS if w <= most)
        tiles.append((first, width))
        first += width
    return tiles
