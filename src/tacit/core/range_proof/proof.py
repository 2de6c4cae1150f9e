"""Prove that a row has only bits; ask, answer and decide.

Let b_1 … b_M be the row. W is the polynomial with W(a^0) = a random seed, W(a^k) = b_k, and 0 at the other
p-th roots of unity; G = W² − W has degree 2(p − 1). The proof is the seed, and the first 2p − 1 of G's values
at the roots of order 2p. If b_k is a bit then G(a^k) = 0. A query has a point t, and random multipliers of
all G(a^k) and equations: a share answers with the sum of what must be 0, with W(t), and with G(t). All three
are linear in the share, so answers of shares add up to the answer of the whole.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from tacit.base.errors import ParameterError
from tacit.core.range_proof.field import FIELD64, Field, power_of_two

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_LIMB = 22  # bits: sums of 512 products of two limbs are exact as float64
_COLUMNS = 512
_LIMBS = 3


@final
@dataclass(frozen=True)
class Rows:
    """Which rows are good: bits that satisfy linear equations.

    Attributes
    ----------
    bits : int
        How many entries a row has.
    equations : tuple
        Each is the multipliers of the entries, and what their sum must be.
    """

    bits: int
    equations: tuple[tuple[tuple[int, ...], int], ...] = ()
    field: Field = FIELD64

    def __post_init__(self) -> None:
        """Refuse a row without entries, and equations of another length."""
        if self.bits < 1:
            raise ParameterError(f"a row must have at least 1 entry, got {self.bits}.")
        if any(len(one) != self.bits for one, _ in self.equations):
            raise ParameterError(f"an equation must have {self.bits} multipliers, one for each entry.")

    @functools.cached_property
    def order(self) -> int:
        """How many roots of unity W has values at (p)."""
        return power_of_two(self.bits + 1)

    @property
    def proof_length(self) -> int:
        """How many field elements a proof has."""
        return 2 * self.order

    @property
    def length(self) -> int:
        """How many field elements a row has with its proof."""
        return self.bits + self.proof_length

    @property
    def soundness(self) -> float:
        """The largest probability with which a bad row passes."""
        outputs = 1 + (2 * (self.order - 1)) / (1 - self.order / self.field.modulus)
        return outputs / self.field.modulus


def prove(rows: Rows, row: Sequence[int], seed: int) -> list[int]:
    """Return the proof of a row; the seed must be uniform and used once."""
    p, order = rows.field.modulus, rows.order
    wire = [seed, *row, *[0] * (order - 1 - rows.bits)]
    doubled = rows.field.values(rows.field.coefficients(wire), 2 * order)
    return [seed, *(w * (w - 1) % p for w in doubled[:-1])]


@final
@dataclass(frozen=True)
class Query:
    """A random question about rows, the same for all of them.

    Attributes
    ----------
    point : int
        Where W and G are compared (t).
    multipliers : tuple of int
        One for each entry, then one for each equation.
    """

    rows: Rows
    point: int
    multipliers: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse a root of unity: the answer would show an entry of the row."""
        if pow(self.point, self.rows.order, self.rows.field.modulus) == 1:
            raise ParameterError("the point of a query must not be a root of unity.")

    @classmethod
    def of(cls, rows: Rows, coins: bytes) -> Query:
        """Derive a query from a hash of all that must be fixed before it."""
        drawn = elements(rows.field, b"tacit range query v1\0" + coins)
        multipliers = tuple(next(drawn) for _ in range(rows.bits + len(rows.equations)))
        field = rows.field
        point = next(t for t in drawn if pow(t, rows.order, field.modulus) != 1)
        return cls(rows, point, multipliers)

    @functools.cached_property
    def columns(self) -> tuple[list[int], list[int], list[int]]:
        """How much each element of a share counts in its three answers."""
        rows, p, bits = self.rows, self.rows.field.modulus, self.rows.bits
        zero = [0] * rows.length
        for multiplier, (equation, _) in zip(self.multipliers[bits:], rows.equations, strict=True):
            for k, one in enumerate(equation):
                zero[k] = (zero[k] + multiplier * one) % p
        first = bits + 1  # the proof's values of G begin behind the seed; every second one is at a^k
        for k in range(bits):
            zero[first + 2 * (k + 1)] = self.multipliers[k] % p
        at = rows.field.weights(self.point, rows.order)
        wire = [*at[1 : bits + 1], at[0], *[0] * (rows.proof_length - 1)]
        gadget = [*[0] * first, *rows.field.weights(self.point, 2 * rows.order, rows.proof_length - 1)]
        return zero, wire, gadget

    @property
    def constant(self) -> int:
        """What the sum of all answers must have as its first element."""
        wanted = zip(self.multipliers[self.rows.bits :], self.rows.equations, strict=True)
        return sum(multiplier * value for multiplier, (_, value) in wanted) % self.rows.field.modulus

    def answer(self, share: Sequence[int]) -> tuple[int, int, int]:
        """Return the three answers of one share: slow and obvious."""
        p = self.rows.field.modulus
        zero, wire, gadget = (
            sum(a * b for a, b in zip(column, share, strict=True)) % p for column in self.columns
        )
        return zero, wire, gadget


