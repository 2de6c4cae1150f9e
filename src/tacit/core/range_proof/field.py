"""Numbers modulo a prime with many roots of unity, and polynomials.

A polynomial is its values at 1, a, a², …, a^(p−1), where a is a root of unity of order p, a power of two.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from tacit.base.errors import ParameterError


@final
@dataclass(frozen=True)
class Field:
    """The whole numbers modulo a prime.

    Attributes
    ----------
    modulus : int
        The prime.
    generator, order : int
        A root of unity, and its order, which is a power of two: the largest number of values of a
        polynomial.
    size : int
        How many bytes an element has.
    """

    modulus: int
    generator: int
    order: int
    size: int

    def root(self, order: int) -> int:
        """Return the root of unity of this order, a power of two."""
        if order < 1 or self.order % order:
            raise ParameterError(
                f"a root of unity of order {order} is not in the field: at most {self.order}."
            )
        return pow(self.generator, self.order // order, self.modulus)

    def values(self, coefficients: Sequence[int], order: int) -> list[int]:
        """Return the values of a polynomial at the roots of unity of this order."""
        padded = [*coefficients, *[0] * (order - len(coefficients))]
        return self._transform(padded, self.root(order))

    def coefficients(self, values: Sequence[int]) -> list[int]:
        """Return the coefficients of the polynomial with these values."""
        order, p = len(values), self.modulus
        shrink = pow(order, -1, p)
        back = self._transform(list(values), pow(self.root(order), -1, p))
        return [x * shrink % p for x in back]

    def _transform(self, given: list[int], root: int) -> list[int]:
        """Evaluate at the powers of a root by halves."""
        if len(given) == 1:
            return given
        p = self.modulus
        even, odd = (
            self._transform(given[::2], root * root % p),
            self._transform(given[1::2], root * root % p),
        )
        low, high, power = [], [], 1
        for a, b in zip(even, odd, strict=True):
            turned = b * power % p
            low.append((a + turned) % p)
            high.append((a - turned) % p)
            power = power * root % p
        return low + high

    def weights(self, t: int, order: int, known: int | None = None) -> list[int]:
        """Return how much each value counts in the polynomial's value at t.

        With `known` = order − 1 the last value is not given, and the degree is below that.
        """
        p, a = self.modulus, self.root(order)
        scale, found, power = (pow(t, order, p) - 1) * pow(order, -1, p) % p, [], 1
        for _ in range(order):
            apart = (t - power) % p
            found.append(scale * power * pow(apart, -1, p) % p if apart else 1)
            power = power * a % p
        if known is None or known == order:
            return found
        # The leading coefficient is 0: Σ value·a^k = 0 over all k, so the last value follows from the others.
        *found, last = found
        turn, power = last * a % p, 1  # 1/a^(order − 1) = a
        for k in range(order - 1):
            found[k] = (found[k] - turn * power) % p
            power = power * a % p
        return found


FIELD64 = Field(2**64 - 2**32 + 1, pow(7, 2**32 - 1, 2**64 - 2**32 + 1), 2**32, 8)
"""The field of the proofs: its elements have 8 bytes."""


@functools.cache
def power_of_two(least: int) -> int:
    """Return the least power of two that is at least this."""
    return 1 << max(least - 1, 0).bit_length()
