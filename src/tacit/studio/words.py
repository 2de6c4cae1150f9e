"""How the page writes numbers."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from tacit.core.question import Question, short_form


def with_unit(number: str, unit: str) -> str:
    """Put the unit after the number, with a no-break space."""
    return f"{number}\u00a0{unit}" if unit else number


def typed(value: Any) -> str:
    """Write a number so that it reads back the same; 2.0 as 2."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, Question):
        return short_form(value)
    return value if isinstance(value, str) else repr(value)


def percent(share: float) -> str:
    """Show a share in percent, rounded down: a probability that is promised."""
    return f"{_places(100 * share, ROUND_FLOOR)}%"


def _places(value: float, rounding: str) -> Decimal:
    """Round to four digits, or as many as a value close to 100 needs."""
    exact = Decimal(repr(round(value, 12)))
    left = float(100 - exact)
    places = 2 if left <= 0 else max(2, 1 - math.floor(math.log10(left)))
    rounded = exact.quantize(Decimal((0, (1,), -min(places, 9))), rounding=rounding).normalize()
    return rounded.quantize(Decimal(1)) if rounded == rounded.to_integral() else rounded
