"""Noise from a guessable seed: who guesses the seed knows the noise.

Tries common seeds with common generators, and looks for their first draws among the noise of the
sessions. Two draws of one seed in one session are proof; one can be chance.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from threading import Lock

import numpy as np

from tacit.base.arrays import FloatArray, IntArray
from tacit.lab.audit.goodness import SURE
from tacit.lab.audit.oddity import Oddity
from tacit.lab.audit.residual import TOLERANCE, Noise

COMMON: tuple[int, ...] = (
    *range(10_000),
    12345,
    123456,
    1234567,
    31337,
    65535,
    2**31 - 1,
    2**32 - 1,
    20240101,
)
"""Common seeds. The caller may add times: the auditor has no clock."""

_DRAWS = 4  # of each seed
_FIRST = 100_000  # number of sessions' draws that are looked up


def _modern(seed: int) -> FloatArray:
    return np.random.default_rng(seed).laplace(size=_DRAWS)


_LEGACY, _LOCK = np.random.RandomState(0), Lock()  # made once: that takes ten times as long as reseeding


def _legacy(seed: int) -> FloatArray:
    with _LOCK:
        _LEGACY.seed(seed % 2**32)
        return _LEGACY.laplace(size=_DRAWS)


def _python(seed: int) -> FloatArray:
    source = random.Random(seed)
    centred = [max(source.random(), 2.0**-53) - 0.5 for _ in range(_DRAWS)]
    return np.array([-math.copysign(1, u) * math.log(max(1 - 2 * abs(u), 2.0**-53)) for u in centred])


GENERATORS: dict[str, Callable[[int], FloatArray]] = {
    "numpy.random.default_rng": _modern,
    "numpy.random.seed": _legacy,
    "random.seed": _python,
}


def guessable(noise: Noise, seeds: Sequence[int] | None = None) -> Iterator[Oddity]:
    """Look for every seed's first draws among those of the sessions.

    On a coarse lattice more of a seed's draws must occur; on a very coarse one no number is proof.
    """
    seeds = COMMON if seeds is None else seeds
    flat = noise.flat
    width = flat.shape[1]
    first = min(width, int(np.sum(noise.exact[:2])) * noise.r.shape[2])
    if width < 2:
        return
    few = flat[: max(1, _FIRST // first)]
    table = few[:, :first].reshape(-1)
    order = np.argsort(table, kind="stable")
    reach = TOLERANCE + noise.widest / 2
    near = 2 * reach + noise.widest  # bounds the probability that a draw is within reach
    chance = [_chance(len(seeds), table.size, width, near, needed) for needed in range(2, _DRAWS + 1)]
    needed = next((i for i, p in enumerate(chance, 2) if p <= SURE), None)
    if needed is None:
        yield Oddity(
            "guessable seed", "any generator", 1.0, "the lattice is too coarse to recognise a seed's draws"
        )
        return
    for name in GENERATORS:
        drawn = _first_draws(name, tuple(seeds))
        runs, which = _matches(table, order, drawn, reach)
        sessions = _confirmed(few, runs // first, drawn[which], reach, needed)
        p = chance[needed - 2] if len(sessions) else 1.0
        seen = f"{len(sessions):,} of {len(few):,} sessions use one of {len(seeds):,} common seeds"
        yield Oddity("guessable seed", name, p, seen)


@lru_cache(maxsize=16)
def _first_draws(generator: str, seeds: tuple[int, ...]) -> FloatArray:
    """Sizes of the first draws of each seed.

    They are cached, because those of all seeds take a second.
    """
    return np.abs(np.stack([GENERATORS[generator](seed) for seed in seeds]))


def _matches(
    table: FloatArray, order: IntArray, drawn: FloatArray, reach: float
) -> tuple[IntArray, IntArray]:
    """Places in the table that match a seed's draw, and the matching seeds."""
    ordered, wanted = table[order], drawn.reshape(-1)
    low = np.searchsorted(ordered, wanted - reach)
    high = np.searchsorted(ordered, wanted + reach, side="right")
    hits = np.flatnonzero(high > low)
    places = [order[low[h] : high[h]] for h in hits]
    owners = [np.full(len(p), h // drawn.shape[1]) for h, p in zip(hits.tolist(), places, strict=True)]
    empty = np.empty(0, np.int64)
    return np.concatenate([empty, *places]), np.concatenate([empty, *owners])


def _confirmed(flat: FloatArray, runs: IntArray, drawn: FloatArray, reach: float, needed: int) -> set[int]:
    """Sessions in which enough draws of the matching seed occur."""
    sessions = set()
    for run, draws in zip(runs.tolist(), drawn, strict=True):
        if run not in sessions:
            near = np.abs(flat[run][:, None] - draws) <= reach
            if np.sum(near.any(axis=0)) >= needed:
                sessions.add(run)
    return sessions


def _chance(seeds: int, table: int, width: int, near: float, needed: int) -> float:
    """Expected number of sessions with so many draws of a seed by chance.

    It bounds the probability of one such session.
    """
    return min(1.0, seeds * _DRAWS * table * near * (_DRAWS * width * near) ** (needed - 1))
