"""Proofs that a masked vector is in its range. Experimental.

An agent splits a row of bits into shares, one for each keeper and one for everyone, and adds shares of a
proof that every entry is a bit. Whoever holds a share answers one random question with three field elements.
The sum of all answers shows whether the row is good, and nothing else (docs/proofs/range-proofs.md).

It is the fully linear proof system of draft-irtf-cfrg-vdaf, without joint randomness.
"""

from typing import TYPE_CHECKING

from tacit.base.lazy import exports

if TYPE_CHECKING:
    from tacit.core.range_proof.field import FIELD64, Field
    from tacit.core.range_proof.proof import Query, Rows, answers, passed, prove

__all__ = ["FIELD64", "Field", "Query", "Rows", "answers", "passed", "prove"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = exports(
        __name__,
        {"field": ("FIELD64", "Field"), "proof": ("Query", "Rows", "answers", "passed", "prove")},
    )
