"""How far off the means of a finished series are.

They depend on how many messages each slot used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tacit.arrays import FloatArray
from tacit.errors import ParameterError
from tacit.mechanism.series import decoding_filter

_SLACK = 1 + 2.0**-30  # covers float64 rounding


def run_deviations(
    mechanism: str, noise: float, keepers: int, used: Sequence[int], members: Sequence[int]
) -> FloatArray:
    """Return the standard deviation of the noise in each mean.

    It is rounded up, and NaN where a slot is lost. The sum of a slot is scaled by N_s/|U_s|, and its noise
    with it. In a lost slot the previous mean is repeated, with its noise: this part is bounded by the
    triangle inequality (docs/proofs/series.md, section 7). The error because values of missing agents are not
    counted is not included.

    Parameters
    ----------
    mechanism : str
        "square-root" or "independent".
    noise : float
        The standard deviation of one keeper's draw.
    used, members : sequence of int
        |U_s| and N_s of each slot. A slot with 0 used messages is lost.
    """
    u, n = np.asarray(used, dtype=np.float64), np.asarray(members, dtype=np.float64)
    there = u > 0
    if u.shape != n.shape or np.any(u > n):
        raise ParameterError("used must be at most members in every slot.")
    scale = np.divide(n, u, out=np.zeros_like(u), where=there)
    draw = noise * math.sqrt(keepers) * _SLACK
    plain = mechanism == "independent" or not len(u)
    sums = draw * scale if plain else _filtered(scale, there, draw)
    found = np.full(u.shape, np.nan)
    found[there] = sums[there] / n[there] * _SLACK
    return found


def _filtered(scale: FloatArray, there: np.ndarray, draw: float) -> FloatArray:
    """Return the deviation of every published sum of the square-root code."""
    slots = len(scale)
    f = decoding_filter(slots)
    sums = draw * np.sqrt(np.convolve(np.square(f), np.square(scale))[:slots])
    drop = np.concatenate([[0.0], f[:-1] - f[1:]])  # what the decoder loses of a message in one slot
    held = np.zeros(slots)  # upper bound on the deviation of the value that replaces a lost slot's sum
    for s in np.flatnonzero(~there):
        back = drop[s:0:-1]  # of slots 0, …, s − 1
        own = draw * math.sqrt(float(np.square(back * scale[:s]).sum()))
        held[s] = own + float(back @ held[:s])
    for s in np.flatnonzero(~there):
        sums[s:] += f[: slots - s] * held[s]
    return np.asarray(sums)