def passed(query: Query, total: Sequence[int]) -> bool:
    """Say whether the sum of all answers to a query is that of a good row."""
    p = query.rows.field.modulus
    zero, wire, gadget = (one % p for one in total)
    return zero == query.constant and gadget == wire * (wire - 1) % p


def answers(query: Query, shares: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the answers of many shares, one in each row.

    This is `Query.answer` as one product of matrices. Elements are split into limbs of 22 bits. A product of
    limbs is below 2^44 and a sum of 512 of them below 2^53, so float64 has them exactly.
    """
    import numpy as np

    if query.rows.field is not FIELD64:
        raise ParameterError("only the field of 8 bytes has fast answers.")
    if shares.ndim != 2 or shares.shape[1] != query.rows.length or shares.dtype != np.uint64:
        raise ParameterError(f"shares must be rows of {query.rows.length} numbers of type uint64.")
    if (shares >= np.uint64(FIELD64.modulus)).any():
        raise ParameterError("shares must be below the field's modulus.")
    columns = np.array(query.columns, dtype=np.uint64)
    found = np.zeros((len(shares), 3), dtype=np.uint64)
    for start in range(0, shares.shape[1], _COLUMNS):
        part = slice(start, start + _COLUMNS)
        ours, theirs = _limbs(shares[:, part]), np.concatenate(_limbs(columns[:, part]))
        # products[i][:, 3j + c] belongs to 2^(22(i + j)) of answer c
        products = [(limb @ theirs.T).astype(np.uint64).reshape(len(shares), _LIMBS, 3) for limb in ours]
        total = np.zeros_like(found)
        for power in reversed(range(2 * _LIMBS - 1)):
            total = _shifted(total)
            for i in range(max(0, power - _LIMBS + 1), min(power, _LIMBS - 1) + 1):
                total = _sum(total, products[i][:, power - i])
        found = _sum(found, total)
    return found


def _limbs(given: npt.NDArray[np.uint64]) -> list[npt.NDArray[np.float64]]:
    import numpy as np

    mask = np.uint64(2**_LIMB - 1)
    return [((given >> np.uint64(_LIMB * k)) & mask).astype(np.float64) for k in range(_LIMBS)]


def _sum(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Add elements below the modulus P; 2^64 = 2^32 − 1 modulo P."""
    import numpy as np

    total = a + b
    total += (total < a).astype(np.uint64) * np.uint64(2**32 - 1)
    total -= (total >= np.uint64(FIELD64.modulus)).astype(np.uint64) * np.uint64(FIELD64.modulus)
    return total


def _shifted(a: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Multiply elements below P by 2^22; 2^64 comes back as 2^32 − 1."""
    import numpy as np

    low = a << np.uint64(_LIMB)
    low -= (low >= np.uint64(FIELD64.modulus)).astype(np.uint64) * np.uint64(FIELD64.modulus)
    return _sum(low, (a >> np.uint64(64 - _LIMB)) * np.uint64(2**32 - 1))


def elements(field: Field, seed: bytes) -> Iterator[int]:
    """Expand a seed into uniform elements, without end.

    The bytes are those of SHAKE-256; what is too large is passed over.
    """
    length, used, shake = 64 * field.size, 0, hashlib.shake_256(seed)
    mask = power_of_two(field.modulus) - 1
    while True:
        stream = shake.digest(length)
        for start in range(used, length, field.size):
            x = int.from_bytes(stream[start : start + field.size], "little") & mask
            if x < field.modulus:
                yield x
        used, length = length, 2 * length


def total(field: Field, parts: Iterable[Sequence[int]]) -> list[int]:
    """Add vectors of the field."""
    return [sum(column) % field.modulus for column in zip(*parts, strict=True)]


def as_bits(value: int, most: int) -> list[int]:
    """Write a number from 0 to `most` as bits; the last weighs what is left.

    Every row of bits then stands for a number from 0 to `most`.
    """
    if not 0 <= value <= most:
        raise ParameterError(f"the number must be from 0 to {most}.")
    weights = bit_weights(most)
    row = [0] * len(weights)
    if weights and value >= weights[-1] and (value > most - weights[-1] or len(weights) == 1):
        row[-1], value = 1, value - weights[-1]
    for k in range(len(weights) - 1):
        row[k] = value >> k & 1
    return row


@functools.cache
def bit_weights(most: int) -> tuple[int, ...]:
    """Return what each bit of a number from 0 to `most` weighs."""
    if most < 1:
        raise ParameterError(f"the largest number must be at least 1, got {most}.")
    many = most.bit_length()
    return (*(1 << k for k in range(many - 1)), most - (1 << (many - 1)) + 1)


def read_elements(field: Field, data: bytes) -> list[int]:
    """Read little-endian elements; refuse one that is not below P."""
    if len(data) % field.size:
        raise ParameterError(f"field elements must have {field.size} bytes each.")
    found = [int.from_bytes(data[k : k + field.size], "little") for k in range(0, len(data), field.size)]
    if any(one >= field.modulus for one in found):
        raise ParameterError("a field element must be below the modulus.")
    return found


def write_elements(field: Field, given: Iterable[Any]) -> bytes:
    """Write elements in little-endian bytes."""
    return b"".join(int(one).to_bytes(field.size, "little") for one in given)
