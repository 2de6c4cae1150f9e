"""Values with several components: a radius for one of them, and one for all of them together.

Each component of a message has its own independent noise. Given which messages were used, all components
have the same weights, so their deviations are independent and have the same law.
"""

from __future__ import annotations

import math

from tacit.errors import ParameterError
from tacit.theory.laplace_sum import require_probability


def per_component(failure_probability: float, components: int) -> float:
    """Return b' = 1 − (1−b)^(1/k), rounded down.

    If each of k independent components leaves its radius with probability b', then some component
    leaves it with probability b. Independence requires that the choice of messages does not depend on noise.

    Parameters
    ----------
    failure_probability : float
        b, in (0, 1).
    components : int
        k. With 1 the failure probability is returned as it is.

    Examples
    --------
    >>> round(per_component(0.05, 10), 6)
    0.005116
    """
    require_probability(failure_probability)
    if components < 1:
        raise ParameterError(f"components must be at least 1, got {components}.")
    if components == 1:
        return failure_probability
    return -math.expm1(math.log1p(-failure_probability) / components) * (1 - 2.0**-50)
