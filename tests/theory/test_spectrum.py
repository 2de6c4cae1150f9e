"""Extreme eigenvalues: every method, and bounds that hold.

Checked against closed forms or dense matrices.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import Graph
from tacit.core.theory import spectrum
from tacit.core.theory.spectrum import complete_extremes, extremes


def dense(graph, d):
    root = np.sqrt(d)
    values = np.linalg.eigvalsh(root[:, None] * graph.laplacian().toarray() * root)
    return values[1], values[-1]


def two_experts(n):
    """Two well-connected halves with one edge between them.

    They have a tiny gap that Lanczos finds at once.
    """
    half = Graph.from_name(f"regular:{n // 2}:6:seed=1").edges()
    return Graph.from_edges(np.vstack([half, half + n // 2, [[0, n // 2]]]))


GRAPHS = {
    "barabasi": Graph.from_name("barabasi:400:3:seed=1"),
    "star": Graph.from_name("star:400"),
    "regular": Graph.from_name("regular:400:4:seed=1"),
    "halves": two_experts(400),
    "grid": Graph.from_name("grid:18x23"),
    "path": Graph.from_name("path:350"),
    "small": Graph.from_name("grid:7x9"),
    "pair": Graph.from_edges([(0, 1)]),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("kind", ["laplacian", "one mixing", "random mixing", "nearly one"])
def test_extremes_are_those_of_the_dense_matrix(name, kind):
    graph = GRAPHS[name]
    n = graph.n
    sigma = {
        "laplacian": graph.degrees + 1.0,
        "one mixing": np.full(n, 0.5),
        "random mixing": np.random.default_rng(3).uniform(0.05, 0.95, n),
        "nearly one": np.full(n, 0.999),
    }[kind]
    d = sigma / (graph.degrees + 1)
    low, high = dense(graph, d)
    found = extremes(graph, d)
    noise = 1e-14 * high  # of the dense matrix
    assert found.low == pytest.approx(low, rel=1e-8, abs=noise)
    assert found.high == pytest.approx(high, rel=1e-3)
    assert (1 - 1e-7) * low - noise <= found.low_bound <= low + noise
    assert high - noise <= found.high_bound <= (1 + 1e-3) * high


@pytest.mark.parametrize("n", [5, 200, 201, 5000, 100_000])
def test_a_ring_to_relative_accuracy(n):
    """μ_k = (σ/3)·4sin²(πk/n), about 10⁻⁹ on the largest ring.

    A plain eigensolver has no digits left there.
    """
    d = 0.5 / 3
    exact = d * 4 * np.sin(np.pi / n) ** 2
    found = extremes(Graph.from_name(f"ring:{n}"), np.full(n, d))
    assert found.low == pytest.approx(exact, rel=1e-11)
    assert exact * (1 - 1e-8) <= found.low_bound <= exact
    largest = d * 4 * np.sin(np.pi * (n // 2) / n) ** 2
    assert largest <= found.high_bound <= largest * (1 + 1e-4)


@pytest.mark.parametrize(("rows", "columns"), [(20, 31), (300, 300)])
def test_a_grid_to_relative_accuracy(rows, columns):
    found = extremes(Graph.from_name(f"grid:{rows}x{columns}"), np.ones(rows * columns))
    exact = 4 * np.sin(np.pi / (2 * max(rows, columns))) ** 2
    largest = sum(4 * np.sin(np.pi * (k - 1) / (2 * k)) ** 2 for k in (rows, columns))
    assert found.low == pytest.approx(exact, rel=1e-11)
    assert exact * (1 - 1e-8) <= found.low_bound <= exact * (1 + 1e-14)
    assert largest <= found.high_bound <= largest * (1 + 1e-3)


def test_mixing_that_differs_by_many_orders():
    """Two slow agents, 49 edges apart: μ_2 = (d_0 + d_49)/49.

    It is far below the rounding of a dense matrix.
    """
    d = np.full(50, 0.3)
    d[[0, -1]] = 1e-20
    found = extremes(Graph.from_name("path:50"), d)
    assert found.low == pytest.approx(2e-20 / 49, rel=1e-12)
    assert found.low_bound == pytest.approx(2e-20 / 49, rel=1e-4)


def test_results_are_reproducible():
    graph = Graph.from_name("regular:3000:4:seed=2")
    d = 0.5 / (graph.degrees + 1)
    assert extremes(graph, d) == extremes(graph, d)


@pytest.mark.parametrize("name", ["ring:3000", "barabasi:1000:3:seed=1", "path:500"])
def test_without_work_to_spend_the_bounds_still_hold(name, monkeypatch):
    """No factorisation, and Lanczos stopped at once.

    The diameter and Gershgorin are left.
    """
    graph = Graph.from_name(name)
    d = np.random.default_rng(1).uniform(0.1, 0.9, graph.n) / (graph.degrees + 1)
    low, high = dense(graph, d) if graph.n < 2000 else (extremes(graph, d).low, extremes(graph, d).high_bound)
    monkeypatch.setattr(spectrum, "_WORK", 1.0)
    monkeypatch.setattr(spectrum, "_LU_MOST", 0.0)
    found = extremes(graph, d)
    assert 0 < found.low_bound <= low
    assert found.high_bound >= high * (1 - 1e-12)
    diameter = spectrum._diameter_bound(spectrum._Matrix(graph, d))
    assert 0 < diameter <= low


def test_a_factorisation_is_tried_only_where_it_is_cheap():
    """Fill grows with N² on a random graph, hardly on a tree or a grid."""
    assert spectrum._factorisation_cost(Graph.from_name("regular:100000:8:seed=1")) > spectrum._LU_MOST
    for name in ("star:100000", "ring:100000", "grid:300x300", "path:100000"):
        assert spectrum._factorisation_cost(Graph.from_name(name)) < spectrum._LU_MOST


@given(st.lists(st.floats(1e-6, 1 - 1e-6), min_size=2, max_size=8), st.booleans())
def test_everyone_hearing_everyone_in_linear_time(sigma, doubled):
    sigma = np.array(sigma * 2 if doubled else sigma)
    n = len(sigma)
    root = np.sqrt(sigma / n)
    values = np.linalg.eigvalsh(np.diag(sigma) - np.outer(root, root))
    found = complete_extremes(sigma)
    assert found.low == pytest.approx(values[1], abs=1e-14)
    assert found.high == pytest.approx(values[-1], abs=1e-14)
    assert found.low_bound <= found.low <= found.high <= found.high_bound
    assert sigma.min() <= found.low_bound
    assert found.high_bound <= sigma.max()


def test_everyone_hearing_everyone_for_a_million():
    sigma = np.full(10**6, 0.5)
    sigma[0] = 0.1
    # with one slow agent: 1 = (1/N)·0.1/(0.1 − μ) + (1 − 1/N)·0.5/(0.5 − μ) has one root besides 0
    n = len(sigma)
    exact = 0.1 + 0.4 / n
    assert complete_extremes(sigma).low == pytest.approx(exact, rel=1e-12)
