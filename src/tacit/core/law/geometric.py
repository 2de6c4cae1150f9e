"""Formulas of laws with scale c·q^u.

These are `Fading` (q < 1) and `Constant` (q = 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tacit.base.arrays import FloatArray, PerAgent
from tacit.base.rounding import extended, fraction_up, ratio_up, round_up, ulp
from tacit.core.motion.mixing import gap, kept

_EXACT_ROUNDS = 1000  # powers of exact fractions stay cheap up to here
_EXACT_KINDS = 64  # different agents whose ε is worth computing exactly
_EXACT_AGENTS = 10_000  # agents worth sorting into kinds


def epsilons(sigma: PerAgent, c: PerAgent, q: PerAgent, rounds: int | None) -> FloatArray:
    """ε_T = (1/c) Σ_{t<T} ((1−σ)/q)^t per agent (Lemma 1, lem:pri).

    For an endless run it is q/(c(q + σ − 1)), and q must be above 1 − σ. The result is 0-d if all agents
    share their parameters.
    """
    return by_kinds(
        (sigma, c, q),
        rounds,
        lambda kind: _exact_epsilon(kind, rounds),
        lambda: _rounded_epsilons(sigma, c, q, rounds),
    )


def by_kinds(
    law: tuple[PerAgent, ...],
    rounds: int | None,
    exact: Callable[[list[float]], float],
    rounded: Callable[[], FloatArray],
) -> FloatArray:
    """Return ε per agent, rounded up.

    It is computed exactly if there are few kinds of agents.
    """
    each = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in law))
    if each[0].size <= _EXACT_AGENTS and (rounds or 0) <= _EXACT_ROUNDS:
        rows = np.column_stack([np.atleast_1d(value) for value in each])
        kinds, kind_of = np.unique(rows, axis=0, return_inverse=True)
        if len(kinds) <= _EXACT_KINDS:
            # Exact fractions, rounded up once: an ε of exactly 1 stays 1.
            found = np.array([exact(kind) for kind in kinds.tolist()])
            return np.asarray(found[kind_of.reshape(-1)].reshape(each[0].shape))
    return rounded()


def _exact_epsilon(kind: list[float], rounds: int | None) -> float:
    """ε of one agent, as an exact fraction of its parameters, rounded up."""
    sigma, c, q = map(Fraction, kind)
    if rounds is None:
        return fraction_up(q / (c * gap(sigma, q)))  # Lemma 1 (lem:pri)
    if rounds == 0:
        return 0.0
    ratio = kept(sigma) / q
    over, under = ratio.numerator, ratio.denominator
    # Σ_{t<T} ρ^t = (u^T − o^T)/((u − o)·u^{T−1}) for ρ = o/u
    if over == under:
        return fraction_up(rounds / c)
    total = under**rounds - over**rounds
    return ratio_up(total * c.denominator, (under - over) * under ** (rounds - 1) * c.numerator)


def _rounded_epsilons(mixing: PerAgent, noise: PerAgent, decay: PerAgent, rounds: int | None) -> FloatArray:
    """Return ε per agent, from extended precision.

    An allowance for rounding errors is added.
    """
    sigma, c, q = extended(mixing), extended(noise), extended(decay)
    over = gap(sigma, q)
    if rounds is None:
        # Lemma 1 (lem:pri); the subtraction above has an absolute error of up to `ulp`
        return round_up(q / (c * over), ulp() * (8 + 2 / over))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Σ_{t<T} ρ^t with ρ = 1 − over/q, without cancellation near ρ = 1
        growth = rounds * np.log1p(-over / q)
        total = np.where(over == 0, extended(rounds), -np.expm1(growth) * q / over)
        sensitivity = np.where(over > 0, np.minimum(rounds / q, 1 / over), rounds / q)
        return round_up(total / c, ulp() * (16 + 4 * sensitivity + 4 * np.abs(growth)))


def loss_parts(
    sigma: float, c: float, q: float, *, rounds: int | None, adjacency: float, share: int
) -> Iterator[float]:
    """Yield λ_u = δ(1−σ)^u/(c·q^u), rounded up.

    For an endless run the last item is the sum of all remaining λ_u. It is below 1/`share` of the total.
    """
    mixing, decay = extended(sigma), extended(q)
    first, ratio = extended(adjacency) / extended(c), kept(mixing) / decay
    head = rounds if rounds is not None else math.ceil(math.log(share) / -math.log(float(ratio))) + 1
    u = extended(np.arange(head + 1))
    powers = round_up(first * ratio**u, ulp() * (4 * u + 16))
    yield from powers[:head].tolist()
    if rounds is None:
        over = gap(mixing, decay)
        yield float(round_up(extended(powers[head]) * decay / over, ulp() * (8 + 2 / over)))


@lru_cache(maxsize=4096)  # agents of one session ask for the same scales repeatedly
def fading_scale(c: float, q: float, u: int) -> float:
    """Return b_u, the scale that update u is drawn with.

    It is the least float64 that is at least c·q^u. It is rounded up, so the noise is never smaller than the
    paper's. It is a float64, so that sampler and accounting use exactly the same number. It is the same on
    every machine, because it is computed with whole numbers only.

    Examples
    --------
    >>> fading_scale(10.0, 0.6, 2)
    3.6
    """
    (b, c_den), (a, q_den) = c.as_integer_ratio(), q.as_integer_ratio()
    down = 1 - c_den.bit_length() + u * (1 - q_den.bit_length())  # c·q^u = b·a^u·2^down
    precision = 128
    while True:  # Ziv's method: more precision until both bounds round to the same number
        low, high, exponent = _power(a, u, precision)
        result = _least_float(b * low, exponent + down)
        if result == _least_float(b * high, exponent + down):
            return result
        precision *= 2


def _power(a: int, u: int, precision: int) -> tuple[int, int, int]:
    """Enclose a^u: return low, high, e with low·2^e ≤ a^u ≤ high·2^e.

    low = high if `precision` bits suffice.
    """
    low = high = 1
    exponent = 0
    for bit in bin(u)[2:]:
        low, high, exponent = low * low, high * high, 2 * exponent
        if bit == "1":
            low, high = low * a, high * a
        if (excess := low.bit_length() - precision) > 0:
            low, high, exponent = low >> excess, -(-high >> excess), exponent + excess
    return low, high, exponent


def _least_float(value: int, exponent: int) -> float:
    """Return the least float64 that is at least value·2^exponent.

    0 if that is below 2^−1000.
    """
    excess = max(value.bit_length() - 53, 0)
    value, exponent = -(-value >> excess), exponent + excess
    return math.ldexp(value, exponent) if value.bit_length() + exponent > -1000 else 0.0
