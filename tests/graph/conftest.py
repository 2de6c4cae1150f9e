from collections.abc import Callable

import numpy as np
import pytest

from tacit import Graph


def _require_simple(graph: Graph) -> None:
    """Check by brute force that the rows are a simple graph.

    It must be undirected.
    """
    indptr, indices, n = graph.indptr, graph.indices, graph.n
    assert indptr.dtype == np.int64
    assert indices.dtype == np.int32
    assert indptr[0] == 0
    assert indptr[-1] == len(indices) == 2 * graph.n_edges
    assert (np.diff(indptr) >= 0).all()
    rows = np.repeat(np.arange(n), np.diff(indptr))
    assert ((indices >= 0) & (indices < n)).all()
    assert (rows != indices).all()
    # Strictly rising rows: sorted, and no neighbour twice.
    assert (np.diff(rows * n + indices) > 0).all()
    assert set(zip(rows.tolist(), indices.tolist(), strict=True)) == set(
        zip(indices.tolist(), rows.tolist(), strict=True)
    )
    assert not indptr.flags.writeable
    assert not indices.flags.writeable


@pytest.fixture(scope="session")
def require_simple() -> Callable[[Graph], None]:
    return _require_simple
