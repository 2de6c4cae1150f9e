"""Extreme eigenvalues of D^½ L D^½, with bounds that err on the safe side.

On most graphs μ_2 alone decides how fast agents agree. On long thin graphs it is tiny (10⁻⁹ on a ring of 10⁵
agents). So it is computed to *relative* accuracy, by one of three methods:

- tiny graphs: all eigenvalues of the dense matrix;
- well-connected graphs: Lanczos on the matrix itself, which finds both ends at once;
- long thin graphs, where that would take too long: Lanczos on the inverse, by one sparse
  factorisation, tried only if it is cheap.

If all methods exceed their work limits, the bound of `_diameter_bound` still holds. The start vector is
fixed, so results are reproducible. Proofs: docs/proofs/convergence.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import eigh, eigh_tridiagonal
from scipy.sparse.csgraph import dijkstra, reverse_cuthill_mckee
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh, splu

from tacit.base.arrays import FloatArray, IntArray
from tacit.core.graph import Graph

_EPS = float(np.finfo(np.float64).eps)
_DENSE = 200  # up to this many agents the whole spectrum is cheapest
_FIRST_STEPS = 300  # Lanczos steps before a factorisation is considered
_WANTED, _ENOUGH = 1e-8, 1e-3  # relative error to stop at while work is cheap, and afterwards
_SETTLED = 1e-2  # with a larger relative error, an estimate may belong to another eigenvalue
_WORK = 2.5e9  # edge visits that count as cheap: about half a minute
_LU_MOST = 1e12  # operations a factorisation may take, by estimate


@dataclass(frozen=True)
class Extremes:
    """The smallest non-zero and the largest eigenvalue, with bounds.

    Attributes
    ----------
    low, high : float
        Best estimates of μ_2 and μ_N.
    low_bound, high_bound : float
        μ_2 ≥ `low_bound` and μ_N ≤ `high_bound`, rounding included.
    """

    low: float
    low_bound: float
    high: float
    high_bound: float

    def scaled(self, factor: float) -> Extremes:
        """Return the extremes of the matrix times a positive number."""
        return Extremes(
            self.low * factor,
            self.low_bound * factor * (1 - _EPS),
            self.high * factor,
            self.high_bound * factor * (1 + _EPS),
        )


def extremes(graph: Graph, d: FloatArray, conductance: FloatArray | None = None) -> Extremes:
    """Return the extreme eigenvalues of D^½ L D^½.

    The graph must be connected and have 2 or more agents.

    Parameters
    ----------
    graph : Graph
    d : array, shape (n,)
        Diagonal of D, positive: d_i = σ_i/(|N(i)|+1), eq:D; all ones for L itself.
    conductance : array, shape (2 · edges,), optional
        Weights of the edges in L, both ways the same, in the order of the graph's indices. 1 by default.
    """
    if conductance is not None:
        graph = replace(graph, weights=conductance)
    matrix = _Matrix(graph, np.asarray(d, dtype=np.float64))
    return _dense(matrix) if graph.n <= _DENSE else _sparse(matrix)


def complete_extremes(sigma: FloatArray) -> Extremes:
    """Return the extreme eigenvalues if all agents hear each other.

    This takes O(N), for two or more agents. There D^½ L D^½ = diag(σ) − vvᵀ with v_i² = σ_i/N, whose
    eigenvalues solve the secular equation Σ v_i²/(σ_i − μ) = 1 and lie between neighbouring σ's.
    """
    s = np.sort(np.asarray(sigma, dtype=np.float64))
    low = _secular_root(s, s[0], s[1])
    high = _secular_root(s, s[-2], s[-1])
    error = 32 * _EPS  # rounding of the sum over its slope, which is at least the sum of its terms
    return Extremes(low, max(low - error, float(s[0])), high, min(high + error, float(s[-1])))


def _secular_root(s: FloatArray, left: float, right: float) -> float:
    """Return the root of Σ (s_i/N)/(s_i − μ) = 1 between two poles.

    The poles are two neighbouring values of s.
    """
    left, right = float(left), float(right)
    # Until no float is left between them: near a pole a tolerance would be either too coarse or never met.
    while (middle := (left + right) / 2) not in (left, right):
        # rises from −∞ to ∞ between the two poles
        if np.mean(s / (s - middle)) < 1:
            left = middle
        else:
            right = middle
    return left


def _conductances(graph: Graph) -> sp.csr_array[np.float64]:
    """The graph's adjacency, with the weights of its edges where it has any."""
    if graph.weights is None:
        return graph.adjacency()
    indptr = graph.indptr.astype(np.int32)
    return sp.csr_array((graph.weights, graph.indices, indptr), shape=(graph.n, graph.n))


