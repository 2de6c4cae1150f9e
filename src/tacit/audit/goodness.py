"""Is the noise what was declared? Tests with exact false-alarm rates.

Every test states a probability, computed or bounded without asymptotics, that noise as declared
would look at least this odd. The noise is standard Laplace after division by its scale, symmetric
given everything before it, and continuous for all purposes (docs/proofs/audit.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import binom, chi2

from tacit.arrays import FloatArray
from tacit.audit.residual import TOLERANCE, Noise

_TAILS = (0.05, 0.3, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
_TINY = 1e-9  # no declared noise is that small in a sample of less than 10^8
_MOST_PAIRS = 45
_MOST_NUMBERS = 8_000_000  # looked at by the tests that sort


@dataclass(frozen=True)
class Oddity:
    """How odd something is that was looked at.

    Attributes
    ----------
    test : str
        Which property of the noise.
    place : str
        Where.
    p_value : float
        Probability that declared noise is at least this odd there.
    seen : str
        What was seen, for people.
    """

    test: str
    place: str
    p_value: float
    seen: str


def oddities(noise: Noise) -> Iterator[Oddity]:
    """Look at everything that the declaration fixes."""
    yield from scale(noise)
    yield from shape(noise)
    yield from tails(noise)
    yield from missing(noise)
    yield from predictable(noise)
    yield from reuse(noise)
    yield from repeats(noise)


def scale(noise: Noise) -> Iterator[Oddity]:
    """Σ|r| over n draws is Gamma(n): per update over all agents, and per agent over all updates."""
    for place, r in _groups(noise):
        size = np.abs(r)
        p = _both_sides(chi2.cdf(2 * size.sum(), 2 * len(r)), chi2.sf(2 * size.sum(), 2 * len(r)))
        yield Oddity("scale", place, p, f"{size.mean():.4f} of the declared scale")


def shape(noise: Noise) -> Iterator[Oddity]:
    """Kolmogorov's distance d from the Laplace law: P ≤ 2·exp(−2nd²) (Massart), per update and in all."""
    for place, r in [*_groups(noise), ("everywhere", _finite(noise.r))]:
        n = len(r)
        ordered = np.sort(r)
        cdf = np.where(
            ordered < 0, 0.5 * np.exp(np.minimum(ordered, 0)), 1 - 0.5 * np.exp(-np.maximum(ordered, 0))
        )
        rank = np.arange(n)
        distance = float(np.max(np.maximum(cdf - rank / n, (rank + 1) / n - cdf)))
        yield Oddity("shape", place, min(1.0, 2 * np.exp(-2 * n * distance**2)), f"off by {distance:.4f}")


def tails(noise: Noise) -> Iterator[Oddity]:
    """How many |r| exceed v is binomial with e^−v: wrong tails and wrong centres."""
    size = np.abs(_finite(noise.r))
    for v in _TAILS:
        above = int(np.sum(size > v))
        share = float(np.exp(-v))
        p = _both_sides(binom.cdf(above, len(size), share), binom.sf(above - 1, len(size), share))
        yield Oddity("tails", f"beyond {v:g} scales", p, f"{above:,} instead of {share * len(size):,.1f}")


def missing(noise: Noise) -> Iterator[Oddity]:
    """Messages without noise: |r| < 10^−9 has probability 10^−9."""
    for slot in range(noise.r.shape[1]):
        size = np.abs(_finite(noise.r[:, slot]))
        if len(size):
            bare = int(np.sum(size < _TINY))
            p = float(binom.sf(bare - 1, len(size), _TINY + 2.0**-40))
            yield Oddity("missing noise", f"message {slot}", p, f"{bare:,} of {len(size):,} have none")


def predictable(noise: Noise) -> Iterator[Oddity]:
    """Signs and sizes must be fair coins given the past and the others: agreements are binomial ½."""
    r, past = noise.r, _previous(noise.r)
    yield from _agreements("signs", "with the agent’s move before", np.sign(r), np.sign(noise.pull))
    # a wrong mixing shows in the direction of the last move, whatever else is right
    large, before = np.sign(np.abs(r) - np.log(2)), np.sign(np.abs(past) - np.log(2))
    yield from _agreements("signs", "with the message before", np.sign(r), np.sign(past))
    yield from _agreements("sizes", "with the message before", large, before)
    other = np.roll(r, 1, axis=0)[1:]
    yield from _agreements("signs", "with the session before", np.sign(r[1:]), np.sign(other))
    yield from _agreements("sizes", "with the session before", large[1:], np.sign(np.abs(other) - np.log(2)))
    for i, j in _pairs(r.shape[2]):
        where = f"of columns {i} and {j}"
        yield from _agreements("signs", where, np.sign(r[:, :, i]), np.sign(r[:, :, j]))
        yield from _agreements("sizes", where, large[:, :, i], large[:, :, j])


