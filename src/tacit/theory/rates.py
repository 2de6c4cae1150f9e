"""How fast agents come to agree: the exact rate, from two eigenvalues.

In the norm weighted by γ_i = 1/d_i the matrix I − DL of eq:P is self-adjoint, so off the consensus line
it shrinks disagreement by max(|1 − μ_2|, |1 − μ_N|), the μ being eigenvalues of D^½ L D^½. A rate is never
too small, and its distance to 1 (the gap) is accurate even where it is 10⁻⁹.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from tacit.arrays import FloatArray
from tacit.errors import ParameterError
from tacit.graph import Graph
from tacit.mechanism import ClientServer, Distributed, Mechanism

if TYPE_CHECKING:  # it brings scipy's sparse matrices along, which an agent never needs
    from tacit.theory.spectrum import Extremes


def mixing(mechanism: Mechanism) -> FloatArray:
    """σ_i of every agent."""
    return np.broadcast_to(np.asarray(mechanism.law.sigma), (mechanism.n,))


def step_sizes(mechanism: Mechanism) -> FloatArray:
    """d_i = σ_i/(|N(i)|+1), the diagonal of D in eq:D; 1/d_i is the weight γ_i of the target."""
    return np.asarray(mixing(mechanism) / mechanism.closed_degrees)


def closed_sums(mechanism: Mechanism, x: FloatArray) -> FloatArray:
    """Σ_{j ∈ N(i) ∪ {i}} x_j for every agent i."""
    if isinstance(mechanism, Distributed):
        return np.asarray(x + mechanism.graph.neighbour_sums(x))
    return np.broadcast_to(np.sum(x), x.shape)


def hears_all(mechanism: Mechanism) -> bool:
    """Whether every agent's feedback is the mean over all agents."""
    return isinstance(mechanism, ClientServer) or bool((mechanism.closed_degrees == mechanism.n).all())


def moves_as_one(mechanism: Mechanism) -> bool:
    """Whether noise moves all agents alike, so that it never drives them apart.

    So it is where everyone hears everyone and all share one mixing: then every agent adds the
    same σ/N·Σ_j η_j (below lem:con).
    """
    return hears_all(mechanism) and all_equal(mixing(mechanism))


# Eigenvalues cost seconds on a large graph. With one mixing they are σ times those for σ = 1, and with
# equal d_i those of L, so a search over σ on one graph pays once.
_of_laplacian: WeakKeyDictionary[Graph, Extremes] = WeakKeyDictionary()
_of_one_mixing: WeakKeyDictionary[Graph, Extremes] = WeakKeyDictionary()
_of_mechanism: WeakKeyDictionary[Mechanism, Extremes] = WeakKeyDictionary()


def spectrum(mechanism: Mechanism) -> Extremes:
    """μ_2 and μ_N of D^½ L D^½, to which DL is similar, with bounds.

    Needs two agents or more.
    """
    if mechanism.n < 2:
        raise ParameterError("one agent has nobody to agree with: a spectrum needs at least 2 agents.")
    if mechanism not in _of_mechanism:
        _of_mechanism[mechanism] = _spectrum(mechanism)
    return _of_mechanism[mechanism]


def laplacian_extremes(graph: Graph) -> Extremes:
    """λ_2 and λ_N of L, with bounds, for a connected graph of 2 or more agents."""
    from tacit.theory.spectrum import extremes

    if graph not in _of_laplacian:
        _of_laplacian[graph] = extremes(graph, np.ones(graph.n))
    return _of_laplacian[graph]


def _spectrum(mechanism: Mechanism) -> Extremes:
    from tacit.theory.spectrum import Extremes, complete_extremes, extremes

    sigma, d = mixing(mechanism), step_sizes(mechanism)
    if not isinstance(mechanism, Distributed) or hears_all(mechanism):
        return complete_extremes(sigma)
    graph = mechanism.graph
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
    if graph not in _of_one_mixing:
        _of_one_mixing[graph] = extremes(graph, 1 / mechanism.closed_degrees)
    return _of_one_mixing[graph].scaled(float(sigma[0]))


def spectral_gap(mechanism: Mechanism) -> float:
    """1 − `spectral_rate`, never too large, and accurate where it is tiny."""
    if mechanism.n == 1:
        return 1.0
    if moves_as_one(mechanism):
        return float(mixing(mechanism)[0])
    found = spectrum(mechanism)
    return min(found.low_bound, 2 - found.high_bound)


def spectral_rate(mechanism: Mechanism) -> float:
    """Factor by which disagreement shrinks per round without noise, never too small.

    It is max(|1 − μ_2|, |1 − μ_N|), the norm of I − DL off the consensus line in the norm weighted by
    γ_i = 1/d_i, and below 1 on every connected graph. 0 for one agent.
    """
    return _one_minus(spectral_gap(mechanism), exact=moves_as_one(mechanism))


def gap(mechanism: Mechanism) -> float:
    """1 − `rate`, never too large, and accurate where it is tiny."""
    slowest = _slowest_noise(mechanism)
    return min(spectral_gap(mechanism), 1.0 if slowest is None else slowest)


def rate(mechanism: Mechanism) -> float:
    """Factor by which root-mean-square disagreement shrinks per round in the long run.

    The larger of the spectral rate and the slowest decay q of noise that drives agents apart. With
    one-shot noise agents also have to leave their own start behind, at rate 1 − σ_i. Where noise
    moves all agents alike (`moves_as_one`) it is exactly 1 − σ.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> rate(ClientServer(Fading(0.75, 1, 0.9), agents=10))
    0.25
    """
    return _one_minus(gap(mechanism), exact=moves_as_one(mechanism))


def _slowest_noise(mechanism: Mechanism) -> float | None:
    """1 − (slowest decay of what noise adds to disagreement); None where it adds nothing."""
    if mechanism.n == 1 or moves_as_one(mechanism):
        return None
    if mechanism.shadowed:
        # θ_i − z_i = −(1 − σ_i)^t η_i: the state forgets that it did not start where its shadow did
        return float(mixing(mechanism).min())
    # agent j's noise enters as D(A+I)e_j: along 1 only if all hear j and all d_i are equal
    harmless = (mechanism.closed_degrees == mechanism.n) & all_equal(step_sizes(mechanism))
    if harmless.all():
        return None
    ratio = mechanism.law.ratio
    if ratio is None:
        raise mechanism.law.undefined("ratio", "the rate of agreement in the long run")
    q = np.broadcast_to(np.asarray(ratio), (mechanism.n,))
    return float(np.min(1 - q[~harmless]))


def all_equal(values: FloatArray) -> bool:
    """Whether all values are the same number."""
    # a value that all agents share is broadcast, not stored: nothing to look through
    return values.strides == (0,) or bool(values.min() == values.max())


def _one_minus(small: float, exact: bool) -> float:
    """1 − small; where `small` is a bound and not σ itself, rounded up if it was rounded."""
    result = 1 - small
    return result if exact or 1 - result <= small else math.nextafter(result, 1)
