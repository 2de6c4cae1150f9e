"""(ε, δ) statements about messages, never worse than the pure bound.

It is unlikely that all messages show their worst case. So the loss is smaller than the sum, except with a
small failure probability δ. Google's privacy-loss distributions compose the messages. Their discretisation is
pessimistic, and an allowance for their floating-point errors is added (`FLOAT_ERROR`). Two facts make them
usable here (docs/proofs/lattice.md, section 6):

- discrete Laplace noise of scale t and sensitivity m loses no more than real Laplace noise with
  λ = m/t + 1/(4t²), for every failure probability;
- several messages lose no more than one with the sum of their λ. So the long tail of small messages
  is treated as one message, and vectors as numbers.

Here `delta` is a failure probability, and `loss` is ε for the given adjacency, not per unit of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from tacit.base.errors import ParameterError
from tacit.base.rounding import fraction_up, product_up
from tacit.core.law import Law
from tacit.core.mechanism.lattice import Lattice
from tacit.core.noise.accounting import losses
from tacit.core.theory.privacy import epsilon, require_adjacency

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import (  # type: ignore[import-untyped]
        PrivacyLossDistribution,
    )

FLOAT_ERROR = 1e-10
"""Added to failure probabilities from dp-accounting: fifty times the error seen in its sums."""

_GROUPS = 512
_GRID = 8192
_LARGEST_LOSS = 200.0  # a larger loss is meaningless, and its exp() would be close to overflow


def epsilon_delta(
    law: Law,
    rounds: int | None,
    adjacency: float,
    delta: float,
    *,
    lattice: Lattice | None = None,
    components: int = 1,
) -> float:
    """Return the loss that is exceeded with probability at most `delta`.

    It is rounded up, and never above the pure loss. More exactly, P(S) ≤ exp(loss)·P'(S) + delta for all sets
    S of transcripts.

    Parameters
    ----------
    law : Law
        One agent's: single numbers.
    rounds : int or None
        Number of messages; None for an endless run, on real numbers only.
    lattice : Lattice, optional
        Account for rounding on this lattice; without it, for the paper's real numbers.

    Examples
    --------
    >>> from tacit import Fading
    >>> round(epsilon_delta(Fading(sigma=0.1, c=10, q=0.92), None, 1.0, 1e-6), 2)
    2.08
    """
    if not 0 <= delta < 1:
        raise ParameterError(f"the failure probability must be in [0, 1), got {delta}.")
    parts, pure = _parts(law, rounds, adjacency, lattice, components)
    together = _sum_up(parts)
    # One Laplace message with the whole λ has a closed form, which needs no grid and holds for every delta.
    best = min(pure, _up(max(together + 2 * math.log1p(-delta), 0.0), together))
    # The composition is only asked for a smaller delta, so its own float errors stay within the given one.
    if delta > FLOAT_ERROR and len(parts) > 1 and together <= _LARGEST_LOSS:
        best = min(best, _up(_composed(parts, together).get_epsilon_for_delta(delta - FLOAT_ERROR), together))
    return best


def delta_for_epsilon(
    law: Law,
    rounds: int | None,
    adjacency: float,
    loss: float,
    *,
    lattice: Lattice | None = None,
    components: int = 1,
) -> float:
    """Return the probability that a loss is exceeded, rounded up.

    It is 0 if the loss is at least the pure loss.
    """
    if not loss >= 0:
        raise ParameterError(f"the loss must be at least 0, got {loss}.")
    parts, pure = _parts(law, rounds, adjacency, lattice, components)
    if loss >= pure:
        return 0.0
    together = _sum_up(parts)
    best = min(1.0, _up(-math.expm1(min(loss - together, 0.0) / 2), together))
    if len(parts) > 1 and together <= _LARGEST_LOSS:
        composed = _composed(parts, together)
        best = min(best, _up(float(composed.get_delta_for_epsilon(loss)) + FLOAT_ERROR, together))
    return best


def _parts(
    law: Law, rounds: int | None, adjacency: float, lattice: Lattice | None, components: int
) -> tuple[tuple[float, ...], float]:
    """Return λ of the messages, and the pure loss of all of them.

    The long tail of small messages is combined into one.
    """
    require_adjacency(adjacency)
    if law.agents is not None:
        raise ParameterError(
            "a loss is computed for one agent: give its mixing, noise and decay as single numbers."
        )
    if rounds is not None and rounds < 0:
        raise ParameterError(f"rounds must be at least 0, got {rounds}.")
    if lattice is not None:
        return _lattice_parts(law, rounds, adjacency, lattice, components)
    pure = product_up(epsilon(law, rounds), adjacency)
    return tuple(law.loss_parts(rounds, adjacency, _GROUPS)), pure


def _lattice_parts(
    law: Law, rounds: int | None, adjacency: float, lattice: Lattice, components: int
) -> tuple[tuple[float, ...], float]:
    agent = lattice.agent(law)
    if rounds is None:
        if not law.shadowed:
            raise ParameterError(
                "a run on a lattice cannot be endless: give a number of rounds (see horizon)."
            )
        rounds = 1
    costs = [loss for _, loss in islice(losses(agent, adjacency, components), rounds)]
    if len(costs) < rounds and not law.shadowed:
        raise ParameterError(
            f"the lattice must be fine enough for {rounds} messages, but ends after {len(costs)}."
        )
    rounding = (components / (4 * Fraction(agent.draw_scale(u)) ** 2) for u in range(len(costs)))
    parts = (fraction_up(Fraction(loss) + extra) for loss, extra in zip(costs, rounding, strict=True))
    return tuple(parts), fraction_up(sum(map(Fraction, costs), start=Fraction(0)))


@lru_cache(maxsize=8)
def _composed(parts: tuple[float, ...], together: float) -> PrivacyLossDistribution:
    """Compose the messages on a grid chosen for the total loss.

    Small messages are composed in groups.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld  # type: ignore[import-untyped]

    step = together / _GRID
    groups = [
        pld.from_laplace_mechanism(1.0, sensitivity=part, value_discretization_interval=step)
        for part in _grouped(parts, together / _GROUPS)
    ]
    composed = groups[0]
    for group in groups[1:]:
        composed = composed.compose(group)
    return composed


def _grouped(parts: tuple[float, ...], least: float) -> Iterator[float]:
    """Add up neighbours until each group has its share."""
    group = Fraction(0)
    for part in parts:
        group += Fraction(part)
        if group >= least:
            yield fraction_up(group)
            group = Fraction(0)
    if group:
        yield fraction_up(group)


def _sum_up(parts: tuple[float, ...]) -> float:
    return fraction_up(sum(map(Fraction, parts), start=Fraction(0)))


def _up(value: float, together: float) -> float:
    """Round up by the error of a float computation.

    Its numbers are at most `together`.
    """
    return value + 2**-48 * (value + together)
