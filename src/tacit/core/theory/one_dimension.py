"""Zero and minimum of a function of one number.

scipy.optimize has both, but importing it takes half a second, as long as everything else that an agent or
`tacit analyze` imports.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_MOST_STEPS = 2000  # bisection alone would need 1,100 for a zero next to 0
_GOLDEN = (math.sqrt(5) - 1) / 2


def zero(
    f: Callable[[float], float], first: tuple[float, float], second: tuple[float, float], precision: float
) -> float:
    """Return x with f(x) = 0 between two points of opposite signs.

    The points are (x, f(x)), and the precision is relative. This is Chandrupatla's method: inverse quadratic
    interpolation where it is safe, bisection elsewhere.

    Examples
    --------
    >>> round(zero(lambda x: x * x - 2, (0.0, -2.0), (2.0, 2.0), 1e-15), 12)
    1.414213562373
    """
    (b, fb), (a, fa), part = first, second, 0.5  # a is the newest point; f changes its sign between a and b
    for _ in range(_MOST_STEPS):
        x = a + part * (b - a)
        fx = f(x)
        if (fx > 0) == (fa > 0):
            (c, fc), (a, fa) = (a, fa), (x, fx)
        else:
            (c, fc), (b, fb), (a, fa) = (b, fb), (a, fa), (x, fx)
        best, value = (a, fa) if abs(fa) < abs(fb) else (b, fb)
        least = precision * abs(best) / abs(b - a) if b != a else math.inf
        if value == 0 or least > 0.5:
            return best
        place, height = (a - b) / (c - b), (fa - fb) / (fc - fb)
        if 1 - math.sqrt(1 - place) < height < math.sqrt(place):
            part = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            part = min(max(part, least), 1 - least)
        else:
            part = 0.5
    raise ArithmeticError(f"no zero was found in {_MOST_STEPS} steps: f is not a number somewhere.")


def lowest_point(f: Callable[[float], float], low: float, high: float, precision: float) -> float:
    """Return about where a function that falls and then rises is least.

    The search is by golden sections.

    Examples
    --------
    >>> abs(lowest_point(lambda x: (x - 1) ** 2, -10.0, 20.0, 1e-3) - 1) < 1e-3
    True
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = f(left), f(right)
    while high - low > 2 * precision:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = f(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = f(right)
    return left if at_left <= at_right else right
