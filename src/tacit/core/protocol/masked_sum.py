"""Compute feedback from masked reports and openings.

All numbers are whole, so anyone can recompute them:

    S = Σ X_i − Σ T_j  modulo 2^(8·mask_bytes), nearest to zero;   y = S·g_u/|U|, cut to the reach

Masked numbers cannot be clamped one by one, so the mean is clamped. A sum that is impossible in an honest
session is called nonsense. `Session.mask_bytes` has 40 spare bits, so a random number looks like a valid sum
only once in 2^40.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from tacit.core.mechanism.whole import cut, nearest
from tacit.core.protocol.masks import centred, total
from tacit.core.protocol.session import Session


def opened_sum(session: Session, reports: Iterable[bytes], openings: Iterable[bytes]) -> tuple[int, ...]:
    """Return S from the reports' masked numbers and all keepers' openings."""
    assert session.mask_bytes is not None
    return centred(total(reports, session.mask_bytes, minus=openings), session.mask_bytes)


def is_nonsense(session: Session, u: int, found: Iterable[int]) -> bool:
    """Whether a sum is impossible with honest agents and keepers."""
    # A wrong key, mask or history leaves a mask in the sum, which is random over all of its bytes.
    limit = session.sum_limit(u)
    return not all(-limit <= number <= limit for number in found)


def opened_mean(session: Session, u: int, found: Iterable[int], count: int) -> tuple[int, ...]:
    """Return the feedback y in state steps: the mean of `count` messages.

    It is rounded to the nearest whole number, ties up.
    """
    lattice = session.lattice
    # Agent 0 stands for all: with keepers all agents have the same noise and so the same message step.
    shift = session.exponent(0, u) - lattice.state_exponent
    return tuple(cast(int, cut(nearest(number << shift, count), lattice.limit)) for number in found)
