"""Attacks on the low bits: what floating-point noise reveals.

A double is not a real number. Textbook Laplace noise takes few of the doubles around it (Mironov, "On
significance of the least significant bits for differential privacy", CCS 2012), and a sum θ + η has
only as many digits as its larger part (Haney, Desfontaines, Hartman, Shrestha, Hay,
"Precision-based attacks and interval refining", 2022). So some messages are impossible for a
wrong θ, and one message can reveal what the noise should hide. Both attacks know the implementation,
as an adversary does, and rule out starts under which a message could not have been sent.

Logarithms of C libraries differ in the last bit of some numbers in a thousand, also with the CPU they
run on. The attacks use one that does not, so the same messages give the same decisions on every
machine. If a sampler used another logarithm, both starts are usually ruled out: no decision.

Neither attack works on messages on a lattice that does not depend on θ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray, IntArray
from tacit.core.history import AgentHistory
from tacit.lab.audit.likelihood import Mask, counted, drawn_steps, states
from tacit.lab.audit.portable import numpy_noise, textbook_noise

Sampler: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""From uniform numbers and scales to noise."""
Attack: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray], Mask]
"""From messages, hypothetical states and scales: whether such a message could have been sent."""
Decision: TypeAlias = Callable[[AgentHistory, npt.ArrayLike, npt.ArrayLike], IntArray]
"""From transcripts and two starts: +1 for the first, −1 for the second, 0 for neither."""

_UNIT = 2.0**-53  # generators make uniform numbers that are whole multiples of this
# Rounding of x, η and exp leaves u uncertain by up to 6 steps where it is searched. A missed u would rule
# out the true start, so two more are tried on each side.
_OFFSETS = range(-8, 9)
# Under the wrong start the low bits are random: 24 more zeros have a probability of about 2^−24. The limit
# only decides how much is found: the bound on the loss (`testers`) holds for every rule.
_MOST_ZEROS, _FEWEST_ZEROS = 40, 24
_FAR_FINER = -2000  # an exponent below that of any double


def reachable(x: FloatArray, state: FloatArray, scale: FloatArray, sampler: Sampler = numpy_noise) -> Mask:
    """Whether x = state + sampler(u, scale) in doubles for some uniform u.

    The attack of Mironov; u has 53 bits. If the spacing of doubles around x is so wide that some u always
    fits, the answer is yes.
    """
    x, state, scale = np.broadcast_arrays(x, state, scale)
    eta = x - state
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        half = 0.5 * np.exp(-np.abs(eta) / scale)  # P(more noise than that, on the same side)
        window = half / _UNIT * (np.spacing(np.abs(x)) / 2 + np.spacing(np.abs(eta))) / scale
    # The window is the number of u whose noise rounds to x. If it is 2 or more, some u always fits, and a
    # search over a few u could miss it. The negation also lets NaN through: without noise nothing is ruled
    # out.
    possible = ~(window < 2)
    check = np.flatnonzero(~possible.reshape(-1))
    near = np.rint(np.where(eta > 0, 1 - half, half) / _UNIT)
    x, state, scale, near = (a.reshape(-1)[check] for a in (x, state, scale, near))
    hit = np.zeros(len(check), dtype=np.bool_)
    for offset in _OFFSETS:
        u = np.clip(near + offset, 1, 1 / _UNIT - 1) * _UNIT
        hit |= state + sampler(u, scale) == x
    answer = possible.reshape(-1)
    answer[check] = hit
    return answer.reshape(possible.shape)


def precise(x: FloatArray, state: FloatArray, scale: FloatArray) -> Mask:  # noqa: ARG001
    """Haney et al.: whether x has no more digits than state + noise can have.

    Doubles are whole multiples of their unit in the last place, so a sum is a multiple of the smaller
    of its parts' units. Works on any sampler whose noise is a double.
    """
    eta = np.abs(x - state)
    # η is known only up to the rounding of the sum: take the finest unit it may have
    finest = _unit_exponent(np.maximum(eta - np.spacing(np.abs(x)), 0.0))
    return np.asarray(last_bit(x) >= np.minimum(last_bit(state), finest))


def last_bit(x: FloatArray) -> IntArray:
    """Exponent of the lowest bit that is set; very large for 0."""
    fraction, exponent = np.frexp(x)
    digits = np.abs(fraction * 2.0**53).astype(np.int64)
    lowest = digits & -digits
    zeros = np.frexp(lowest.astype(np.float64))[1] - 1
    return np.where(digits == 0, -_FAR_FINER, exponent - 53 + zeros)


def _unit_exponent(x: FloatArray) -> IntArray:
    """Exponent of the unit in the last place; very small for 0."""
    return np.where(x == 0, _FAR_FINER, np.frexp(x)[1] - 53)


ATTACKS: dict[str, Attack] = {
    "Mironov on numpy": reachable,
    "Mironov on the textbook": partial(reachable, sampler=textbook_noise),
    "Haney": precise,
}


def decide(attack: Attack, view: AgentHistory, theta: npt.ArrayLike, other: npt.ArrayLike) -> IntArray:
    """Name the only possible start: +1 `theta`, −1 `other`, 0 undecided.

    A start is possible if every message of the transcript is.
    """
    told, scale = counted(view), view.scales
    scale = scale.reshape(*scale.shape, *(1,) * (view.x.ndim - 2))
    decision = np.zeros(len(view.x), np.int64)
    for sign, start in ((1, theta), (-1, other)):
        fits = attack(view.x, states(view, start), scale).reshape(*view.x.shape[:2], -1)
        decision += sign * np.all(fits.all(axis=2) | ~told, axis=1)
    return decision


def coarser(view: AgentHistory, theta: npt.ArrayLike, other: npt.ArrayLike) -> IntArray:
    """Name the start under which the noise is on a coarser lattice.

    Returns +1, −1 or 0, as `decide` does. Counts how many low bits of the noise, in steps of the declared
    lattice, are zero. A sum of noise on a coarse lattice and a state that is not on it leaves the low
    bits of the state in the message.
    """
    if view.exponent is None:
        return np.zeros(len(view.x), np.int64)
    told = counted(view) & (view.scales > 0)
    zeros = []
    for start in (theta, other):
        drawn = drawn_steps(view, start).reshape(*view.x.shape[:2], -1)
        lowest = np.where(drawn == 0, 1 << _MOST_ZEROS, drawn & -drawn)
        low = np.minimum(np.frexp(lowest.astype(np.float64))[1] - 1, _MOST_ZEROS).sum(axis=2)
        zeros.append(np.sum(low, axis=1, where=told))
    gap = zeros[0] - zeros[1]
    return np.where(np.abs(gap) >= _FEWEST_ZEROS, np.sign(gap), 0)
