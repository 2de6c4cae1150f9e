"""Rows of weights on a graph, exactly and as floats.

A rule gives every agent whole-number weights for its own message and for each neighbour's. Everything
else follows: the feedback y = W x on floats and on the lattice, and the left eigenvector that decides what
the agents agree on (docs/proofs/weights.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from tacit.base.arrays import ByValue, FloatArray, frozen, per_agent_columns
from tacit.base.errors import ParameterError
from tacit.core.graph import Graph
from tacit.core.mechanism.whole import Whole, WholeArray, nearest

if TYPE_CHECKING:
    import numpy.typing as npt
    import scipy.sparse as sp

_SMALL = 3000  # up to this many agents the left eigenvector is found by one factorisation
_SETTLED = 1e-15  # change of the left eigenvector per step at which it has converged
_MOST_STEPS = 20_000


class RowShares(NamedTuple):
    """One row of weights in whole numbers.

    W_ii = own/total, and W_ij = heard/total for the neighbours in order.
    """

    own: int
    heard: tuple[int, ...]

    @property
    def total(self) -> int:
        """The denominator of the row."""
        return self.own + sum(self.heard)


class WholeRows(NamedTuple):
    """All rows of weights in whole numbers.

    `own` and `total` are per agent, `heard` is in the order of the graph's indices.
    """

    own: WholeArray
    heard: WholeArray
    total: WholeArray


@dataclass(frozen=True, eq=False)
class Weights(ByValue, ABC):
    """Row-stochastic weights W on a connected graph.

    A subclass needs a `name` and `shares`. The rest may be overridden where it is known in closed form.

    Requirements: no weight is negative, every row has a positive one, and every agent's message reaches
    every other agent through positive weights (W is irreducible). Weights on the diagonal may be zero, and
    W may be periodic: a mixing below 1 keeps a part of every state, so (1−σ)I + σW is still primitive.
    """

    graph: Graph

    name: ClassVar[str]
    keeps_missing: ClassVar[bool] = False
    """Whether the weight of a message that is missing goes to the agent's own message. If not, or if that is
    missing too, it is shared out in proportion among those that came."""

    def __post_init__(self) -> None:
        self.graph.require_connected()
        if (
            not self.reversible
        ):  # if reversible, both ends of an edge have positive weights, so a connected graph suffices
            self.require_irreducible()

    @abstractmethod
    def shares(self, i: int) -> RowShares:
        """Return row i in whole numbers."""

    @property
    def plain(self) -> bool:
        """Whether all messages of a closed neighbourhood count the same.

        The paper's do.
        """
        return False

    @cached_property
    def whole(self) -> WholeRows:
        """All rows in whole numbers."""
        rows = [self.shares(i) for i in range(self.graph.n)]
        for i, row in enumerate(rows):
            if min(row.own, *row.heard) < 0 or row.total < 1 or len(row.heard) != self.graph.degrees[i]:
                raise ParameterError(
                    f"{self.name} weights must be at least 0, one for the own message and one for every "
                    f"neighbour's, and not all 0, but those of agent {self.graph.label(i)} are not."
                )
        own, total = np.empty(len(rows), dtype=object), np.empty(len(rows), dtype=object)
        own[:], total[:] = [row.own for row in rows], [row.total for row in rows]
        heard = np.empty(len(self.graph.indices), dtype=object)
        heard[:] = [weight for row in rows for weight in row.heard]
        return WholeRows(own, heard, total)

    @cached_property
    def own(self) -> FloatArray:
        """W_ii of every agent."""
        own = np.array([a / b for a, b in zip(self.whole.own, self.whole.total, strict=True)])
        frozen(own)
        return own

    @cached_property
    def heard(self) -> FloatArray:
        """W_ij for every neighbour j of i, in the order of the graph's indices."""
        totals = np.repeat(self.whole.total, self.graph.degrees)
        heard = np.array([a / b for a, b in zip(self.whole.heard, totals, strict=True)], dtype=np.float64)
        frozen(heard)
        return heard

    @cached_property
    def matrix(self) -> sp.csr_array[np.float64]:
        """W as a sparse array, its diagonal included."""
        import scipy.sparse as sp

        graph = self.graph
        off = sp.csr_array((self.heard, graph.indices, graph.indptr), shape=(graph.n, graph.n))
        return sp.csr_array(off + sp.diags_array(self.own.astype(np.float64)))

    def aggregate(self, x: FloatArray) -> FloatArray:
        """Phase (ii): y_i(t) = Σ_j W_ij x_j(t), over the first axis of x."""
        flat = x if x.ndim <= 2 else x.reshape(self.graph.n, -1)
        return np.asarray(self.matrix @ flat).reshape(x.shape)

    def aggregate_whole(self, lifted: WholeArray) -> Whole:
        """Phase (ii) on whole numbers.

        Every row's sum is exact, and rounded once to the nearest, ties up.
        """
        graph, rows = self.graph, self.whole
        column = (-1,) + (1,) * (lifted.ndim - 1)
        total = rows.own.reshape(column) * lifted
        if len(graph.indices):  # reduceat needs neighbours in every row; a connected graph has them
            heard = rows.heard.reshape(column) * lifted[graph.indices]
            total = total + np.add.reduceat(heard, graph.indptr[:-1], axis=0)
        return nearest(total, rows.total.reshape(column))

    @property
    def reversible(self) -> bool:
        """Whether ω_iW_ij = ω_jW_ji is known to hold exactly.

        ω is `stationary`. If not, rates are bounded by singular values instead of eigenvalues, which is
        always correct.
        """
        return False

    @cached_property
    def stationary(self) -> FloatArray:
        """ω with ωᵀW = ωᵀ, up to a factor.

        It is the weight of an agent's noise in the final value.
        """
        omega = _left_eigenvector(self.matrix)
        frozen(omega)
        return omega

    def require_irreducible(self) -> None:
        """Refuse weights with which some agent's value never reaches another."""
        graph, counts = self.graph, np.asarray(self.whole.heard) > 0
        if counts.all():
            return  # the graph is connected, and both ends of every edge hear each other
        hears = _reached(graph, counts.tolist())
        is_heard = _reached(graph, graph.turned(counts).tolist())
        if not (hears & is_heard).all():
            other = int(np.argmin(hears & is_heard))
            raise ParameterError(
                f"every agent's message must reach every other agent through positive weights, but agents "
                f"{graph.label(0)} and {graph.label(other)} do not reach each other both ways: values would "
                "never agree. Give the missing directions a positive weight."
            )


