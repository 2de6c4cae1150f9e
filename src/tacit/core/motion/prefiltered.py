"""Agents with a speed limit, behind a public filter of what they hear.

A state that moves by at most r per round does not forget while it does: two starts stay as far apart as they
were, and liars can keep it there. So everybody first limits the feedback by the same public rule:

    z⁺ = z + clip(k·(ŷ − z), ±r),    ŷ⁺ = ŷ + clip(y − ŷ, ±p)    with p < r.

While the state is at its limit, it comes nearer to ŷ by r − p in every round. So after
n₀ = ⌈(width − r/k)/(r − p)⌉ rounds it never is again, whatever is heard, and a_t = (1 − k)^(t − n₀) from then
on (docs/proofs/dynamics.md, T6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from tacit.base.arguments import inside_unit, positive
from tacit.base.arrays import ByValue
from tacit.base.errors import MotionError, ParameterError
from tacit.base.rounding import extended, fraction_up
from tacit.core.motion.certified import Certified
from tacit.core.motion.linear import private_widths

_MOST_HELD = 1_000_000


@final
@dataclass(frozen=True, eq=False)
class Prefiltered(ByValue, Certified):
    """An agent with a speed limit, behind a public filter.

    Its state is (z, ŷ), of which z is said and private.

    Parameters
    ----------
    gain : float
        k, in (0, 1): the share of the way to the filtered feedback.
    limit : float
        r: the state moves by at most this in a round.
    pace : float
        p, below r: the filtered feedback moves by at most this.
    range : float
        How far z and ŷ can be apart at the start.
    private : mapping
        ``{"z": width}``: how far apart two adjacent starts are.

    Examples
    --------
    >>> slow = Prefiltered(0.5, limit=0.2, pace=0.1, range=2.0, private={"z": 1.0})
    >>> slow.held, float(slow.influence(16)), float(slow.influence(18))
    (16, 1.0, 0.25)
    """

    gain: float
    limit: float
    pace: float
    range: float
    private: Any
    measured: bool = False

    name: ClassVar[str] = "prefiltered"
    names: ClassVar[tuple[str, str]] = ("z", "filtered")

    def __post_init__(self) -> None:
        inside_unit("gain", self.gain)
        for name in ("limit", "pace", "range"):
            positive(name, getattr(self, name))
        private = private_widths(self.private, self.names)
        if [component for component, _ in private] != [0]:
            raise ParameterError('the private component must be "z": the filtered feedback is public.')
        object.__setattr__(self, "private", private)
        if not self.pace < self.limit:
            raise MotionError(
                f"the pace of the public filter must be below the limit {self.limit:g}, got {self.pace:g}: "
                "liars could keep the state at its limit, where its start never fades. Lower the pace."
            )
        if self.held > _MOST_HELD:
            raise MotionError(
                f"the start stays for {self.held:,} rounds, more than {_MOST_HELD:,}. Lower the pace, or the "
                "range."
            )

    @cached_property
    def held(self) -> int:
        """n₀: for so many rounds the start may not fade at all."""
        k, r, p, width = (Fraction(float(v)) for v in (self.gain, self.limit, self.pace, self.range))
        return max(math.ceil((width - r / k) / (r - p)), 0)

    # ---- how a state moves --------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """Two: the state and the filtered feedback."""
        return 2

    def move(self, state: Any, y: Any, axis: int = 0) -> Any:
        """Move the state towards the filtered feedback, and that towards y."""
        z, held = state[..., 0], state[..., 1]
        moved = z + np.clip(self.gain * (held - z), -self.limit, self.limit)
        return np.stack([moved, held + np.clip(np.asarray(y) - held, -self.pace, self.pace)], axis=-1)

    def say(self, state: Any) -> Any:
        """The state z."""
        return state[..., 0]

    def disturb(self, state: Any, noise: Any) -> Any:
        """Return starts whose z is noisy."""
        self.single()
        return state + np.asarray(noise)[..., None] * np.array([1.0, 0.0])

    # ---- how fast its start stops mattering ---------------------------------------------------------

    def influence(self, u: Any) -> Any:
        """1 for n₀ rounds, then (1 − k)^(u − n₀); times the width."""
        long = np.asarray(u).dtype == np.longdouble
        keep = 1 - (extended(self.gain) if long else self.gain)
        return self.private[0][1] * keep ** np.maximum(np.asarray(u) - self.held, 0)

    def spent_endless(self, c: float, q: float) -> float:
        """Σ_{u≤n₀} 1/(c·q^u) and a geometric sum."""
        keep, q_, c_ = 1 - Fraction(float(self.gain)), Fraction(q), Fraction(c)
        if not keep < q_:
            raise ParameterError(
                f"decay must be above {float(keep):.6g}, by which the start fades at last, got {q:.6g}: no "
                "finite epsilon covers an endless run. Raise decay, or give a number of rounds."
            )
        faded = q_**self.held
        first = (1 / faded - 1) / (1 / q_ - 1) if q_ != 1 else Fraction(self.held)
        return fraction_up(Fraction(self.private[0][1]) / c_ * (first + 1 / faded / (1 - keep / q_)))

    @property
    def modulus(self) -> float:
        """1 − k."""
        return 1 - self.gain

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What every number about these agents assumes, one sentence each."""
        return (
            f"At the start, state and filtered feedback are at most {self.range:g} apart.",
            "Everybody filters the feedback by the same public rule, from the same public start.",
            f"The start counts in full for {self.held:,} rounds. Rounding is not counted.",
            "No other agent's private state reaches it but through messages: no physical coupling.",
            "Noise is drawn once per step; nobody observes the state but through messages.",
        )
