"""A radius that holds even if someone chose whose messages are used.

A coordinator, or anyone who controls the network, sees the messages and can decide which of them reach a
feedback. It could pick the highest ones in every round. Then all signatures and means are correct, but the
result is biased by the noise, and the radius of `tacit.core.theory.influence` does not cover it. `radius`
covers every such choice: who is used, how many, and when the run ends. It is the smaller of two bounds
(docs/proofs/influence.md):

- every possible run gets a share of the failure probability before the noise is drawn, and its own exact
  radius for that share. This bound is good if few messages are missing.
- the worst choice is the mean of the `least` highest draws in every round, whose law is known. This bound
  is good if many messages are missing.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import ParameterError
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.theory.influence import RunInfluence, Value
from tacit.core.theory.laplace_sum import require_probability
from tacit.core.theory.once_sums import OnceSum
from tacit.core.theory.one_dimension import lowest_point

_SMALLEST = -200.0  # logarithm; below this the first bound is never the smaller one
_BLOCKS = 512  # blocks of numbers of positive draws
_POINTS = 400  # points at which the logarithm of the generating function is computed
_EDGE = 25.0  # they stop a relative e^−25 before the pole
_LGAMMA = np.frompyfunc(math.lgamma, 1, 1)
_EPS = float(np.finfo(np.float64).eps)


def radius(
    run: RunInfluence,
    value: Value,
    failure_probability: float,
    *,
    least: int = 1,
    rounds: int | None = None,
    spread: float = 0.0,
    components: int = 1,
) -> float:
    """Return a radius that covers any choice of messages.

    P(|value − declared target| > r) is at most b.

    Parameters
    ----------
    run, value
        A run, and one of its values: `run.feedback()`, `run.agent(i)`, …
    least : int
        The quorum: with a server no mean is taken of fewer messages. On a graph it is ignored, and an
        agent may use a single message, or stop.
    rounds : int, optional
        How many rounds were planned, if the run could also be ended early.
    spread, components
        As for `Value.radius`.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> from tacit.core.theory import influence
    >>> run = influence.server(ClientServer(Fading(0.5, 1, 0.8), agents=20), [range(11)] * 10)
    >>> round(run.feedback().radius(0.05), 3)
    0.701
    >>> round(radius(run, run.feedback(), 0.05, least=11), 3)
    3.123
    """
    b, planned = require_probability(failure_probability), len(run.layers) if rounds is None else rounds
    slots, used = _choices(run)
    served = not isinstance(run.mechanism, Distributed)
    if not (1 <= least <= run.mechanism.n and planned >= len(run.layers)):
        raise ParameterError(
            f"least must be from 1 to {run.mechanism.n} and rounds at least {len(run.layers)}, as many as "
            f"there were; got {least} and {rounds}."
        )
    if served and np.any(used < least):
        raise ParameterError(f"least must be at most {used.min()}, the fewest messages used; got {least}.")
    sizes = slots - least if served else slots  # number of possible sizes of a mean with missing messages
    if not np.any(sizes) and rounds is None:
        return value.radius(b, spread=spread, components=components)  # there was nothing to choose
    if np.array_equal(slots, used) and planned == len(run.layers):
        return value.radius(b / 2, spread=spread, components=components)
    log_share = _log_share(slots, used, sizes, planned) + math.log(b / 4)
    early = planned - len(run.layers)
    ends = 1 if rounds is None else 2 if early == 0 else 2 * planned
    if isinstance(value.noise, OnceSum):  # only the share of every possible run is known
        far = value.noise.far(log_share - math.log(components)) + value.shift(spread) + value.rounding
        probable = math.exp(log_share) if log_share > _SMALLEST else None
        near = math.inf if probable is None else value.radius(probable, spread=spread, components=components)
        return min(math.nextafter(far, math.inf), near)
    scales, log_b = _scales(run.mechanism, len(run.layers), value), math.log(b / 4 / ends / components)
    if run.mechanism.keepers:
        worst = _worst_opened(scales / least, run.mechanism.keepers, log_b)
    else:
        worst = _worst(scales, run.mechanism.n, least if served else 1, log_b)
    found = math.nextafter(worst + value.shift(spread) + value.rounding, math.inf)
    if log_share > _SMALLEST:
        found = min(found, value.radius(math.exp(log_share), spread=spread, components=components))
    return found


def _choices(run: RunInfluence) -> tuple[IntArray, IntArray]:
    """Return how many messages could be in each mean, and how many were."""
    n, level = run.mechanism.n, np.zeros(run.mechanism.n, dtype=np.int64)
    served = not isinstance(run.mechanism, Distributed)
    candidates = np.array([n]) if served else np.asarray(run.mechanism.closed_degrees, dtype=np.int64)
    used = []
    for t, layer in enumerate(run.layers[:1] if run.opens_once else run.layers):
        if not np.array_equal(layer.update, level[layer.said]) or (served and len(layer.moved) < n):
            raise ParameterError(
                f"in round {t} an agent did not follow, or an earlier message was used: choices are only "
                "counted for runs in which agents use each other's newest messages."
            )
        used.append(np.bincount(layer.into, minlength=candidates.size))
        level[layer.moved] += 1
    return np.tile(candidates, len(used)), np.concatenate([np.zeros(0, dtype=np.int64), *used])


def _log_share(slots: IntArray, used: IntArray, sizes: IntArray, planned: int) -> float:
    """Return the logarithm of this run's share of b.

    It depends on how many messages were missing.
    """
    free, short = int(np.sum(sizes > 0)), used < slots
    where = math.log(free + 1) + float(_log_choose(np.array([free]), np.array([short.sum()]))[0])
    who = np.log(sizes[short]) + _log_choose(slots[short], used[short])
    return -(math.log(planned) + where + float(np.sum(who))) * (1 + 1e-12)


def _log_choose(n: IntArray, k: IntArray) -> FloatArray:
    """Return ln C(n, k), rounded up.

    Each log-gamma is good to 16 units in the last place.
    """
    largest = gammaln(n + 1.0)
    return np.asarray(largest - gammaln(k + 1.0) - gammaln(n - k + 1.0) + 48 * _EPS * largest)


def gammaln(x: npt.ArrayLike) -> FloatArray:
    """Return ln Γ of every number, without SciPy.

    A machine that only verifies may not have it.
    """
    return np.asarray(_LGAMMA(x), dtype=np.float64)


def _scales(mechanism: Mechanism, rounds: int, value: Value) -> FloatArray:
    """Return the largest scale of a draw in a state, for each round.

    It is the scale times the largest weight of the round's means.
    """
    if mechanism.shadowed:
        return np.atleast_1d(np.max(mechanism.law.c))
    scales = mechanism.law.scales(rounds)
    largest = scales if scales.ndim == 1 else scales.max(axis=1)
    weight = np.full(rounds, float(np.max(mechanism.law.sigma)))
    if value.is_feedback:
        weight[-1] = 1.0
    return np.asarray(largest * weight * (1 + 1e-12))


def _worst(scales: FloatArray, n: int, m: int, log_b: float) -> float:
    """Bound the noise of the worst choice of messages.

    Return r with P(Σ_t scale_t·H_t > r) ≤ b/2, where H_t is the mean of the m highest of n positive parts.
    This is Chernoff's bound. Every a gives a valid bound, so the minimum need not be exact.
    """
    places, logs = _log_mgf(n, m)
    top = float(np.max(scales))

    def bound(v: float) -> float:
        a = float(places[-1]) / (1 + math.exp(-v)) * m / top
        # a convex function is below its chords
        return (float(np.sum(np.interp(a * scales / m, places, logs))) + math.log(2) - log_b) / a

    return bound(lowest_point(bound, -_EDGE, _EDGE, 0.01)) * (1 + 1e-9)


def _worst_opened(scales: FloatArray, keepers: int, log_b: float) -> float:
    """Bound the noise of the worst choice if keepers add it.

    Return r with P(Σ_t scale_t·Σ_j |z_j(t)| > r) ≤ b, with one draw of each keeper in every round. Messages
    do not contain the keepers' noise, so nobody can pick messages by their noise. A choice can only make the
    number of messages small, which gives the noise more weight. So `scales` are those of a mean of the fewest
    messages allowed. This is Chernoff's bound, as above.
    """
    top = float(np.max(scales))

    def bound(v: float) -> float:
        a = 1 / (1 + math.exp(-v)) / top
        return (-keepers * float(np.sum(np.log1p(-a * scales))) - log_b) / a

    return bound(lowest_point(bound, -_EDGE, _EDGE, 0.01)) * (1 + 1e-9)


def _log_mgf(n: int, m: int) -> tuple[FloatArray, FloatArray]:
    """Return points u in [0, 1) and ln E exp(m·u·H) there.

    H is the mean of the m highest of n positive parts of Lap(1). Of n draws k are positive with probability
    C(n,k)/2^n. Positive draws are exponential, so by Rényi's representation the mean of the m highest of k is
    Gamma(m)/m + Σ_{m<j≤k} Exp_j/j. It grows with k. So the values of k are put into blocks, and the last k of
    each block gives an upper bound for the block.
    """
    k = np.arange(n + 1)
    log_pmf = _log_choose(np.full(n + 1, n), k) - n * math.log(2)
    starts = np.unique(np.linspace(0, n + 1, min(n + 1, _BLOCKS), endpoint=False).astype(np.int64))
    last = np.append(starts[1:], n + 1) - 1
    weight = np.logaddexp.reduceat(log_pmf, starts)
    u = 1 / (1 + np.exp(-np.linspace(-_EDGE, _EDGE, _POINTS)))[:, None]
    x = m * u
    above = np.maximum(last, m).astype(np.float64)
    logs = -np.minimum(last, m) * np.log1p(-u) + (
        gammaln(above + 1) - gammaln(above + 1 - x) - gammaln(m + 1.0) + gammaln(m + 1 - x)
    )
    total = np.logaddexp.reduce(weight + logs, axis=1) + 64 * _EPS * gammaln(n + 2.0)
    return np.append(0.0, u[:, 0]), np.append(0.0, total)
