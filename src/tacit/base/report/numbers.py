"""Numbers for people, rounded to the safe side.

Upper bounds are rounded up, lower bounds down, the rest to nearest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def up(value: float, digits: int = 6) -> str:
    """Write an upper bound, rounded up."""
    from tacit.base.rounding import shown_up  # loads numpy, and `tacit --help` has no numbers

    return shown_up(value, digits)


def down(value: float, digits: int = 6) -> str:
    """Write a lower bound, rounded down."""
    negated = up(-float(value), digits)
    return negated[1:] if negated.startswith("-") else f"-{negated}"


def near(value: float, digits: int = 6) -> str:
    """Write a number that is no bound, rounded to nearest.

    Whole numbers have no decimal point.
    """
    if math.isnan(value):
        return "-"
    if abs(value) < 10**15 and value == int(value):
        return f"{int(value):,}"
    return f"{value:.{digits}g}"


def each(value: Any, show: Callable[[float], str] = near) -> str:
    """Write one number, or the range of one number per agent."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, float | int):
        return show(float(value))
    low, high = show(min(value)), show(max(value))
    return low if low == high else f"{low} to {high}"


def typed(value: Any) -> str:
    """Write a parameter with all digits, so that it can be typed in.

    Of many parameters, write the range.
    """
    return repr(value).removesuffix(".0") if isinstance(value, float) else each(value, up)


def counted(number: int, word: str) -> str:
    """Write a number of things: 1 round, 2 rounds."""
    return f"{number:,} {word}{'s' * (number != 1)}"


def some_rounds(count: int) -> str:
    """Return a number of rounds in words.

    Examples
    --------
    >>> some_rounds(1), some_rounds(2000)
    ('one round', '2,000 rounds')
    """
    return "one round" if count == 1 else f"{count:,} rounds"
