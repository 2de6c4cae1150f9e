"""How fast agents come to agree: the exact rate, from two eigenvalues.

A round without noise is P = I − Σ + ΣW. Its left eigenvector is γ_i = 1/d_i = ω_i/σ_i, where ωᵀW = ωᵀ.
In the paper and with Metropolis weights ω_iW_ij = ω_jW_ji (reversible weights). Then P = I − DL with the
Laplacian L of these conductances (eq:P), and P is self-adjoint in the norm weighted by γ. So each round
shrinks disagreement by max(|1 − μ_2|, |1 − μ_N|), where the μ are eigenvalues of D^½ L D^½. With other
weights, as on directed graphs, the factor per round is at most the second largest singular value of P in
that norm (docs/proofs/convergence.md). A rate is never too small. Its distance to 1 (the gap) is accurate
even if it is 10⁻⁹.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError, RecordTooLarge
from tacit.core.graph import Graph
from tacit.core.mechanism import ClientServer, Distributed, Mechanism
from tacit.core.mechanism.topology import ClosedNeighbourhood, GivenWeights, Weights

if TYPE_CHECKING:  # it imports scipy's sparse matrices, which an agent never needs
    import scipy.sparse as sp

    from tacit.core.theory.spectrum import Extremes

_MOST_ENTRIES = 50_000_000
_FEW = 1000  # up to this many agents all eigenvalues are computed, if weights are not reversible


def mixing(mechanism: Mechanism) -> FloatArray:
    """σ_i of every agent."""
    return np.broadcast_to(np.asarray(mechanism.motion.pull), (mechanism.n,))


def step_sizes(mechanism: Mechanism) -> FloatArray:
    """Return d_i = 1/(ω_i·τ_i), the diagonal of D in eq:D.

    1/d_i is the weight γ_i of the target.
    """
    return mechanism.motion.step_size(mechanism.stationary)


def closed_sums(mechanism: Mechanism, x: FloatArray) -> FloatArray:
    """Σ_{j ∈ N(i) ∪ {i}} x_j for every agent i."""
    if isinstance(mechanism, Distributed):
        return np.asarray(x + mechanism.graph.neighbour_sums(x))
    return np.broadcast_to(np.sum(x), x.shape)


def own_weights(mechanism: Mechanism) -> Weights | None:
    """Return the weights of the feedback if messages count differently.

    None for plain means.
    """
    if not isinstance(mechanism, Distributed) or mechanism.topology.plain:
        return None
    return mechanism.topology


def spread_back(mechanism: Mechanism, x: FloatArray) -> FloatArray:
    """Return Wᵀx: the total weight of each message.

    x has the weight of every agent's feedback.
    """
    rows = own_weights(mechanism)
    if rows is None:
        return closed_sums(mechanism, x / mechanism.closed_degrees)
    return np.asarray(rows.matrix.T @ x)


def squares_heard(mechanism: Mechanism, x: FloatArray) -> FloatArray:
    """Σ_j W_ij² x_j for every agent i."""
    rows = own_weights(mechanism)
    if rows is None:
        return np.asarray(closed_sums(mechanism, x) / mechanism.closed_degrees.astype(np.float64) ** 2)
    return np.asarray(rows.matrix.power(2) @ x)


def squares_spread(mechanism: Mechanism, x: FloatArray) -> FloatArray:
    """Σ_i W_ij² x_i for every agent j."""
    rows = own_weights(mechanism)
    if rows is None:
        return closed_sums(mechanism, x / mechanism.closed_degrees.astype(np.float64) ** 2)
    return np.asarray(rows.matrix.power(2).T @ x)


def largest_weight(mechanism: Mechanism) -> FloatArray:
    """The largest W_ij of every agent i."""
    rows = own_weights(mechanism)
    if rows is None:
        return np.asarray(1 / mechanism.closed_degrees)
    return np.asarray(rows.matrix.max(axis=1).toarray()).reshape(-1)


def hears_all(mechanism: Mechanism) -> bool:
    """Whether every agent's feedback is the mean over all agents."""
    if isinstance(mechanism, ClientServer):
        return True
    return own_weights(mechanism) is None and bool((mechanism.closed_degrees == mechanism.n).all())


def moves_as_one(mechanism: Mechanism) -> bool:
    """Whether noise moves all agents alike.

    Then it never drives them apart. True if everyone hears everyone and all share one mixing: then every
    agent adds the same σ/N·Σ_j η_j (below lem:con).
    """
    return hears_all(mechanism) and all_equal(mixing(mechanism))


# Eigenvalues take seconds on a large graph. With one mixing they are σ times those for σ = 1, and with
# equal d_i they are multiples of those of L. So a search over σ on one graph computes them only once.
_of_laplacian: WeakKeyDictionary[Graph, Extremes] = WeakKeyDictionary()
_of_one_mixing: WeakKeyDictionary[Graph, dict[str, Extremes]] = WeakKeyDictionary()
_of_mechanism: WeakKeyDictionary[Mechanism, Extremes] = WeakKeyDictionary()