def reuse(noise: Noise) -> Iterator[Oddity]:
    """Two equal draws in one session: each pair has probability `TOLERANCE` or less."""
    flat = _few(noise.flat)
    if flat.shape[1] < 2:
        return
    ordered = np.sort(flat, axis=1)  # NaN last
    hit = np.any(np.diff(ordered, axis=1) <= TOLERANCE, axis=1)
    pairs = flat.shape[1] * (flat.shape[1] - 1) / 2
    sessions = int(hit.sum())
    p = float(binom.sf(sessions - 1, len(flat), min(1.0, pairs * _same())))
    yield Oddity("reuse", "within a session", p, f"{sessions:,} of {len(flat):,} sessions use a draw twice")


def repeats(noise: Noise) -> Iterator[Oddity]:
    """Two sessions with two equal draws at the same places: the source repeats itself."""
    flat = _few(noise.flat)
    runs, width = flat.shape
    if width < 2 or runs < 2:
        return
    found: set[tuple[int, int]] = set()
    for column in range(width):
        order = np.argsort(flat[:, column])
        near = np.flatnonzero(np.diff(flat[order, column]) <= TOLERANCE)
        a, b = order[near], order[near + 1]
        same = np.sum(np.abs(flat[a] - flat[b]) <= TOLERANCE, axis=1) >= 2
        found.update(zip(a[same].tolist(), b[same].tolist(), strict=True))
    # expected number of such pairs: a bound on the probability of one
    p = min(1.0, runs * (runs - 1) / 2 * width * (width - 1) / 2 * _same() ** 2) if found else 1.0
    yield Oddity("repeats", "between sessions", p, f"{len(found):,} pairs of sessions share draws")


def _groups(noise: Noise) -> Iterator[tuple[str, FloatArray]]:
    """Draws per update and per agent, named."""
    update = np.broadcast_to(noise.update, noise.r.shape)
    for u in range(int(noise.update.max()) + 1):
        shared = len(noise.update) == 1
        r = _finite(noise.r[:, noise.update[0] == u] if shared else noise.r[update == u])
        if len(r):
            yield f"update {u}", r
    agents = np.unique(noise.agent)
    for agent in agents.tolist():
        r = _finite(noise.r[:, :, noise.agent == agent])
        if len(r) and len(agents) > 1:
            yield f"agent {agent}", r


def _agreements(test: str, place: str, one: FloatArray, other: FloatArray) -> Iterator[Oddity]:
    product = one * other
    known = product[np.isfinite(product) & (product != 0)]
    if len(known):
        agree, n = int(np.sum(known > 0)), len(known)
        p = _both_sides(binom.cdf(agree, n, 0.5), binom.sf(agree - 1, n, 0.5))
        yield Oddity(test, place, p, f"{agree / n:.4f} agree")


def _previous(r: FloatArray) -> FloatArray:
    """The same column's last draw before each slot."""
    past = np.full(r.shape, np.nan)
    for slot in range(1, r.shape[1]):
        past[:, slot] = np.where(np.isnan(r[:, slot - 1]), past[:, slot - 1], r[:, slot - 1])
    return past


def _pairs(columns: int) -> list[tuple[int, int]]:
    """All pairs of columns, or neighbours where there are too many."""
    pairs = list(combinations(range(min(columns, _MOST_PAIRS)), 2))
    return pairs if len(pairs) <= _MOST_PAIRS else [(i, i + 1) for i in range(min(columns - 1, _MOST_PAIRS))]


def _same() -> float:
    """P(two standard draws are within the tolerance, up to sign); a lattice adds its step."""
    return TOLERANCE + 2.0**-39


def _few(flat: FloatArray) -> FloatArray:
    return flat[: max(1, _MOST_NUMBERS // max(1, flat.shape[1]))]


def _finite(r: FloatArray) -> FloatArray:
    flat = r.reshape(-1)
    return flat[np.isfinite(flat)]


def _both_sides(low: float, high: float) -> float:
    return float(min(1.0, 2 * min(low, high)))
