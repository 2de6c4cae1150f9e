"""What laws share that are made for one question over a whole domain.

Their loss is for any two values of the domain, and hardly less for values that are close. They are for one
message of each agent, around a server.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tacit.base.arrays import FloatArray, PerAgent
from tacit.base.errors import LawError, ParameterError
from tacit.base.rounding import fraction_up
from tacit.core.law.base import Envelope
from tacit.core.motion import Motion

_ULPS = 4  # more than the rounding of a logarithm and of its argument


class Ends(NamedTuple):
    """The two numbers that an agent may say."""

    low: int
    high: int


class WholeDomain:
    """A law whose loss is for its whole domain, drawn once; mixed into `Law`."""

    whole_domain: ClassVar[bool] = True
    name: ClassVar[str]
    two_valued: ClassVar[bool]
    sigma: Any
    c: Any
    domain: Any
    mixes: bool
    agents: int | None

    @property
    @abstractmethod
    def whole_loss(self) -> float:
        """The loss of the one message, rounded up."""

    def require_single(self) -> None:
        """Refuse one parameter per agent, and motions other than mixing."""
        if not self.mixes or self.agents is not None:
            raise ParameterError(
                f"{self.name} noise needs one mixing and one noise for all agents: with unequal weights its "
                "radius is unknown. Take one-shot noise."
            )

    @classmethod
    def require_mechanism(cls, *, served: bool, keepers: int) -> None:
        """Refuse a graph, and keepers."""
        if not served:
            raise ParameterError(
                f"{cls.name} noise needs a server: on a graph messages have unequal weights, for which its "
                "radius is unknown. Take one-shot noise.",
                "law",
            )
        if keepers:
            raise ParameterError(
                f"{cls.name} noise is added by every agent itself: keepers add Laplace noise to a sum. Take "
                "one-shot noise, or no keepers.",
                "law",
            )

    def require_domain(self, adjacency: float) -> None:
        """Refuse an adjacency that is not the whole domain."""
        if abs(adjacency - self.domain) > 1e-9 * self.domain:
            raise ParameterError(
                f"the adjacency with {self.name} noise must be its whole domain, {self.domain:g}, got "
                f"{adjacency:g}: closer values cost nearly as much. Leave the adjacency out, or take "
                "one-shot noise.",
                "adjacency",
            )

    def require_range(self, low: float, components: int, *, one_hot: bool) -> None:
        """Refuse vectors, and a range that is not the law's."""
        if components > 1 and not (self.two_valued and one_hot):
            only = "one number or a histogram" if self.two_valued else "one number"
            raise ParameterError(
                f"{self.name} noise is for {only}, got {components} components: take one-shot noise.", "law"
            )

    def scale(self, u: Any) -> Any:
        """The noise c for update 0, and 0 for every later one."""
        return np.where(np.asarray(u) == 0, self.c, 0.0)

    def upper_scale(self, u: int) -> float:
        """The noise c for update 0, and 0 for every later one."""
        return float(self.c) if u == 0 else 0.0

    def least_scale(self, rounds: int) -> float:
        """c, the only one."""
        return float(self.c)

    def largest_scale(self, rounds: int) -> float:
        """c, the only one."""
        return float(self.c)

    def epsilons(self, rounds: int | None) -> FloatArray:
        """The loss divided by the domain, rounded up."""
        once = 0 if rounds == 0 else 1
        return np.asarray(fraction_up(once * Fraction(self.whole_loss) / Fraction(float(self.domain))))

    def costs(self, rounds: int, distance: float) -> FloatArray:
        """The whole loss, whatever the distance."""
        return np.array([self.whole_loss])

    def loss_parts(self, rounds: int | None, adjacency: float, share: int) -> Iterator[float]:
        """The whole loss, in one message."""
        self.require_domain(adjacency)
        yield self.whole_loss

    def significant_rounds(self, rounds: int | None) -> int:
        """Only the first round matters."""
        return 1 if rounds is None else min(rounds, 1)

    def envelope(self, rounds: int | None) -> Envelope:
        """An envelope of c for update 0, and 0 for every later one."""
        return Envelope(self.c, 0.0)

    @classmethod
    def best(cls, sigma: PerAgent | Motion, epsilon: float, rounds: int | None = None) -> Self:
        """Refuse: the loss depends on the domain."""
        raise LawError(
            f"{cls.name} noise is designed for a range of values: give low and high, or a question."
        )


def log_up(value: Fraction) -> float:
    """Return ln of a fraction above 1, rounded up."""
    rest = fraction_up(value - 1)
    found = math.log1p(rest) if math.isfinite(rest) else math.inf
    for _ in range(_ULPS):
        found = math.nextafter(found, math.inf)
    return found