def spectrum(mechanism: Mechanism) -> Extremes:
    """μ_2 and μ_N of D^½ L D^½, to which DL is similar, with bounds.

    Needs two agents or more, and weights with ω_iW_ij = ω_jW_ji.
    """
    if not is_reversible(mechanism):
        raise ParameterError("a spectrum of real eigenvalues needs reversible weights: use spectral_rate.")
    if mechanism.n < 2:
        raise ParameterError("one agent has nobody to agree with: a spectrum needs at least 2 agents.")
    if mechanism not in _of_mechanism:
        _of_mechanism[mechanism] = _spectrum(mechanism)
    return _of_mechanism[mechanism]


def laplacian_extremes(graph: Graph) -> Extremes:
    """Return λ_2 and λ_N of L, with bounds.

    The graph must be connected and have 2 or more agents.
    """
    from tacit.core.theory.spectrum import extremes

    if graph not in _of_laplacian:
        _of_laplacian[graph] = extremes(graph, np.ones(graph.n))
    return _of_laplacian[graph]


def _spectrum(mechanism: Mechanism) -> Extremes:
    from tacit.core.theory.spectrum import Extremes, complete_extremes, extremes

    sigma, d = mixing(mechanism), step_sizes(mechanism)
    if not isinstance(mechanism, Distributed) or hears_all(mechanism):
        return complete_extremes(sigma)
    graph, rows = mechanism.graph, own_weights(mechanism)
    if rows is not None:
        # conductances ω_iW_ij, the same both ways
        conductance = np.repeat(rows.stationary, graph.degrees) * rows.heard
        key = rows.name if rows.name != GivenWeights.name and all_equal(sigma) else None
        kept = _of_one_mixing.setdefault(graph, {})
        if key is None:
            return extremes(graph, d, conductance)
        if key not in kept:
            kept[key] = extremes(graph, 1 / rows.stationary, conductance)
        return kept[key].scaled(float(sigma[0]))
    if np.ptp(d) <= 1e-12 * np.max(d):
        # d_min λ_k ≤ μ_k ≤ d_max λ_k, by the quotient θᵀLθ / Σγ_iθ_i²
        flat = laplacian_extremes(graph)
        return Extremes(
            flat.low * float(d.min()),
            flat.scaled(float(d.min())).low_bound,
            flat.high * float(d.max()),
            flat.scaled(float(d.max())).high_bound,
        )
    if not all_equal(sigma):
        return extremes(graph, d)
    kept = _of_one_mixing.setdefault(graph, {})
    if ClosedNeighbourhood.name not in kept:
        kept[ClosedNeighbourhood.name] = extremes(graph, 1 / mechanism.closed_degrees)
    return kept[ClosedNeighbourhood.name].scaled(float(sigma[0]))


def is_reversible(mechanism: Mechanism) -> bool:
    """Whether P is self-adjoint in the norm weighted by γ.

    Then its eigenvalues give the rate.
    """
    rows = own_weights(mechanism)
    return rows is None or rows.reversible


_contraction_gaps: WeakKeyDictionary[Mechanism, float] = WeakKeyDictionary()


def contraction_gap(mechanism: Mechanism) -> float:
    """Return 1 − ‖P‖ off the consensus line, never too large.

    The norm is weighted by γ. ‖P‖² = 1 − μ_2, where μ_2 belongs to the Laplacian of the conductances PᵀΓP.
    Their rows add up to γ, because γ is P's left eigenvector. P has a positive diagonal, so these
    conductances connect all agents that P connects, and μ_2 > 0.
    """
    if mechanism not in _contraction_gaps:
        _contraction_gaps[mechanism] = _contraction_gap(mechanism)
    return _contraction_gaps[mechanism]


def _contraction_gap(mechanism: Mechanism) -> float:
    from tacit.core.theory.spectrum import extremes

    matrix, gamma = _round_matrix(mechanism), 1 / step_sizes(mechanism)
    entries = float(np.sum(np.diff(matrix.indptr).astype(np.float64) ** 2))
    if entries > _MOST_ENTRIES:
        raise RecordTooLarge(
            f"the rate of directed weights needs at most {_MOST_ENTRIES:,} pairs of messages that share one "
            f"feedback, got about {entries:.3g}. Use reversible weights (like metropolis), or a smaller "
            "graph."
        )
    gamma = gamma / gamma.max()
    import scipy.sparse as sp

    half: Any = matrix.T @ sp.diags_array(gamma) @ matrix
    joined: sp.csr_array[np.float64] = sp.csr_array(half + half.T)
    joined.data /= 2
    joined.setdiag(0)
    joined.eliminate_zeros()
    joined.sort_indices()
    pairs = Graph(joined.indptr.astype(np.int64), joined.indices.astype(np.int32))
    low = extremes(pairs, 1 / gamma, joined.data.copy()).low_bound * (1 - 1e-9)
    # 1 − √(1 − μ) without losing digits
    return low / (1 + math.sqrt(max(1 - low, 0.0)))


