"""Search for the least number that meets a condition.

A good guess needs few evaluations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

_STRIDES = (1e-9, 1e-7, 1e-5, 1e-3, 0.03, 0.3)


def least(enough: Callable[[float], bool], guess: float, *, most: float = 1e300) -> float | None:
    """Return a positive x with enough(x), close to the least one.

    `enough` holds from some x on. The result is at most a relative 1e-9 above the least such x. Return None
    if there is none up to `most`.
    """
    # Strides begin tiny: guesses come from closed forms, are often right to nine digits, and an evaluation
    # may take seconds.
    low = high = guess
    good = enough(guess)
    for stride in itertools.chain(_STRIDES, (2.0**k for k in itertools.count())):
        if good:
            low, high = low / (1 + stride), low
            if low < 1e-300:
                return high
        elif high >= most:
            return None
        else:
            low, high = high, min(high * (1 + stride), most)
        if enough(low if good else high) != good:  # the answer changes between low and high
            break
    while high > low * (1 + 1e-9):
        # The geometric mean, because the precision is relative and the two may be many orders apart.
        middle = (low * high) ** 0.5
        if not low < middle < high:
            break
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def least_whole(enough: Callable[[int], bool], guess: int, *, lowest: int, most: int) -> int | None:
    """Return the least whole number n with enough(n).

    It is at least `lowest`; None if there is none up to `most`. As in `least`, `enough` holds from some n on.
    """
    guess = min(max(guess, lowest), most)
    stride = 1
    if enough(guess):
        high = guess
        low = guess - 1
        while low >= lowest and enough(low):
            high, stride = low, 2 * stride
            low = max(low - stride, lowest - 1)
    else:
        low, high = guess, guess + 1
        while high <= most and not enough(high):
            low, stride = high, 2 * stride
            high += stride
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