def _dot(a: FloatArray, b: FloatArray) -> float:
    """Return the inner product, computed on one thread.

    The result is the same everywhere, and fast on a busy machine.
    """
    # BLAS splits a long product over its threads, so its last bits depend on their number.
    return float(np.einsum("i,i->", a, b))


def _unit(u: FloatArray) -> FloatArray:
    return np.asarray(u / math.sqrt(_dot(u, u)))


class _Matrix:
    """S = D^½ L D^½ of a graph, never formed."""

    def __init__(self, graph: Graph, d: FloatArray) -> None:
        self.graph = graph
        self.root = np.sqrt(d)
        self.adjacency = _conductances(graph)
        self.degrees = np.asarray(self.adjacency.sum(axis=1), dtype=np.float64).reshape(-1)
        # S is similar to DL, whose Gershgorin discs reach from 0 to 2 d_i |N(i)|
        self.ceiling = float(2 * np.max(d * self.degrees)) * (1 + 4 * _EPS)
        null = 1 / self.root  # S D^{-½}1 = D^½ L 1 = 0
        self.null = null / np.linalg.norm(null)

    @cached_property
    def edges(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Both ends and the conductance of every edge."""
        upper = sp.triu(self.adjacency, k=1, format="coo")
        return upper.row.astype(np.int64), upper.col.astype(np.int64), upper.data

    def __matmul__(self, u: FloatArray) -> FloatArray:
        x = self.root * u
        return np.asarray(self.root * (self.degrees * x - self.adjacency @ x))

    def project(self, u: FloatArray) -> FloatArray:
        """Remove the component along the known null vector.

        Rounding errors add it in every step.
        """
        return np.asarray(u - _dot(self.null, u) * self.null)

    def start(self) -> FloatArray:
        """Return a fixed unit vector.

        In practice it is orthogonal to no eigenvector.
        """
        u = self.project(np.random.default_rng(2012).standard_normal(self.graph.n))
        return _unit(u)


# ---- tiny graphs


def _dense(matrix: _Matrix) -> Extremes:
    full = np.column_stack([matrix @ column for column in np.eye(matrix.graph.n)])
    values, vectors = eigh((full + full.T) / 2)
    # eigh has an error of about 10⁻¹⁶ times the *largest* eigenvalue, which can be more than μ_2 itself.
    low, low_bound = _Inverse(matrix).polished(vectors[:, 1])
    high = float(values[-1])
    return Extremes(low, low_bound, high, min(high * (1 + matrix.graph.n * _EPS), matrix.ceiling))


# ---- Lanczos on the matrix itself


@dataclass(frozen=True)
class _Ritz:
    """An eigenvalue estimate and how far from it an eigenvalue can be."""

    value: float
    error: float


def _lanczos(matrix: _Matrix) -> Iterator[tuple[int, _Ritz, _Ritz]]:
    """Yield (steps, low end, high end) at growing numbers of steps.

    Three-term recurrence without reorthogonalisation: the lost orthogonality only repeats
    eigenvalues that were already found, so the two ends stay right (Paige 1980).
    """
    v, previous, beta = matrix.start(), np.zeros(matrix.graph.n), 0.0
    alphas: list[float] = []
    betas: list[float] = []
    rounding = 16 * _EPS * matrix.ceiling
    check = 10
    while True:
        w = matrix @ v - beta * previous
        alpha = _dot(v, w)
        # Without the projection Lanczos finds the eigenvalue 0, which rounding brings back, and calls it μ_2.
        w = matrix.project(w - alpha * v)
        beta = math.sqrt(_dot(w, w))
        alphas.append(alpha)
        betas.append(beta)
        steps = len(alphas)
        finished = beta <= rounding  # an invariant subspace: its eigenvalues are exact
        if steps >= check or finished:
            # Checks cost an eigenvalue problem of `steps` numbers. At growing distances they stay a small
            # part of the work.
            check = max(steps + 20, int(1.1 * steps))
            yield steps, _ritz(alphas, betas, 0, rounding), _ritz(alphas, betas, steps - 1, rounding)
        if finished:
            return
        previous, v = v, w / beta


def _ritz(alphas: list[float], betas: list[float], which: int, rounding: float) -> _Ritz:
    value, vector = eigh_tridiagonal(alphas, betas[:-1], select="i", select_range=(which, which))
    # ‖S u − θ u‖ = β_k |last component|: some eigenvalue is at most that far from θ
    return _Ritz(float(value[0]), betas[-1] * abs(float(vector[-1, 0])) + rounding)


def _sparse(matrix: _Matrix) -> Extremes:
    """Run Lanczos until both ends are known.

    The inverse is used for the low end where that is better.
    """
    size = len(matrix.graph.indices) + matrix.graph.n
    inverse: tuple[float, float] | None = None
    low = high = _Ritz(0.0, np.inf)
    for steps, low, high in _lanczos(matrix):
        if inverse is None and steps >= _FIRST_STEPS and low.error > _ENOUGH * low.value:
            cheap = _factorisation_cost(matrix.graph) <= _LU_MOST
            # (…, 0.0) means: the inverse gives no bound. It is not considered again.
            inverse = _by_inverse(matrix) if cheap else (low.value, 0.0)
        tolerance = _WANTED if steps * size < _WORK else _ENOUGH
        by_inverse = inverse is not None and inverse[1] >= (1 - _ENOUGH) * inverse[0]
        low_done = by_inverse or low.error <= tolerance * low.value
        high_done = _high_error(matrix, high) <= (_ENOUGH if by_inverse else tolerance)
        most = 4 * _WORK if inverse is None or inverse[1] <= 0 else _WORK
        if (low_done and high_done) or steps * size > most:
            break
    return Extremes(*_low_end(matrix, low, inverse), high.value, _high_bound(matrix, high))


def _low_end(matrix: _Matrix, low: _Ritz, inverse: tuple[float, float] | None) -> tuple[float, float]:
    """Estimate of μ_2 and the best lower bound there is."""
    found = [inverse] if inverse is not None else []
    if low.error <= _SETTLED * low.value:
        found.append((low.value, low.value - low.error))
    if all(bound <= 0 for _, bound in found):
        # an estimate that has not settled may belong to another eigenvalue: use only the diameter bound
        found.append((low.value, _diameter_bound(matrix)))
    return max(found, key=lambda pair: pair[1])


def _high_bound(matrix: _Matrix, high: _Ritz) -> float:
    settled = high.error <= _SETTLED * high.value
    return min(high.value + high.error, matrix.ceiling) if settled else matrix.ceiling


def _high_error(matrix: _Matrix, high: _Ritz) -> float:
    """Return the relative error of μ_N, or of 2 − μ_N if smaller.

    The rate may depend on either.
    """
    error = min(high.error, matrix.ceiling - high.value)
    return error / min(high.value, abs(2 - high.value) + _EPS)


def _diameter_bound(matrix: _Matrix) -> float:
    """Bound μ_2 from below by 4/(Σγ · diameter).

    This holds on every connected graph (docs/proofs/convergence.md). An edge of conductance C has length 1/C.
    """
    lengths = matrix.adjacency.copy()
    lengths.data = 1 / lengths.data
    hops = dijkstra(lengths, indices=[0])
    return float(4 / (np.sum(matrix.root**-2) * 2 * np.max(hops)) * (1 - 1e-9))


# ---- Lanczos on the inverse


def _factorisation_cost(graph: Graph) -> float:
    """Estimate the operations that a sparse factorisation of L would take.

    The smaller of two upper estimates for a minimum-degree ordering: a banded elimination after
    Cuthill-McKee, and, for tree-like graphs, a dense elimination after all leaves and chains are
    removed.
    """
    cycles = graph.n_edges - graph.n + 1
    tree_like = graph.n + (2.0 * cycles) ** 3
    if tree_like <= _LU_MOST:
        return tree_like
    place = np.empty(graph.n, dtype=np.int64)
    place[reverse_cuthill_mckee(graph.adjacency(), symmetric_mode=True)] = np.arange(graph.n)
    # Every agent of a connected graph has a neighbour. reduceat would be wrong on an empty row.
    first = np.minimum.reduceat(place[graph.indices], graph.indptr[:-1])
    width = np.maximum(place - first, 0).astype(np.float64)
    return min(tree_like, float(width @ width))


def _by_inverse(matrix: _Matrix) -> tuple[float, float]:
    """μ_2 and a lower bound on it, from the largest eigenvalue of the inverse."""
    inverse = _Inverse(matrix)
    n = matrix.graph.n
    start = matrix.start()
    vectors: npt.NDArray[Any] = np.empty((n, 0))
    try:
        operator = LinearOperator((n, n), matvec=inverse.apply, dtype=np.float64)
        _, vectors = eigsh(operator, k=1, which="LA", v0=start, ncv=20, tol=1e-10, maxiter=50)
    except ArpackNoConvergence as late:
        vectors = late.eigenvectors
    except ArpackError:
        pass  # inverse iteration from the start vector, then
    return inverse.polished(np.asarray(vectors[:, 0].real) if vectors.shape[1] else start)


class _Inverse:
    """The inverse of S off its null vector.

    It is a factorisation of L without one agent.
    """

    def __init__(self, matrix: _Matrix) -> None:
        self.matrix = matrix
        self.keep = np.ones(matrix.graph.n, dtype=bool)
        # L is singular, without one agent it is not. The agent with most neighbours would fill the factors
        # most.
        self.keep[int(np.argmax(matrix.degrees))] = False
        laplacian = sp.csr_array(sp.diags_array(matrix.degrees) - matrix.adjacency)
        grounded = sp.csc_array(laplacian[self.keep][:, self.keep])
        self.factor = splu(
            sp.csc_array(
                (grounded.data, grounded.indices.astype(np.int32), grounded.indptr.astype(np.int32)),
                shape=grounded.shape,
            ),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,  # L is diagonally dominant: no pivoting, no extra fill
            options={"SymmetricMode": True},
        )

    def solve(self, b: FloatArray) -> FloatArray:
        """Solve L x = b for b that sums to 0, with x = 0 at the agent left out."""
        x = np.zeros(len(b))
        x[self.keep] = self.factor.solve(b[self.keep])
        return x

    def apply(self, u: FloatArray) -> FloatArray:
        """S⁺ u."""
        root, project = self.matrix.root, self.matrix.project
        return project(self.solve(project(np.ravel(u)) / root) / root)

    def polished(self, u: FloatArray, most: int = 50) -> tuple[float, float]:
        """Rayleigh quotient and lower bound for μ_2, by inverse iteration from u."""
        value, error = self._relative_error(u)
        for _ in range(most):
            if error <= 1e-10:
                break
            u = self.apply(_unit(u))
            last = error
            value, error = self._relative_error(u)
            if last / 2 < error <= _ENOUGH / 10:  # rounding prevents further progress
                break
        return value, value / (1 + 2 * error)

    def _relative_error(self, u: FloatArray) -> tuple[float, float]:
        """Return θ = uᵀSu of the unit vector u, and its relative error.

        The error is η = ‖Su − θu‖_{S⁺} / √θ: some eigenvalue μ has |θ/μ − 1| ≤ η. In the plain norm the
        rounding of u alone would cost 10⁻¹⁶/μ. Differences along edges are taken first: they are small where
        u is smooth.
        """
        matrix = self.matrix
        u = _unit(matrix.project(u))
        i, j, conductance = matrix.edges
        x = matrix.root * u
        along = x[i] - x[j]
        value = float(np.sum(conductance * along * along))
        n = matrix.graph.n
        flow = conductance * along
        laplacian_x = np.bincount(i, flow, n) - np.bincount(j, flow, n)
        r = matrix.project(matrix.root * laplacian_x - value * u)
        b = r / matrix.root
        squared = max(_dot(b, self.solve(b)), 0.0)
        rounding = 4 * _EPS * np.sqrt(matrix.ceiling / value)
        return value, float(np.sqrt(squared / value) + rounding)