def _round_matrix(mechanism: Mechanism) -> sp.csr_array[np.float64]:
    """P = I − Σ + ΣW as a sparse array."""
    import scipy.sparse as sp

    assert isinstance(mechanism, Distributed)
    sigma, keep = mixing(mechanism), np.broadcast_to(mechanism.motion.keep, (mechanism.n,))
    return sp.csr_array(sp.diags_array(keep) + sp.diags_array(sigma) @ mechanism.topology.matrix)


def _largest_modulus_gap(mechanism: Mechanism) -> float:
    """Return 1 − the second largest modulus of P's eigenvalues.

    It is for few agents, and never too large. The computed eigenvalues are exact for a matrix that differs
    from P by rounding. By the Bauer-Fike theorem their error is at most this difference times the condition
    number of the eigenvectors. If this bound is useless, the norm of P is used instead.
    """
    dense = _round_matrix(mechanism).toarray()
    n = len(dense)
    gamma = 1 / step_sizes(mechanism)
    root = np.sqrt(gamma / gamma.sum())
    # In the norm weighted by γ, with the consensus line removed: the other eigenvalues remain.
    turned = root[:, None] * dense / root[None, :] - np.outer(root, root)
    values, vectors = np.linalg.eig(turned)
    error = float(np.linalg.cond(vectors)) * 32 * n * float(np.finfo(np.float64).eps)
    if not error <= 1e-6:
        return 0.0
    return max(1 - float(np.max(np.abs(values))) - error, 0.0)


def spectral_gap(mechanism: Mechanism) -> float:
    """1 − `spectral_rate`, never too large, and accurate even if it is tiny."""
    if mechanism.n == 1:
        return 1.0
    if moves_as_one(mechanism):
        return float(mixing(mechanism)[0])
    if not is_reversible(mechanism):
        return contraction_gap(mechanism)
    found = spectrum(mechanism)
    return min(found.low_bound, 2 - found.high_bound)


def spectral_rate(mechanism: Mechanism) -> float:
    """Return the factor by which disagreement shrinks without noise.

    It is per round, and never too small. It is the norm of P off the consensus line in the norm weighted by
    γ_i = 1/d_i, and below 1 on every connected graph: max(|1 − μ_2|, |1 − μ_N|) for reversible weights. 0 for
    one agent.
    """
    return _one_minus(spectral_gap(mechanism), exact=moves_as_one(mechanism))


def gap(mechanism: Mechanism) -> float:
    """1 − `rate`, never too large, and accurate even if it is tiny."""
    slowest, spectral = _slowest_noise(mechanism), spectral_gap(mechanism)
    if not is_reversible(mechanism) and mechanism.n <= _FEW:
        spectral = max(spectral, _largest_modulus_gap(mechanism))
    return min(spectral, 1.0 if slowest is None else slowest)


def rate(mechanism: Mechanism) -> float:
    """Return the factor by which disagreement shrinks in the long run.

    It is per round, for the root mean square of the disagreement. It is the larger of two numbers: the second
    largest modulus of P's eigenvalues, and the slowest decay q of noise that drives agents apart. For
    reversible weights the modulus is the spectral rate. Otherwise it is computed for up to 1,000 agents, and
    bounded by the spectral rate for more. With one-shot noise the influence of an agent's own initial value
    also has to fade, at rate 1 − σ_i. If noise moves all agents alike (`moves_as_one`), the rate is exactly 1
    − σ.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> rate(ClientServer(Fading(0.75, 1, 0.9), agents=10))
    0.25
    """
    return _one_minus(gap(mechanism), exact=moves_as_one(mechanism))


def _slowest_noise(mechanism: Mechanism) -> float | None:
    """Return 1 − the slowest decay of noise in the disagreement.

    None if noise does not enter it.
    """
    if mechanism.n == 1 or moves_as_one(mechanism):
        return None
    if mechanism.shadowed:
        # θ_i − z_i = −(1 − σ_i)^t η_i: the distance between a state and its shadow fades
        return float(mixing(mechanism).min())
    # agent j's noise enters as D(A+I)e_j: along 1 only if all hear j and all d_i are equal
    plain = own_weights(mechanism) is None  # other weights may also be harmless; assuming the worse is safe
    harmless = (mechanism.closed_degrees == mechanism.n) & plain & all_equal(step_sizes(mechanism))
    if harmless.all():
        return None
    ratio = mechanism.law.ratio
    if ratio is None:
        raise mechanism.law.undefined("ratio", "the rate of agreement in the long run")
    q = np.broadcast_to(np.asarray(ratio), (mechanism.n,))
    return float(np.min(1 - q[~harmless]))


def all_equal(values: FloatArray) -> bool:
    """Whether all values are the same number."""
    # a value that all agents share is broadcast: no need to compare all entries
    return values.strides == (0,) or bool(values.min() == values.max())


def _one_minus(small: float, exact: bool) -> float:
    """Return 1 − small, rounded up unless `exact`.

    `small` is exact if it is σ itself, and not a bound.
    """
    result = 1 - small
    return result if exact or 1 - result <= small else math.nextafter(result, 1)