def _reached(graph: Graph, counts: list[bool]) -> npt.NDArray[np.bool_]:
    """Return which agents can be reached from agent 0.

    Only entries that count are followed.
    """
    starts, ends, reached = graph.indptr.tolist(), graph.indices.tolist(), np.zeros(graph.n, dtype=bool)
    reached[0], waiting = True, [0]
    while waiting:
        i = waiting.pop()
        for k in range(starts[i], starts[i + 1]):
            if counts[k] and not reached[ends[k]]:
                reached[ends[k]] = True
                waiting.append(ends[k])
    return reached


def per_row(values: FloatArray, x: FloatArray) -> FloatArray:
    """Shape one number per agent so that it broadcasts with x."""
    return per_agent_columns(values, x.ndim)


def _left_eigenvector(matrix: sp.csr_array[np.float64]) -> FloatArray:
    """Return ω > 0 with ωᵀW = ωᵀ and Σω = N, for an irreducible W."""
    n = matrix.shape[0]
    omega = np.ones(n)
    turned = matrix.T.tocsr()
    if n <= _SMALL:
        omega = _by_factorisation(matrix)
    for _ in range(_MOST_STEPS):
        # average with the last vector: with a periodic W the iteration would not converge
        after = (omega + turned @ omega) / 2
        after *= n / after.sum()
        change = float(np.max(np.abs(after - omega) / after))
        omega = after
        if change <= (1e-13 if n <= _SMALL else _SETTLED):
            return np.asarray(omega)
    raise ParameterError(
        f"the target of these weights could not be computed for {n:,} agents: {_MOST_STEPS:,} steps did not "
        "converge. Use weights with a known target, like metropolis."
    )


def _by_factorisation(matrix: sp.csr_array[np.float64]) -> FloatArray:
    """Solve ωᵀ(I − W) = 0 with ω = 1 at one agent.

    The rest of I − W is a regular M-matrix.
    """
    import scipy.sparse as sp
    from scipy.sparse.linalg import splu

    n = matrix.shape[0]
    if n == 1:
        return np.ones(1)
    keep = np.arange(n) != n - 1
    off = matrix - sp.diags_array(matrix.diagonal())
    # the diagonal of I − W as the sum of the other weights of a row: 1 − W_ii would lose digits
    generator = sp.csr_array(sp.diags_array(np.asarray(off.sum(axis=1)).reshape(-1)) - off)
    left = sp.csc_array(generator[keep][:, keep].T)
    right = np.asarray(off[[n - 1]].toarray()).reshape(-1)[keep]
    omega = np.ones(n)
    omega[keep] = np.atleast_1d(splu(left).solve(right))
    return np.asarray(omega * (n / omega.sum()))
